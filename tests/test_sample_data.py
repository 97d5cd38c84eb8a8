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

from fairaudit.config.options import AuditConfig
from fairaudit.data.dataset import Dataset, pixels_of
from fairaudit.data.tabular import load_dataset

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


@pytest.fixture(scope="module")
def pictures() -> Dataset:
    return load_dataset(AuditConfig(data=SAMPLE / "images", group=("style",)))


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


@pytest.mark.slow
def test_the_script_draws_the_same_images_again(pictures, tmp_path):
    subprocess.run([sys.executable, SAMPLE / "make_images.py", "--out", tmp_path], check=True)
    metadata = (tmp_path / "images" / "metadata.csv").read_bytes()
    assert metadata == (SAMPLE / "images" / "metadata.csv").read_bytes()
    again = load_dataset(AuditConfig(data=tmp_path / "images", group=("style",)))
    # Pixels, not files: how well a PNG is packed is up to the library that writes it.
    assert np.array_equal(pixels_of(again.features["image"]), pixels_of(pictures.features["image"]))


def test_records_of_the_smaller_group_are_longer_because_of_the_mechanism(frame, script):
    without = script.Mechanism(record_noise_women=0.6, tail=30.0, spending_spread_women=1.0)
    times = []
    for rows in (frame, script.make(without)):
        standardised = (rows[NUMBERS] - rows[NUMBERS].mean()) / rows[NUMBERS].std()
        length = np.sqrt((standardised**2).sum(axis=1)).groupby(rows["sex"]).median()
        times.append(length["F"] / length["M"])
    assert times[0] > 2 >= times[1]
