"""A table that is larger than the memory at hand is refused before it fills it."""

import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from refusals import refused_in_one_line

from fairaudit.data.reading import memory
from fairaudit.data.reading.tables import open_source, read_columns
from fairaudit.errors import DataError

ROWS = 200_000
NUMBERS = pa.table({"x": pa.array([0.0] * ROWS), "y": pa.array([1] * ROWS, pa.int8())})
TEXTS = pa.table({"x": pa.array(["a" * 1000] * ROWS), "y": pa.array([1] * ROWS, pa.int8())})


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


@pytest.mark.parametrize("write", [parquet, arrow, stream])
@pytest.mark.parametrize(("table", "size"), [(NUMBERS, 9 * ROWS), (TEXTS, 1000 * ROWS)])
def test_a_small_file_of_many_values_is_refused_where_memory_is_short(
    tmp_path, monkeypatch, write, table, size
):
    path = tmp_path / "people"
    write(table, path)
    assert path.stat().st_size < size / 10
    source = open_source(path)
    monkeypatch.setattr(memory, "at_hand", lambda: size // 2)
    with refused_in_one_line(DataError, "memory are at hand"):
        read_columns(source, ["x", "y"])
    # A column that is not read takes nothing.
    assert read_columns(source, ["y"]).column("y").to_pylist() == [1] * ROWS
    monkeypatch.setattr(memory, "at_hand", lambda: 2 * size)
    assert read_columns(source, ["x", "y"]).equals(table)
    monkeypatch.setattr(memory, "at_hand", lambda: None)  # a system that does not say
    assert read_columns(source, ["y", "x"]).column_names == ["y", "x"]


def test_numbers_of_a_parquet_file_are_counted_before_any_is_read(tmp_path, monkeypatch):
    path = tmp_path / "people"
    parquet(NUMBERS, path)
    monkeypatch.setattr(memory, "at_hand", lambda: ROWS)
    monkeypatch.setattr(pq.ParquetFile, "read_row_group", None)
    with refused_in_one_line(DataError, "memory are at hand"):
        read_columns(open_source(path), ["x", "y"])


def test_a_table_without_rows_has_its_columns(tmp_path):
    for write in (parquet, arrow, stream):
        write(NUMBERS.slice(0, 0), tmp_path / "none")
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
