"""A table larger than the memory that reading it may take."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROWS = 1_000_000  # 40 columns: 320 MB as numbers
MOST_MIB = 450


def peak(table, budget, folder):
    command = [sys.executable, ROOT / "tests" / "toys" / "peak_memory.py", table, str(budget), folder]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=500, check=True)
    return int(done.stdout)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("large") / "large.parquet"
    make = [sys.executable, ROOT / "benchmarks" / "make_large.py", path, "--rows", str(ROWS)]
    subprocess.run(make, check=True, capture_output=True, timeout=500)
    return path


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="anonymous memory is read from /proc")
def test_a_large_table_is_read_and_encoded_in_little_memory(table, tmp_path):
    assert peak(table, 2**26, tmp_path) < MOST_MIB


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="anonymous memory is read from /proc")
def test_the_whole_table_in_memory_would_be_noticed(table, tmp_path):
    assert peak(table, 2**40, tmp_path) > MOST_MIB
