"""What a column's name says about it, and how the shape of images is written."""

import re
from collections.abc import Iterable

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


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
