"""What each half of fairlens does to the gap, and what the noise on its statistics costs.

    python benchmarks/fairlens_halves.py [TABLE LABEL GROUP] [--seeds N]

Logistic regression at clipping bound 1, trained by the program's own method at the numbers that an
audit of the table would take; every row but the last two has one epsilon. In those the statistics
are all but exact, so that they have no guarantee: what is left of a gap is then the penalty's, not
the noise's. Gaps are those of the first two groups in accuracy lost and in loss added, without
intervals over test rows: an audit has them (docs/methods.md 3.7).
"""

import argparse
import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from fairaudit.audit import prepare
from fairaudit.config.options import AuditConfig
from fairaudit.config.value_sources import resolve_config
from fairaudit.data.inputs.encode import encode
from fairaudit.data.inputs.split import draw_split
from fairaudit.data.tabular import load_dataset
from fairaudit.engine.pool import TrainingPool
from fairaudit.methods.base import Task
from fairaudit.methods.dpsgd import DpSgd
from fairaudit.methods.fairlens import FairLensDecoupled
from fairaudit.models.zoo import make_model
from fairaudit.planning.plan import Plan

EXACT = 1e-6  # a ratio at which statistics have no noise to speak of
FORMER = {"statistic_noise_ratio": 10 / math.sqrt(2), "statistic_decay": 0.95}
# Name of a row -> the numbers of fairlens that are not its defaults; None: dpsgd.
CASES: dict[str, dict[str, float] | None] = {
    "dpsgd": None,
    "both halves": {},
    "gamma2 alone": {"gamma1": 0.0, **FORMER},
    "gamma1 alone": {"gamma2": 0.0},
    "both, exact statistics": {"statistic_noise_ratio": EXACT},
    "gamma1 alone, exact statistics": {"gamma2": 0.0, "statistic_noise_ratio": EXACT},
}


def numbers(plan: Plan, case: Mapping[str, float] | None) -> dict[str, float]:
    """The settings of a case, with the noise that gives it dpsgd's epsilon."""
    plain = plan.arm("dpsgd").settings
    if case is None:
        return dict(plain)
    made = {**plan.arm("fairlens").settings, **case}
    ratio = made["statistic_noise_ratio"]
    if ratio > EXACT:
        made["noise_multiplier"] = plain["noise_multiplier"] * math.sqrt(1 + ratio**-2)
    return made


def trained(plan: Plan, pool: TrainingPool, seed: int, case: str | None, x: Tensor) -> Tensor:
    """Logits ``[n, Y]`` of inputs ``x``; without privacy where ``case`` is None."""
    method, settings = DpSgd, dict(plan.arm("dpsgd").settings)
    if case is None:
        settings |= {"max_grad_norm": 1e6, "noise_multiplier": 0.0}
        settings["learning_rate"] = plan.arm("sgd").settings["learning_rate"]
    elif CASES[case] is not None:
        method, settings = FairLensDecoupled, numbers(plan, CASES[case])
    schedule = plan.training
    model = make_model(
        "logistic", pool.shape, pool.n_classes, hidden=(), activation="tanh", seed=seed
    )
    task = Task(
        arm=f"{case}",
        seed=seed,
        repeats=1,
        settings=settings,
        optimizer="sgd",
        model=model,
        pool=pool,
        steps_per_epoch=schedule.steps_per_epoch,
        epochs=schedule.epochs,
        n_public=pool.n_records,
        sampling=[f"{seed}"],
        source={},
        budget=2**29,
    )
    network = method().fit(task, []).network
    return network.probabilities(x, torch.zeros(len(x)))[0].log()


def read(logits: Tensor, y: Tensor, group: Tensor) -> Tensor:
    """Of the first two groups points of accuracy and nats of loss, ``[2, 2]``."""
    right = 100.0 * (logits.argmax(1) == y).float()
    loss = cross_entropy(logits, y, reduction="none")
    return torch.stack([torch.stack([v[group == a].mean() for a in (0, 1)]) for v in (right, loss)])


def main() -> None:
    """Print the costs of two groups and their gaps, means over seeds, for every case."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table", nargs="?", default="sample_data/loans.parquet", type=Path)
    parser.add_argument("label", nargs="?")
    parser.add_argument("group", nargs="?", default="sex")
    parser.add_argument("--seeds", type=int, default=10, help="2 or more")
    options = parser.parse_args()
    torch.set_num_threads(1)
    given = {"data": str(options.table), "group": [options.group], "max_grad_norm": 1.0}
    if options.label:
        given["label"] = options.label
    given["method"] = ["dpsgd", "fairlens"]
    config: AuditConfig = resolve_config(given).config
    dataset = load_dataset(config)
    plan = prepare(resolve_config(given)).plan
    costs: dict[str, list[Tensor]] = {name: [] for name in CASES}
    for seed in range(options.seeds):
        split = draw_split(dataset, config.split, seed)
        encoded = encode(dataset, split, config.encoding)
        sides = []
        for rows, inputs in ((split.train, encoded.train), (split.test, encoded.test)):
            x = torch.from_numpy(np.asarray(inputs[np.arange(len(rows))])).float()
            y = torch.from_numpy(np.asarray(dataset.labels)[rows]).long()
            sides.append((x, y, torch.from_numpy(dataset.groupings[0].groups[rows]).long()))
        (x, y, group), (test_x, test_y, test_group) = sides
        n_groups = len(dataset.groupings[0].names)
        pool = TrainingPool(x, y, group, n_classes=len(dataset.classes), n_groups=n_groups)
        plain = read(trained(plan, pool, seed, None, test_x), test_y, test_group)
        for case in CASES:
            found = read(trained(plan, pool, seed, case, test_x), test_y, test_group)
            costs[case].append((plain - found) * torch.tensor([[1.0], [-1.0]]))
    for case, of_seeds in costs.items():
        cost = torch.stack(of_seeds)
        gap = cost[:, :, 0] - cost[:, :, 1]
        error = gap.std(0) / math.sqrt(len(gap))
        first, second = cost[:, 0].mean(0).tolist()
        print(
            f"{case:32} {first:6.1f} {second:6.1f}  gap {gap[:, 0].mean():5.1f} (se {error[0]:.1f})"
            f"  loss {gap[:, 1].mean():6.3f} (se {error[1]:.3f})",
            flush=True,
        )


if __name__ == "__main__":
    main()
