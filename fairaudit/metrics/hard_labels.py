"""What predictions without probabilities cannot tell."""

from fairaudit.metrics.names import base_metric
from fairaudit.results.estimates import GroupMeasure, Measured, undefined

NO_PROBABILITIES = "predictions are labels; this needs probabilities"
_NEED_PROBABILITIES = ("loss", "excess_risk", "auc", "calibration_error")


def of_labels(comparison: Measured) -> Measured:
    """The comparison with every number that needs probabilities made undefined, and its gaps gone."""
    gaps = tuple(gap for gap in comparison.gaps if base_metric(gap.metric) not in _NEED_PROBABILITIES)
    worst = {m: group for m, group in comparison.worst.items() if base_metric(m) not in _NEED_PROBABILITIES}
    by_group = tuple(map(_of_labels, comparison.by_group))
    overall = _of_labels(comparison.overall)
    return comparison.model_copy(
        update={"overall": overall, "by_group": by_group, "gaps": gaps, "worst": worst}
    )


def _of_labels(measure: GroupMeasure) -> GroupMeasure:
    estimates = {
        name: undefined(NO_PROBABILITIES, estimate.unit, estimate.n_test)
        if base_metric(name) in _NEED_PROBABILITIES
        else estimate
        for name, estimate in measure.estimates.items()
    }
    return measure.model_copy(update={"estimates": estimates, "ungated": {}})
