"""How often a report asserts a difference that is none, and how its 5 % are best dealt.

    python benchmarks/family.py flips [--audits 200]
    python benchmarks/family.py deals [--audits 300]
    python benchmarks/family.py words [--audits 100]
    python benchmarks/family.py whole [--audits 200]
    python benchmarks/family.py planted [--audits 40]

Models are trained as in ``benchmarks/trainings.py``; each audit has its own file. ``flips``: two
private arms, groups drawn by coin flips, of two or three levels; how often `family` tells of any
difference (a gap in a cost, a lost class, a changed gap), each arm counted. Then again, each
arm beside a second training of its own in place of the reference: there nobody loses anything
either, and a cost over all rows counts, too; how often one would be told by its own interval
stands beside.
``deals``: two groups of different laws in which privacy truly costs them differently; the four
costs of one arm are judged together. How often all four intervals hold what is true of the
file, how wide they are beside Bonferroni's, and how many of the four are told from zero: with
the 5 % divided among the four (``bonferroni``), or with the largest of four studentised
contrasts held against its own distribution, whose correlations are estimated from the audit's
seeds (``max-t``) or known (``oracle``). ``words``: three private arms that truly differ, by the
same groups; how often the sign of every gap in the four costs that is detected is true of the
file. ``whole``:
`run_audit` on tables of 600 rows whose two or three groups coins decided, ``dpsgd`` and
``global-adapt``, with the defaults, a bound of 1, and full diagnostics in turn: how many
reports assert a difference, and how many have disjoint intervals of two groups. ``planted``:
`run_audit` on tables of 6,000 rows, of which 8 % are a team whose outcome falls with what
everybody else's rises with, at a bound of 1 and else the defaults: in how many the gap of that
team is named, for each method, and how large it is in nats of loss.
"""

import argparse
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats
from trainings import SPLITS, TESTED, World, predictions, train, truths, worlds

import fairaudit
from fairaudit.analysis.disclosure import Disclosure
from fairaudit.analysis.family import reported
from fairaudit.data.dataset import Grouping
from fairaudit.metrics.compare import SEVERAL_SPLITS, Evaluation, compare
from fairaudit.metrics.within_model import LabelOutcome
from fairaudit.results.estimates import Comparison, Gap, Measured

Array = NDArray[np.float64]
COSTS = {"privacy_cost": 1, "excess_risk": 1, "tpr_cost": -1, "selection_cost": -1}
TRUE_OF = {"tpr_cost": "change.tpr", "selection_cost": "change.selection_rate"}
DIFFERENCES = {
    "gap",
    "gap_gained",
    "rate_gap",
    "rate_gap_risen",
    "gap_opposed",
    "rate_gap_opposed",
    "one_answer",
    "class_lost",
}
METHODS = ("dpsgd", "global-adapt")
PLANTED = "Thorn"
DRAWS = 4000
MORE = 60  # splits that tell the truth of a file


class Audit:
    """A file, its splits, and models trained on them.

    Args:
        world: Where people come from, and how models are trained.
        groups: Of the world's people, ``[M]``.
        rng: Draws all of it.
        splits: How many.
    """

    def __init__(self, world: World, groups: NDArray[np.int64], rng, splits: int) -> None:
        drawn = rng.integers(0, len(world.x), world.rows)
        self.x, self.y, self.rng = world.x[drawn], world.y[drawn], rng
        self.groups = groups[drawn]
        ranks = rng.random((world.rows, 1 if world.given else splits))
        tested = ranks <= np.quantile(ranks, TESTED, axis=0)
        self.tested = np.broadcast_to(tested, (world.rows, splits))

    def models(self, world: World):
        """The arms of one setting."""
        return train(world, self.x, self.y.astype(np.float32), ~self.tested, self.rng)

    def compared(self, name: str, private: Array, reference: Array, seeds: int) -> Measured:
        """What the report's code measures of an arm."""
        names = ("F", "M", "X")[: int(self.groups.max()) + 1]
        grouping = Grouping("group", self.groups, names)
        evaluation = Evaluation(self.y, grouping, LabelOutcome(2, 1), SEVERAL_SPLITS)
        arms = []
        for weights in (private, reference):
            arms.append(predictions(self.x, weights[:, :seeds], self.tested, len(names)))
        return compare(evaluation, name, "sgd", *arms)


