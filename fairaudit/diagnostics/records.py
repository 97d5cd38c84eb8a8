"""What the papers find in records that pay more: long inputs, and closeness to the boundary.

Raw data: never private. Source: Tran et al. 2021, sec. 5 and 6.
"""

import copy

import torch
from torch import Tensor

from fairaudit.diagnostics.landscape import Landscape
from fairaudit.engine.replicates import stack, tape_of

ROWS_AT_ONCE = 4096  # in one forward pass


def record_means(landscape: Landscape) -> dict[str, Tensor]:
    """Means over every group's records and, last, over all, [K + 1] float64 each.

    ``input_norm``, and ``closeness`` to the decision boundary: 1 - sum f^2 over the Y softmax
    outputs f, from 0 (the model is certain) to 1 - 1/Y.
    """
    records = landscape.records
    network = stack([copy.deepcopy(landscape.module).to(landscape.theta)])
    network.theta[0] = landscape.theta
    tape = tape_of(network)
    closeness = []
    for _, rows in records.pieces(ROWS_AT_ONCE):
        probabilities = torch.softmax(tape.forward(records.features[rows]), -1).double()
        closeness.append(1.0 - probabilities.square().sum(1))
    norms = torch.linalg.vector_norm(records.features.flatten(1).double(), dim=1)
    return {
        "input_norm": records.means(records.sums(norms)),
        "closeness": records.means(records.sums(torch.cat(closeness))),
    }
