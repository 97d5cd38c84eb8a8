"""The sample is what its script makes, says what its card says.

And holds something true to find.
"""

import importlib.util
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

SAMPLE = Path(__file__).resolve().parents[1] / "sample_data"
NUMBERS = ["income", "loan_amount", "monthly_spending"]


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return pd.read_parquet(SAMPLE / "loans.parquet")


@contextmanager
def imported(name):
    spec = importlib.util.spec_from_file_location(name, SAMPLE / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[name]


@pytest.fixture(scope="module")
def script():
    with imported("make_loans") as module:
        yield module


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


def test_records_of_the_smaller_group_are_longer_because_of_the_mechanism(frame, script):
    without = script.Mechanism(record_noise_women=0.6, tail=30.0, spending_spread_women=1.0)
    times = []
    for rows in (frame, script.make(without)):
        standardised = (rows[NUMBERS] - rows[NUMBERS].mean()) / rows[NUMBERS].std()
        length = np.sqrt((standardised**2).sum(axis=1)).groupby(rows["sex"]).median()
        times.append(length["F"] / length["M"])
    assert times[0] > 2 >= times[1]
