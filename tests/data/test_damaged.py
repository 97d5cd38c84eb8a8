"""Files that broke a reader once; found by fuzzing."""

import numpy as np
import pyarrow as pa
import pyarrow.feather as pafeather
import pytest

from fairaudit.config.options import AuditConfig
from fairaudit.data.tabular import load_dataset
from fairaudit.errors import DataError


def broken_array(offsets, text):
    """An array of text as a file could hold it.

    Arrow checks neither offsets nor text on reading.
    """
    buffers = [None, pa.py_buffer(np.array(offsets, np.int32).tobytes()), pa.py_buffer(text)]
    return pa.Array.from_buffers(pa.string(), len(offsets) - 1, buffers)


@pytest.mark.parametrize(
    ("offsets", "text", "said"),
    [([0, 1, 2, 3, 4], b"a\xe0bc", "not UTF-8"), ([0, 3, 1, 3, 4], b"abcd", "damaged")],
)
def test_a_feather_file_whose_text_is_damaged_is_refused_before_it_is_followed(
    tmp_path, offsets, text, said
):
    path = tmp_path / "t.feather"
    table = pa.table({"g": broken_array(offsets, text), "y": [0, 1] * 2, "x": [0.0, 0.5, 1.0, 1.5]})
    pafeather.write_feather(table, path, compression="uncompressed")
    with pytest.raises(DataError, match=said):
        load_dataset(AuditConfig(data=path, group=("g",), label="y"))


def test_a_name_that_no_file_can_have_is_refused(tmp_path):
    with pytest.raises(DataError, match="too long"):
        load_dataset(AuditConfig(data=tmp_path / ("a" * 5000)))
