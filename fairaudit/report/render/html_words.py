"""Text as escaped HTML, in which each term of a report is explained where it first stands."""

import re
from collections.abc import Mapping

from markupsafe import Markup, escape

from fairaudit.report.safe_names import visible

# The name of an option, and a number with a negative exponent, as 1e-05.
_WHOLE = re.compile(r"(?<![\w-])--[a-z][a-z-]*|\d+(?:\.\d+)?e-\d+")


class Explained:
    """Escapes text; the first time that a term stands in it, the term has its explanation.

    Args:
        terms: Term -> what it means. One in capitals is found in capitals alone.
    """

    def __init__(self, terms: Mapping[str, str]) -> None:
        self._left = dict(terms)

    def __call__(self, text: str) -> Markup:
        """One line of text as HTML."""
        rest, written = visible(text), Markup("")
        while (place := self._first(rest)) is not None:
            term, match = place
            written += _unbroken(rest[: match.start()])
            written += Markup('<abbr title="{}">{}</abbr>').format(self._left.pop(term), match[0])
            rest = rest[match.end() :]
        return written + _unbroken(rest)

    def _first(self, text: str) -> tuple[str, re.Match[str]] | None:
        """The term that stands first, of those that were not explained; the longer of two."""
        matches = []
        for term in self._left:
            flags = re.NOFLAG if term.isupper() else re.IGNORECASE
            match = re.search(rf"(?<![\w-]){re.escape(term)}(?![\w-])", text, flags)
            if match is not None:
                matches.append((match.start(), -len(term), term, match))
        if not matches:
            return None
        *_, term, match = min(matches, key=lambda place: place[:2])
        return term, match


def _unbroken(text: str) -> Markup:
    """Text as escaped HTML, in which no line breaks within an option's name or a number."""
    written, end = Markup(""), 0
    for match in _WHOLE.finditer(text):
        written += escape(text[end : match.start()])
        written += Markup('<span class="whole">{}</span>').format(match[0])
        end = match.end()
    return written + escape(text[end:])
