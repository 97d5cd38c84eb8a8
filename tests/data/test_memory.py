"""A table that is larger than the memory at hand is refused before it fills it."""

import gzip
from functools import lru_cache

import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from refusals import refused_in_one_line

from fairaudit.cli.app import main
from fairaudit.data.reading import memory
from fairaudit.data.reading.tables import open_source, read_columns, read_stored
from fairaudit.errors import DataError

ROWS = 200_000


@lru_cache(maxsize=1)
def with_ones(value):
    """A table of that value in every row, and ones."""
    return pa.table({"x": pa.array([value] * ROWS), "y": pa.array([1] * ROWS, pa.int8())})


def parquet(table, path):
    pq.write_table(table, path, row_group_size=10_000)


def arrow(table, path):
    feather.write_feather(table, path, compression="zstd", chunksize=10_000)


def stream(table, path):
    with (
        pa.OSFile(str(path), "wb") as file,
        pa.ipc.new_stream(
            file, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")
        ) as writer,
    ):
        writer.write_table(table, max_chunksize=10_000)


def one_group(table, path):
    pq.write_table(table, path, row_group_size=ROWS)


def one_batch(table, path):
    feather.write_feather(table, path, compression="zstd", chunksize=ROWS)


def one_piece(table, path):
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with (
        pa.OSFile(str(path), "wb") as file,
        pa.ipc.new_stream(file, table.schema, options=options) as writer,
    ):
        writer.write_table(table, max_chunksize=ROWS)


