"""What the papers find in records that pay more: long inputs, and closeness to the boundary.

Raw data: never private. Source: Tran et al. 2021, sec. 5 and 6.
"""

import copy
import itertools
from collections.abc import Mapping

import torch
from torch import Tensor

from fairaudit.diagnostics.correlates import Stratum, rank_correlations
from fairaudit.diagnostics.landscape import Landscape
from fairaudit.engine.replicates import stack, tape_of
from fairaudit.results.steps import CORRELATED

ROWS_AT_ONCE = 4096  # in one forward pass


def record_values(landscape: Landscape, traces: Tensor | None) -> dict[str, Tensor]:
    """What is read of every record, in group order, [n] float64 each.

    Args:
        landscape: Model, parameters, records.
        traces: Trace of each record's Hessian, [n]; None where it is not known.

    Returns:
        ``input_norm``; ``gradient_norm`` of the loss; ``closeness`` to the decision boundary:
        1 - sum f^2 over the Y softmax outputs f, from 0 (the model is certain) to 1 - 1/Y;
        ``trace``, NaN where it is not known.
    """
    records = landscape.records
    # A copy, for the architecture's own parameters have another type and must stay as they are.
    network = stack([copy.deepcopy(landscape.module).to(landscape.theta)])
    network.theta[0] = landscape.theta
    tape = tape_of(network)
    closeness, norms = [], []
    for _, rows in records.pieces(ROWS_AT_ONCE):
        probabilities, delta = records.loss_gradient(tape.forward(records.features[rows]), rows)
        norms.append(tape.backward(delta).reshape(-1).double())
        closeness.append(1.0 - probabilities.double().square().sum(1))
    if traces is None:
        traces = torch.full((len(records),), torch.nan)
    return {
        "input_norm": torch.linalg.vector_norm(records.features.flatten(1).double(), dim=1),
        "gradient_norm": torch.cat(norms),
        "closeness": torch.cat(closeness),
        "trace": traces.double(),
    }


def correlations(
    landscape: Landscape, values: Mapping[str, Tensor], *, seed: int, label: str
) -> Tensor:
    """Rank correlations of the pairs of ``CORRELATED`` in every group and over all records.

    Args:
        landscape: Holds the records.
        values: Of :func:`record_values`.
        seed: The audit seed.
        label: Of the random stream, as the step's number.

    Returns:
        Value, low and high end of a 95 % interval, [pairs, K + 1, 3] float64.
    """
    records = landscape.records
    edges = itertools.pairwise(records.edges)
    strata = [
        Stratum(slice(first, end), share)
        for (first, end), share in zip(edges, records.shares.tolist(), strict=True)
    ]
    known = {name: value.cpu().numpy() for name, value in values.items()}
    found = rank_correlations(known, CORRELATED, strata, seed=seed, label=label)
    return torch.from_numpy(found)
