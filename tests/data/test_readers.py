import errno
from pathlib import Path

import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from refusals import refused_in_one_line

from fairaudit.data.reading import tables
from fairaudit.data.reading.tables import open_source, read_columns
from fairaudit.errors import DataError

TABLE = pa.table({"a": [1, 2], "b": ["x", "SECRET"]})


def read(path):
    return read_columns(open_source(path), ["a", "b"])


def write(path, content):
    """A text, bytes, or what a function writes to the path."""
    if callable(content):
        content(path)
    else:
        path.write_bytes(content.encode() if isinstance(content, str) else content)


WRITERS = {
    "t.csv": 'a,b\n1,x\n2,"SECRET"\n',
    "parquet.csv": lambda p: pq.write_table(TABLE, p),
    "t.tsv": "a\tb\n1\tx\n2\tSECRET\n",
    "semicolon.csv": "a;b\n1;x\n2;SECRET\n",
    "blank.csv": "\n\na;b\n1;x\n2;SECRET\n",
    "bom.csv": "\ufeffa,b\n1,x\n2,SECRET\n",
    "crlf.csv": b"a,b\r\n1,x\r\n2,SECRET\r\n",
    "t.parquet": lambda p: pq.write_table(TABLE, p),
    "t.PQ": lambda p: pq.write_table(TABLE, p),
    "t.feather": lambda p: feather.write_feather(TABLE, p),
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_format_gives_the_same_rows(tmp_path, name):
    write(tmp_path / name, WRITERS[name])
    source = open_source(tmp_path / name)
    table = read_columns(source, ["b", "a"])
    assert table.to_pylist() == TABLE.to_pylist()
    assert read_columns(source, ["b"]).column_names == ["b"]


BAD = {
    "a missing file": ("tabel.csv", None, "there is no file"),
    "CSV named parquet": ("t.parquet", WRITERS["t.csv"], "is no CSV, Parquet or Arrow"),
    "an empty file": ("t.csv", "", "is empty"),
    "a header only": ("t.csv", "a,b\n", "no rows"),
    "duplicate names": ("t.csv", "a,a\n1,2\n", "several columns of one name"),
    "UTF-16": ("t.csv", WRITERS["t.csv"].encode("utf-16"), "is not UTF-8 text (save it as UTF-8)"),
    "a folder": ("dir.parquet", lambda p: p.mkdir(), "cannot be read"),
    "an unknown suffix": ("t.xyz", "{}", "is no CSV"),
    "a torn feather": ("t.feather", b"ARROW1\0\0SECRETSECRET", "damaged"),
    "a ragged row": ("t.csv", "a,b\n1,2\n3,SECRET,5\n", "3 fields"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_file_gives_one_clear_line_without_its_rows(tmp_path, case):
    name, content, said = BAD[case]
    (tmp_path / "table.csv").write_text("a,b\n1,2\n")
    if content is not None:
        write(tmp_path / name, content)
    with refused_in_one_line(DataError, said) as caught:
        read(tmp_path / name)
    assert "SECRET" not in str(caught.value)
    assert caught.value.exit_code == 2


def test_a_file_or_folder_that_may_not_be_read_is_one_line_that_says_what_to_do(
    tmp_path, monkeypatch
):
    def forbidden(path, *args):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    # Simulated, for root may read everything.
    monkeypatch.setattr(Path, "iterdir", forbidden)
    with refused_in_one_line(DataError, "there is no file"):
        read(tmp_path / "t.csv")
    monkeypatch.setattr(tables, "unpacked", forbidden)
    said = "t.csv cannot be read: Permission denied (give yourself the right to read it)"
    with refused_in_one_line(DataError, said):
        read(tmp_path / "t.csv")


def test_the_empty_field_of_a_csv_is_null_and_every_text_is_itself(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('a,b\n1,x\n,NA\n3,null\n4,""\n5,?\n')
    columns = read(path).to_pydict()
    assert columns == {"a": [1, None, 3, 4, 5], "b": ["x", "NA", "null", None, "?"]}
    texts = read_columns(open_source(path), ["a", "b"], as_text=True).to_pydict()
    assert texts == {"a": ["1", None, "3", "4", "5"], "b": columns["b"]}


def test_text_in_another_encoding_is_refused_however_late_it_shows(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(b"a,b\n" + b"1,plain\n" * 20_000 + "2,Zürich\n".encode("cp1252"))
    with pytest.raises(DataError) as caught:
        read(path)
    assert "UTF-8" in caught.value.hint
    assert "rich" not in caught.value.message
