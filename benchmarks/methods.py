"""Methods that release something about all records at once: process CPU seconds, imports left out.

    python benchmarks/methods.py --data adult.parquet --group sex --label income

Output perturbation: what 100 draws cost after the fit, readings included. PATE: 150 logistic
teachers, their votes, and 100 students of noised labels, readings included.
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

from fairaudit.config.options import AuditConfig
from fairaudit.data.inputs.encode import encode
from fairaudit.data.inputs.split import draw_split
from fairaudit.data.inputs.student_pool import PoolEncoder
from fairaudit.data.tabular import load_dataset
from fairaudit.diagnostics import perturbation, votes
from fairaudit.engine.pool import TrainingPool
from fairaudit.methods.base import Method, PublicPool, Task
from fairaudit.methods.minimiser import OutputPerturbation
from fairaudit.methods.teachers import PateHard, PateSoft
from fairaudit.models.zoo import make_model
from fairaudit.planning.plan import make_plan
from fairaudit.privacy.streams import seed_of

DRAWS = 100
TARGETS = {"output-perturbation": 5.0, "pate-hard": 60.0, "pate-soft": 60.0}


def timed(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def tasks(config: AuditConfig) -> dict[str, Task]:
    """One task per method at the first seed, with the plan's own settings."""
    dataset = load_dataset(config)
    plan, split = make_plan(config, dataset), draw_split(dataset, config.split, 0)
    pooled = PoolEncoder.of(dataset, config).encode(split)
    own = encode(dataset, split, config.encoding)
    found = {}
    for arm in plan.arms:
        if arm.method not in TARGETS:
            continue
        encoded = own if arm.method == "output-perturbation" else pooled.encoded
        pool = TrainingPool(
            torch.from_numpy(encoded.train),
            torch.from_numpy(dataset.labels[split.train]),
            torch.from_numpy(dataset.groupings[0].groups[split.train]),
            n_classes=len(dataset.classes),
            n_groups=len(dataset.groupings[0].names),
        )
        start = make_model(
            "logistic",
            pool.width,
            pool.n_classes,
            hidden=(),
            activation="tanh",
            seed=seed_of(0, "init"),
        )
        public = PublicPool(pooled.pool, torch.from_numpy(pooled.groups))
        found[arm.method] = Task(
            arm=arm.key,
            seed=0,
            repeats=1,
            settings=arm.settings,
            optimizer="sgd",
            model=start,
            pool=pool,
            steps_per_epoch=plan.training.steps_per_epoch,
            epochs=plan.training.epochs,
            n_public=plan.training.n_public,
            sampling=["shared"],
            source={},
            budget=0,
            public=public,
            records=split.train,
        )
    return found


def line(name: str, what: str, seconds: float) -> str:
    verdict = "within" if seconds <= TARGETS[name] else "ABOVE"
    return f"{name:20} {what:44} {seconds:7.2f} s   {verdict} {TARGETS[name]:g} s"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--group", required=True)
    parser.add_argument("--label", required=True)
    given = parser.parse_args()
    torch.set_num_threads(1)
    config = AuditConfig(
        data=given.data, group=(given.group,), label=given.label, method=tuple(TARGETS)
    )
    found = tasks(config)

    task, method = found["output-perturbation"], OutputPerturbation()
    fit = timed(lambda: method.fit(task, []))
    many = timed(lambda: method.fit(replace(task, repeats=DRAWS), []))
    trained = method.fit(task, [])
    read = timed(lambda: perturbation.read(method, task, trained))
    print(f"{'output-perturbation':20} {'the fit':44} {fit:7.2f} s")
    print(line("output-perturbation", f"{DRAWS} draws more", max(0.0, many - fit)))
    print(line("output-perturbation", f"excess risk of {DRAWS} draws by group", read))

    for name, kind in (("pate-hard", PateHard), ("pate-soft", PateSoft)):
        whole = timed(lambda name=name, kind=kind: both(kind(), found[name]))
        settings = found[name].settings
        what = f"{settings['teachers']:g} teachers, {settings['queries']:g} queries, {DRAWS} draws"
        print(line(name, what, whole))


def both(method: Method, task: Task) -> None:
    """Teachers, a student, then the students of 100 draws and all readings."""
    votes.read(method, task, method.fit(task, []))


if __name__ == "__main__":
    main()
