import gzip

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.ipc as ipc
import pyarrow.parquet as pq
import pytest
from pyarrow.csv import write_csv

from fairaudit.data.readers import digest_of, open_source, read_columns, stream_columns
from fairaudit.errors import DataError

TABLE = pa.table({"a": [1, 2], "b": ["x", "SECRET"]})


def read(path):
    return read_columns(open_source(path), ["a", "b"])


def write_stream(path):
    with ipc.new_stream(str(path), TABLE.schema) as writer:
        writer.write_table(TABLE)


WRITERS = {
    "t.csv": lambda p: p.write_text("a,b\n1,x\n2,SECRET\n"),
    "t.tsv": lambda p: p.write_text("a\tb\n1\tx\n2\tSECRET\n"),
    "semicolon.csv": lambda p: p.write_text("a;b\n1;x\n2;SECRET\n"),
    "bom.csv": lambda p: p.write_text("a,b\n1,x\n2,SECRET\n", encoding="utf-8-sig"),
    "wide.csv": lambda p: p.write_text("a,b\n1,x\n2,SECRET\n", encoding="utf-16"),
    "crlf.csv": lambda p: p.write_bytes(b"a,b\r\n1,x\r\n2,SECRET\r\n"),
    "t.csv.gz": lambda p: p.write_bytes(gzip.compress(b"a,b\n1,x\n2,SECRET\n")),
    "t.parquet": lambda p: pq.write_table(TABLE, p),
    "t.PQ": lambda p: pq.write_table(TABLE, p),
    "t.feather": lambda p: feather.write_feather(TABLE, p),
    "t.arrow": write_stream,
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_format_gives_the_same_rows_at_once_and_by_and_by(tmp_path, name):
    WRITERS[name](tmp_path / name)
    source = open_source(tmp_path / name)
    table, notices = read_columns(source, ["b", "a"])
    assert table.to_pylist() == TABLE.to_pylist()
    assert notices == ()
    assert read_columns(source, ["b"])[0].column_names == ["b"]
    streamed = stream_columns(source, ["b", "a"])
    assert streamed.schema.types == table.schema.types
    assert pa.Table.from_batches(streamed.rows).to_pylist() == table.to_pylist()


LATE = {
    "a fraction": ["1"] * 90 + ["1.5"],
    "truth": ["1", "0"] * 45 + ["true"],
    "no truth": ["true", "false"] * 45 + ["7"],
    "a text": ["7"] * 90 + ["seven"],
    "a sign for missing": ["7"] * 90 + ["?"],
    "a value": ["NA"] * 90 + ["2020-01-01"],
    "an hour": ["2020-01-01"] * 90 + ["2020-01-01 12:00:00"],
    "a zone": ["2020-01-01 12:00:00"] * 90 + ["2020-01-01 12:00:00Z"],
    "a large number": ["7"] * 90 + [str(2**70)],
}


@pytest.mark.parametrize("what", LATE)
@pytest.mark.parametrize("before", [48, 2**24])
def test_a_csv_that_turns_late_has_the_types_of_the_whole(tmp_path, monkeypatch, what, before):
    monkeypatch.setattr("fairaudit.data.readers.BEGINNING", before)
    lines = [f"{value},{n}" for n, value in enumerate([*LATE[what], LATE[what][0]])]
    (tmp_path / "t.csv").write_text("\n".join(["a,b", *lines]))
    source = open_source(tmp_path / "t.csv")
    whole, _ = read_columns(source, ["a", "b"])
    found = stream_columns(source, ["a", "b"])
    assert found.schema.types == whole.schema.types
    assert pa.Table.from_batches(found.rows).to_pylist() == whole.to_pylist()


@pytest.mark.parametrize("lines", [b"1,x\n2\n", b"1,\xff\n", b""])
def test_what_only_the_whole_reading_tells_is_left_to_it(tmp_path, monkeypatch, lines):
    monkeypatch.setattr("fairaudit.data.readers.BEGINNING", 48)
    (tmp_path / "t.csv").write_bytes(b"a,b\n" + 400_000 * b"1,x\n" + lines if lines else b"a,b\n")
    found = stream_columns(open_source(tmp_path / "t.csv"), ["a", "b"])
    if lines:
        assert found is None
    else:
        with pytest.raises(DataError, match="has columns but no rows"):
            list(found.rows)


@pytest.mark.parametrize(
    "name", [pytest.param("t.csv", marks=pytest.mark.slow), "t.parquet", "t.feather"]
)
def test_rows_by_and_by_are_never_in_memory_as_a_whole(tmp_path, monkeypatch, name):
    monkeypatch.setattr("fairaudit.data.readers.BEGINNING", 2**16)
    rows = 1_200_000 if name == "t.csv" else 400_000  # of a CSV, some MB are read ahead
    table = pa.table(
        {f"x{i}": np.random.default_rng(i).normal(size=rows).round(6) for i in range(10)}
    )
    path = tmp_path / name
    if name == "t.csv":
        write_csv(table, path)
    elif name == "t.parquet":
        pq.write_table(table, path, row_group_size=20_000)
    else:
        feather.write_feather(table, path, chunksize=20_000)
    before, most, count = pa.total_allocated_bytes(), 0, 0
    for batch in stream_columns(open_source(path), table.column_names).rows:
        most, count = max(most, pa.total_allocated_bytes() - before), count + batch.num_rows
    assert count == rows
    assert most < table.nbytes / 2


def excel(path):
    path.write_bytes(b"PK\x03\x04SECRET")


BAD = {
    "a missing file": ("tabel.csv", None, "there is no file"),
    "Excel named csv": ("t.csv", excel, "Excel"),
    "CSV named parquet": ("t.parquet", WRITERS["t.csv"], "holds CSV text"),
    "an empty file": ("t.csv", lambda p: p.write_text(""), "is empty"),
    "a header only": ("t.csv", lambda p: p.write_text("a,b\n"), "no rows"),
    "a table of no rows": (
        "t.parquet",
        lambda p: pq.write_table(TABLE.slice(0, 0), p),
        "no rows",
    ),
    "duplicate names": (
        "t.csv",
        lambda p: p.write_text("a,a\n1,2\n"),
        "several columns of one name",
    ),
    "a folder": ("dir.parquet", lambda p: p.mkdir(), "is a folder"),
    "an unknown suffix": ("t.json", lambda p: p.write_text("{}"), "unknown kind"),
    "a torn feather": (
        "t.feather",
        lambda p: p.write_bytes(b"ARROW1\0\0SECRETSECRET"),
        "damaged",
    ),
    "a ragged row": (
        "t.csv",
        lambda p: p.write_text("a,b\n1,2\n3,SECRET,5\n"),
        "3 fields",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_file_gives_one_clear_line_without_its_rows(tmp_path, case):
    name, write, said = BAD[case]
    (tmp_path / "table.csv").write_text("a,b\n1,2\n")
    if write:
        write(tmp_path / name)
    with pytest.raises(DataError) as caught:
        read(tmp_path / name)
    line = str(caught.value)
    assert said in line
    assert "\n" not in line
    assert "SECRET" not in line
    assert caught.value.exit_code == 2


def test_nulls_of_a_csv_are_the_usual_words_and_a_question_mark_is_a_value(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('a,b\n1,x\n,NA\nNaN,null\n4,""\n5,?\n')
    table, _ = read(path)
    assert table.to_pydict() == {"a": [1, None, None, 4, 5], "b": ["x", None, None, None, "?"]}


def test_numbers_mixed_with_text_are_read_as_text_and_said(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + "".join(f"{i},x{i}\n" for i in range(9)) + "SECRET,y\n")
    table, notices = read(path)
    assert table.column("a").type == pa.string()
    assert [n.code for n in notices] == ["mixed_types"]
    assert "'a'" in notices[0].message
    assert "SECRET" not in notices[0].message


def test_a_late_text_in_a_long_numeric_column_is_read(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + "1234567,abcdefgh\n" * 200_000 + "oops,1\n")
    assert read(path)[0].column("a").type == pa.string()


def test_text_in_windows_encoding_is_read_and_said(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(b"a,b\n" + b"1,plain\n" * 20_000 + "2,Zürich\n".encode("cp1252"))
    table, notices = read(path)
    assert table.column("b")[-1].as_py() == "Zürich"
    assert [n.code for n in notices] == ["csv_encoding"]


def test_quoted_fields_may_hold_delimiters_and_line_breaks(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('a,b\n1,"x, y\nz"\n')
    assert read(path)[0].column("b").to_pylist() == ["x, y\nz"]


def test_the_sidecar_declares_label_and_positive_value(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n1,x\n")
    (tmp_path / "t.csv.fairaudit.toml").write_text('label = "a"\npositive = 1\n')
    source = open_source(tmp_path / "t.csv")
    assert source.declared == {"label": "a", "positive": "1"}
    assert source.declared_by == "declared beside the file"


@pytest.mark.parametrize("content", ['lable = "a"', "label = "])
def test_a_bad_sidecar_is_refused(tmp_path, content):
    (tmp_path / "t.csv").write_text("a,b\n1,x\n")
    (tmp_path / "t.csv.fairaudit.toml").write_text(content)
    with pytest.raises(DataError, match=r"t\.csv\.fairaudit\.toml"):
        open_source(tmp_path / "t.csv")


def test_the_digest_is_that_of_the_content_and_not_of_the_name(tmp_path):
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text("a,b\n1,x\n")
    (tmp_path / "c.csv").write_text("a,b\n1,y\n")
    digests = [digest_of(tmp_path / n) for n in ("a.csv", "b.csv", "c.csv")]
    assert digests[0] == digests[1] != digests[2]
