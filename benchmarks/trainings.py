"""How often intervals of real trainings hold: for models of this file, and for those of a new one.

    python benchmarks/trainings.py worlds [--files 400]
    python benchmarks/trainings.py adult --data adult.parquet [--files 200]

Files are drawn from a population that is known. Every model is a logistic regression, trained by
Poisson batches at many splits of a file at once: R without privacy, S with A's step, T with clipped
gradients, A with noise, too. What is true of a file is the mean over many more splits (or, for a
given split, over more trainings) of models judged on the whole population. The audit's own code
makes the intervals of the gap between two groups, of each group and of the parts of a cost.

``file``: share of 95 % intervals that hold what is true of models trained on rows of the file.
``new``: share that hold the mean over files, which a model of a new file has. ``wider``: how many
times wider intervals would have to be to hold that in 95 %. ``passes``: share of tests of
``fairaudit choose``, each at 1.25 %, that pass a rule whose limit is the truth of the file.
``A/A``: a second private arm stands in for the reference, so that every truth is 0.
``split``: ``file`` among the files at which ``--twins auto`` splits the cost: one over all rows or
a gap is told from zero. ``files split``: share of files.
"""

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairaudit.choosing.sequence import Number
from fairaudit.metrics.intervals import EvaluatedRecords, Spread, contrast
from fairaudit.metrics.tables import both_tables, costs_between, evaluated
from fairaudit.metrics.within_model import ArmPredictions, LabelOutcome

Array = NDArray[np.float32]
TESTED, STEPS, RATE = 0.3, 30, 0.2
OUTCOME = LabelOutcome(2, 1)
LEVEL = 0.0125  # of a test: two methods, two looks
SPLITS = 10  # of the largest audit; one of five takes the first
METRICS = (
    "privacy_cost",
    "excess_risk",
    "privacy_cost.step",
    "privacy_cost.clipping",
    "privacy_cost.noise",
    "excess_risk.step",
    "excess_risk.clipping",
    "excess_risk.noise",
    "accuracy",
    "tpr",
    "selection_rate",
    "change.tpr",
    "change.selection_rate",
)


@dataclass(frozen=True)
class World:
    """What is true, and how models are trained.

    Args:
        x, y, groups: The population, ``[M, d]``, ``[M]``, ``[M]``.
        rows: Of a file, drawn with replacement.
        clip, noise: Of the private arm.
        step: Of the reference.
        shorter: The private arm's step over it.
        given: One split of the file, the same at every seed.
    """

    x: Array
    y: NDArray[np.int64]
    groups: NDArray[np.int64]
    rows: int = 1000
    clip: float = 1.0
    noise: float = 2.0
    step: float = 2.0
    shorter: float = 1.0
    given: bool = False


class Trained(NamedTuple):
    """Weights ``[d, splits]`` of the four models at each split."""

    reference: Array
    stepping: Array
    quiet: Array
    private: Array


def train(world: World, x: Array, y: Array, masks: NDArray[np.bool_], rng) -> Trained:
    """All models of a file; those of one split share batches and, being convex, a start at 0.

    Args:
        world: How.
        x, y: The file, ``[n, d]``, ``[n]``.
        masks: Its training rows, ``[n, splits]``.
        rng: Draws batches and noise.
    """
    d, splits = x.shape[1], masks.shape[1]
    expected = RATE * (1 - TESTED) * len(x)
    norms = np.sqrt((x**2).sum(1))[:, None]
    models = [np.zeros((d, splits), np.float32) for _ in Trained._fields]
    for _ in range(STEPS):
        batch = masks & (rng.random(masks.shape, dtype=np.float32) < RATE)
        for which, weights in enumerate(models):
            slope = (1 / (1 + np.exp(-(x @ weights))) - y[:, None]) * batch
            if which > 1:
                slope *= np.minimum(1, world.clip / np.maximum(np.abs(slope) * norms, 1e-12))
            total = x.T @ slope.astype(np.float32)
            if which == 3:
                noise = rng.standard_normal(total.shape, dtype=np.float32)
                total += world.noise * world.clip * noise
            step = world.step if which == 0 else world.step * world.shorter
            weights -= (step / expected) * total
    return Trained(*models)


def population_values(world: World, weights: Array) -> dict[str, NDArray[np.float64]]:
    """Accuracy, loss, TPR and selection by group on the whole population, ``[K, splits]``."""
    logits = world.x @ weights
    chosen = logits > 0
    positive = world.y[:, None] == 1
    loss = np.logaddexp(0, np.where(positive, -logits, logits))
    found: dict[str, list] = {"accuracy": [], "loss": [], "tpr": [], "selection_rate": []}
    for k in range(2):
        own = world.groups == k
        found["accuracy"].append((chosen[own] == positive[own]).mean(0))
        found["loss"].append(loss[own].mean(0))
        found["tpr"].append(chosen[own & (world.y == 1)].mean(0))
        found["selection_rate"].append(chosen[own].mean(0))
    return {name: np.array(values) for name, values in found.items()}


