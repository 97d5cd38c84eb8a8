import re
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from fairaudit.report.document import Bullets, Details, Document, Listing, Rank, Section, Text, table
from fairaudit.report.render import markdown
from fairaudit.report.render.markdown import to_text


def fitted(document, most):
    """With the title's line beside those of the sections."""
    return markdown.fitted(document, most - 1, lambda section: len(lines_of(Document("", (section,)))) - 1)


def rows_of(first, size):
    return [(f"{first}{i}", "x") for i in range(size)]


def document_of(sizes, most=None):
    """A section with a table of each size."""
    sections = [
        Section(f"s{n}", "Section", Rank.DETAIL, (table(("a", "b"), rows_of("r", size), most=most),))
        for n, size in enumerate(sizes)
    ]
    return Document("Title", tuple(sections))


def lines_of(document):
    return to_text(document).splitlines()


def rows_told(lines):
    """Rows shown and rows that notes leave out."""
    shown = sum(line.startswith("| ") and not line.startswith("| a ") for line in lines)
    notes = [int(n) for line in lines for n in re.findall(r"(\d+) (?:more )?rows? (?:are|is) in", line)]
    return shown, sum(notes)


@given(st.lists(st.integers(0, 40), max_size=5), st.integers(20, 200))
def test_no_row_is_lost_without_a_word(sizes, most):
    whole = document_of(sizes, most=12)
    cut = lines_of(fitted(whole, most))
    assert sum(rows_told(cut)) == sum(sizes)
    assert len(cut) <= max(most, len(lines_of(fitted(whole, 0))))
    assert [line for line in cut if line.startswith("#")] == [
        line for line in lines_of(whole) if line.startswith("#")
    ]


@given(st.lists(st.integers(0, 9), max_size=4), st.integers(0, 60), st.booleans())
def test_as_few_rows_are_cut_as_the_lines_allow(sizes, most, is_introduced):
    """Lines are counted as they will be written, whatever stands beside the tables."""
    whole = document_of(sizes)
    others = (Text("told"), Bullets(("a", "b")), Listing("run"), Details("more", (Text("inside"),)))
    sections = [replace(s, blocks=(*others, *(() if is_introduced else (Bullets(("c",)),)), *s.blocks,
                                   Text("below"))) for s in whole.sections]  # fmt: skip
    whole = replace(whole, sections=tuple(sections))
    cut = fitted(whole, most)
    height = len(lines_of(whole))  # no table of this document is a main one
    assert (cut == whole) == (height <= most) or rows_told(lines_of(fitted(whole, 0)))[1] == 0


def test_a_text_that_fits_is_left_alone():
    whole = document_of([5, 9])
    assert fitted(whole, len(lines_of(whole))) == whole
    assert fitted(whole, len(lines_of(whole)) - 1) != whole


def test_the_longest_table_gives_up_rows_first():
    cut = lines_of(fitted(document_of([4, 30]), 40))
    assert len(cut) <= 40
    assert sum(line.startswith("| r3 ") for line in cut) == 2  # the short table is whole


def ranked():
    """A table of 30 rows of every rank, the last of them introduced by a paragraph."""
    parts = ((Rank.APPENDIX, "1", (Text("Told:"),)), (Rank.SECOND, "2", ()), (Rank.MAIN, "3", ()))
    sections = [
        Section(f"s{name}", "Section", rank, (*lead, table(("a", "b"), rows_of(name, 30))))
        for rank, name, lead in parts
    ]
    return Document("Title", tuple(sections))


def test_what_is_read_first_keeps_its_rows_and_the_main_table_all_of_them():
    def rows(most):
        cut = lines_of(fitted(ranked(), most))
        assert len(cut) <= most + 30  # the main table's rows are not counted
        assert sum(rows_told(cut)) == 90
        return tuple(sum(line.startswith(f"| {n}") for line in cut) for n in (1, 2, 3))

    assert rows(42) == (8, 12, 30)
    assert rows(32) == (0, 15, 30)
    assert rows(17) == (0, 0, 30)
    assert "Told: 30 rows are in report.json." in lines_of(fitted(ranked(), 17))


def test_rows_beyond_what_is_read_at_once_are_counted():
    one = Section("s", "Section", Rank.DETAIL, (table(("a", "b"), rows_of("r", 30), most=12),))
    cut = lines_of(fitted(Document("Title", (one,)), 200))
    assert rows_told(cut) == (12, 18)


def test_two_tables_that_are_left_out_have_a_note_each():
    blocks = (Text("Told:"), table(("a", "b"), rows_of("r", 5)), table(("a", "b"), rows_of("q", 7)))
    whole = Document("Title", (Section("s", "Section", Rank.DETAIL, blocks),))
    cut = lines_of(fitted(whole, 0))
    assert cut[4:] == ["Told: 5 rows are in report.json.", "", "7 rows are in report.json."]
