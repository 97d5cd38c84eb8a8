"""The sample is what its script makes, says what its card says.

And holds something true to find.
"""

import subprocess
import sys

import pandas as pd
import pyarrow.parquet as pq
import pytest
from places import LOANS

SAMPLE = LOANS.parent


@pytest.fixture(scope="module")
def frame():
    return pd.read_parquet(SAMPLE / "loans.parquet")


def test_the_script_makes_the_same_rows_again(frame, tmp_path):
    subprocess.run([sys.executable, SAMPLE / "make_loans.py", "--out", tmp_path], check=True)
    assert (tmp_path / "loans.csv").read_bytes() == (SAMPLE / "loans.csv").read_bytes()
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "loans.parquet"), frame)


def test_the_parquet_file_declares_its_label_and_outcomes_and_depends_on_no_pandas():
    metadata = pq.read_schema(SAMPLE / "loans.parquet").metadata
    declared = {"label": "approved", "positive": "1", "favourable": "1"}
    assert metadata == {
        f"fairaudit.{key}".encode(): value.encode() for key, value in declared.items()
    }
