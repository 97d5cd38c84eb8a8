"""Do intervals of membership inference hold.

And does nothing look like a leak? For benchmarks/README.md.

    python benchmarks/leakage.py scores --audits 400
    python benchmarks/leakage.py trained --audits 60

``scores`` draws confidences from a known law: how often the 95 % interval of a group, of the gap
between groups and of the change between two arms holds the mean over all audits. ``trained``
trains: groups by coin flips, and two arms of one private recipe with noise of their own, where
every gap and change that is found is
an error.
"""

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from fairaudit.config.options import AuditConfig
from fairaudit.data.inputs.shared import share_inputs
from fairaudit.data.tabular import load_dataset
from fairaudit.execution.worker import run_job
from fairaudit.leakage.attack import Attack, attack_tables
from fairaudit.leakage.measure import measure_leakage
from fairaudit.metrics.intervals import contrast, estimate
from fairaudit.planning.plan import Job, make_plan

METRICS = ("leakage_auc", "leakage_tpr", "leakage_tpr_at_1", "leakage_advantage")
# models, rows of the two groups, what members gain, spread of what differs between trainings
CELLS = {
    "nothing leaks": (16, (300, 200), (0.0, 0.0), 0.0),
    "nothing leaks, trainings differ": (16, (300, 200), (0.0, 0.0), 0.5),
    "both groups leak alike": (16, (300, 200), (0.5, 0.5), 0.3),
    "one group leaks more": (16, (300, 200), (0.3, 1.0), 0.3),
    "8 models": (8, (300, 200), (0.5, 0.5), 0.3),
    "a small group, both leak alike": (16, (300, 40), (0.5, 0.5), 0.3),
}


def drawn(rng, models, rows, leak, spread, member):
    """Confidences: each record's own level and gain.

    And what a training does to all records alike.
    """
    n = sum(rows)
    gain = np.repeat(leak, rows) * rng.gamma(1.0, 1.0, n)
    common = spread * rng.standard_normal((models, 1)) * rng.standard_normal(n)
    grown = np.exp(0.5 * spread * rng.standard_normal((models, 1)))
    phi = (
        3.0 * rng.standard_normal(n)
        + common
        + gain * grown * member
        + rng.standard_normal((models, n))
    )
    return Attack(phi, member)


def scores(audits):
    """Coverage of every interval, in every cell."""
    print("| what is drawn | " + " | ".join(f"{m}: group, gap, change" for m in METRICS) + " |")
    print("|---|" + "---|" * len(METRICS))
    for name, (models, rows, leak, spread) in CELLS.items():
        found = []
        for audit in range(audits):
            rng = np.random.default_rng(audit)
            member = rng.random((models, sum(rows))) < 0.5
            arms = [drawn(rng, models, rows, leak, spread, member) for _ in range(2)]
            tables, _ = attack_tables(*arms, np.repeat([0, 1], rows), 2)
            made = [
                estimate(contrast(tables[prefix + metric], *at))
                for metric in METRICS
                for prefix, at in (("", (1,)), ("", (1, 0)), ("change.", (1,)))
            ]
            found.append([(e.value, e.low, e.high) for e in made])
        value, low, high = np.moveaxis(np.array(found), -1, 0)
        held = ((low <= value.mean(0)) & (value.mean(0) <= high)).mean(0)
        width = (high - low).mean(0) / (2 * 1.96 * value.std(0, ddof=1))
        told = [f"{share:.3f} ({wide:.2f})" for share, wide in zip(held, width, strict=True)]
        cells = [", ".join(told[first : first + 3]) for first in range(0, len(told), 3)]
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def trained(audits):
    """How often a gap between coin-flip groups, or a change between equal arms, is found."""
    gaps, changes = [], []
    with tempfile.TemporaryDirectory() as folder:
        for audit in range(audits):
            draw = np.random.default_rng(audit)
            frame = pd.DataFrame(draw.normal(size=(300, 15)), columns=[f"x{i}" for i in range(15)])
            frame["y"] = np.where(frame.x0 + draw.normal(size=300) > 0, "yes", "no")
            frame["coin"] = draw.choice(["heads", "tails"], 300)
            path = Path(folder, "t.csv")
            frame.to_csv(path, index=False)
            config = AuditConfig(
                data=path,
                label="y",
                group=("coin",),
                method=("dpsgd",),
                noise_multiplier=0.5,
                epochs=20,
                batch_size=30,
                leakage=True,
                leakage_seeds=8,
                seeds=1,
                twins="off",
                diagnostics="off",
                delta=1e-4,
                seed=1000 * audit,
            )
            data = load_dataset(config)
            plan = make_plan(config, data).side_plans["leakage"]
            again = plan.arm("dpsgd").model_copy(
                update={"key": "again", "reference": "dpsgd", "shares_samples": False}
            )
            jobs = tuple(j for j in plan.jobs if j.arm == "dpsgd")
            jobs += tuple(Job(f"again{j.seed}", "again", j.seed, 1) for j in jobs)
            plan = replace(
                plan,
                arms=(plan.arm("dpsgd").model_copy(update={"reference": None}), again),
                jobs=jobs,
            )
            inputs = share_inputs(data, config)
            found = measure_leakage(
                plan, data, {job.id: run_job(plan, job, None, inputs) for job in jobs}
            )
            pairs = {g.metric: g.signed for g in found[1].gaps if g.kind == "pair"}
            gaps.append([pairs[m].excludes_zero for m in METRICS if m != "leakage_tpr_at_1"])
            own = [g.estimates for g in (*found[1].by_group, found[1].overall)]
            changes.append(
                [
                    e[f"change.{m}"].excludes_zero
                    for e in own
                    for m in ("leakage_auc", "leakage_tpr")
                ]
            )
    for name, errors in (
        ("gaps between coin-flip groups", gaps),
        ("changes between equal arms", changes),
    ):
        print(
            f"{name}: {np.mean(errors):.3f} of {np.size(errors)} intervals in {audits} audits "
            "exclude 0"
        )


def main():
    """Run what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["scores", "trained"])
    parser.add_argument("--audits", type=int, default=100)
    given = parser.parse_args()
    {"scores": scores, "trained": trained}[given.what](given.audits)


if __name__ == "__main__":
    main()
