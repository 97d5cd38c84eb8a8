"""What goes with a costly record: input norm, gradient norm, closeness to the boundary, curvature.

Per record of a sample. Raw data: never private. Source: Tran et al. 2021, sec. 5 and 6.
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fairaudit.diagnostics.landscape import GroupedRecords, Landscape
from fairaudit.engine.replicates import stack, tape_of

Float64 = NDArray[np.float64]

QUANTITIES = ("input_norm", "gradient_norm", "closeness", "trace", "loss")
ROWS_AT_ONCE = 4096


@dataclass(frozen=True, slots=True)
class RecordReadings:
    """What was read of every record.

    Args:
        values: Name of QUANTITIES -> [n], float64, in the group order of ``records``; the norms
            without unit, ``closeness`` = 1 - sum f^2 in [0, 1 - 1/Y], ``trace`` of the record's own
            Hessian (NaN where it is not read), ``loss`` in nats.
        records: The records.
    """

    values: Mapping[str, Float64]
    records: GroupedRecords


def read_records(landscape: Landscape, traces: Tensor | None) -> RecordReadings:
    """Every quantity of every record of a landscape; ``traces`` [n] are those of its Hessians."""
    records = landscape.records
    network = stack([copy.deepcopy(landscape.module).to(landscape.theta)])
    network.theta[0] = landscape.theta
    tape = tape_of(network)
    norms, outputs = [], []
    for _, rows in records.pieces(ROWS_AT_ONCE):
        output, delta = records.loss_gradient(tape.forward(records.features[rows]), rows)
        norms.append(tape.backward(delta).reshape(-1).clone())
        outputs.append(output.double())
    probabilities = torch.cat(outputs).cpu()
    own = probabilities[torch.arange(len(records)), records.targets.cpu()]
    if traces is None:
        traces = torch.full((len(records),), torch.nan)
    found = {
        "input_norm": torch.linalg.vector_norm(records.features.flatten(1).double(), dim=1),
        "gradient_norm": torch.cat(norms),
        "closeness": 1.0 - probabilities.square().sum(1),
        "trace": traces,
        "loss": -torch.log(own),
    }
    return RecordReadings(
        {name: found[name].double().cpu().numpy() for name in QUANTITIES}, records
    )
