"""Intervals for a sentence that picks what it tells of."""

from fairaudit.metrics.intervals import half_width
from fairaudit.results.estimates import Estimate


def among(one: Estimate, many: float) -> Estimate:
    """The estimate with an interval that holds for ``many`` of its kind at once (Bonferroni).

    At most 5 % of audits have one of the many whose interval misses the truth, so whichever a sentence picks,
    it is wrong in at most 5 %. Source: docs/methods.md 6.5.
    """
    if one.value is None or one.low is None or one.high is None:
        return one
    half = half_width((one.training_sd or 0.0) ** 2, (one.records_sd or 0.0) ** 2, one.n_seeds, many)
    return one.model_copy(
        update={"low": min(one.low, one.value - half), "high": max(one.high, one.value + half)}
    )
