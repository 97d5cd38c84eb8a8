"""Arrays in a file without a name: the same values, nothing left, one line on a full disk."""

import mmap
import os
import pickle

import numpy as np
import pyarrow as pa
import pytest
from disks import files_of_at_most

from fairaudit.data.inputs.spool import Shared, Spool
from fairaudit.errors import OutputError

# What several processes read


def shared_value(folder):
    spool = Spool(folder)
    rows = spool.keep_rows(iter([np.arange(80, dtype=np.uint8).reshape(10, 8)] * 2), 8)
    value = {
        "large": np.arange(3e5),
        "rows": rows,
        "part": rows[4:6],
        "none": np.zeros(0),
        "word": "x",
        "table": pa.table({"a": np.arange(7)}),
    }
    return Shared(lambda: value, spool), spool


def test_what_lies_in_the_file_is_not_written_again_and_the_rest_once(tmp_path):
    shared, spool = shared_value(tmp_path)
    before = os.fstat(spool.fileno()).st_size
    head, places = shared._pickled
    content = os.pread(spool.fileno(), os.fstat(spool.fileno()).st_size, 0)
    assert len(content) - before < 3e5 * 8 + 5 * mmap.ALLOCATIONGRANULARITY
    back = pickle.loads(head, buffers=[content[place] for place in places])
    for name in ("large", "rows", "part", "none"):
        assert np.array_equal(back[name], shared.value[name]), name
    assert back["table"].equals(shared.value["table"])


def test_a_disk_without_room_for_what_workers_read_is_one_line(tmp_path):
    shared, _ = shared_value(tmp_path)
    with files_of_at_most(10_000), pytest.raises(OutputError, match="no space left"):
        _ = shared._pickled
    with files_of_at_most(10_000), pytest.raises(OutputError, match="no space left"):
        Spool(tmp_path).keep_rows(iter([np.zeros((10_000, 8), np.uint8)] * 9), 8)
