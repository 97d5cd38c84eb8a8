"""The file that workers share: whole or not there, as it was written or made again."""

import dataclasses

import numpy as np
import pytest
from disks import files_of_at_most
from safetensors import safe_open

from fairaudit.data.records import RecordWriter
from fairaudit.data.store import is_intact, is_large, open_store, write_store
from fairaudit.errors import OutputError
from fairaudit.io.atomic import TEMPORARY


@pytest.fixture
def dataset(load, people):
    people["town"][7] = None
    return load(people, group=("sex", "town"), label="income", intersect=True)


@pytest.fixture
def stored(dataset, tmp_path):
    path = tmp_path / "x.records.safetensors"
    write_store(path, dataset)
    return path


def test_rows_and_records_come_back(dataset, stored):
    store = open_store(stored)
    assert np.array_equal(store.rows.labels, dataset.labels)
    assert store.rows.classes == dataset.classes
    assert store.rows.n_rows == dataset.n_rows
    assert store.rows.split is None
    assert np.array_equal(store.rows.duplicate_of, dataset.duplicate_of)
    for back, grouping in zip(store.rows.groupings, dataset.groupings, strict=True):
        assert (back.name, back.names, back.missing) == (grouping.name, grouping.names, grouping.missing)
        assert np.array_equal(back.groups, grouping.groups)
    wanted = RecordWriter(dataset.features).in_memory()
    assert store.records.layout == wanted.layout
    assert np.array_equal(store.records.table, wanted.table)


def test_a_given_split_comes_back(dataset, tmp_path):
    side = np.arange(dataset.n_rows) % 2
    write_store(tmp_path / "s", dataclasses.replace(dataset, split=side))
    assert np.array_equal(open_store(tmp_path / "s").rows.split, side)


def test_arrays_are_mapped_and_cannot_be_written(stored):
    store = open_store(stored)
    for array in (store.rows.labels, store.rows.groupings[0].groups, store.records.table):
        assert isinstance(array, np.memmap)
        assert not array.flags.writeable


def test_the_file_is_one_that_others_can_read(dataset, stored):
    with safe_open(stored, framework="numpy") as file:
        assert np.array_equal(file.get_tensor("labels"), dataset.labels)
        assert file.get_tensor("records").shape[0] == dataset.n_rows


@pytest.mark.parametrize("kept", [0, 4, 100, 5000, -1])
def test_a_file_cut_short_is_no_store(stored, kept):
    stored.write_bytes(stored.read_bytes()[:kept])
    assert open_store(stored) is None
    assert not is_intact(stored)


@pytest.mark.parametrize("place", [-1, -200, 4100])
def test_a_flipped_bit_is_noticed_when_the_file_is_used_again(stored, place):
    assert is_intact(stored)
    content = bytearray(stored.read_bytes())
    content[place] ^= 4
    stored.write_bytes(content)
    assert not is_intact(stored)


def test_a_file_of_something_else_is_no_store(tmp_path):
    for content in (b"", b"PAR1" * 100, (2).to_bytes(8, "little") + b"{}", (2).to_bytes(8, "little") + b"[]"):
        (tmp_path / "f").write_bytes(content)
        assert open_store(tmp_path / "f") is None
    assert open_store(tmp_path / "absent") is None


def test_a_crash_while_writing_leaves_no_file(dataset, tmp_path, monkeypatch):
    whole = RecordWriter.blocks

    def breaking(self):
        yield from whole(self)
        raise KeyboardInterrupt

    monkeypatch.setattr(RecordWriter, "blocks", breaking)
    folder = tmp_path / "jobs"
    folder.mkdir()
    with pytest.raises(KeyboardInterrupt):
        write_store(folder / "x", dataset)
    assert list(folder.iterdir()) == []


def test_the_name_appears_after_the_last_byte(dataset, tmp_path, monkeypatch):
    """So that a process killed in between leaves a temporary file, which the next run removes."""
    whole, seen = RecordWriter.blocks, []

    def watching(self):
        yield from whole(self)
        seen.extend(bool(TEMPORARY.fullmatch(path.name)) for path in folder.iterdir())

    folder = tmp_path / "jobs"
    folder.mkdir()
    monkeypatch.setattr(RecordWriter, "blocks", watching)
    write_store(folder / "x", dataset)
    assert seen == [True]


def test_a_full_disk_is_one_line_and_no_file(dataset, tmp_path):
    folder = tmp_path / "jobs"
    folder.mkdir()
    with files_of_at_most(4_500), pytest.raises(OutputError, match="no space left"):
        write_store(folder / "x", dataset)
    assert list(folder.iterdir()) == []


def test_a_small_table_has_no_file(dataset):
    assert not is_large(dataset)
