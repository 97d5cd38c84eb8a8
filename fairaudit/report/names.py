"""Names from a file as safe text: column values are hostile input."""

import re
import unicodedata

NAME_LIMIT = 40
_ENTITIES = {"<": "&lt;", ">": "&gt;", "&": "&amp;"}
# What Markdown would read; the rest stays as it is, so that the text is readable in a terminal, too.
_READ_AS_MARKDOWN = re.compile(
    r"(?!^)\[-?[\d.,]+, -?[\d.,]+\](?![(\[])"  # an interval is no link; the only match that is kept
    r"|[\\`*\[\]|~#<]"
    r"|^(?:[>:]|[-+=](?=[-= ]*$|\s)|\d{1,9}[.)](?=\s|$))"  # at the start of a line
    r"|:(?=//)|(?<=[wW]{3})\."  # GitHub makes links of addresses
    r"|&(?=#?\w+;)"
    r"|(?<![^\W_])_|_(?![^\W_])"  # inside a word an underscore is itself
)


def plain(name: str, limit: int = NAME_LIMIT) -> str:
    """One line of visible text, at most ``limit`` characters.

    Control characters, line breaks and marks that reverse or hide text become ``U+XXXX``.
    """
    head = name[: limit + 1]  # before the escaping: a name can be megabytes long
    visible = head if head.isprintable() else "".join(f"U+{ord(c):04X}" if _is_hidden(c) else c for c in head)
    visible = visible.replace("##[", "## [")  # which GitHub Actions runs, wherever it stands in a line
    cut = len(name) > limit or len(visible) > limit
    return visible[: limit - 1] + "…" if cut else visible


def markdown(name: str, limit: int = NAME_LIMIT) -> str:
    """The name as literal text of a Markdown line, table cell or sentence, without spaces around it."""
    return _READ_AS_MARKDOWN.sub(_escaped, plain(name, limit).strip())


def _escaped(found: re.Match[str]) -> str:
    text = found[0]
    if text[0] == "[" and len(text) > 1:
        return text  # an interval
    return text[:-1] + _ENTITIES.get(text[-1], "\\" + text[-1])


def _is_hidden(character: str) -> bool:
    """Whether a character steers, hides or breaks text instead of showing."""
    category = unicodedata.category(character)
    return category in {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"} or (category == "Zs" and character != " ")