def flips(audits: int, seeds: int, *, given: bool, alike: bool) -> tuple[int, int]:
    """Methods of which an audit asserts what is not so, of groups drawn by coin flips.

    And audits of which a cost over all rows would be told by its own interval; of 0 where it is
    true, for the arms are not ``alike``.
    """
    telling = by_itself = 0
    for number in range(audits):
        rng = np.random.default_rng([11, seeds, given, number])
        world = replace(worlds(number % 4), given=given)
        levels = 3 if number % 4 == 3 else 2
        audit = Audit(world, rng.integers(0, levels, len(world.x)), rng, seeds)
        reference = audit.models(world).reference
        measured = []
        for name, arm in (("dpsgd", world), ("other", replace(world, clip=0.3))):
            private = audit.models(arm).private
            beside = audit.models(arm).private if alike else reference
            measured.append(audit.compared(name, private, beside, seeds))
        found = reported(measured, Disclosure())
        told = {changed.arm for changed in found.changed}
        for comparison in found.comparisons:
            is_told = any(gap.reading == "detected" for gap in costs_of(comparison))
            is_told |= any(share.is_lost for share in comparison.doubtful)
            if is_told or (alike and comparison.paid):
                told.add(comparison.arm)
        telling += len(told)
        lows = [one.overall.estimates[cost].low for one in measured for cost in COSTS]
        by_itself += alike and any(low > 0 for low in lows)
    return telling, by_itself


def costs_of(comparison: Comparison) -> Iterator[Gap]:
    """The gaps of pairs in the primary measures."""
    for gap in comparison.gaps:
        if gap.kind == "pair" and gap.metric in COSTS:
            yield gap


def four(world: World, audits: int, seed: int) -> Iterator[tuple[Array, Array, Array]]:
    """Of each audit the four contrasts by seed ``[S, 4]``, V_shared ``[4]`` and the truth."""
    for number in range(audits):
        rng = np.random.default_rng([12, seed, number])
        audit = Audit(world, world.groups, rng, SPLITS + MORE)
        models = audit.models(world)
        true = truths(world, type(models)(*(weights[:, SPLITS:] for weights in models)))
        measured = audit.compared("dpsgd", models.private, models.reference, SPLITS)
        gaps = {gap.metric: gap.signed for gap in measured.gaps if gap.kind == "pair"}
        for_five = audit.compared("dpsgd", models.private, models.reference, 5)
        shared = {gap.metric: gap.signed for gap in for_five.gaps if gap.kind == "pair"}
        truth = []
        for cost, sign in COSTS.items():
            low, high = true[TRUE_OF.get(cost, cost)]
            truth.append(sign * (low - high))
        by_seed = np.array([gaps[cost].by_seed for cost in COSTS]).T
        records = np.array([[of[cost].records_sd ** 2 for cost in COSTS] for of in (shared, gaps)])
        yield by_seed, records, np.array(truth)


def words(world: World, audits: int, seeds: int, seed: int) -> tuple[int, int, int]:
    """Arms, three an audit, of which a word is wrong; gaps said to be detected; gaps judged."""
    wrong, detected, judged = 0, 0, 0
    settings = {"dpsgd": {}, "clipped": {"clip": 0.3}, "noisy": {"noise": 4.0}}
    for number in range(audits):
        rng = np.random.default_rng([13, seeds, seed, number])
        audit = Audit(world, world.groups, rng, seeds + MORE)
        measured, truth = [], {}
        for name, changes in settings.items():
            setting = replace(world, **changes)
            models = audit.models(setting)
            later = type(models)(*(weights[:, seeds:] for weights in models))
            truth[name] = truths(setting, later)
            compared = audit.compared(name, models.private, models.reference, seeds)
            measured.append(compared)
        for comparison in reported(measured, Disclosure()).comparisons:
            mistakes = 0
            for gap in costs_of(comparison):
                if gap.reading == "cannot tell":
                    continue
                first, second = truth[comparison.arm][TRUE_OF.get(gap.metric, gap.metric)]
                true = COSTS[gap.metric] * (first - second)
                judged += 1
                if gap.reading == "detected":
                    detected += 1
                    mistakes += true * gap.signed.value <= 0
            wrong += mistakes > 0
    return wrong, detected, judged


