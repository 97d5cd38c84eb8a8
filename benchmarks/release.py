"""How often is an ordinary model told to be outside of what its audit lets expect?

Each pair is independent: a file of its own with six groups, one of them of 5 % of the rows, an
audit of five seeds, and one training for release, whose accuracy on the rows that it did not see is
held against what the audit's seeds let expect, by group. Counted twice: with an interval for each
group by itself, without a floor, and with those that `train` prints, which share the 5 % and take
the arms' pooled spread for a smaller one.

    python benchmarks/release.py --pairs 300
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
from fairaudit.data.inputs.shared import share_inputs
from fairaudit.data.tabular import load_dataset
from fairaudit.execution.worker import run_job
from fairaudit.planning.plan import make_plan
from fairaudit.release.held_out import pooled_sd, prediction_interval
from fairaudit.release.planned import ReleasePlan
from fairaudit.release.train import train_for_release

ROWS, SEEDS = 800, 5
TOLD = {"age": {"kind": "number", "range": [18, 90]}, "debt": {"kind": "number", "range": [0, 60]}}


def people(rng: np.random.Generator) -> pd.DataFrame:
    sex = rng.choice(["F", "M"], ROWS, p=[0.3, 0.7])
    age, debt = rng.uniform(18, 90, ROWS), rng.gamma(2.0, 8.0, ROWS)
    town = rng.choice(["a", "b", "c", "d"], ROWS, p=[0.5, 0.3, 0.15, 0.05])
    noise = rng.normal(0, np.where(sex == "F", 28, 18))
    paid = (age - debt + noise > 40).astype(int)
    return pd.DataFrame({"age": age, "debt": debt, "sex": sex, "town": town, "y": paid})


def accuracies(dataset, rows, probabilities) -> list[float]:
    """Of every group of every grouping."""
    correct = probabilities.argmax(-1) == dataset.labels[rows]
    found = []
    for grouping in dataset.groupings:
        groups = grouping.groups[rows]
        found += [float(correct[groups == k].mean()) for k in range(len(grouping.names))]
    return found


def pair(number: int, folder: Path) -> list[tuple[bool, bool]]:
    """Whether the interval held by itself, and whether that of all groups did; by group."""
    rng = np.random.default_rng(number)
    data = folder / "people.parquet"
    people(rng).to_parquet(data, index=False)
    config = AuditConfig(
        data=data,
        group=("sex", "town"),
        label="y",
        columns={"columns": TOLD},
        method=("dpsgd",),
        delta=1e-5,
        noise_multiplier=1.0,
        epochs=3,
        batch_size=64,
        seeds=SEEDS,
        seed=SEEDS * number,
        diagnostics="off",
        twins="off",
        n_public=640,
    )
    dataset = load_dataset(config)
    plan = make_plan(config, dataset)
    arm = plan.arm("dpsgd")
    inputs = share_inputs(dataset, config)
    seeds: dict[str, list[list[float]]] = {}
    for job in plan.jobs:
        arrays = run_job(plan, job, None, inputs).arrays
        seeds.setdefault(job.arm, []).append(
            accuracies(dataset, arrays["test_rows"], arrays["probabilities"][0])
        )
    trained = train_for_release(ReleasePlan(plan.config, dataset, arm, plan.training, None, ""))
    held = []
    new = accuracies(dataset, trained.test, trained.probabilities)
    for k, value in enumerate(new):
        by_arm = {key: [each[k] for each in found] for key, found in seeds.items()}
        alone = prediction_interval(by_arm[arm.key])
        least = pooled_sd(by_arm.values())
        joint = prediction_interval(by_arm[arm.key], among=len(new), least_sd=least)
        held.append((alone.low <= value <= alone.high, joint.low <= value <= joint.high))
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
    seconds = time.perf_counter() - start
    print(
        f"{given.pairs} pairs of {SEEDS} seeds and a release, {held.shape[1]} groups, "
        f"{seconds:.0f} s"
    )
    low, high = binom.ppf((0.025, 0.975), given.pairs, 0.05) / given.pairs
    print(f"exactly 5 % would be {low:.1%} to {high:.1%}")
    for way, name in enumerate(("each by itself", "together, with the floor")):
        outside = ~held[:, :, way]
        groups = ", ".join(f"{share:.1%}" for share in outside.mean(0))
        print(f"{name}: {outside.any(1).mean():.1%} of models outside; by group {groups}")


if __name__ == "__main__":
    main()
