"""Files of a few kilobytes that hold gigabytes; here the bounds are lower, so that kilobytes do."""

import gzip

import numpy as np
import pytest

from fairaudit.config.options import AuditConfig
from fairaudit.data import bounds
from fairaudit.data.tabular import load_dataset
from fairaudit.errors import DataError

TEXT = b"g,y,x\n" + b"a,0,1.5\nb,1,2.5\na,1,3.5\nb,0,1.25\n" * 40_000


def load(path):
    return load_dataset(AuditConfig(data=path, group=("g",), label="y"))


def test_packed_text_of_more_than_a_hundred_times_its_size_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(TEXT))
    assert load(path).rows_read == 160_000  # a small one does no harm
    monkeypatch.setattr(bounds, "_HARMLESS", 2**20)
    with pytest.raises(DataError, match=r"t\.csv\.gz unpacks to more than 100 times its size"):
        load(path)
    path.write_bytes(gzip.compress(TEXT, 0))
    assert load(path).rows_read == 160_000  # a large one that weighs what it holds


def test_packed_text_that_is_cut_is_damaged(tmp_path):
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(TEXT)[:-12])
    with pytest.raises(DataError, match="damaged"):
        load(tmp_path / "t.csv.gz")


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
