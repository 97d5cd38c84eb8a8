"""Files of a few kilobytes that hold gigabytes; here the bounds are lower, so that kilobytes do."""

import gzip

import numpy as np
import pyarrow as pa
import pyarrow.feather as pafeather
import pyarrow.parquet as pq
import pytest
from fuzz_corpus import as_csv, base_table

from fairaudit.config.options import AuditConfig
from fairaudit.data import bounds
from fairaudit.data.readers import open_source, size_of
from fairaudit.data.tabular import load_dataset
from fairaudit.errors import DataError


def load(path):
    return load_dataset(AuditConfig(data=path, group=("g",), label="y"))


def zeros(path):
    with gzip.open(path, "wb") as stream:
        stream.write(b"g,y,x\n" + b"a,0,1.5\nb,1,2.5\na,1,3.5\nb,0,1.25\n" * 40_000)
    return path


def test_packed_text_of_more_than_a_hundred_times_its_size_is_refused(tmp_path, monkeypatch):
    assert load(zeros(tmp_path / "t.csv.gz")).rows_read == 160_000  # a small one does no harm
    monkeypatch.setattr(bounds, "_HARMLESS", 2**20)
    with pytest.raises(DataError, match=r"t\.csv\.gz unpacks to more than 100 times its size"):
        load(tmp_path / "t.csv.gz")


def test_text_that_packs_like_data_of_people_is_read_whatever_its_size(tmp_path, monkeypatch):
    monkeypatch.setattr(bounds, "_HARMLESS", 0)
    text = as_csv(base_table())
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(text))
    source = open_source(tmp_path / "t.csv.gz")
    assert size_of(source, source.schema.names) == len(text)
    assert load(tmp_path / "t.csv.gz").n_rows == 40


def test_packed_text_that_is_cut_is_damaged(tmp_path):
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(as_csv(base_table()))[:-12])
    with pytest.raises(DataError, match="damaged"):
        load(tmp_path / "t.csv.gz")


@pytest.mark.parametrize("kind", ["parquet", "feather"])
def test_long_texts_behind_few_codes_are_refused_while_they_are_read(tmp_path, monkeypatch, kind):
    rows, path = 200_000, tmp_path / f"t.{kind}"
    codes = pa.array(np.arange(rows) % 2, pa.int32())
    texts = pa.DictionaryArray.from_arrays(codes, pa.array(["a" * 1000, "b" * 1000]))
    table = pa.table({"g": codes, "y": np.arange(rows) // 2 % 2, "x": texts})
    if kind == "parquet":
        pq.write_table(table, path, store_schema=False)
    else:
        pafeather.write_feather(
            table.cast(table.schema.set(2, pa.field("x", pa.string()))), path, "zstd"
        )
    assert path.stat().st_size < 2**21
    monkeypatch.setattr(bounds, "HELD", 2**26)
    before = pa.total_allocated_bytes()
    with pytest.raises(DataError, match=r"take more than 0\.1 GiB of memory"):
        load(path)
    assert pa.total_allocated_bytes() == before


def test_an_archive_that_declares_a_hundred_times_its_size_is_refused_unread(tmp_path, monkeypatch):
    path = tmp_path / "t.npz"
    images = np.zeros((100, 64, 64), np.uint8)
    images[:, 0, 0] = np.arange(100)
    np.savez_compressed(path, images=images, g=np.arange(100) % 2, y=np.arange(100) // 2 % 2)
    assert load(path).n_rows == 100
    monkeypatch.setattr(bounds, "_HARMLESS", 2**18)
    monkeypatch.setattr(np.lib.format, "read_array", None)
    with pytest.raises(DataError, match="unpacks to more than 100 times"):
        load(path)
