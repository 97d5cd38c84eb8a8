"""What the number of tries, the share of validation rows and the score's noise are worth.

    python benchmarks/tuning_choice.py --folder ../shared/data [--file adult --file german]
    [--epsilon 1]

For each table, epsilon and seed the same candidates are trained with the noise that each way of
searching leaves to them, on the same batches, and the tuned figure is the expectation that an audit
reports. Half of the rows are test rows. ``default`` is one training at the default setting at all
of epsilon.
Printed: mean accuracy of the tuned model minus that of the default, in points, dpsgd, logistic
regression.
"""

import argparse
import tempfile
import zlib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch

from fairaudit.config.options import AuditConfig
from fairaudit.data.inputs.shared import share_inputs
from fairaudit.data.inputs.split import draw_split
from fairaudit.data.tabular import load_dataset
from fairaudit.execution.seed_data import prepare_rows
from fairaudit.execution.trained import method_of
from fairaudit.execution.worker import task_of
from fairaudit.planning.plan import make_plan
from fairaudit.tuning import charge, trials, validation

ARM = "dpsgd"
TABLES = {
    "adult": ("sex", "income"),
    "dutch": ("sex", "occupation"),
    "bank": ("marital", "y"),
    "german": ("sex", "credit_risk"),
    "abalone": ("sex", "rings_above_median"),
    "wine": ("color", "quality_good"),
}


class Way(NamedTuple):
    """How a search is set up.

    ``noisy`` False: its score noise is left out, though it is charged.
    """

    mean: int
    shape: float
    share: float = 0.2
    noisy: bool = True

    def __str__(self) -> str:
        return f"mean {self.mean}, shape {self.shape:g}, {self.share:.0%} validation" + (
            "" if self.noisy else ", exact scores"
        )


WAYS = [Way(mean, shape) for shape in (0.0, 1.0) for mean in (10, 20)]
WAYS += [Way(20, 1.0, 0.1), Way(20, 1.0, 0.3), Way(20, 1.0, noisy=False)]


def tuned(config: AuditConfig, way: Way, seeds: range) -> Iterator[tuple[int, float, float]]:
    """Seed, tuned accuracy on the test rows, and the accuracy of the best candidate there is."""
    charge.SHAPES = (way.shape,)
    validation.VALIDATION_SHARE = way.share
    dataset = load_dataset(config)
    plan = make_plan(config.model_copy(update={"tune": way.mean}), dataset)
    arm = plan.arm(ARM)
    if not way.noisy:
        search = replace(arm.search, score_noise=0.0)
        arm = arm.model_copy(update={"search": search})
    inputs = share_inputs(dataset, config).value
    for seed in seeds:
        prepared = prepare_rows(
            inputs, config, draw_split(dataset, config.split, seed), by_pool=False
        )
        job = replace(next(job for job in plan.jobs if job.arm == ARM), seed=seed)
        arrays, _ = trials.search(
            arm, method_of(arm), task_of(plan, job, arm, prepared, None), prepared
        )
        yield seed, *_accuracies(arrays, dataset.labels[prepared.encoded.split.test])


def _accuracies(arrays: dict[str, np.ndarray], labels: np.ndarray) -> tuple[float, float]:
    right = (arrays["probabilities"].argmax(-1) == labels).mean(1)
    return float(arrays["weights"] @ right), float(right.max())


def default(config: AuditConfig, seeds: range) -> dict[int, float]:
    """Accuracy of the default setting at all of epsilon, on all training rows."""
    dataset, found = load_dataset(config), {}
    plan = make_plan(config, dataset)
    arm = plan.arm(ARM)
    inputs = share_inputs(dataset, config).value
    for seed in seeds:
        prepared = prepare_rows(
            inputs, config, draw_split(dataset, config.split, seed), by_pool=False
        )
        job = replace(next(job for job in plan.jobs if job.arm == ARM), seed=seed)
        model = method_of(arm).fit(task_of(plan, job, arm, prepared, None), [])
        tested = torch.from_numpy(prepared.encoded.test)
        said = (
            model.probabilities(tested, torch.zeros(len(tested), dtype=torch.int64))[0]
            .argmax(-1)
            .numpy()
        )
        found[seed] = float((said == dataset.labels[prepared.encoded.split.test]).mean())
    return found


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--file", action="append", choices=TABLES)
    parser.add_argument("--epsilon", action="append", type=float)
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--seeds", type=int, default=3)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    seeds, totals = range(asked.seeds), defaultdict(list)
    for name in asked.file or TABLES:
        for epsilon in asked.epsilon or (1.0, 3.0, 8.0):
            with tempfile.TemporaryDirectory() as folder:
                table = pd.read_parquet(asked.folder / f"{name}.parquet")
                rows = min(asked.rows, len(table))
                path = Path(folder) / f"{name}.parquet"
                table.sample(rows, random_state=zlib.crc32(name.encode())).to_parquet(path)
                group, label = TABLES[name]
                config = AuditConfig(
                    data=path,
                    group=(group,),
                    label=label,
                    method=(ARM,),
                    epsilon=(epsilon,),
                    test_size=0.5,
                    twins="off",
                    seeds=2,
                    diagnostics="off",
                )
                base = default(config, seeds)
                print(
                    f"{name}, epsilon {epsilon:g}: default "
                    f"{100 * np.mean(list(base.values())):.2f}",
                    flush=True,
                )
                for way in WAYS:
                    found = [
                        (100 * (a - base[seed]), 100 * (b - base[seed]))
                        for seed, a, b in tuned(config, way, seeds)
                    ]
                    totals[epsilon, way] += found
                    mean, best = np.mean(found, 0)
                    print(f"  {way}: {mean:+.2f} (best on test {best:+.2f})", flush=True)
    for (epsilon, way), found in totals.items():
        values = np.array(found)[:, 0]
        error = values.std(ddof=1) / len(values) ** 0.5
        print(f"epsilon {epsilon:g}, {way}: {values.mean():+.2f} +- {error:.2f} over {len(values)}")


if __name__ == "__main__":
    main()
