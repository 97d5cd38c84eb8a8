"""Records of bytes, and what a seed's constants make of them.

The same bits however they are cut.
"""

import numpy as np
import pyarrow as pa
import pytest

from fairaudit.data.dataset import Split
from fairaudit.data.inputs import fit as fitting
from fairaudit.data.inputs import records as recording
from fairaudit.data.inputs.encode import TableEncoder
from fairaudit.data.inputs.records import Records, RecordWriter

N = 300
rng = np.random.default_rng(8)
GAPS = rng.random(N) < 0.2
COLUMNS = {
    "age": pa.array(rng.integers(18, 90, N)),
    "score": pa.array(rng.normal(size=N)),
    "income": pa.array(np.round(np.exp(rng.normal(8, 1, N)), 2), mask=GAPS),
    "tiny": pa.array(rng.normal(size=N) * 1e-150, mask=GAPS[::-1]),
    "huge": pa.array(rng.normal(size=N) * 1e99),
    "same": pa.array(np.full(N, -2.5)),
    "seen": pa.array(rng.integers(0, 2**31, N), pa.timestamp("s")),
    "town": pa.array(
        rng.choice(list("abcdefgh"), N, p=[0.3, 0.3, 0.3, 0.02, 0.02, 0.02, 0.02, 0.02])
    ),
    "flag": pa.array(rng.random(N) < 0.5, mask=GAPS),
    "plan": pa.array(rng.choice(["x", "y"], N)),
    "gone": pa.array([None] * N, pa.large_string()),
}
TABLE = pa.table(COLUMNS)
SPLIT = Split(3, np.flatnonzero(np.arange(N) % 4 > 0), np.flatnonzero(np.arange(N) % 4 == 0))


def recorded(table):
    writer = RecordWriter(table)
    return Records(writer.layout, np.concatenate(list(writer.blocks())))


def encoded(merge_rare=0.05, **options):
    return TableEncoder(recorded(TABLE), merge_rare, **options).encode(SPLIT)


@pytest.mark.parametrize("rows", [1, 7, N - 1])
@pytest.mark.parametrize("merge_rare", [0, 0.05])
def test_pieces_of_any_size_give_the_bits_of_the_whole(monkeypatch, rows, merge_rare):
    whole = encoded(merge_rare)
    monkeypatch.setattr(recording, "CHUNK_ROWS", rows)
    monkeypatch.setattr(fitting, "FIT_BYTES", 1)  # one column a pass
    for pieces in (encoded(merge_rare), encoded(merge_rare, in_memory=0)):
        assert pieces.names == whole.names
        assert np.array_equal(pieces.train[:], whole.train[:])
        assert np.array_equal(pieces.test[:], whole.test[:])


def test_rows_are_made_in_the_order_asked_for_and_as_often():
    made, kept = encoded(in_memory=0), encoded()
    index = np.array([5, 0, 5, 200])
    assert made.train.shape == kept.train.shape == (len(SPLIT.train), len(made.names))
    assert len(made.test) == len(kept.test)
    assert np.array_equal(made.train[index], kept.train[index])
    assert np.array_equal(made.test[10:40:3], kept.test[10:40:3])


def test_records_hold_every_value_as_it_was_read():
    records = recorded(TABLE)
    numbers = records.layout.numbers
    for place, index in enumerate(numbers.column_indices):
        wanted = COLUMNS[TABLE.column_names[index]].to_numpy(zero_copy_only=False)
        values = numbers.view(records.table)[:, place]
        assert np.array_equal(values, wanted.astype(float), equal_nan=True)  # times in seconds


@pytest.mark.parametrize(("levels", "kind"), [(254, "uint8"), (255, "uint16"), (65_535, "uint32")])
def test_codes_take_the_smallest_type_that_holds_the_level_and_the_gap(levels, kind):
    records = recorded(pa.table({"x": [*(f"l{i:05}" for i in range(levels)), None]}))
    assert records.layout.codes.type == kind
    assert len(records.layout.fields[0].levels) == levels
    assert records.table.view(kind)[-1, 0] == levels + 1
