"""A seed's training rows packed for its batches: the bits of the rows that are made."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from fairaudit.data import fit as fitting
from fairaudit.data.dataset import Split
from fairaudit.data.encode import TableEncoder
from fairaudit.data.records import RecordWriter
from fairaudit.data.spool import Spool
from fairaudit.execution.seed_data import PackedRows

N = 400
rng = np.random.default_rng(9)
GAPS = rng.random(N) < 0.2
TABLE = pa.table(
    {
        "town": pa.array(rng.choice(list("abcdefgh"), N, p=[0.3, 0.3, 0.3, *[0.02] * 5]), mask=GAPS[::-1]),
        "age": pa.array(rng.integers(18, 90, N)),
        "income": pa.array(np.round(np.exp(rng.normal(8, 1, N)), 2), mask=GAPS),
        "flag": pa.array(rng.random(N) < 0.5, mask=GAPS),
        "same": pa.array(np.full(N, -2.5)),
        "plan": pa.array(rng.choice(["x", "y"], N)),
        "only": pa.array(["one"] * N),
        "code": pa.array([f"c{i % 300}" for i in range(N)]),  # more inputs than a byte counts
        "gone": pa.array([None] * N, pa.large_string()),
        "score": pa.array(rng.normal(size=N)),
    }
)
SPLIT = Split(3, np.flatnonzero(np.arange(N) % 4 > 0), np.flatnonzero(np.arange(N) % 4 == 0))
CHOICES = [
    TABLE.column_names,
    ["age", "score"],
    ["town", "code"],
    ["plan", "flag"],
    ["only"],
    ["gone", "same"],
]


def made(columns, merge_rare):
    records = RecordWriter(TABLE.select(columns)).in_memory()
    return TableEncoder(records, merge_rare, in_memory=0).encode(SPLIT).train


def packed(rows, folder):
    return PackedRows.of(rows, Spool(folder))


def filled(rows, index):
    out = np.zeros((len(index), rows.shape[1]), np.float32)
    rows.fill(index, out)
    return out


@pytest.mark.parametrize("merge_rare", [0, 0.05])
@pytest.mark.parametrize("columns", CHOICES, ids="-".join)
def test_packed_rows_have_the_bits_of_those_that_are_made(tmp_path, columns, merge_rare):
    rows = made(columns, merge_rare)
    small = packed(rows, tmp_path)
    assert small.shape == rows.shape
    for index in (np.arange(len(rows)), np.array([5, 0, 5, 299]), np.zeros(0, np.int64)):
        assert np.array_equal(filled(small, index), rows[index])


def test_packed_rows_are_smaller_than_the_inputs_and_leave_no_file(tmp_path):
    rows = made(TABLE.column_names, 0)
    small = packed(rows, tmp_path)
    assert small.ones.type == "uint16"
    assert small.table.nbytes * 5 < rows[:].nbytes
    assert not list(tmp_path.iterdir())


def test_a_pair_that_is_taken_for_one_hot_is_noticed(tmp_path, monkeypatch):
    pair = fitting._fit_category
    monkeypatch.setattr(
        fitting, "_fit_category", lambda *args, **options: replace(pair(*args, **options), one_hot=True)
    )
    rows = made(["plan", "age"], 0)
    every = np.arange(len(rows))
    assert not np.array_equal(filled(packed(rows, tmp_path), every), rows[:])
