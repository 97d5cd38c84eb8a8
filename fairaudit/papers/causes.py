"""Correlations and bounds of one arm, read at its checkpoints, in the report's types."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from fairaudit.analysis.arm_readings import ArmReadings, known_mean, nan_mean, over_seeds
from fairaudit.report.decomposition import BoundRecord, Correlation
from fairaudit.results.estimates import finite

CORRELATED = (
    ("input_norm", "gradient_norm"),
    ("closeness", "trace"),
    ("input_norm", "trace"),
)
_ESIPOVA = "Esipova et al. 2023"
# bound -> (the quantity it bounds, name, source)
BOUNDS: Mapping[str, tuple[str, str, str]] = {
    "bound_direction": ("r_direction", "Prop. 3", f"{_ESIPOVA}, Prop. 3"),
    "bound_direction_star": (
        "r_direction_star",
        "Prop. 3*",
        f"{_ESIPOVA}, Prop. 3*, last term corrected",
    ),
    "bound_clip": ("r_clip", "Thm 3", "Tran et al. 2021, Thm 3 with Lemma 2 corrected"),
}


def of_arm(
    found: ArmReadings,
    names: Sequence[str],
    hidden: Collection[str],
    pair: tuple[str, str] | None,
) -> dict[str, Any]:
    """Fields of ``ArmCauses``.

    Args:
        found: The arm's readings.
        names: Groups.
        hidden: Suppressed ones.
        pair: Two groups that bounds are about, or None.
    """
    correlations = []
    table = nan_mean(found.averaged("spearman"))  # [pairs, K + 1, 3]
    for number, between in enumerate(CORRELATED):
        for place, group in enumerate((*names, "")):
            if group not in hidden:
                value, low, high = map(finite, table[number, place])
                correlations.append(
                    Correlation(
                        between=between,
                        group=group,
                        value=value,
                        low=low,
                        high=high,
                    )
                )
    fields: dict[str, Any] = {"correlations": tuple(correlations)}
    if pair is None:
        return fields
    bounds = []
    a, b = map(names.index, pair)
    for bound, (quantity, name, source) in BOUNDS.items():
        values = found.values[bound][:, :, a, b]
        truth = found.values[quantity][:, :, a] - found.values[quantity][:, :, b]
        known = np.isfinite(values) & np.isfinite(truth)
        alike = np.where(
            known,
            np.sign(values) == np.sign(truth),
            np.nan,
        )
        positive = np.where(
            np.isfinite(values),
            values > 0,
            np.nan,
        )
        bounds.append(
            BoundRecord(
                name=name,
                source=source,
                a=pair[0],
                b=pair[1],
                bound=known_mean(values),
                truth=known_mean(truth),
                slack=known_mean(truth - values),
                agreement=known_mean(alike),
                positive=over_seeds(nan_mean(positive.T), is_share=True),
                assumption=_assumption(found),
            )
        )
    return {**fields, "bounds": tuple(bounds)}


def _assumption(found: ArmReadings) -> str:
    """In words, which assumption of the bounds failed at how many checkpoints.

    Empty where none did.
    """
    failed = []
    for name, what in (
        ("small_step", "the step is longer than 1 / largest eigenvalue"),
        ("convex", "a group's loss is not convex"),
    ):
        share = known_mean(1.0 * (found.values[name] == 0)[np.isfinite(found.values[name])])
        if share is None:
            failed.append(f"not known whether {what}: no eigenvalue was found")
        elif share:
            failed.append(f"assumption not met at {100 * share:.0f} % of the checkpoints: {what}")
    return "; ".join(failed)
