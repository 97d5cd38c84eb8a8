"""The released model's accuracy on held-out rows, beside what the audit's seeds let expect of it.

The audit has an accuracy at each of its seeds; one more training like these lies in a prediction
interval. A model outside of it is not like those that were audited.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairaudit.data.dataset import Dataset, Int64
from fairaudit.metrics.quantiles import quantiles
from fairaudit.report.model import Report
from fairaudit.results.estimates import Ends

LEVEL = 0.95  # the probability with which one new training lies in all groups' intervals


@dataclass(frozen=True, slots=True)
class HeldOut:
    """The released model's accuracy on one group's held-out rows.

    Args:
        grouping, group: Which group.
        rows: How many rows of it were held out.
        accuracy: Share of them that is predicted correctly; None without rows.
        expected: Prediction interval of one new training; None where the group has no rows, the
            audit had one seed, or a seed's figure is a mean of several trainings. The intervals of
            all groups hold together for 95 % of new trainings.
    """

    grouping: str
    group: str
    rows: int
    accuracy: float | None
    expected: Ends | None

    @property
    def is_inside(self) -> bool | None:
        """Whether the accuracy lies in the expected interval; None where one of them is missing."""
        if self.accuracy is None or self.expected is None:
            return None
        return self.expected.low <= self.accuracy <= self.expected.high


def prediction_interval(
    values: Sequence[float], *, among: int = 1, least_sd: float = 0.0
) -> Ends | None:
    """Where the accuracy of one more training lies with 95 % probability, by those of S seeds.

    The ends are ``mean +- t_{S-1} s sqrt(1 + 1/S)``, s their standard deviation, cut to 0..1: the
    interval of one training, not of the mean of many, for seeds that are independent and about
    normal. None for fewer than two seeds.

    Args:
        values: The accuracy at each seed.
        among: How many such intervals share the 5 %.
        least_sd: Taken for s where s is smaller.
    """
    seeds = len(values)
    if seeds < 2:
        return None
    centre = float(np.mean(values))
    deviation = max(float(np.std(values, ddof=1)), least_sd)
    # Two sides of each of ``among`` intervals (Bonferroni).
    quantile = quantiles(1 - (1 - LEVEL) / (2 * among), seeds - 1)[0]
    reach = quantile * deviation * math.sqrt(1 + 1 / seeds)
    return Ends(max(0.0, centre - reach), min(1.0, centre + reach))


def held_out(
    report: Report, arm: str, dataset: Dataset, rows: Int64, probabilities: NDArray[np.float32]
) -> list[HeldOut]:
    """The model's accuracy in each group of each grouping, beside what the audit lets expect of it.

    Args:
        report: Of the audit.
        arm: Key of the model's arm in it.
        dataset: The data.
        rows: The held-out rows, as places in the data, [n].
        probabilities: What the model predicts of them, [n, Y].
    """
    correct = probabilities.argmax(1) == dataset.labels[rows]
    repeats = next(facts.repeats for facts in report.arms if facts.key == arm)
    # Whether a seed's accuracy is a mean over several trainings, which spreads less than one: over
    # repeats, or over the candidates of a search.
    is_mean = repeats > 1 or ("tune" in report.config and bool(report.config["tune"].value))
    among = sum(len(grouping.names) for grouping in dataset.groupings)
    checks = []
    for grouping in dataset.groupings:
        groups = grouping.groups[rows]
        for number, name in enumerate(grouping.names):
            right = correct[groups == number]
            accuracy, expected = None, None
            by_arm = accuracies(report, grouping.name, name)
            seeds = by_arm.get(arm, ())
            if len(right):
                accuracy = float(right.mean())
            if len(right) and len(seeds) > 1 and not is_mean:
                least = pooled_sd(by_arm.values())
                # Where no split is given, the held-out rows are other rows than any seed's test
                # rows, so s is at least the standard error of a share over so many rows.
                if dataset.split is None:
                    share = float(np.mean(seeds))
                    least = max(least, math.sqrt(share * (1.0 - share) / len(right)))
                expected = prediction_interval(seeds, among=among, least_sd=least)
            checks.append(HeldOut(grouping.name, name, len(right), accuracy, expected))
    return checks


def accuracies(report: Report, grouping: str, group: str) -> dict[str, tuple[float, ...]]:
    """Key of each arm, references too -> the group's accuracy at each seed where it has one."""
    by_arm: dict[str, tuple[float, ...]] = {}
    for comparison in report.comparisons:
        if comparison.grouping != grouping:
            continue
        metrics = {"accuracy": comparison.arm, "reference.accuracy": comparison.reference}
        for measure in comparison.by_group:
            if measure.group != group:
                continue
            for metric, key in metrics.items():
                estimate = measure.estimates.get(metric)
                if key and estimate is not None:  # "": there is no reference
                    by_arm[key] = tuple(value for value in estimate.by_seed if value is not None)
    return by_arm


def pooled_sd(by_arm: Iterable[Sequence[float]]) -> float:
    """The standard deviation over seeds by the mean variance of all arms; 0 where none has two.

    A few seeds of one arm may lie close together by chance: no arm is taken to spread less.
    """
    variances = [np.var(seeds, ddof=1) for seeds in by_arm if len(seeds) > 1]
    if variances:
        return math.sqrt(float(np.mean(variances)))
    return 0.0
