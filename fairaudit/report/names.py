"""Names from a file as safe text: column values are hostile input."""

import unicodedata

NAME_LIMIT = 40
_MARKDOWN = str.maketrans({c: "\\" + c for c in "\\`*_[]|~#"} | {"<": "&lt;", ">": "&gt;", "&": "&amp;"})


def plain(name: str, limit: int = NAME_LIMIT) -> str:
    """One line of visible text, at most ``limit`` characters.

    Control characters, line breaks and marks that reverse or hide text become ``U+XXXX``.
    """
    head = name[: limit + 1]  # before the escaping: a name can be megabytes long
    visible = "".join(f"U+{ord(c):04X}" if _is_hidden(c) else c for c in head)
    cut = len(name) > limit or len(visible) > limit
    return visible[: limit - 1] + "…" if cut else visible


def markdown(name: str, limit: int = NAME_LIMIT) -> str:
    """The name as literal text of a Markdown table cell or sentence."""
    return plain(name, limit).translate(_MARKDOWN)


def _is_hidden(character: str) -> bool:
    """Whether a character steers, hides or breaks text instead of showing."""
    category = unicodedata.category(character)
    return category in {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"} or (category == "Zs" and character != " ")
