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
        self._unexplained = dict(terms)  # a term is taken out where it is explained

    def __call__(self, text: str) -> Markup:
        """One line of text as HTML, its terms explained that were not explained before."""
        rest, written = visible(text), Markup("")
        while (first := self._first_term(rest)) is not None:
            term, match = first
            explanation = self._unexplained.pop(term)
            written += _unbroken(rest[: match.start()])
            written += Markup('<abbr title="{}">{}</abbr>').format(explanation, match[0])
            rest = rest[match.end() :]
        return written + _unbroken(rest)

    def _first_term(self, text: str) -> tuple[str, re.Match[str]] | None:
        """The unexplained term that stands first in a text, and where; None where none does.

        Of two that begin at one place it is the longer one, as ``selection rate``.
        """
        matches = []
        for term in self._unexplained:
            flags = re.NOFLAG if term.isupper() else re.IGNORECASE
            # As a whole word: neither a letter nor a dash stands beside it.
            match = re.search(rf"(?<![\w-]){re.escape(term)}(?![\w-])", text, flags)
            if match is not None:
                matches.append((term, match))
        return min(matches, key=lambda pair: (pair[1].start(), -len(pair[0])), default=None)


def _unbroken(text: str) -> Markup:
    """Text as escaped HTML, in which no line breaks within an option's name or a number."""
    written, end = Markup(""), 0  # ``end``: up to where the text is written
    for match in _WHOLE.finditer(text):
        written += escape(text[end : match.start()])
        written += Markup('<span class="whole">{}</span>').format(match[0])
        end = match.end()
    return written + escape(text[end:])
