"""Regret of the defaults.

How much better the best of 20 random settings does, chosen without its test rows.

    python benchmarks/defaults.py --data ../data [--quick] [--cache rows.jsonl]

For each table, method, model and epsilon the default and 20 settings drawn around it train on 80 %
of the training rows. The best of the 20 is the one of the smallest loss on the other 20 %, and
default and best are read on test rows: regret is the default's loss minus the best's, and the
best's accuracy minus the default's. Settings are log-uniform around the default, step and bound by
factors of up to 16 either way, with a quarter, half, all or twice the epochs, each calibrated to
its epsilon anew. A bound is C of dpsgd; of global-adapt it is the threshold Z, for C alone changes
nothing where the step makes up for C/Z.

What is measured is what ``make_plan`` says, so an older checkout prints the table of its own
defaults. ``--check --methods all`` trains every method once, beside a constant, and the reference
beside scikit-learn. ``--fit`` tries other constants of the rules, and scores each table with those
that were best for the others.
"""

import argparse
import itertools
import json
import math
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq
import torch
from torch import Tensor

from fairaudit.config.options import AuditConfig
from fairaudit.data.dataset import Dataset, Split
from fairaudit.data.inputs.encode import Encoded, encode
from fairaudit.data.inputs.shared import share_inputs
from fairaudit.data.inputs.split import draw_split
from fairaudit.data.tabular import load_dataset
from fairaudit.engine.loop import Training, train
from fairaudit.engine.optimizers import Optimizer
from fairaudit.engine.pool import TrainingPool
from fairaudit.engine.release import GaussianRelease
from fairaudit.engine.replicates import stack
from fairaudit.engine.rules import ClippingRule, Erm, FlatClip, PublicFacts
from fairaudit.engine.sampling import PoissonSampler
from fairaudit.errors import PrivacyError
from fairaudit.execution.model_setup import start_model
from fairaudit.execution.worker import run_job
from fairaudit.methods.global_adapt import GlobalAdaptiveClip, ThresholdState
from fairaudit.metrics.registry import UNDERTRAINED_BY
from fairaudit.planning.plan import Plan, make_plan
from fairaudit.privacy.noise import noise_stream
from fairaudit.privacy.streams import numpy_stream

HERE = Path(__file__).resolve().parent.parent
EPSILONS, EPOCHS, REACH, TRIES = (1.0, 3.0, 8.0), (0.25, 0.5, 1.0, 2.0), 16.0, 20

# Label and group of each table; wine and abalone are named by what they measure, german by who
# applies.
TABLES: dict[str, dict[str, Any]] = {
    "adult": {"label": "income", "group": ("sex",)},
    "dutch": {"label": "occupation", "group": ("sex",)},
    "bank": {"label": "y", "group": ("marital",)},
    "german": {"label": "credit_risk", "group": ("age_group",)},
    "abalone": {"label": "rings_above_median", "group": ("sex",)},
    "wine": {"label": "quality_good", "group": ("color",)},
    "loans": {"group": ("sex",)},
}


IMAGES: dict[str, dict[str, Any]] = {
    "images": {"group": ("style",)},
    "mnist": {"group_by_label": True, "split_column": "split"},
}


@dataclass(frozen=True)
class Flat(FlatClip):
    """Flat clipping with bounds [R] and, in the claimed sensitivity, noise multipliers [R]."""

    bounds: Tensor
    noise: Tensor

    def init(self, replicates: int, facts: PublicFacts) -> Tensor:
        """Each replicate's own."""
        return self.bounds

    def sensitivity(self, released: Tensor) -> Tensor:
        """Scaled, for the release multiplies by 1."""
        return released * self.noise


@dataclass(frozen=True)
class Adaptive(GlobalAdaptiveClip):
    """The adaptive threshold likewise: starts [R]; C is the same for all."""

    starts: Tensor
    noise: Tensor

    def init(self, replicates: int, facts: PublicFacts) -> ThresholdState:
        """Each replicate's own Z."""
        state = GlobalAdaptiveClip.init(self, replicates, facts)
        return replace(state, threshold=self.starts.clamp_min(self.max_grad_norm))

    def sensitivity(self, released: ThresholdState) -> Tensor:
        """Scaled, for the release multiplies by 1."""
        return GlobalAdaptiveClip.sensitivity(self, released) * self.noise


class Steps(Optimizer):
    """Plain SGD with a step for each replicate, [R, 1]."""

    def __init__(self, rates: Tensor) -> None:
        super().__init__(0.0)
        self.rates = rates

    def step(self, theta: Tensor, gradient: Tensor) -> None:
        """Each replicate's own."""
        theta.addcmul_(gradient, self.rates, value=-1.0)


