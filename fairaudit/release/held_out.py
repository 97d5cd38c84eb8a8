"""The trained model on held-out rows, against what the audit lets expect of one training."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairaudit.data.dataset import Dataset, Int64
from fairaudit.report.model import Report
from fairaudit.results.estimates import Ends

LEVEL = 0.95  # of the interval that a released model is held against


@dataclass(frozen=True, slots=True)
class HeldOut:
    """One group's accuracy.

    Args:
        grouping, group: Whose; ("", "") is all rows.
        rows: Held out.
        accuracy: None without rows.
        expected: Prediction interval of one new training; None of a group without rows, of one seed
            and where a seed is a mean of several trainings. The intervals of all groups hold
            together for 95 % of new trainings.
    """

    grouping: str
    group: str
    rows: int
    accuracy: float | None
    expected: Ends | None

    @property
    def is_inside(self) -> bool | None:
        """Whether the accuracy is as expected; None where that cannot be said."""
        if self.accuracy is None or self.expected is None:
            return None
        return self.expected.low <= self.accuracy <= self.expected.high


def prediction_interval(
    values: Sequence[float], *, among: int = 1, least_sd: float = 0.0
) -> Ends | None:
    """Where one more fraction lies with 95 % probability, seeds being independent and about normal.

    ``mean +- t_{S-1} s sqrt(1 + 1/S)``: of one training, not of the mean of many.

    Args:
        values: One for each seed.
        among: How many such intervals share the 5 %.
        least_sd: Taken for s where that is smaller.
    """
    seeds = len(values)
    if seeds < 2:
        return None
    from scipy.stats import t

    centre = float(np.mean(values))
    deviation = max(float(np.std(values, ddof=1)), least_sd)
    quantile = float(t.isf((1 - LEVEL) / (2 * among), seeds - 1))
    reach = quantile * deviation * math.sqrt(1 + 1 / seeds)
    return Ends(max(0.0, centre - reach), min(1.0, centre + reach))


def held_out(
    report: Report,
    arm: str,
    dataset: Dataset,
    rows: Int64,
    probabilities: NDArray[np.float32],
) -> list[HeldOut]:
    """Accuracy by group on some rows, beside what the audit's seeds let expect of one training.

    Args:
        report: Of the audit.
        arm: Key of the arm in it.
        dataset: The data.
        rows: Of the data, [n].
        probabilities: On them, [n, Y].
    """
    correct = probabilities.argmax(1) == dataset.labels[rows]
    repeats = next(facts.repeats for facts in report.arms if facts.key == arm)
    # A seed's accuracy is then a mean over several trainings, which spreads less than one.
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
                # Other rows than any seed's: at least the spread of so many rows' mean.
                if dataset.split is None:
                    share = float(np.mean(seeds))
                    least = max(least, math.sqrt(share * (1.0 - share) / len(right)))
                expected = prediction_interval(seeds, among=among, least_sd=least)
            checks.append(
                HeldOut(
                    grouping.name,
                    name,
                    len(right),
                    accuracy,
                    expected,
                )
            )
    return checks


def accuracies(
    report: Report,
    grouping: str,
    group: str,
) -> dict[str, tuple[float, ...]]:
    """Arm -> a group's accuracy at each seed, the references' too; seeds without one left out."""
    by_group: dict[str, tuple[float, ...]] = {}
    for comparison in report.comparisons:
        for measure in comparison.by_group if comparison.grouping == grouping else ():
            for key, name in (
                (comparison.arm, "accuracy"),
                (comparison.reference, "reference.accuracy"),
            ):
                estimate = measure.estimates.get(name)
                if measure.group == group and key and estimate is not None:
                    by_group[key] = tuple(value for value in estimate.by_seed if value is not None)
    return by_group


def pooled_sd(by_arm: Iterable[Sequence[float]]) -> float:
    """The standard deviation over seeds, of all arms together; 0 where none has two seeds."""
    variances = [np.var(seeds, ddof=1) for seeds in by_arm if len(seeds) > 1]
    if variances:
        return math.sqrt(float(np.mean(variances)))
    return 0.0