@pytest.mark.parametrize("write", [parquet, arrow, stream])
@pytest.mark.parametrize(
    ("value", "size"), [(0.0, 9 * ROWS), ("a" * 1000, 1000 * ROWS)], ids=["numbers", "texts"]
)
def test_a_small_file_of_many_values_is_refused_where_memory_is_short(
    tmp_path, monkeypatch, write, value, size
):
    table = with_ones(value)
    path = tmp_path / "people"
    write(table, path)
    assert path.stat().st_size < size / 10
    source = open_source(path)
    monkeypatch.setattr(memory, "at_hand", lambda: size // 2)
    with refused_in_one_line(DataError, "memory are at hand"):
        read_columns(source, ["x", "y"])
    # A column that is not read takes nothing.
    assert read_columns(source, ["y"]).column("y").to_pylist() == [1] * ROWS
    monkeypatch.setattr(memory, "at_hand", lambda: memory.HELD * size + 10_000_000)
    assert read_columns(source, ["x", "y"]).equals(table)
    monkeypatch.setattr(memory, "at_hand", lambda: None)  # a system that does not say
    assert read_columns(source, ["y", "x"]).column_names == ["y", "x"]


@pytest.mark.parametrize("write", [one_group, one_batch, one_piece])
def test_numbers_in_one_piece_are_counted_before_they_are_unpacked(tmp_path, monkeypatch, write):
    path = tmp_path / "people"
    write(pa.table({"t": pa.array(["a"] * ROWS), "x": [0.0] * ROWS, "y": [1] * ROWS}), path)
    monkeypatch.setattr(memory, "at_hand", lambda: memory.HELD * 18 * ROWS)
    pool = pa.proxy_memory_pool(pa.default_memory_pool())  # counts what is taken from here on
    before = pa.default_memory_pool()
    pa.set_memory_pool(pool)
    try:
        # Numbers take 16 bytes a row, and a text, however short, a place of 4.
        with refused_in_one_line(DataError, "memory are at hand"):
            read_columns(open_source(path), ["x", "y", "t"])
    finally:
        pa.set_memory_pool(before)
    assert pool.max_memory() < 12 * ROWS  # one column of 8 bytes, by which rows are counted


TEXT_ROWS = 100_000


def comma(path):
    path.write_text("x,y,name\n" + "1,2,somebody of whom nothing else is known\n" * TEXT_ROWS)


def packed(path):
    comma(path)
    path.write_bytes(gzip.compress(path.read_bytes()))


def blanks(path):
    path.write_text("x y name\n" + "1 2 somebody\n" * TEXT_ROWS)


def arff(path):
    head = (
        "@relation r\n@attribute x numeric\n@attribute y numeric\n@attribute name string\n@data\n"
    )
    path.write_text(head + "1,2,'somebody of whom nothing else is known'\n" * TEXT_ROWS)


@pytest.mark.parametrize("is_read_ahead", [False, True])
@pytest.mark.parametrize("write", [comma, packed, blanks, arff])
@pytest.mark.parametrize("reads", [read_columns, read_stored])
def test_a_text_file_larger_than_memory_is_refused_with_both_sizes(
    tmp_path, monkeypatch, write, reads, is_read_ahead
):
    path = tmp_path / "people.csv"
    write(path)
    source = open_source(path)
    monkeypatch.setattr(memory, "at_hand", lambda: 2**20)
    if is_read_ahead:  # Arrow may have read the last line before it makes the first column
        monkeypatch.setattr(memory.pa, "total_allocated_bytes", lambda: 0)
    with refused_in_one_line(DataError, "MiB or more to read, and 1.0 MiB of memory are at hand"):
        reads(source, ["x", "y", "name"])
    monkeypatch.setattr(memory, "at_hand", lambda: None)
    assert reads(source, ["x"]) is not None


def test_small_numbers_take_more_memory_than_their_text(tmp_path, monkeypatch):
    path = tmp_path / "people.csv"
    path.write_text("x,y\n" + "1,2\n" * 2**20)
    monkeypatch.setattr(memory, "at_hand", lambda: 10 * 2**20)
    assert path.stat().st_size < 5 * 2**20
    with refused_in_one_line(DataError, " or more to read, and 10.0 MiB of memory"):
        read_columns(open_source(path), ["x", "y"])  # a digit becomes eight bytes
    monkeypatch.setattr(memory, "at_hand", lambda: 64 * 2**20)
    assert read_columns(open_source(path), ["x", "y"]).num_rows == 2**20


@pytest.mark.parametrize("command", ["inspect", "run"])
def test_a_table_that_does_not_fit_ends_a_command_with_one_line(
    tmp_path, monkeypatch, capsys, command
):
    comma(tmp_path / "people.csv")
    monkeypatch.setattr(memory, "at_hand", lambda: 2**20)
    data = [str(tmp_path / "people.csv")]
    words = ["--data", *data, "--out", str(tmp_path / "out")] if command == "run" else data
    assert main([command, *words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "people.csv takes" in line
    assert "or more to read, and 1.0 MiB of memory are at hand" in line


def test_numbers_of_a_parquet_file_are_counted_before_any_is_read(tmp_path, monkeypatch):
    path = tmp_path / "people"
    parquet(with_ones(0.0), path)
    monkeypatch.setattr(memory, "at_hand", lambda: ROWS)
    monkeypatch.setattr(pq.ParquetFile, "read_row_group", None)
    with refused_in_one_line(DataError, "memory are at hand"):
        read_columns(open_source(path), ["x", "y"])


def test_a_table_without_rows_has_its_columns(tmp_path):
    for write in (parquet, arrow, stream):
        write(with_ones(0.0).slice(0, 0), tmp_path / "none")
        with refused_in_one_line(DataError, "has columns but no rows"):
            read_columns(open_source(tmp_path / "none"), ["x"])


def test_the_container_has_the_last_word(tmp_path, monkeypatch):
    kernel, group = tmp_path / "meminfo", tmp_path / "group"
    group.mkdir()
    monkeypatch.setattr(memory, "_KERNEL", kernel)
    monkeypatch.setattr(memory, "_GROUP", group)
    assert memory.at_hand() is None
    kernel.write_text("MemTotal: 9000 kB\nMemAvailable:  8000 kB\n")
    assert memory.at_hand() == 8000 << 10
    (group / "memory.max").write_text("max\n")
    (group / "memory.current").write_text("1000\n")
    assert memory.at_hand() == 8000 << 10
    (group / "memory.max").write_text("5000\n")
    assert memory.at_hand() == 4000
