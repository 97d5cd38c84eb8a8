"""A table larger than the memory that reading it may take."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROWS = 1_000_000  # 40 columns: 320 MB as numbers
MOST_MIB = 450


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="anonymous memory is read from /proc")
def test_a_large_table_is_read_and_encoded_in_little_memory(tmp_path):
    table = tmp_path / "large.parquet"
    make = [sys.executable, ROOT / "benchmarks" / "make_large.py", table, "--rows", str(ROWS)]
    subprocess.run(make, check=True, capture_output=True, timeout=500)
    peak = [sys.executable, ROOT / "tests" / "toys" / "peak_memory.py", table, str(2**26), tmp_path]
    done = subprocess.run(peak, capture_output=True, text=True, cwd=ROOT, timeout=500, check=True)
    assert int(done.stdout) < MOST_MIB
