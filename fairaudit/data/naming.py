"""What a column's name says about it, and how names are shown in one short line."""

import re
import shlex
from collections.abc import Iterable, Sequence

from fairaudit.errors import did_you_mean

SHOWN_CHARACTERS = 60  # of a name in a message; a hostile file's may have any length
SHOWN_NAMES = 12
TYPED_CHARACTERS = 200

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def quoted(name: str) -> str:
    """A name in quotes, control characters escaped, cut to a readable length."""
    shown = name if len(name) <= SHOWN_CHARACTERS else name[: SHOWN_CHARACTERS - 3] + "..."
    return repr(shown)


def typed(word: str) -> str:
    """A name as one types it in a shell, so that a hint can be copied.

    One that is too long or not printable is shown as :func:`quoted` shows it.
    """
    if word.isprintable() and len(word) <= TYPED_CHARACTERS:
        return shlex.quote(word)
    return quoted(word)


def listed(names: Iterable[str]) -> str:
    """The first names of a list, in quotes, with how many more there are."""
    names = list(names)
    shown = ", ".join(map(quoted, names[:SHOWN_NAMES]))
    hidden = len(names) - SHOWN_NAMES
    if hidden > 0:
        return f"{shown} and {hidden:,} more"
    return shown


def nearest(name: str, names: Sequence[str]) -> str:
    """The hint for a mistyped name: the nearest of ``names``, or all, made safe to show."""
    return did_you_mean(quoted(name)[1:-1], [quoted(k)[1:-1] for k in names])


def shape_text(shape: tuple[int, int, int]) -> str:
    """Height, width, channels as ``28 x 28 grey`` or ``64 x 64 colour``."""
    height, width, channels = shape
    return f"{height} x {width} {'grey' if channels == 1 else 'colour'}"


def words(name: str) -> list[str]:
    """The lower-case words of a name: ``yPred``, ``y_pred`` and ``Y-PRED`` are ``y pred``."""
    return [word.lower() for word in _WORD.findall(name)]


def near_equal(names: Iterable[str]) -> list[list[str]]:
    """Names that differ in nothing but case, blanks or a final dot, as ``<=50K`` and ``<=50K.``.

    Returns:
        Each set of such names, in the order of their first.

    Example:
        >>> near_equal(["Female", "female ", "Male"])
        [['Female', 'female ']]
    """
    alike: dict[str, list[str]] = {}
    for name in names:
        plain = "".join(name.casefold().split()).removesuffix(".")
        alike.setdefault(plain, []).append(name)
    return [together for together in alike.values() if len(together) > 1]
