"""How columns, values and arms are named in a sentence."""

import shlex
from collections.abc import Iterable, Sequence

from fairaudit.errors import did_you_mean

SHOWN_CHARACTERS = 60  # of a name in a message; a hostile file's may have any length
SHOWN_NAMES = 12
TYPED_CHARACTERS = 200


def quoted(name: str) -> str:
    """A name in quotes, control characters escaped, cut to a readable length."""
    shown = name if len(name) <= SHOWN_CHARACTERS else name[: SHOWN_CHARACTERS - 3] + "..."
    return repr(shown)


def typed(word: str) -> str:
    """A name as one types it in a shell, so that a hint can be copied.

    One that is too long or not printable is shown as :func:`quoted` shows it.
    """
    return shlex.quote(word) if is_typable(word) else quoted(word)


def is_typable(word: str) -> bool:
    """Whether :func:`typed` gives a name that a shell takes for this one."""
    return word.isprintable() and len(word) <= TYPED_CHARACTERS


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
    # [1:-1]: without the quotes, which the hint adds itself.
    return did_you_mean(quoted(name)[1:-1], [quoted(known)[1:-1] for known in names])


def arms_text(keys: Iterable[str]) -> str:
    """Keys of arms as one text, those of one method together: ``sgd, dpsgd@1 @3 @8``."""
    suffixes: dict[str, list[str]] = {}  # method -> what follows its name: "", or "@" and epsilon
    for key in keys:
        method = key.partition("@")[0]
        suffixes.setdefault(method, []).append(key.removeprefix(method))
    return ", ".join(method + " ".join(ends) for method, ends in suffixes.items())
