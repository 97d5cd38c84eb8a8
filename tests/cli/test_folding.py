"""No line is longer than the terminal, no word and no number is broken, and a command stays one."""

import io
import os
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from fairaudit.cli.printing import folded, width_of
from fairaudit.report.render.terminal import aligned

WORDS = st.lists(st.text("abcdefgh123.,ε→–()%", min_size=1, max_size=14), min_size=1, max_size=40)


@given(WORDS, st.integers(20, 100), st.integers(0, 6))
def test_text_keeps_its_words_and_the_terminals_width(words, width, indent):
    line = " " * indent + " ".join(words)
    pieces = list(folded(line, width))
    assert " ".join(pieces).split() == line.split()
    for piece in pieces:
        assert cell_len(piece) <= width or len(piece.split()) == 1
        assert piece == piece.rstrip()


@given(st.lists(st.integers(-(10**6), 10**6), min_size=5, max_size=5), st.integers(42, 90))
def test_a_row_of_a_table_keeps_its_intervals_whole(numbers, width):
    intervals = [f"[{n / 9:,.1f}, {n / 3:,.1f}]" for n in numbers]
    (line,) = aligned([[f"1.0 {each}" for each in intervals]], left=())
    pieces = list(folded(line, width))
    assert all(any(each in piece for piece in pieces) for each in intervals)
    assert all(cell_len(piece) <= width for piece in pieces)


class Terminal(io.StringIO):
    """A terminal that answers under a file number of its own."""

    def isatty(self):
        return True

    def fileno(self):
        return 7


@pytest.mark.parametrize("variable", ["0", "", "wide"])
def test_a_width_is_asked_of_the_terminal_that_is_written_to(monkeypatch, variable):
    columns = {7: 33, sys.__stdout__.fileno(): 44}
    monkeypatch.setenv("COLUMNS", variable)
    monkeypatch.setattr(os, "get_terminal_size", lambda n: os.terminal_size((columns[n], 24)))
    assert width_of(Terminal()) == 33
    columns[7] = 0
    assert width_of(Terminal()) == 80
    monkeypatch.setenv("COLUMNS", "21")
    assert width_of(Terminal()) == 21
    assert width_of(io.StringIO()) is None


def test_what_fits_or_is_for_no_terminal_is_left_alone():
    line = "  label   approved   (declared in the file; positive = 1)"
    assert list(folded(line, None)) == [line]
    assert list(folded(line, len(line))) == [line]
    assert list(folded('{"a": 1,\n "b": 2}' * 20, 40)) == ['{"a": 1,\n "b": 2}' * 20]
