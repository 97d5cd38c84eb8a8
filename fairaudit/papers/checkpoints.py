"""What the papers read of a checkpoint beside its parts: correlations over records, and bounds."""

import numpy as np
import torch
from torch import Tensor

from fairaudit.diagnostics.causes import CheckpointReading
from fairaudit.papers.bounds import lower_bounds, sufficient_condition
from fairaudit.papers.causes import CORRELATED
from fairaudit.papers.correlates import correlate


def read(checkpoint: CheckpointReading) -> dict[str, Tensor]:
    """Series name -> [R, ...]; the bounds where the step was split into parts."""
    return {**_correlations(checkpoint), **_bounds(checkpoint)}


def _correlations(checkpoint: CheckpointReading) -> dict[str, Tensor]:
    """Those of the first replicate, for all; NaN at checkpoints that are not read thoroughly."""
    first = checkpoint.records[0]
    shape = (len(checkpoint.records), len(CORRELATED), first.records.n_groups + 1, 3)
    if not checkpoint.thorough:
        unknown = torch.full(shape, torch.nan, dtype=torch.float64)
        return {"pearson": unknown, "spearman": unknown}
    found = correlate(first, seed=checkpoint.seed, label=checkpoint.label)
    return {
        "pearson": torch.from_numpy(np.broadcast_to(found.pearson, shape).copy()),
        "spearman": torch.from_numpy(np.broadcast_to(found.spearman, shape).copy()),
    }


def _bounds(checkpoint: CheckpointReading) -> dict[str, Tensor]:
    series: dict[str, list[Tensor]] = {}
    shares = checkpoint.records[0].records.shares
    for step in checkpoint.steps:
        batches, means, spectrum, sampling, sensitivity = step
        values = dict(lower_bounds(batches, means, spectrum, sampling, sensitivity))
        if len(shares) == 2:
            norms = means.group[:-1].norm(dim=1)
            values["theorem_3_fires"] = sufficient_condition(norms, shares, sensitivity)
        for name, value in values.items():
            series.setdefault(name, []).append(value)
    return {name: torch.stack(values) for name, values in series.items()}
