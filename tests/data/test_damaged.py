"""Files that broke a reader once; found by fuzzing."""

import io
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.feather as pafeather
import pytest

from fairaudit.config.options import AuditConfig
from fairaudit.data.tabular import load_dataset
from fairaudit.errors import DataError


def refused(path, group="g", **given):
    with pytest.raises(DataError) as caught:
        load_dataset(AuditConfig(data=path, group=(group,), **given))
    return str(caught.value)


def feather(path, groups):
    n = len(groups)
    table = pa.table({"g": groups, "y": np.arange(n) % 2, "x": np.arange(n) * 0.5})
    pafeather.write_feather(table, path, compression="uncompressed")


def broken_array(offsets, text):
    """An array of text as a file could hold it.

    Arrow checks neither offsets nor text on reading.
    """
    buffers = [None, pa.py_buffer(np.array(offsets, np.int32).tobytes()), pa.py_buffer(text)]
    return pa.Array.from_buffers(pa.string(), len(offsets) - 1, buffers)


@pytest.mark.parametrize(
    ("offsets", "text", "said"),
    [
        ([0, 1, 2, 3, 4], b"a\xe0bc", "not UTF-8"),
        ([0, 3, 1, 3, 4], b"abcd", "damaged"),
    ],
)
def test_a_feather_file_whose_text_is_damaged_is_refused_before_it_is_followed(
    tmp_path, offsets, text, said
):
    feather(tmp_path / "t.feather", broken_array(offsets, text))
    assert said in refused(tmp_path / "t.feather", label="y")


def test_an_archive_with_a_broken_stream_is_refused(tmp_path):
    sink = io.BytesIO()
    np.savez_compressed(
        sink, images=np.zeros((4, 8, 8), np.uint8), label=[0, 1, 0, 1], g=[0, 0, 1, 1]
    )
    content = bytearray(sink.getvalue())
    with zipfile.ZipFile(sink) as archive:
        member = archive.infolist()[0]
    start = member.header_offset + 30 + len(member.filename)
    content[start : start + 8] = b"\xff" * 8
    (tmp_path / "t.npz").write_bytes(content)
    assert "npz" in refused(tmp_path / "t.npz", label="label")


def test_a_name_that_no_file_can_have_is_refused(tmp_path):
    assert "too long" in refused(tmp_path / ("a" * 5000))
