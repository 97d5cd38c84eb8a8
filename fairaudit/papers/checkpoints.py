"""What the papers read of a checkpoint beside its parts: correlations over records, and bounds."""

import numpy as np
import torch
from torch import Tensor

from fairaudit.diagnostics.causes import CheckpointReading
from fairaudit.papers.bounds import lower_bounds
from fairaudit.papers.causes import CORRELATED
from fairaudit.papers.correlates import correlate


def read(checkpoint: CheckpointReading) -> dict[str, Tensor]:
    """Series name -> [R, ...]; the bounds where the step was split into parts."""
    return {"spearman": _correlations(checkpoint), **_bounds(checkpoint)}


def _correlations(checkpoint: CheckpointReading) -> Tensor:
    """Those of the first replicate, for all; NaN at checkpoints that are not read thoroughly."""
    first = checkpoint.records[0]
    shape = (len(checkpoint.records), len(CORRELATED), first.records.n_groups + 1, 3)
    if not checkpoint.thorough:
        return torch.full(shape, torch.nan, dtype=torch.float64)
    found = correlate(first, seed=checkpoint.seed, label=checkpoint.label)
    return torch.from_numpy(np.broadcast_to(found, shape).copy())


def _bounds(checkpoint: CheckpointReading) -> dict[str, Tensor]:
    series: dict[str, list[Tensor]] = {}
    for step in checkpoint.steps:
        for name, value in lower_bounds(step.batches, step.means, step.sampling).items():
            series.setdefault(name, []).append(value)
    return {name: torch.stack(values) for name, values in series.items()}
