"""What predictions without probabilities cannot tell."""

from collections.abc import Mapping
from dataclasses import replace

from fairaudit.metrics.estimates import Comparison, Estimate, GroupMeasure, undefined
from fairaudit.metrics.names import base_metric

NO_PROBABILITIES = "predictions are labels; this needs probabilities"
_NEED_PROBABILITIES = ("loss", "excess_risk", "auc", "calibration_error")


def of_labels(comparison: Comparison) -> Comparison:
    """The comparison with every number that needs probabilities made undefined, and its gaps gone."""
    return replace(
        comparison,
        overall=_of_labels(comparison.overall),
        by_group=tuple(map(_of_labels, comparison.by_group)),
        gaps=tuple(gap for gap in comparison.gaps if base_metric(gap.metric) not in _NEED_PROBABILITIES),
        worst={
            m: group for m, group in comparison.worst.items() if base_metric(m) not in _NEED_PROBABILITIES
        },
    )


def _of_labels(measure: GroupMeasure) -> GroupMeasure:
    estimates: Mapping[str, Estimate] = {
        name: undefined(NO_PROBABILITIES, estimate.unit, estimate.n_test)
        if base_metric(name) in _NEED_PROBABILITIES
        else estimate
        for name, estimate in measure.estimates.items()
    }
    return replace(measure, estimates=estimates, ungated={})
