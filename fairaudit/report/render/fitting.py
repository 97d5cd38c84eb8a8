"""A document cut to a number of lines: its longest tables give up rows and say so, the main ones none."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache

from fairaudit.report.document import Block, Document, Figures, Rank, Section, Table, Text

_LEAST = 12  # rows that tables of second rank keep while those below have any
_NOTE = 2  # lines of the note below a table


def fitted(whole: Document, most: int, height: Callable[[Section], int]) -> Document:
    """The document with as many table rows as leave at most ``most`` lines beside the main tables.

    Tables of the first rank are whole. Those of the last ranks lose their rows first, down to a word on how
    many there are, then those of second rank.

    Args:
        whole: The document.
        most: Lines to keep, rows of the main tables not counted.
        height: Lines that a section takes.
    """

    @cache
    def cut(number: int, cap: int) -> tuple[Section, int]:
        section = whole.sections[number]
        if section.rank is Rank.MAIN:
            return section, height(section) - sum(len(table.rows) for table in _tables(section.blocks))
        section = _cut(section, cap)
        return section, height(section)

    found = [(section, 0) for section in whole.sections]
    for caps in _caps(max((len(t.rows) for s in whole.sections for t in _tables(s.blocks)), default=0)):
        found = [cut(n, caps[s.rank is not Rank.SECOND]) for n, s in enumerate(whole.sections)]
        if sum(lines for _, lines in found) <= most:
            break
    return replace(whole, sections=tuple(section for section, _ in found))


def _caps(longest: int) -> Iterator[tuple[int, int]]:
    """Most rows of a table of second rank, and of one of a lower rank, from all to none."""
    yield longest, longest
    yield from ((max(cap, _LEAST), cap) for cap in range(longest, 0, -1))
    yield from ((cap, 0) for cap in range(longest, -1, -1))


def _tables(blocks: Sequence[Block]) -> Iterator[Table]:
    return (block for block in blocks if isinstance(block, Table))


def _cut(section: Section, cap: int) -> Section:
    """The section with tables of ``cap`` rows, or with a word on them where that is 0."""
    kept: list[Block] = []
    for block in section.blocks:
        if isinstance(block, Table) and block.most is not None:
            block = block.cut(block.most)
        over = len(block.rows) - cap if isinstance(block, Table) else 0
        if not isinstance(block, Table) or over <= 0 or (over <= _NOTE and not block.left_out):
            kept.append(block)  # a note would be as long as the rows
        elif cap:
            kept.append(block.cut(cap))
        else:
            _leave_out(kept, block.cut(0).note, section.blocks)
    return replace(section, blocks=tuple(kept))


def _leave_out(kept: list[Block], note: str, whole: Sequence[Block]) -> None:
    """Put a note in a table's place: at the end of the paragraph that introduces it, if there is one."""
    at = max((i for i, block in enumerate(kept) if not isinstance(block, Figures)), default=None)
    above = None if at is None else kept[at]
    if at is None or not isinstance(above, Text) or not any(above is block for block in whole):
        kept.append(Text(note))  # also below another note
        return
    words = (above.words,) if isinstance(above.words, str) else above.words
    kept[at] = Text((*words, f" {note}"))
