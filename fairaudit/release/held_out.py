"""The trained model on rows that it did not see, against what the audit lets expect of one new training."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairaudit.data.dataset import Dataset, Int64
from fairaudit.report.model import Report
from fairaudit.results.estimates import Ends

LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class HeldOut:
    """One group's accuracy.

    Args:
        grouping, group: Whose; ("", "") is all rows.
        rows: Held out.
        accuracy: None without rows.
        expected: 95 % prediction interval of one new training, or None.
        reason: Why there is none, or "".
    """

    grouping: str
    group: str
    rows: int
    accuracy: float | None
    expected: Ends | None
    reason: str

    @property
    def is_inside(self) -> bool | None:
        """Whether the accuracy is as expected; None where that cannot be said."""
        if self.accuracy is None or self.expected is None:
            return None
        return self.expected.low <= self.accuracy <= self.expected.high


def prediction_interval(values: Sequence[float]) -> Ends | None:
    """Where one more draw lies with 95 % probability, seeds being independent and about normal.

    ``mean +- t_{S-1} s sqrt(1 + 1/S)``: of one training, not of the mean of many.
    """
    if len(values) < 2:
        return None
    from scipy.stats import t

    centre, deviation = float(np.mean(values)), float(np.std(values, ddof=1))
    reach = float(t.ppf((1 + LEVEL) / 2, len(values) - 1)) * deviation * math.sqrt(1 + 1 / len(values))
    return Ends(centre - reach, centre + reach)


def held_out(
    report: Report, arm: str, dataset: Dataset, rows: Int64, probabilities: NDArray[np.float32]
) -> list[HeldOut]:
    """Accuracy by group on some rows, beside what the audit's seeds let expect.

    Args:
        report: Of the audit.
        arm: Key of the arm in it.
        dataset: The data.
        rows: Of the data, [n].
        probabilities: On them, [n, Y].
    """
    correct = probabilities.argmax(1) == dataset.labels[rows]
    several = _several(report, arm)
    found = []
    for grouping in dataset.groupings:
        groups = grouping.groups[rows]
        for number, name in enumerate(grouping.names):
            mine = correct[groups == number]
            if several:
                expected, reason = None, f"each seed of the audit is a mean of {several}"
            else:
                expected = prediction_interval(tuple(_seeds(report, arm, grouping.name, name)))
                reason = "" if expected else "the audit has fewer than two seeds of it"
            accuracy = float(mine.mean()) if len(mine) else None
            found.append(HeldOut(grouping.name, name, len(mine), accuracy, expected, reason))
    return found


def _several(report: Report, arm: str) -> str:
    """What a seed's figure is the mean of, or "" where it is one training's."""
    repeats = next(facts.repeats for facts in report.arms if facts.key == arm)
    if "tune" in report.config and report.config["tune"].value is not None:
        return "all searches that it may have been"
    return f"{repeats} trainings" if repeats > 1 else ""


def _seeds(report: Report, arm: str, grouping: str, group: str) -> Iterator[float]:
    for comparison in report.comparisons:
        if comparison.arm == arm and comparison.grouping == grouping:
            for measure in comparison.by_group:
                estimate = measure.estimates.get("accuracy")
                if measure.group == group and estimate is not None:
                    yield from (value for value in estimate.by_seed if value is not None)
