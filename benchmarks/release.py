"""Does the prediction interval of an audit hold the model that is trained after it?

Each pair is independent: a file of its own, an audit of five seeds, and one training for release, whose
accuracy on the rows that it did not see is held against what the audit's seeds let expect, by group.

    python benchmarks/release.py --pairs 1000
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from scipy.stats import binom

from fairaudit.config.options import AuditConfig
from fairaudit.data.public import share_inputs
from fairaudit.data.tabular import load_dataset
from fairaudit.execution.worker import run_job
from fairaudit.planning.plan import make_plan
from fairaudit.release.choice import ReleaseChoice, Wish
from fairaudit.release.held_out import prediction_interval
from fairaudit.release.train import train_for_release

ROWS, SEEDS = 800, 5
TOLD = {"age": {"kind": "number", "range": [18, 90]}, "debt": {"kind": "number", "range": [0, 60]}}


def people(rng: np.random.Generator) -> pd.DataFrame:
    sex = rng.choice(["F", "M"], ROWS, p=[0.3, 0.7])
    age, debt = rng.uniform(18, 90, ROWS), rng.gamma(2.0, 8.0, ROWS)
    noise = rng.normal(0, np.where(sex == "F", 28, 18))
    return pd.DataFrame({"age": age, "debt": debt, "sex": sex, "y": (age - debt + noise > 40).astype(int)})


def accuracies(dataset, rows, probabilities):
    correct = probabilities.argmax(-1) == dataset.labels[rows]
    groups = dataset.groupings[0].groups[rows]
    return [float(correct[groups == k].mean()) for k in range(len(dataset.groupings[0].names))]


def pair(number: int, folder: Path) -> list[bool]:
    """Whether the interval held, by group."""
    rng = np.random.default_rng(number)
    data = folder / "people.parquet"
    people(rng).to_parquet(data, index=False)
    config = AuditConfig(
        data=data, group=("sex",), label="y", columns={"columns": TOLD}, method=("dpsgd",), delta=1e-5,
        noise_multiplier=1.0, epochs=3, batch_size=64, seeds=SEEDS, seed=SEEDS * number, diagnostics="off",
        twins=False, n_public=640,
    )  # fmt: skip
    dataset = load_dataset(config)
    plan = make_plan(config, dataset)
    arm = plan.arm("dpsgd")
    found, inputs = [], share_inputs(dataset, config)
    for job in plan.jobs:
        if job.arm == arm.key:
            arrays = run_job(plan, job, None, inputs).arrays
            found.append(accuracies(dataset, arrays["test_rows"], arrays["probabilities"][0]))
    wish = Wish(Path("report.json"), "dpsgd")
    trained = train_for_release(ReleaseChoice(wish, None, "", None, plan, arm, dataset, changed=False))
    new = accuracies(dataset, trained.test, trained.probabilities)
    held = []
    for k, value in enumerate(new):
        low, high = prediction_interval([each[k] for each in found])
        held.append(low <= value <= high)
    return held


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    given = parser.parse_args()
    torch.set_num_threads(1)
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        held = np.array([pair(given.first + n, Path(folder)) for n in range(given.pairs)])
    print(f"{given.pairs} pairs of {SEEDS} seeds and a release, {time.perf_counter() - start:.0f} s")
    for name, column in zip(("F", "M"), held.T, strict=True):
        seen = int(column.sum())
        low, high = binom.ppf((0.025, 0.975), given.pairs, 0.95) / given.pairs
        share = f"{100 * seen / given.pairs:.1f} %"
        print(f"{name}: the interval held {share} (exactly 95 %: {100 * low:.1f} to {100 * high:.1f})")


if __name__ == "__main__":
    main()
