"""The papers' lower bounds for one arm, read at its checkpoints, in the report's types.

A bound is on how much more one group than another pays for one step; the truth is what the
diagnostics measure of the same quantity at the same step.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from fairaudit.analysis.arm_readings import ArmReadings, known_mean, nan_mean, over_seeds
from fairaudit.report.decomposition import BoundRecord

# Name of the bound's series -> (series of the quantity that it bounds, its name, its source).
BOUNDS: Mapping[str, tuple[str, str, str]] = {
    "bound_direction": ("r_direction", "Prop. 3", "Esipova et al. 2023, Prop. 3"),
    "bound_clip": ("r_clip", "Thm 3", "Tran et al. 2021, Thm 3 with Lemma 2 corrected"),
}


def bounds_of_arm(
    readings: ArmReadings, names: Sequence[str], pair: tuple[str, str]
) -> Iterator[BoundRecord]:
    """Each bound on how much more the first group of a pair pays than the second, for the report.

    A record holds means over seeds and checkpoints of the bound and of the truth; ``agreement``,
    the share of checkpoints at which both have the same sign; and ``positive``, the share at which
    the bound is above 0.

    Args:
        readings: The arm's series over S seeds, T checkpoints and K groups: bounds
            ``[S, T, K, K]``, what they bound ``[S, T, K]``; NaN is unknown.
        names: Names of the K groups.
        pair: Names of two of them.
    """
    a, b = map(names.index, pair)
    for bound, (quantity, name, source) in BOUNDS.items():
        values = readings.values[bound][:, :, a, b]
        truth = readings.values[quantity][:, :, a] - readings.values[quantity][:, :, b]
        defined = np.isfinite(values) & np.isfinite(truth)
        alike = np.where(defined, np.sign(values) == np.sign(truth), np.nan)
        positive = np.where(np.isfinite(values), values > 0, np.nan)
        yield BoundRecord(
            name=name,
            source=source,
            a=pair[0],
            b=pair[1],
            bound=known_mean(values),
            truth=known_mean(truth),
            agreement=known_mean(alike),
            positive=over_seeds(nan_mean(positive.T), is_share=True),
        )
