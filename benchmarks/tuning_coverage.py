"""Audits with a search, with real trainings.

How often a gap is found where none is, and what intervals hold.

    python benchmarks/tuning_coverage.py --data adult.parquet --group sex --label income [--audits
    200]

Each audit has a table of its own, rows drawn with replacement from the file, so that the file is
the population; splits, candidates, batches, noise and tries are drawn anew at each of its seeds.

``A/A``: an arm like the reference, without noise or clipping, on batches of its own, against the
reference. Both are searched alike, so there is neither a cost nor a gap: an interval that excludes
0 is an error. With the noise of a charged search on the scores of both, and without.
``private``: dpsgd with a charged search. What an audit estimates is its mean over all audits.
"""

import argparse
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from fairaudit.analysis.measure import measure
from fairaudit.config.options import AuditConfig
from fairaudit.data.inputs.shared import share_inputs
from fairaudit.data.inputs.split import draw_split
from fairaudit.data.tabular import load_dataset
from fairaudit.execution.seed_data import prepare_rows
from fairaudit.execution.trained import method_of
from fairaudit.execution.worker import task_of
from fairaudit.planning.plan import Plan, make_plan
from fairaudit.results.estimates import Estimate
from fairaudit.results.jobs import JobResult
from fairaudit.tuning.trials import search

Audit = dict[str, Estimate]  # by name of the figure
REFERENCE, PRIVATE = "sgd", "dpsgd"
NO_BOUND = 1e6  # no gradient of a linear model on standardised columns is nearly as long


def planned(
    folder: Path, options: dict[str, object], *, private: bool, score_noise: float | None
) -> Plan:
    """One audit of the table in a folder.

    Args:
        folder: Where ``table.parquet`` lies.
        options: Of the audit.
        private: dpsgd as it is; else without noise and bound, on batches of its own.
        score_noise: On the count of correct rows, of both arms; None: as planned.
    """
    still = {} if private else {"noise_multiplier": 0.0, "max_grad_norm": NO_BOUND}
    fields = {
        "data": folder / "table.parquet",
        "method": (PRIVATE,),
        "twins": "off",
        "diagnostics": "off",
    }
    config = AuditConfig(**{**fields, "self_check": False, **options, **still})
    plan = make_plan(config, load_dataset(config))
    arms = []
    for arm in plan.arms:
        changes = {}
        if not private:
            changes["shares_samples"] = arm.key == REFERENCE
        if score_noise is not None:
            changes["search"] = replace(arm.search, score_noise=score_noise)
        arms.append(arm.model_copy(update=changes))
    return replace(plan, arms=tuple(arms))


def audited(table: pd.DataFrame, plan: Plan, first_seed: int) -> Audit:
    """Costs and gap of one audit.

    Args:
        table: Its records.
        plan: As :func:`planned`, of a table of as many rows.
        first_seed: The first of its seeds: audits that share none share no stream.
    """
    table.to_parquet(plan.config.data)
    dataset = load_dataset(plan.config)
    inputs = share_inputs(dataset, plan.config).value
    jobs = tuple(replace(job, seed=first_seed + job.seed) for job in plan.jobs)
    results = {}
    for job in jobs:
        split = draw_split(dataset, plan.config.split, job.seed)
        prepared = prepare_rows(inputs, plan.config, split, by_pool=False)
        arm = plan.arm(job.arm)
        searched, facts = search(
            arm, method_of(arm), task_of(plan, job, arm, prepared, None), prepared
        )
        arrays = {
            "test_rows": prepared.encoded.split.test,
            "train_classes": np.bincount(dataset.labels[prepared.encoded.split.train]),
        }
        results[job.id] = JobResult(job.id, {**arrays, **searched}, facts)
    comparison = next(
        m for m in measure(replace(plan, jobs=jobs), dataset, results) if m.arm == PRIVATE
    )
    figures = {f"cost of {g.group}": g.estimates["privacy_cost"] for g in comparison.by_group}
    gap = next(g for g in comparison.gaps if g.metric == "privacy_cost" and g.kind == "pair")
    return {
        "cost of all": comparison.overall.estimates["privacy_cost"],
        **figures,
        "gap": gap.signed,
    }


def simulated(
    whole: pd.DataFrame,
    options: dict[str, object],
    audits: int,
    rows: int,
    *,
    private: bool,
    score_noise: float | None = None,
) -> list[Audit]:
    """So many independent audits of ``rows`` records each; arguments as of :func:`planned`."""
    rng = np.random.default_rng(7)
    with tempfile.TemporaryDirectory() as folder:
        whole.iloc[:rows].to_parquet(Path(folder) / "table.parquet")
        plan = planned(Path(folder), options, private=private, score_noise=score_noise)
        return [
            audited(whole.iloc[rng.integers(0, len(whole), rows)], plan, number * len(plan.jobs))
            for number in range(audits)
        ]


def held(audits: Sequence[Audit], name: str, truth: float) -> int:
    """In how many audits the interval of a figure holds the truth."""
    return sum(a[name].low <= truth <= a[name].high for a in audits)


def main() -> None:
    """Parse, simulate, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--group", required=True)
    parser.add_argument("--label", required=True)
    parser.add_argument("--audits", type=int, default=200)
    parser.add_argument("--rows", type=int, default=2000, help="of each audit")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--tune", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument(
        "--only", choices=("off", "on", "private"), help="one of the three simulations"
    )
    asked = parser.parse_args()
    torch.set_num_threads(1)
    whole = pd.read_parquet(asked.data)
    options: dict[str, object] = {
        "group": (asked.group,),
        "label": asked.label,
        "seeds": asked.seeds,
        "tune": asked.tune,
        "epochs": asked.epochs,
        "noise_multiplier": 2.0,
        "batch_size": 128,
    }
    print(
        f"{asked.audits} audits of {asked.rows} rows, {asked.seeds} seeds, {asked.tune} candidates"
    )
    for name, private, noise in (("off", False, 0.0), ("on", False, 4.0), ("private", True, None)):
        if asked.only in (None, name):
            began = time.perf_counter()
            audits = simulated(
                whole, options, asked.audits, asked.rows, private=private, score_noise=noise
            )
            print(f"{name} ({time.perf_counter() - began:.0f} s)", flush=True)
            for figure in audits[0]:
                values = np.array([audit[figure].value for audit in audits])
                truth = float(values.mean()) if private else 0.0
                width = np.mean([audit[figure].high - audit[figure].low for audit in audits])
                share = held(audits, figure, truth) / len(audits)
                print(
                    f"  {figure}: mean {100 * values.mean():.2f} points, sd "
                    f"{100 * values.std():.2f}, mean width {100 * width:.2f}, holds "
                    f"{100 * truth:.2f} in {100 * share:.1f} %",
                    flush=True,
                )


if __name__ == "__main__":
    main()
