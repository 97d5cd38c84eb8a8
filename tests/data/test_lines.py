"""Every line of a CSV is a record or none, whatever the lines around it hold."""

import csv
import io

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairaudit.data.reading import lines
from fairaudit.data.reading.tables import open_source, read_stored
from fairaudit.errors import DataError


def rows_of(path, content):
    path.write_bytes(content)
    found = read_stored(open_source(path, is_alone=True), ["a", "b"])
    return [tuple(row.values()) for row in found.table.to_pylist()], found.lost


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("lines") / "t.csv"


PIECES = st.sampled_from(
    [b'"', b'""', b",", b"x", b"1.5", b" ", b"\xff", b"\0", "é".encode(), b";"]
)
LINE = st.lists(PIECES, max_size=8).map(b"".join)


@pytest.mark.parametrize("piece_bytes", [5, 64])
@given(st.lists(LINE, max_size=6), st.sampled_from([b"\n", b"\r\n", b"\r"]), st.booleans())
def test_a_file_holds_what_its_lines_hold_alone(path, piece_bytes, content, end, is_ended):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "_PIECE_BYTES", piece_bytes)
        whole = end.join([b"a,b", *content]) + end * is_ended
        found, lost = rows_of(path, whole)
        one_by_one = [rows_of(path, b"a,b\n" + line) for line in content]
    assert found == [row for rows, _ in one_by_one for row in rows]
    assert lost == sum(count for _, count in one_by_one)
    assert len(found) + lost == sum(line != b"" for line in content)
    assert all(len(rows) <= 1 for rows, _ in one_by_one)


FIELD = st.text(st.sampled_from('a1 ",;é'), max_size=5)


@given(st.lists(st.tuples(FIELD, FIELD), min_size=1, max_size=5))
def test_what_a_csv_writer_wrote_is_read_back(path, rows):
    content = io.StringIO()
    csv.writer(content, quoting=csv.QUOTE_ALL).writerows([("a", "b"), *rows])
    assert rows_of(path, content.getvalue().encode()) == (rows, 0)


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (b'1,"2', None),
        (b'"1,2', None),
        (b'1,"2""', None),
        (b"1", None),
        (b"1,2,3", None),
        (b"1,\xff", None),
        (b"1," + b"x" * lines.MOST_BYTES, None),
        (b'5" pipe,2', ('5" pipe', "2")),
        (b'"1","2,""3"""', ("1", '2,"3"')),
        (b"1,\0", ("1", "\0")),
        (b"1,NA", ("1", "NA")),
    ],
    ids=str,
)
def test_a_line_that_is_no_record_takes_no_other_with_it(path, line, found):
    content = b"a,b\n" + b"7,8\n" * 3 + line + b"\n" + b'"9","10"\n' * 3
    rows, lost = rows_of(path, content)
    others = [("7", "8")] * 3 + [("9", "10")] * 3
    assert rows == others if found is None else [*others[:3], found, *others[3:]]
    assert lost == (found is None)


def test_the_header_is_a_line_too(path):
    assert rows_of(path, b'\xef\xbb\xbf"a",b\n1,2')[0] == [("1", "2")]
    assert rows_of(path, b"a,b\n")[0] == []
    path.write_bytes(b'"a\nb",b\n1,2\n')
    with pytest.raises(DataError, match="a column's name holds a line break"):
        open_source(path, is_alone=True)


@given(st.lists(PIECES, max_size=8).map(b"".join))
def test_a_line_is_closed_where_a_walk_over_it_ends_outside_of_quotes(line):
    """By a walk from character to character."""
    at, is_quoted, starts = 0, False, True
    while at < len(line):
        sign = line[at : at + 1]
        if is_quoted:
            if sign == b'"' and line[at + 1 : at + 2] == b'"':
                at += 1
            elif sign == b'"':
                is_quoted = False
        elif sign == b'"' and starts:
            is_quoted = True
        starts = sign == b"," and not is_quoted
        at += 1
    assert lines.is_closed(pa.array([line]), ",")[0].as_py() is not is_quoted
