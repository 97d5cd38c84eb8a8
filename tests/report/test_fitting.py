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
    return shown, sum(int(line.split()[0]) for line in lines if line.endswith("are in report.json."))


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


def test_the_main_tables_give_up_rows_last():
    lines = text_of([12, 6])
    lines[lines.index("## Section")] = "## Why"
    cut = fitted(lines, len(lines) - 2)
    assert sum(line.startswith("| 11 ") for line in cut) == 1  # the longer table is whole
    assert rows_told(cut) == (12 + 2, 4)
    assert rows_told(fitted(lines, 1)) == (2, 16)


def test_every_table_keeps_a_row():
    cut = fitted(text_of([30, 30]), 1)
    assert rows_told(cut) == (2, 58)
