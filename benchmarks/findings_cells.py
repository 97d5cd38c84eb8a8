"""A cell of docs/findings.md: is the gap between two groups inside the margin, beyond 0, neither?

A cell is read off the interval that a report prints for a gap D of S seeds,

    D +- sqrt(t^2_{S-1} V_seed + z^2 V_shared),

by inverting it: a p-value is the level at which an end of the interval meets 0 or a margin. The
numbers are the report's: ``value``, ``training_sd`` (sqrt V_seed), ``records_sd`` (sqrt V_shared),
``n_seeds``.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from scipy.optimize import brentq
from scipy.special import ndtr, ndtri, stdtrit

EQUAL, DIFFERENT, CANNOT_TELL = "equal", "different", "cannot tell"
WORDS = (EQUAL, DIFFERENT, CANNOT_TELL)
MEASURES = {  # measure -> metric of a report's gap
    "accuracy": "privacy_cost",
    "loss": "excess_risk",
    "tpr": "change.tpr",
    "selection": "change.selection_rate",
}
SMALLEST = 1e-15  # of a p-value


@dataclass(frozen=True)
class Cell:
    """One gap of one audit.

    Args:
        audit: Name of the audit.
        measure: Of :data:`MEASURES`.
        epsilon: Of the private model.
        a, b: The groups; the gap is the value of a less that of b.
        value, training_sd, records_sd, seeds: The report's; value is None where it has none.
        margin: The largest gap that counts as none.
        is_weak: Marked before the run: its power for equality is small.
        p_diff, p_eq: Unadjusted.
        word: Of :data:`WORDS`, once its family is known.
    """

    audit: str
    measure: str
    epsilon: float
    a: str
    b: str
    value: float | None
    training_sd: float
    records_sd: float
    seeds: int
    margin: float
    is_weak: bool
    p_diff: float = 1.0
    p_eq: float = 1.0
    word: str = CANNOT_TELL

    def tested(self) -> "Cell":
        """The cell with its p-values."""
        if self.value is None:
            return self
        spread = self.training_sd, self.records_sd, self.seeds
        size = abs(self.value)
        return replace(
            self, p_diff=min(1.0, 2 * tail(size, *spread)), p_eq=tail(self.margin - size, *spread)
        )


def tail(distance: float, training_sd: float, records_sd: float, seeds: int) -> float:
    """The one-sided level at which the half-width is ``distance``; 1 where that is below 0."""
    if distance < 0:
        return 1.0
    if training_sd == records_sd == 0:
        return SMALLEST if distance > 0 else 0.5

    def beyond(log_level: float) -> float:
        level = math.exp(log_level)
        seed_part = stdtrit(seeds - 1, level) * training_sd
        record_part = ndtri(level) * records_sd
        return math.hypot(seed_part, record_part) - distance

    least, most = math.log(SMALLEST), math.log(0.5)
    if beyond(least) <= 0:
        return SMALLEST
    if beyond(most) >= 0:  # a quantile at one half may be a rounding error, not 0
        return 0.5
    return math.exp(brentq(beyond, least, most))


def holm(p_values: Sequence[float], family: int) -> list[float]:
    """Adjusted p-values of a family of which the members that are not given have p = 1."""
    adjusted = [1.0] * len(p_values)
    largest = 0.0
    ascending = sorted(range(len(p_values)), key=p_values.__getitem__)
    for rank, place in enumerate(ascending):
        largest = max(largest, min(1.0, (family - rank) * p_values[place]))
        adjusted[place] = largest
    return adjusted


def worded(cells: Sequence[Cell], family: int, level: float) -> list[Cell]:
    """The cells of one table with their words.

    Args:
        cells: Finished ones, tested.
        family: How many were planned.
        level: Of each of the two families.
    """
    differ = holm([cell.p_diff for cell in cells], family)
    equal = holm([cell.p_eq for cell in cells], family)
    named = []
    for cell, p_diff, p_eq in zip(cells, differ, equal, strict=True):
        word = CANNOT_TELL
        if p_eq <= level:
            word = EQUAL
        elif p_diff <= level:
            word = DIFFERENT
        named.append(replace(cell, word=word))
    return named


def power_of_equality(margin: float, standard_error: float, level: float) -> float:
    """Chance that two one-sided tests at ``level`` find a gap of exactly 0 inside the margin."""
    if standard_error == 0:
        return 1.0
    return max(0.0, float(2 * ndtr(margin / standard_error + ndtri(level)) - 1))


def assumed_error(
    measure: str,
    epsilon: float,
    rows: Sequence[int],
    assumed: Mapping[str, object],
    *,
    is_cut: bool,
) -> float:
    """Standard error of a gap by what was assumed before the run.

    Args:
        measure, epsilon: Of the cell.
        rows: Tested rows behind the value of either group.
        assumed: The table ``[power]`` of the grid.
        is_cut: The training rows of a group are cut.
    """
    variance = assumed["disagreement"][str(epsilon)]
    if is_cut:
        variance *= assumed["cut"]
    if measure == "loss":
        variance *= assumed["loss"]
    return math.sqrt(sum(variance / max(n, 1) for n in rows))