def truths(world: World, models: Trained) -> dict[str, NDArray[np.float64]]:
    """Every metric by group, in the mean over splits, ``[K]``."""
    of = {name: population_values(world, getattr(models, name)) for name in Trained._fields}
    mean = {arm: {name: v.mean(1) for name, v in values.items()} for arm, values in of.items()}
    lost = {"privacy_cost": ("accuracy", -1), "excess_risk": ("loss", 1)}
    found = {}
    for cost, (metric, sign) in lost.items():
        value = {arm: sign * values[metric] for arm, values in mean.items()}
        found[cost] = value["private"] - value["reference"]
        found[f"{cost}.step"] = value["stepping"] - value["reference"]
        found[f"{cost}.clipping"] = value["quiet"] - value["stepping"]
        found[f"{cost}.noise"] = value["private"] - value["quiet"]
    for metric in ("accuracy", "tpr", "selection_rate"):
        found[metric] = mean["private"][metric]
        found[f"change.{metric}"] = mean["private"][metric] - mean["reference"][metric]
    return found


def predictions(
    x: Array, weights: Array, tested: NDArray[np.bool_], groups: int = 2
) -> list[ArmPredictions]:
    """As an audit has them: of each split its test rows."""
    none = np.zeros(groups, np.int64)
    found = []
    for seed in range(weights.shape[1]):
        rows = np.flatnonzero(tested[:, seed])
        upper = 1 / (1 + np.exp(-(x[rows] @ weights[:, seed])))
        both = np.stack([1 - upper, upper], axis=1).astype(np.float32)
        found.append(ArmPredictions(seed, rows, both[None], none))
    return found


def tables_of(x: Array, y, groups, models: Trained, tested, seeds: int) -> dict:
    """What an audit of these models makes of them, as ``compare`` does."""
    arms = [predictions(x, weights[:, :seeds], tested[:, :seeds]) for weights in models]
    records = EvaluatedRecords.of([p.rows for p in arms[0]], groups, 2)
    before, stepping, quiet, after = (evaluated(arm, y, records, OUTCOME) for arm in arms)
    own, _, changed = both_tables(after, before, records, OUTCOME)
    return {
        **costs_between(after, before, records, OUTCOME),
        **own,
        **changed,
        **costs_between(stepping, before, records, OUTCOME, "step"),
        **costs_between(quiet, stepping, records, OUTCOME, "clipping"),
        **costs_between(after, quiet, records, OUTCOME, "noise"),
    }


class Found(NamedTuple):
    """Of one interval: where it lies, how wide it is, what is true of the file.

    Whether a test of `choose` takes the truth for a limit that is kept, and whether a cost of the
    audit is detected.
    """

    value: float
    half: float
    truth: float
    passes: bool
    is_split: bool = False


def audits(world: World, files: int, more: int, seed: int) -> Iterator[dict[tuple, Found]]:
    """Of each file: (seeds, metric, "gap" or group) -> what its interval says."""
    for file in range(files):
        rng = np.random.default_rng([seed, file])
        drawn = rng.integers(0, len(world.x), world.rows)
        x, y, groups = world.x[drawn], world.y[drawn], world.groups[drawn]
        many = SPLITS + more
        ranks = rng.random((world.rows, 1 if world.given else many))
        tested = ranks <= np.quantile(ranks, TESTED, axis=0)
        tested = np.broadcast_to(tested, (world.rows, many))
        models = train(world, x, y.astype(np.float32), ~tested, rng)
        held = Trained(*(weights[:, SPLITS:] for weights in models))
        true = truths(world, held)
        twice = Trained(*(weights[:, :SPLITS] for weights in models))
        again = train(world, x, y.astype(np.float32), ~tested[:, :SPLITS], rng).private
        alike = twice._replace(reference=again, stepping=again, quiet=again)
        found = {}
        for seeds in (5, SPLITS):
            tables = tables_of(x, y, groups, twice, tested, seeds)
            is_split = _detects(tables)
            for metric in METRICS:
                low, high = true[metric]
                gap = _found(contrast(tables[metric], 0, 1), low - high)
                group = _found(contrast(tables[metric], 1), high)
                found[seeds, metric, "gap"] = gap._replace(is_split=is_split)
                found[seeds, metric, "group"] = group._replace(is_split=is_split)
            equal = tables_of(x, y, groups, alike, tested, seeds)
            for metric in ("privacy_cost", "excess_risk", "change.tpr", "change.selection_rate"):
                found[seeds, metric, "A/A"] = _found(contrast(equal[metric], 0, 1), 0.0)
        yield found


