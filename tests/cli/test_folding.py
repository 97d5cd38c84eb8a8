"""No line is longer than the terminal, no word and no number is broken, and a command stays one."""

import fcntl
import os
import pty
import shlex
import struct
import subprocess
import sys
import termios

import pytest
from golden import GOLDEN
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from fairaudit.cli.printing import folded, no_command
from fairaudit.report.render.terminal import Row, aligned

WORDS = st.lists(st.text("abcdefgh123.,ε→–()%", min_size=1, max_size=14), min_size=1, max_size=40)


def typed(pieces):
    """What a shell reads of a folded command."""
    return shlex.split("\n".join(pieces).replace("\\\n", ""))


@given(WORDS, st.integers(20, 100), st.integers(0, 6))
def test_text_keeps_its_words_and_the_terminals_width(words, width, indent):
    line = " " * indent + " ".join(words)
    pieces = list(folded(line, width))
    assert " ".join(pieces).split() == line.split()
    for piece in pieces:
        assert cell_len(piece) <= width or len(piece.split()) == 1
        assert piece == piece.rstrip()


@given(
    st.lists(st.lists(st.integers(-(10**6), 10**6), min_size=5, max_size=5), min_size=1, max_size=5),
    st.integers(42, 90),
)
def test_a_table_keeps_its_numbers_whole_and_its_columns_one_below_the_other(numbers, width):
    cells = [tuple(f"{n / 7:,.1f} [{n / 9:,.1f}, {n / 3:,.1f}]" for n in row) for row in numbers]
    rows = [Row(("group", *"abcd")), *(Row(row, "worse for F and M and X") for row in cells)]
    lines = list(aligned(rows, left=frozenset({0})))
    told = [list(folded(line, width)) for line in lines]
    for row, pieces in zip(cells, told[1:], strict=True):
        text = "\n".join(pieces)
        assert all(cell in text for cell in row)
        assert all(cell_len(piece) <= width for piece in pieces)
    ends = [
        [piece.index(row[1]) + len(row[1]) for piece in pieces if row[1] in piece]
        for row, pieces in zip(cells, told[1:], strict=True)
    ]
    assert len({end[0] for end in ends if len(end) == 1}) <= 1


def test_a_row_on_its_way_to_the_terminal_keeps_its_cells_and_its_note_whole():
    cells = ("Female x never married", "217", *(f"{n}0.4 [{n}5.7, {n}5.2]" for n in (7, 4, 6, 3)))
    head = Row(("sex x marital_status", "n", "accuracy", "selection rate", "tpr", "fpr"))
    lines = [no_command(line) for line in aligned([head, Row(cells, "not resolved")], left=frozenset({0}))]
    told = [list(folded(line, 80)) for line in lines]
    assert len(told[0]) == len(told[1]) == 2
    assert all(any(cell in piece for piece in told[1]) for cell in (*cells, "not resolved"))
    ends = [
        [next(piece.index(cell) + len(cell) for piece in pieces if cell in piece) for cell in row[2:]]
        for pieces, row in zip(told, (head.cells, cells), strict=True)
    ]
    assert ends[0] == ends[1]  # each title stands above its numbers
    narrow = list(folded(next(aligned([Row(("gap", cells[2]), "not resolved")], left=frozenset({0}))), 34))
    assert narrow[1:] == ["     not resolved"]


def test_what_fits_or_is_for_no_terminal_is_left_alone():
    line = "  label   approved   (declared in the file; positive = 1)"
    assert list(folded(line, None)) == [line]
    assert list(folded(line, len(line))) == [line]
    assert list(folded('{"a": 1,\n "b": 2}' * 20, 40)) == ['{"a": 1,\n "b": 2}' * 20]


@pytest.mark.parametrize("width", [40, 60, 80])
def test_a_command_can_be_copied_from_what_is_shown(width):
    words = [
        "fairaudit",
        "run",
        "--data",
        "it's my data/people of the town.csv",
        "--group",
        "my group",
        "--label",
        "y",
    ]
    line = f"next     {shlex.join(words)}"
    pieces = list(folded(line, width))
    assert len(pieces) > 1
    assert typed([pieces[0].removeprefix("next"), *pieces[1:]]) == words


@pytest.mark.parametrize("width", [60, 80])
def test_the_reviewed_console_fits(width):
    for line in (GOLDEN / "console.txt").read_text(encoding="utf-8").splitlines():
        pieces = list(folded(line, width))
        assert all(cell_len(piece) <= width for piece in pieces)
        assert " ".join(pieces).split() == line.split()


def on_a_terminal(columns, words, folder):
    """What a program writes to a terminal of that many columns."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    process = subprocess.Popen(
        words, stdin=theirs, stdout=theirs, stderr=theirs, cwd=folder, env=environment | {"TERM": "dumb"}
    )
    os.close(theirs)
    written = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # Linux's word for the end of a terminal
            break
        if not piece:
            break
        written += piece
    os.close(ours)
    return process.wait(), written.decode().replace("\r\n", "\n")


@pytest.mark.parametrize("columns", [60, 80])
@pytest.mark.parametrize(
    "words", [["methods"], ["inspect", "x.csv"], ["plan", "--data", "x.csv", "--group", "gendr"]]
)
def test_a_real_terminal_gets_no_line_that_it_must_break(tmp_path, columns, words):
    rows = [f"{i % 2},{i % 3},{(i * 7) % 11},{'abcd'[i % 4]},{i % 2}" for i in range(300)]
    header = "sex,a_column_with_a_rather_long_name,height,town_of_birth,credit_risk"
    (tmp_path / "x.csv").write_text("\n".join([header, *rows]))
    told = on_a_terminal(columns, [sys.executable, "-m", "fairaudit", *words], tmp_path)[1]
    assert told.strip()
    assert [line for line in told.splitlines() if cell_len(line) > columns] == []
