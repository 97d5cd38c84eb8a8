"""Names from a file as safe text: column values are hostile input."""

import unicodedata

NAME_LIMIT = 40


def plain(name: str, limit: int = NAME_LIMIT) -> str:
    """One line of visible text, at most ``limit`` characters.

    Control characters, line breaks and marks that reverse or hide text become ``U+XXXX``.
    """
    shown = visible(name[: limit + 1])  # before the escaping: a name can be megabytes long
    return shown[: limit - 1] + "…" if len(name) > limit or len(shown) > limit else shown


def visible(text: str) -> str:
    """The text in one line, with every character that steers, hides or breaks text as ``U+XXXX``."""
    if not text.isprintable():
        text = "".join(f"U+{ord(c):04X}" if _is_hidden(c) else c for c in text)
    return text.replace("##[", "## [")  # which GitHub Actions runs, wherever it stands in a line


def _is_hidden(character: str) -> bool:
    """Whether a character steers, hides or breaks text instead of showing."""
    category = unicodedata.category(character)
    return category in {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"} or (category == "Zs" and character != " ")