def coin_table(number: int) -> pd.DataFrame:
    """600 rows whose outcome has nothing to do with their team; of odd numbers three teams."""
    rng = np.random.default_rng([77, number])
    x = rng.normal(size=(600, 4))
    chance = 1 / (1 + np.exp(-(1.5 * x[:, 0] + x[:, 1] - 0.5 * x[:, 0] * x[:, 2])))
    table = pd.DataFrame(x, columns=["age", "hours", "debt", "tenure"])
    table["paid"] = np.where(rng.random(len(table)) < chance, "yes", "no")
    teams = ("Quill", "Ember", "Thorn")[: 2 + number % 2]
    table["team"] = np.array(teams)[rng.integers(0, len(teams), len(table))]
    return table


def is_telling(report: fairaudit.Report) -> bool:
    """Whether a report says of any two groups that they differ, or of one that it lost a class."""
    codes = {finding.code for finding in report.findings}
    return bool(codes & DIFFERENCES or report.changed)


def has_disjoint(report: fairaudit.Report) -> bool:
    """Whether the intervals of two groups in one cost are disjoint."""
    for comparison in report.costs:
        for cost in COSTS:
            costs = [group.estimates[cost] for group in comparison.by_group]
            known = [estimate for estimate in costs if estimate.low is not None]
            if known and max(e.low for e in known) > min(e.high for e in known):
                return True
    return False


