import errno
import hashlib
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from refusals import refused_in_one_line

from fairaudit.errors import OutputError
from fairaudit.io import atomic as atomic
from fairaudit.results import jobs as jobs
from fairaudit.results.jobs import JobResult, job_id, job_path, read_result, write_result

ID = "0123456789abcdef01234567"


def result(**arrays):
    arrays = arrays or {"a": np.arange(6.0).reshape(2, 3), "b.0": np.array([3, 1, 2])}
    return JobResult(ID, arrays, {"n_train": 3, "event": None, "fitted": {"x": [0.1, 1e-300]}})


def same(one, other):
    return (
        other is not None
        and one.job_id == other.job_id
        and one.facts == other.facts
        and sorted(one.arrays) == sorted(other.arrays)
        and all(
            np.array_equal(
                one.arrays[k], other.arrays[k], equal_nan=one.arrays[k].dtype.kind == "f"
            )
            and one.arrays[k].shape == other.arrays[k].shape
            and one.arrays[k].dtype == other.arrays[k].dtype.newbyteorder("=")
            for k in one.arrays
        )
    )


@settings(max_examples=40, deadline=None)
@given(
    array=st.sampled_from(["f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u1", "?"]).flatmap(
        lambda d: hnp.arrays(d, hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=3))
    )
)
def test_every_array_comes_back_with_its_bits_shape_and_type(tmp_path_factory, array):
    directory = tmp_path_factory.mktemp("jobs")
    write_result(directory, result(x=array))
    assert same(result(x=array), read_result(directory, ID))


def test_a_file_cut_short_anywhere_counts_as_absent(tmp_path):
    write_result(tmp_path, result())
    path = job_path(tmp_path, ID)
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        assert read_result(tmp_path, ID) is None, length
    path.write_bytes(whole + b"\0")
    assert read_result(tmp_path, ID) is None
    path.write_bytes(whole)
    assert same(result(), read_result(tmp_path, ID))


def test_no_flipped_bit_changes_a_result(tmp_path):
    write_result(tmp_path, result())
    path = job_path(tmp_path, ID)
    whole = path.read_bytes()
    absent = 0
    for bit in range(0, 8 * len(whole), 7):  # every byte, and every place in a byte
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        read = read_result(tmp_path, ID)
        absent += read is None
        assert read is None or same(result(), read), bit  # a space of the padding may become a tab
    assert absent > 0.95 * 8 * len(whole) / 7


def test_a_file_under_another_jobs_name_counts_as_absent(tmp_path):
    write_result(tmp_path, result())
    other = "f" * 24
    job_path(tmp_path, ID).rename(job_path(tmp_path, other))
    assert read_result(tmp_path, other) is None


def test_a_file_of_another_layout_counts_as_absent(tmp_path, monkeypatch):
    monkeypatch.setattr(jobs, "_FORMAT", "fairaudit-job-0")
    write_result(tmp_path, result())
    monkeypatch.undo()
    assert read_result(tmp_path, ID) is None


def test_only_the_owner_can_read_a_result(tmp_path):
    write_result(tmp_path, result())
    assert job_path(tmp_path, ID).stat().st_mode & 0o777 == 0o600


def test_the_content_is_on_the_disk_before_the_name(tmp_path, monkeypatch):
    steps = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda fd: (steps.append("sync"), fsync(fd)))
    monkeypatch.setattr(os, "replace", lambda a, b: (steps.append("rename"), replace(a, b)))
    write_result(tmp_path, result())
    assert steps == ["sync", "rename", "sync"]


@pytest.mark.parametrize("call", ["fsync", "replace"])
@pytest.mark.parametrize(
    ("number", "message"),
    [
        (errno.ENOSPC, "no space left"),
        (errno.EROFS, "not writable"),
        (errno.EIO, "input/output error"),
    ],
)
def test_a_failed_write_leaves_the_old_file_and_nothing_else(
    tmp_path, monkeypatch, call, number, message
):
    write_result(tmp_path, result())

    def fails(*arguments):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(atomic.os, call, fails)
    with refused_in_one_line(OutputError, message):
        write_result(tmp_path, result(other=np.zeros(3)))
    monkeypatch.undo()
    assert same(result(), read_result(tmp_path, ID))
    assert [p.name for p in tmp_path.iterdir()] == [f"{ID}.safetensors"]


def test_an_id_is_the_same_on_every_machine_and_day():
    version = jobs.NUMERICS_VERSION
    text = f'{{"numerics_version":"{version}","parts":{{"method":"dpsgd","rate":0.1}}}}'
    expected = hashlib.sha256(text.encode()).hexdigest()[:24]
    assert job_id({"rate": 0.1, "method": "dpsgd"}) == expected


def test_a_new_numerics_version_voids_every_id(monkeypatch):
    before = job_id({"method": "dpsgd"})
    monkeypatch.setattr(jobs, "NUMERICS_VERSION", "next")
    assert job_id({"method": "dpsgd"}) != before


def test_reading_results_imports_no_torch():
    code = "import sys, fairaudit.execution.scheduler; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=600)


def test_large_arrays_are_maps_of_the_file_and_few_numbers_are_not(tmp_path):
    arrays = {"large": np.arange(300_000).reshape(3, -1), "small": np.ones(3)}
    write_result(tmp_path, JobResult("0" * 24, arrays, {}))
    found = read_result(tmp_path, "0" * 24).arrays
    assert isinstance(found["large"], np.memmap)
    assert not isinstance(found["small"], np.memmap)
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype
        assert np.array_equal(found[name], array)
