import re

from hypothesis import given
from hypothesis import strategies as st

from fairaudit.report.fitting import fitted
from fairaudit.report.tables import table


def text_of(sizes, most=100):
    lines = ["# Title"]
    for size in sizes:
        rows = [(f"{i}", "x") for i in range(size)]
        lines += ["", "## Section", "", *table(("a", "b"), rows, most=most)]
    return lines


def rows_told(lines):
    """Rows shown and rows that notes leave out."""
    shown = sum(line.startswith("| ") and not line.startswith("| a ") for line in lines)
    notes = (re.search(r"(\d+) (more )?(?:rows are|row is) in report\.json\.$", line) for line in lines)
    return shown, sum(int(note[1]) for note in notes if note)


@given(st.lists(st.integers(0, 40), max_size=5), st.integers(20, 200))
def test_no_row_is_lost_without_a_word(sizes, most):
    whole = text_of(sizes, most=12)
    cut = fitted(whole, most)
    assert sum(rows_told(cut)) == sum(sizes)
    assert len(cut) <= max(most, len(fitted(whole, 0)))
    assert [line for line in cut if line.startswith("#")] == [line for line in whole if line.startswith("#")]


def test_a_text_that_fits_is_left_alone():
    whole = text_of([5, 9])
    assert fitted(whole, len(whole)) == whole


def test_the_longest_table_gives_up_rows_first():
    cut = fitted(text_of([4, 30]), 40)
    assert len(cut) <= 40
    assert sum(line.startswith("| 3 ") for line in cut) == 2  # the short table is whole


def test_what_is_read_first_keeps_its_rows_longest():
    lines = ["## Other", "", "Told:", "", *table(("a", "b"), [("1", "x")] * 30, most=100)]
    lines += ["", "## Main", "", *table(("a", "b"), [("2", "x")] * 30, most=100)]
    lines += ["", "## Sweep", "", *table(("a", "b"), [("3", "x")] * 30, most=100)]
    ranks = {"Main": 1, "Sweep": 0}

    def rows(most):
        cut = fitted(lines, most, ranks)
        assert len(cut) <= most
        assert sum(rows_told(cut)) == 90
        return tuple(sum(line.startswith(f"| {n} ") for line in cut) for n in (1, 2, 3))

    assert rows(70) == (8, 12, 30)
    assert rows(60) == (0, 15, 30)
    assert rows(45) == (0, 0, 30)
    assert rows(20) == (0, 0, 6)
    assert "Told: 30 rows are in report.json." in fitted(lines, 20, ranks)


def test_the_last_row_of_the_first_table_is_never_cut():
    lines = ["## Sweep", "", *table(("a", "b"), [("3", "x")] * 30, most=100)]
    assert rows_told(fitted(lines, 1, {"Sweep": 0})) == (1, 29)