def audited(table: pd.DataFrame, **options: Any) -> fairaudit.Report:
    """The report on a table of teams, by two methods with five seeds."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "teams.parquet"
        table.to_parquet(path)
        return fairaudit.run_audit(
            data=path,
            group=("team",),
            label="paid",
            positive="yes",
            method=METHODS,
            seeds=5,
            workers=1,
            format=("json",),
            out=Path(folder) / "report",
            **options,
        )


def whole(audits: int) -> tuple[int, int]:
    """Reports that assert a difference; reports with disjoint intervals."""
    settings: tuple[dict[str, Any], ...] = ({}, {"max_grad_norm": 1.0}, {"diagnostics": "full"})
    telling, disjoint = 0, 0
    for number in range(audits):
        report = audited(coin_table(number), **settings[number // 2 % len(settings)])
        telling += is_telling(report)
        disjoint += has_disjoint(report)
    return telling, disjoint


def planted_table(number: int, slope: float) -> pd.DataFrame:
    """6,000 rows; the outcome of 8 % of them falls with age as steeply as ``slope`` says."""
    rng = np.random.default_rng([78, number])
    x = rng.normal(size=(6000, 3))
    team = rng.choice(["Quill", "Ember", PLANTED], len(x), p=[0.5, 0.42, 0.08])
    score = np.where(team == PLANTED, -slope, 2.0) * x[:, 0] + 0.5 * x[:, 1]
    table = pd.DataFrame(x, columns=["age", "hours", "debt"])
    table["paid"] = np.where(rng.random(len(x)) < 1 / (1 + np.exp(-score)), "yes", "no")
    table["team"] = team
    return table


def planted(audits: int, slope: float) -> Iterator[str]:
    """One line for each method: how often the planted gap and any other are named."""
    named, others = Counter[str](), Counter[str]()
    sizes: dict[str, list[float]] = {method: [] for method in METHODS}
    for number in range(audits):
        report = audited(planted_table(number, slope), max_grad_norm=1.0)
        gaps = [finding for finding in report.findings if finding.code in ("gap", "rate_gap")]
        named.update({gap.arm for gap in gaps if PLANTED in gap.groups})
        others.update({gap.arm for gap in gaps if PLANTED not in gap.groups})
        for comparison in report.costs:
            loss = {of.group: of.estimates["excess_risk"].value for of in comparison.by_group}
            sizes[comparison.arm].append(loss[PLANTED] - loss["Quill"])
    for method in METHODS:
        low, middle, high = np.quantile(sizes[method], [0.1, 0.5, 0.9])
        yield (
            f"slope {slope:g}, {method}: named in {named[method]} of {audits},"
            f" another gap in {others[method]}; {middle:.2f} nats ({low:.2f} to {high:.2f})"
        )


@lru_cache(maxsize=2)
def _normals(measures: int, seeds: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    draws = rng.standard_normal((DRAWS, measures))
    return draws, np.sqrt(rng.chisquare(seeds - 1, DRAWS) / (seeds - 1))


def level_of_largest(correlation: Array, seeds: int) -> float:
    """The level at which each of several t is read so that in 95 % none lies beyond."""
    draws, scale = _normals(len(correlation), seeds)
    values, vectors = np.linalg.eigh(correlation)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    largest = np.abs(draws @ root.T).max(1) / scale
    return float(stats.t.cdf(np.quantile(largest, 0.95), seeds - 1))


def deals(world: World, audits: int, seed: int) -> Iterator[str]:
    """One line for each number of seeds and each way of dealing."""
    every = list(four(world, audits, seed))
    for at, seeds in enumerate((5, SPLITS)):
        known = np.mean([np.corrcoef(by_seed[:seeds].T) for by_seed, _, _ in every], axis=0)
        levels = {"bonferroni": 1 - 0.025 / len(COSTS), "oracle": level_of_largest(known, seeds)}
        rows: dict[str, list] = {"bonferroni": [], "max-t": [], "oracle": []}
        for by_seed, records, truth in every:
            y = by_seed[:seeds]
            mean, variance = y.mean(0), y.var(0, ddof=1) / seeds
            own = level_of_largest(np.corrcoef(y.T), seeds)
            for name in rows:
                level = levels.get(name, own)
                t, z = stats.t.ppf(level, seeds - 1), stats.norm.ppf(level)
                half = np.sqrt(t**2 * variance + z**2 * records[at])
                rows[name].append(
                    (np.all(np.abs(mean - truth) <= half), half, (np.abs(mean) > half).sum())
                )
        base = np.mean([half for _, half, _ in rows["bonferroni"]], axis=0)
        for name, found in rows.items():
            held, half, told = zip(*found, strict=True)
            width = np.mean(np.mean(half, axis=0) / base)
            yield f"{seeds:3d} {name:12s} {np.mean(held):7.3f} {width:7.2f} {np.mean(told):7.2f}"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["flips", "deals", "words", "whole", "planted"])
    parser.add_argument("--audits", type=int, default=200)
    options = parser.parse_args()
    if options.what == "flips":
        for alike, given, seeds in product((False, True), (False, True), (5, 10)):
            telling, alone = flips(options.audits, seeds, given=given, alike=alike)
            arms = "beside itself" if alike else "beside sgd"
            split = "given split" if given else "a split per seed"
            told = f"{telling} of {2 * options.audits} assert, a cost by its own interval {alone}"
            print(f"{arms}, {split}, {seeds} seeds: {told}", flush=True)
        return
    if options.what == "whole":
        telling, disjoint = whole(options.audits)
        print(
            f"{telling} of {options.audits} assert a difference; {disjoint} have disjoint intervals"
        )
        return
    if options.what == "planted":
        for slope in (1.0, 0.0):
            for line in planted(options.audits, slope):
                print(line, flush=True)
        return
    if options.what == "words":
        for number in range(4):
            for given in (False, True):
                world = replace(worlds(number), given=given)
                split = "given" if given else "own"
                for seeds in (5, 10):
                    wrong, detected, judged = words(world, options.audits, seeds, number)
                    print(
                        f"world {number}, {split} split, {seeds} seeds: {wrong} of"
                        f" {3 * options.audits} say something wrong; {detected} of {judged} gaps"
                        " detected",
                        flush=True,
                    )
        return
    print("                 seeds              all hold   width    told")
    for number in range(4):
        for given in (False, True):
            split = "given" if given else "own"
            for line in deals(replace(worlds(number), given=given), options.audits, number):
                print(f"world {number}, {split:5s} split {line}", flush=True)


if __name__ == "__main__":
    main()
