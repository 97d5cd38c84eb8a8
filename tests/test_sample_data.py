"""The sample is what its script makes, says what its card says, and holds something true to find."""

import hashlib
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from fairaudit.audit import run_audit

SAMPLE = Path(__file__).resolve().parents[1] / "sample_data"
NUMBERS = ["income", "loan_amount", "monthly_spending"]


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return pd.read_parquet(SAMPLE / "loans.parquet")


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("make_loans", SAMPLE / "make_loans.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["make_loans"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["make_loans"]


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_the_script_makes_the_same_rows_again(frame, tmp_path):
    subprocess.run(
        [sys.executable, SAMPLE / "make_loans.py", "--out", tmp_path], check=True, capture_output=True
    )
    assert sha256(tmp_path / "loans.csv") == sha256(SAMPLE / "loans.csv")
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "loans.parquet"), frame)


def test_another_seed_makes_other_rows(frame, script):
    other = script.make(script.Mechanism(seed=1))
    assert other.shape == frame.shape
    assert not other["income"].equals(frame["income"])


def test_the_csv_is_the_twin_of_the_parquet_file(frame):
    twin = pd.read_csv(SAMPLE / "loans.csv")
    assert list(twin.columns) == list(frame.columns)
    for column in frame.columns:
        assert twin[column].isna().equals(frame[column].isna())
        present = frame[column].notna()
        assert (twin.loc[present, column] == frame.loc[present, column]).all()


def test_the_sample_has_the_shape_that_the_card_states(frame):
    assert frame.shape == (6_000, 11)
    assert frame["sex"].value_counts().to_dict() == {"M": 4_100, "F": 1_900}
    assert frame["applicant_id"].is_unique
    assert set(frame["approved"]) == {0, 1}
    assert not frame[["applicant_id", "sex", "race", "age", "approved"]].isna().any(axis=None)
    card = (SAMPLE / "README.md").read_text(encoding="utf-8")
    for column in frame.columns:
        assert f"| {column} |" in card
    missing = frame.isna().sum()
    for column in missing[missing > 0].index:
        row = next(line for line in card.splitlines() if line.startswith(f"| {column} |"))
        assert f"{missing[column]} missing" in row
    for sex, share in frame.groupby("sex")["approved"].mean().items():
        assert f"{sex} {share:.0%}".replace("%", " %") in card
    assert sum(path.stat().st_size for path in SAMPLE.iterdir() if path.is_file()) < 1_000_000


def test_the_parquet_file_names_its_label_and_depends_on_no_pandas():
    metadata = pq.read_schema(SAMPLE / "loans.parquet").metadata
    assert metadata == {b"fairaudit.label": b"approved"}


def records_of_the_smaller_group_are_longer(frame: pd.DataFrame) -> bool:
    standardised = (frame[NUMBERS] - frame[NUMBERS].mean()) / frame[NUMBERS].std()
    length = np.sqrt((standardised**2).sum(axis=1)).groupby(frame["sex"]).median()
    return bool(length["F"] > 2 * length["M"])


def test_records_of_the_smaller_group_are_longer_because_of_the_mechanism(frame, script):
    assert records_of_the_smaller_group_are_longer(frame)
    without = script.Mechanism(record_noise_women=0.6, tail=30.0, spending_spread_women=1.0)
    assert not records_of_the_smaller_group_are_longer(script.make(without))


def pair_gap(report):
    costs = next(c for c in report.costs if c.arm == "dpsgd")
    return next(g for g in costs.gaps if g.metric == "privacy_cost" and g.kind == "pair")


def test_dpsgd_costs_the_smaller_group_more_at_the_defaults(tmp_path):
    report = run_audit(
        SAMPLE / "loans.parquet",
        group="sex",
        method="dpsgd",
        out=tmp_path / "report",
        workers=min(2, os.cpu_count() or 1),
    )
    gap = pair_gap(report)
    favours_m = gap.signed.value if gap.a == "F" else -gap.signed.value
    assert favours_m > 0.02
    assert gap.absolute.low > 0.0