class Try(NamedTuple):
    """One replicate: step, bound (C or Z), noise multiplier."""

    step: float
    bound: float
    noise: float


class Constants(NamedTuple):
    """Others for the rules: a step of at most ``plain`` / C^2 and of at most ``noisy`` / (C^2 s).

    Args:
        plain, noisy: Of the step. bound: Factor of the rule for C and Z.
    """

    plain: float = 4.0
    noisy: float = 0.7
    bound: float = 1.0

    def step(self, bound: float, spread: float) -> float:
        """For a bound C and a spread s = sigma sqrt(T) / qN."""
        return min(self.plain, self.noisy / spread) / bound**2


FIT = (
    Constants(),
    *(Constants(plain=2.0), Constants(plain=8.0)),
    *(Constants(noisy=0.35), Constants(noisy=1.4)),
    *(Constants(bound=0.5), Constants(bound=2.0)),
)


class Read(NamedTuple):
    """Loss in nats and accuracy on validation rows and on test rows."""

    valid_loss: float
    valid_accuracy: float
    loss: float
    accuracy: float


@dataclass(frozen=True)
class Rows:
    """One seed of a table: fit rows to train on, validation rows and test rows apart."""

    config: AuditConfig
    dataset: Dataset
    seed: int
    pool: TrainingPool
    valid: tuple[Tensor, Tensor]
    test: tuple[Tensor, Tensor]
    encoded: Encoded

    @classmethod
    def of(cls, config: AuditConfig, dataset: Dataset, seed: int) -> "Rows":
        """Validation rows are a fifth of the training rows; inputs are fitted on the rest alone."""
        split = draw_split(dataset, config.split, seed)
        mixed = numpy_stream(seed, "split", "validation").permutation(split.train)
        fit, valid = np.sort(mixed[len(mixed) // 5 :]), np.sort(mixed[: len(mixed) // 5])
        beside = np.concatenate([valid, split.test])
        encoded = encode(dataset, Split(seed, fit, beside), config.encoding)
        features = torch.from_numpy(np.ascontiguousarray(encoded.test))
        labels = torch.from_numpy(dataset.labels)
        pool = TrainingPool(
            torch.from_numpy(encoded.train),
            labels[fit],
            torch.from_numpy(dataset.groupings[0].groups[fit]),
            n_classes=len(dataset.classes),
            n_groups=len(dataset.groupings[0].names),
        )
        cut = len(valid)
        return cls(
            config.model_copy(update={"n_public": len(fit)}),
            dataset,
            seed,
            pool,
            (features[:cut], labels[valid]),
            (features[cut:], labels[split.test]),
            encoded,
        )

    def plan(self, **update: object) -> Plan:
        """What the rules say, for N = the fit rows."""
        return make_plan(self.config.model_copy(update=update), self.dataset)

    def constant_loss(self) -> float:
        """Of predicting the training rates."""
        rates = (
            torch.bincount(self.pool.labels[:-1], minlength=self.pool.n_classes)
            / self.pool.n_records
        )
        return float(-rates.log()[self.test[1]].mean())

    def train(self, method: str, tries: Sequence[Try], plan: Plan) -> list[Read]:
        """All tries side by side, on one sample and with noise of their own."""
        many, schedule = len(tries), plan.training
        network = stack([start_model(self.config, self.pool, self.seed)] * many)
        bounds, noise = (
            torch.tensor(each) for each in ([t.bound for t in tries], [t.noise for t in tries])
        )
        rule: ClippingRule[Any] = Flat(1.0, bounds, noise)
        if method == "global-adapt":
            own = plan.arm(method).settings
            names = ("max_grad_norm", "threshold", "tolerance", "threshold_learning_rate")
            ceiling = 1e4 * own["max_grad_norm"]
            rule = Adaptive(
                *(own[name] for name in names),
                own["count_noise_multiplier"],
                ceiling,
                bounds,
                noise,
            )
        training = Training(
            objective=Erm(),
            rule=rule,
            release=GaussianRelease(1.0, noise_stream(self.seed, "noise", method, many)),
            objective_noise=noise_stream(self.seed, "query", "objective", many),
            rule_noise=noise_stream(self.seed, "query", "rule", many),
            optimizer=Steps(torch.tensor([[t.step] for t in tries])),
            sampler=PoissonSampler(
                [numpy_stream(self.seed, "sampling", "shared") for _ in tries],
                self.pool.n_records,
                schedule.steps_per_epoch,
            ),
            facts=PublicFacts(
                schedule.n_public,
                torch.full((many,), schedule.expected_batch_size),
                self.pool.n_groups,
                self.pool.n_classes,
            ),
            epochs=schedule.epochs,
        )
        train(network, self.pool, training)
        read = [_read(network.probabilities(x), y) for x, y in (self.valid, self.test)]
        return [Read(*valid, *test) for valid, test in zip(*read, strict=True)]


def _read(probabilities: Tensor, labels: Tensor) -> list[tuple[float, float]]:
    """Loss and accuracy of each replicate; what is not finite counts as certain and wrong."""
    chosen = probabilities[:, torch.arange(len(labels)), labels].nan_to_num(0.0).clamp_min(1e-9)
    right = (probabilities.nan_to_num(0.0).argmax(-1) == labels).double().mean(1)
    loss = -chosen.double().log().mean(1)
    return list(zip(loss.tolist(), right.tolist(), strict=True))


def load(name: str, data: Path, rows: int, **options: object) -> tuple[AuditConfig, Dataset]:
    """At most ``rows`` rows of a table, the same ones whenever it is asked for."""
    fields = {**TABLES, **IMAGES}[name]
    if name == "images":
        config = AuditConfig(data=HERE / "sample_data/images", **fields, **options)
        return config, load_dataset(config)
    source = HERE / "sample_data/loans.parquet" if name == "loans" else data / f"{name}.parquet"
    table = pq.read_table(source)
    some = np.random.default_rng(0).permutation(len(table))[:rows]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, source.name)
        pq.write_table(table.take(np.sort(some)), path)
        config = AuditConfig(data=path, **fields, **options)
        return config, load_dataset(config)


def candidates(seed: int) -> list[tuple[float, float, float]]:
    """Factors of step, bound and epochs: the same for every method and epsilon of a seed."""
    draw, reach = numpy_stream(seed, "split", "candidates"), math.log(REACH)
    return [
        (
            math.exp(draw.uniform(-reach, reach)),
            math.exp(draw.uniform(-reach, reach)),
            EPOCHS[draw.integers(len(EPOCHS))],
        )
        for _ in range(TRIES)
    ]


def planned(rows: Rows, epsilon: float, **update: object) -> Plan | None:
    """The plan at one epsilon, or None where the rules ask for what cannot be met."""
    try:
        return rows.plan(epsilon=(epsilon,), **update)
    except PrivacyError:
        return None


def search(rows: Rows, method: str, fit: Sequence[Constants]) -> Iterator[dict[str, Any]]:
    """Default, reference, candidates and the rule's other constants, a row for each epsilon."""
    jobs: dict[tuple[Any, ...], tuple[Plan, Try]] = {}
    for epsilon in EPSILONS:
        plan = planned(rows, epsilon, method=(method,))
        if plan is None:
            continue
        own = plan.arm(method).settings
        bound = own.get("threshold", own["max_grad_norm"])
        start = Try(own["learning_rate"], bound, own["noise_multiplier"])
        jobs["reference",] = plan, Try(plan.arms[0].settings["learning_rate"], 1e30, 0.0)
        jobs["default", epsilon] = plan, start
        for number, (by_step, by_bound, share) in enumerate(candidates(rows.seed)):
            epochs = max(1, round(share * plan.training.epochs))
            other = planned(rows, epsilon, method=(method,), epochs=epochs)
            if other is None:
                continue
            # The step of a method that scales by C/Z makes up for it, so it grows with Z.
            step = start.step * by_step * (by_bound if "threshold" in own else 1.0)
            noise = other.arm(method).settings["noise_multiplier"]
            jobs["tried", epsilon, number] = other, Try(step, start.bound * by_bound, noise)
        schedule = plan.training
        spread = start.noise * math.sqrt(schedule.steps) / schedule.expected_batch_size
        for number, each in enumerate(fit):
            wide = each.bound * bound
            step = each.step(bound, spread) * (
                wide / own["max_grad_norm"] if "threshold" in own else 1.0
            )
            jobs["rule", epsilon, number] = plan, Try(step, wide, start.noise)
    found: dict[tuple[Any, ...], Read] = {}
    for _, group in itertools.groupby(
        sorted(jobs.items(), key=lambda job: job[1][0].training.epochs),
        lambda job: job[1][0].training.epochs,
    ):
        same = list(group)
        read = rows.train(method, [tried for _, (_, tried) in same], same[0][1][0])
        found |= dict(zip([key for key, _ in same], read, strict=True))
    for epsilon in EPSILONS:
        if ("default", epsilon) not in found:
            yield {"epsilon": epsilon, "refused": True}
            continue
        yield {
            "epsilon": epsilon,
            "default": found["default", epsilon],
            "reference": found["reference",],
            "constant": rows.constant_loss(),
            **{
                kind: [read for key, read in found.items() if key[:2] == (kind, epsilon)]
                for kind in ("tried", "rule")
            },
        }


def regret(row: Mapping[str, Any], default: Sequence[float]) -> tuple[float, float]:
    """Points of accuracy and nats that a default leaves.

    Each by the best on validation rows of its kind.
    """
    by_accuracy = max(row["tried"], key=lambda read: (read[1], -read[0]))
    by_loss = min(row["tried"], key=lambda read: read[0])
    return 100.0 * (by_accuracy[3] - default[3]), default[2] - by_loss[2]


def measure(given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Every row of the table; what the cache holds is not trained anew."""
    known = (
        [json.loads(line) for line in given.cache.open()]
        if given.cache and given.cache.exists()
        else []
    )
    fit = FIT if given.fit else ()
    for model, name in itertools.product(given.models, given.tables):
        config, dataset = load(name, given.data, given.rows, model=model)
        for seed in range(given.seeds):
            rows: Rows | None = None
            for method in given.methods:
                key = [model, name, method, seed, given.rows]
                cached = [row for row in known if row["key"] == key]
                if not cached:
                    rows = rows or Rows.of(config, dataset, seed)
                    began = time.perf_counter()
                    cached = [{"key": key, **row} for row in search(rows, method, fit)]
                    print(f"# {key} {time.perf_counter() - began:.0f} s", flush=True)
                    if given.cache:
                        with given.cache.open("a") as file:
                            file.writelines(json.dumps(row) + "\n" for row in cached)
                yield from cached


def show(rows: Sequence[dict[str, Any]]) -> None:
    """A line for each table, model and method: means over seeds, one figure for each epsilon."""
    print(
        f"{'model':9}{'table':9}{'method':13}{'accuracy, %':^20}{'regret, points':^20}"
        f"{'loss':^20}{'regret, nats':^22}constant  reference"
    )
    points, nats = [], []
    for (model, name, method), group in _grouped(rows, lambda row: tuple(row["key"][:3])):
        cells = []
        for _, same in _grouped(group, lambda row: row["epsilon"]):
            done = [row for row in same if "default" in row]
            if not done:
                cells.append([math.nan] * 4)
                continue
            lost = [regret(row, row["default"]) for row in done]
            mean = [statistics.mean(each) for each in zip(*lost, strict=True)]
            points.append((mean[0], model, name, method, same[0]["epsilon"]))
            nats.append((mean[1], model, name, method, same[0]["epsilon"]))
            cells.append(
                [
                    100 * statistics.mean(row["default"][3] for row in done),
                    mean[0],
                    statistics.mean(row["default"][2] for row in done),
                    mean[1],
                ]
            )
        accuracy, lost_points, loss, lost_nats = zip(*cells, strict=True)
        done = [row for row in group if "default" in row]
        constant, reference = (
            statistics.mean(row["constant"] for row in done),
            statistics.mean(row["reference"][2] for row in done),
        )
        flag = "  WORSE THAN A CONSTANT" if any(each > constant for each in loss) else ""
        print(
            f"{model:9}{name:9}{method:13}"
            + "".join(f"{each:6.1f}" for each in accuracy)
            + "  "
            + "".join(f"{each:+6.1f}" for each in lost_points)
            + "  "
            + "".join(f"{each:6.3f}" for each in loss)
            + "  "
            + "".join(f"{each:+7.3f}" for each in lost_nats)
            + f"   {constant:.3f}     {reference:.3f}{flag}"
        )
    for what, found, target, worst in (
        ("points", points, 0.5, 2.0),
        ("nats", nats, 0.01, math.inf),
    ):
        middle = statistics.median(each[0] for each in found)
        print(
            f"regret in {what}: median {middle:+.3f} (target {target}), worst {max(found)[0]:+.3f}"
        )
        for miss in sorted((each for each in found if each[0] > worst), reverse=True):
            print(f"  above {worst:g}: {miss[0]:+.2f}  {' '.join(map(str, miss[1:]))}")


def show_fit(rows: Sequence[dict[str, Any]]) -> None:
    """For each table the constants that were best for the others, by validation loss."""
    rows = [row for row in rows if row.get("rule")]
    lost: list[tuple[float, float]] = []
    for name, own in _grouped(rows, lambda row: row["key"][1]):
        others = [row for row in rows if row["key"][1] != name]
        scores = [
            statistics.mean(
                min(row["rule"][n][0], row["constant"]) - row["default"][0] for row in others
            )
            for n in range(len(FIT))
        ]
        best = scores.index(min(scores))
        mine = [regret(row, row["rule"][best]) for row in own]
        lost += mine
        means = [statistics.mean(each) for each in zip(*mine, strict=True)]
        print(
            f"without {name:9} {FIT[best]}: regret there {means[0]:+.2f} points, {means[1]:+.4f} "
            "nats"
        )
    for number, each in enumerate(FIT):
        mean = statistics.mean(row["rule"][number][2] - row["default"][2] for row in rows)
        print(f"  {each}: test loss {mean:+.4f} nats beside the default, mean of all")
    medians = [statistics.median(each) for each in zip(*lost, strict=True)]
    print(f"left one out: median regret {medians[0]:+.2f} points, {medians[1]:+.4f} nats")


def check(given: argparse.Namespace) -> None:
    """Every method once at its defaults, beside a constant; the reference beside scikit-learn."""
    for model, name in itertools.product(given.models, given.tables):
        fields = {"model": model, "method": tuple(given.methods), "diagnostics": "off"}
        config, dataset = load(name, given.data, given.rows, **fields, seeds=given.seeds)
        inputs = share_inputs(dataset, config, by_pool=True)
        for epsilon in EPSILONS:
            try:
                plan = make_plan(config.model_copy(update={"epsilon": (epsilon,)}), dataset)
            except PrivacyError as error:
                print(f"{model:9}{name:9}epsilon {epsilon:g}: {error}")
                continue
            done: dict[str, Any] = {}
            for job in plan.jobs:
                done[job.id] = run_job(plan, job, done.get(job.source_id or ""), inputs)
            for arm in plan.arms:
                results = [done[job.id] for job in plan.jobs if job.arm == arm.key]
                print(
                    f"{model:9}{name:9}{epsilon:2g} {arm.key:22}{_beside(results, dataset)}",
                    flush=True,
                )


def _beside(results: Sequence[Any], dataset: Dataset) -> str:
    """Means over seeds: accuracy and loss, and what they are to be compared with."""
    read, flat, sticks = [], [], []
    for result in results:
        rows, probabilities = result.arrays["test_rows"], result.arrays["probabilities"]
        labels = torch.from_numpy(dataset.labels)
        read.append(_read(torch.from_numpy(probabilities), labels[rows])[0])
        rates = np.delete(dataset.labels, rows)
        shares = np.bincount(rates, minlength=len(dataset.classes)) / len(rates)
        flat.append(-np.log(shares)[dataset.labels[rows]].mean())
        sticks += (
            [result.facts["sklearn_baseline"]["accuracy"]]
            if "sklearn_baseline" in result.facts
            else []
        )
    loss, accuracy = (statistics.mean(each) for each in zip(*read, strict=True))
    constant = statistics.mean(flat)
    words = f"accuracy {100 * accuracy:5.1f} %  loss {loss:.3f}  constant {constant:.3f}"
    words += "  WORSE THAN A CONSTANT" if loss > constant else ""
    if sticks:
        stick = statistics.mean(sticks)
        verdict = "UNDERTRAINED" if stick - accuracy > UNDERTRAINED_BY else "passes"
        words += f"  scikit-learn {100 * stick:5.1f} %  {verdict}"
    return words


def _grouped(
    rows: Sequence[dict[str, Any]], key: Callable[[dict[str, Any]], Any]
) -> list[tuple[Any, list[dict[str, Any]]]]:
    """Rows of equal keys, in the order in which keys first come."""
    groups: dict[Any, list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return list(groups.items())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="the folder of the tables")
    parser.add_argument("--tables", nargs="+", default=list(TABLES), choices=[*TABLES, *IMAGES])
    parser.add_argument("--models", nargs="+", default=["logistic"])
    parser.add_argument("--methods", nargs="+", default=["dpsgd", "global-adapt"])
    parser.add_argument("--rows", type=int, default=10_000, help="most rows of a table")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--cache", type=Path, help="rows measured before, one JSON object a line")
    parser.add_argument("--fit", action="store_true", help="try other constants of the rules too")
    parser.add_argument(
        "--check", action="store_true", help="train the methods at their defaults and no more"
    )
    parser.add_argument("--quick", action="store_true", help="one seed, 3,000 rows")
    given = parser.parse_args()
    if given.quick:
        given.rows, given.seeds = 3_000, 1
    torch.set_num_threads(1)
    if given.check:
        check(given)
        return
    rows = list(measure(given))
    show(rows)
    if given.fit:
        show_fit(rows)


if __name__ == "__main__":
    main()