def _detects(tables: dict) -> bool:
    """Whether the cost over all rows is told to be above zero, or a gap from zero."""
    for cost in ("privacy_cost", "excess_risk"):
        whole, gap = contrast(tables[cost], 2), contrast(tables[cost], 0, 1)
        if whole.value > whole.half_width() or abs(gap.value) > gap.half_width():
            return True
    return False


def _found(spread: Spread, truth: float) -> Found:
    side = 1.0 if truth >= 0 else -1.0
    number = Number(
        side * spread.value,
        spread.seed_variance,
        spread.own_variance,
        spread.record_variance,
        len(spread.by_seed),
        is_size=False,
    )
    passes = number.limits(LEVEL).high <= abs(truth)
    return Found(spread.value, spread.half_width(), float(truth), passes)


def tell(name: str, world: World, files: int, more: int, seed: int) -> None:
    """One line for each number of seeds, metric and kind of interval."""
    began = time.process_time()
    every = list(audits(world, files, more, seed))
    for key in every[0]:
        value, half, truth, passes, split = np.array([found[key] for found in every]).T
        kept = np.isfinite(half)
        value, half, truth, split = value[kept], half[kept], truth[kept], split[kept] > 0
        holds = np.abs(value - truth) <= half
        of_file = holds.mean()
        of_split = holds[split].mean() if split.any() else np.nan
        away = np.abs(value - truth.mean()) / half
        seeds, metric, kind = key
        print(
            f"{name:34s} {seeds:3d} {metric:24s} {kind:6s} {of_file:7.3f} "
            f"{np.mean(away <= 1):7.3f} {np.quantile(away, 0.95):7.2f} {half.mean():9.4f} "
            f"{passes[kept].mean():7.3f} {of_split:7.3f} {split.mean():7.3f}",
            flush=True,
        )
    print(f"{name}: {len(every)} files, {time.process_time() - began:.0f} s", flush=True)


def worlds(number: int) -> World:
    """Two groups of different laws, the second 30 %: weights apart by sd .6 a coordinate."""
    rng = np.random.default_rng([5, number])
    people = 20_000
    groups = (rng.random(people) < 0.3).astype(np.int64)
    x = rng.standard_normal((people, 5))
    common = rng.standard_normal(5)
    weights = common + 0.6 * rng.standard_normal((2, 5))
    chance = 1 / (1 + np.exp(-(x * weights[groups]).sum(1)))
    y = (rng.random(people) < chance).astype(np.int64)
    inputs = np.concatenate([x, np.ones((people, 1))], axis=1).astype(np.float32)
    return World(inputs, y, groups)


def adult(path: Path) -> World:
    """Adult's rows, groups by sex; columns of numbers and the common levels of the others."""
    import pandas as pd

    frame = pd.read_parquet(path).sample(20_000, random_state=0)
    columns = []
    for name in frame.columns.drop("income"):
        column = frame[name]
        if pd.api.types.is_numeric_dtype(column):
            columns.append(((column - column.mean()) / column.std()).clip(-3, 3).to_numpy(float))
        else:
            levels = column.value_counts().index[:4]
            columns.extend((column == level).to_numpy(float) for level in levels)
    x = np.stack([*columns, np.ones(len(frame))], axis=1).astype(np.float32)
    y = frame["income"].astype(str).str.contains(">").to_numpy().astype(np.int64)
    groups = (frame["sex"].astype(str).str.strip() == "Female").to_numpy().astype(np.int64)
    return World(x, y, groups, step=1.0)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["worlds", "adult"])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--files", type=int, default=400)
    parser.add_argument("--more", type=int, default=100, help="splits that tell the truth")
    parser.add_argument("--cells", default="", help="cells whose name has this in it")
    options = parser.parse_args()
    if options.what == "worlds":
        cells = {
            f"world {n}, {w}": replace(worlds(n), given=w == "given split")
            for w in ("a split per seed", "given split")
            for n in range(4)
        }
        for n, shorter in ((0, 0.3), (1, 0.3), (2, 0.8), (3, 0.8)):
            name = f"world {n}, {shorter:g} of the step"
            cells[name] = replace(worlds(n), shorter=shorter, noise=1.0)
    else:
        base = adult(options.data)
        cells = {
            f"{rows:,} rows, C {clip:g}{', given split' * given}": replace(
                base, rows=rows, clip=clip, given=given
            )
            for rows, clip, given in (
                (1000, 1.0, False),
                (1000, 0.3, False),
                (1000, 0.1, False),
                (1000, 1.0, True),
                (3000, 1.0, False),
                (3000, 0.3, False),
                (3000, 0.1, False),
                (3000, 0.1, True),
            )
        }
    print(
        f"{'':34s} seeds {'':24s}        {'file':>7s} {'new':>7s} {'wider':>7s} "
        f"{'half':>9s} {'passes':>7s} {'split':>7s} {'files split':>11s}"
    )
    for number, (name, world) in enumerate(cells.items()):
        if options.cells in name:
            tell(name, world, options.files, options.more, number)


if __name__ == "__main__":
    main()
