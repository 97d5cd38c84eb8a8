"""What predictions without probabilities cannot tell."""

from fairaudit.metrics.registry import spec_of
from fairaudit.results.estimates import GroupMeasure, Measured, undefined

NO_PROBABILITIES = "predictions are labels; this needs probabilities"


def of_labels(comparison: Measured) -> Measured:
    """The comparison with every number that needs probabilities made undefined, and its gaps gone."""
    return comparison.model_copy(
        update={
            "overall": _of_labels(comparison.overall),
            "by_group": tuple(map(_of_labels, comparison.by_group)),
            "gaps": tuple(gap for gap in comparison.gaps if not _needs_probabilities(gap.metric)),
            "worst": {m: group for m, group in comparison.worst.items() if not _needs_probabilities(m)},
        }
    )


def _of_labels(measure: GroupMeasure) -> GroupMeasure:
    estimates = {
        name: undefined(NO_PROBABILITIES, estimate.unit, estimate.n_test)
        if _needs_probabilities(name)
        else estimate
        for name, estimate in measure.estimates.items()
    }
    ungated = {name: why for name, why in measure.ungated.items() if not _needs_probabilities(name)}
    return measure.model_copy(update={"estimates": estimates, "ungated": ungated})


def _needs_probabilities(metric: str) -> bool:
    return "probabilities" in spec_of(metric).needs
