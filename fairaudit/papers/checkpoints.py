"""What the papers read of a checkpoint beside its parts: correlations over records, and bounds."""

import numpy as np
import torch
from torch import Tensor

from fairaudit.diagnostics.causes import CheckpointReading
from fairaudit.papers.bounds import lower_bounds
from fairaudit.papers.causes import CORRELATED
from fairaudit.papers.correlates import correlate


def read(checkpoint: CheckpointReading) -> dict[str, Tensor]:
    """Series name -> [R, ...]; the bounds where the step was split into parts.

    Correlations are those of the first replicate, for all; NaN at checkpoints that are not read
    thoroughly.
    """
    first = checkpoint.records[0]
    shape = (
        len(checkpoint.records),
        len(CORRELATED),
        first.records.n_groups + 1,
        3,
    )
    correlations = np.full(shape, np.nan)
    if checkpoint.thorough:
        correlations[:] = correlate(
            first,
            seed=checkpoint.seed,
            label=checkpoint.label,
        )
    bounds: dict[str, list[Tensor]] = {}
    for step in checkpoint.steps:
        for name, value in lower_bounds(
            step.batches,
            step.means,
            step.sampling,
        ).items():
            bounds.setdefault(name, []).append(value)
    series = {name: torch.stack(values) for name, values in bounds.items()}
    return {"spearman": torch.from_numpy(correlations), **series}
