"""The sample is what its script makes, says what its card says, and holds something true to find."""

import hashlib
import importlib.util
import os
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from fairaudit.api import run_audit
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
def painter():
    with imported("make_images") as module:
        yield module


@pytest.fixture(scope="module")
def pictures() -> Dataset:
    return load_dataset(AuditConfig(data=SAMPLE / "images", group=("style",)))


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


def test_the_parquet_file_declares_its_label_and_outcomes_and_depends_on_no_pandas():
    metadata = pq.read_schema(SAMPLE / "loans.parquet").metadata
    declared = {"label": "approved", "positive": "1", "favourable": "1"}
    assert metadata == {f"fairaudit.{key}".encode(): value.encode() for key, value in declared.items()}


def test_the_script_draws_the_same_images_again(pictures, painter, tmp_path):
    subprocess.run(
        [sys.executable, SAMPLE / "make_images.py", "--out", tmp_path], check=True, capture_output=True
    )
    metadata = (tmp_path / "images" / "metadata.csv").read_bytes()
    assert metadata == (SAMPLE / "images" / "metadata.csv").read_bytes()
    again = load_dataset(AuditConfig(data=tmp_path / "images", group=("style",)))
    # Pixels, not files: how well a PNG is packed is up to the library that writes it.
    assert np.array_equal(pixels_of(again.features["image"]), pixels_of(pictures.features["image"]))
    other = painter.make(painter.Drawing(seed=1))[0]
    assert not np.array_equal(other, pixels_of(pictures.features["image"])[..., 0])


def test_the_images_are_what_the_card_states(pictures):
    assert pictures.image_shape == (16, 16, 1)
    assert dict(zip(pictures.classes, np.bincount(pictures.labels), strict=True)) == dict.fromkeys(
        ("circle", "cross", "square", "triangle"), 500
    )
    style = pictures.groupings[0]
    counts = np.bincount(style.groups)
    card = (SAMPLE / "README.md").read_text(encoding="utf-8")
    for name, count in zip(style.names, counts, strict=True):
        assert f"{name} ({count:,})" in card
    cells = np.bincount(style.groups * 4 + pictures.labels).reshape(2, 4)
    assert (cells * 4 == counts[:, None]).all()  # style says nothing about the label
    assert pictures.duplicate_rows == 0
    assert sum(path.stat().st_size for path in (SAMPLE / "images").iterdir()) < 1_500_000


def pixels_tell_the_shape(images, labels) -> float:
    """Accuracy of the nearest class mean, halves of the images against each other."""
    x, half = images.reshape(len(images), -1).astype(np.float64), len(images) // 2
    means = np.stack([x[:half][labels[:half] == k].mean(axis=0) for k in range(4)])
    distances = ((x[half:, None] - means) ** 2).sum(axis=-1)
    return float((distances.argmin(axis=1) == labels[half:]).mean())


def test_drawn_shapes_are_harder_because_of_their_style(pictures, painter):
    images, style = pixels_of(pictures.features["image"]), pictures.groupings[0]
    by_style = {
        name: pixels_tell_the_shape(images[style.groups == k], pictures.labels[style.groups == k])
        for k, name in enumerate(style.names)
    }
    assert by_style["printed"] > 0.95
    assert by_style["drawn"] < 0.75
    printed = painter.Drawing().printed
    alike, rows = painter.make(painter.Drawing(drawn=replace(printed, count=500)))
    labels = np.unique([row["label"] for row in rows], return_inverse=True)[1]
    drawn = np.array([row["style"] == "drawn" for row in rows])
    assert pixels_tell_the_shape(alike[drawn], labels[drawn]) > 0.95


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


def test_clipping_costs_the_smaller_group_more(tmp_path):
    # Long records pay for a bound far below their gradients; at the default bound nearly all of it goes.
    report = run_audit(
        SAMPLE / "loans.parquet",
        group="sex",
        method="dpsgd",
        max_grad_norm=1.0,
        learning_rate=0.889,
        out=tmp_path / "report",
        workers=min(2, os.cpu_count() or 1),
    )
    gap = pair_gap(report)
    favours_m = gap.signed.value if gap.a == "F" else -gap.signed.value
    assert favours_m > 0.02
    assert gap.absolute.low > 0.0


def test_an_audit_of_the_images_goes_from_a_folder_to_a_report(tmp_path):
    report = run_audit(
        SAMPLE / "images",
        group="style",
        method="global-adapt",
        epochs=2,
        seeds=2,
        out=tmp_path / "report",
        workers=min(2, os.cpu_count() or 1),
    )
    assert report.training.model == "cnn"
    costs = next(c for c in report.comparisons if c.arm == "global-adapt" and c.grouping == "style")
    assert {group.group for group in costs.by_group} == {"drawn", "printed"}
    reference = report.sklearn_baseline.reference_accuracy
    assert reference is not None
    assert reference > 0.6  # of four shapes, after two passes: it learns
    assert {path.name for path in (tmp_path / "report").iterdir()} >= {
        "report.json", "report.md", "report.html",
    }  # fmt: skip
