"""Which make of engine a model gets: the layer table where it knows every layer, else Opacus."""

import copy
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from fairaudit.engine.devices import CPU
from fairaudit.engine.foreign import ForeignNetwork, OpacusTape
from fairaudit.engine.network import Network, check_table
from fairaudit.engine.stacked import DEFAULT_BUDGET, GradientTape, Stacked
from fairaudit.engine.tape import Tape
from fairaudit.errors import TrainingError

_TOLERANCE = 1e-3  # of a gradient's norm; kernels differ by 1e-6 or so, mistakes by much more


def stack(modules: Sequence[nn.Module], seed: int = 0, device: torch.device = CPU) -> Stacked:
    """Replicates of one architecture, by the make that fits it.

    Args:
        modules: One per replicate. seed: Of what a foreign module draws while it trains.
        device: Where they lie.

    Raises:
        TrainingError: A layer that cannot be private.
    """
    if outside_table(modules[0]):
        return ForeignNetwork(modules, seed, device)
    return Network(modules, device)


def outside_table(module: nn.Module) -> str:
    """Why the layer table does not do for a model; empty where it does."""
    try:
        check_table(module)
    except TrainingError as error:
        return error.message
    return ""


def tape_of(stacked: Stacked, rows: int = 1, budget: int = DEFAULT_BUDGET) -> GradientTape:
    """A tape of the make of the replicates.

    Args:
        stacked: The replicates. rows: The most weight rows that are ever asked for at once.
        budget: Bytes of books kept between the two passes; performance only.
    """
    if isinstance(stacked, ForeignNetwork):
        return OpacusTape(stacked, rows, budget)
    assert isinstance(stacked, Network)
    return Tape(stacked, rows, budget)


def check_gradients(module: nn.Module, records: Tensor, classes: int) -> None:
    """Compare each record's gradient with autograd's of that record alone.

    One record alone is the definition that a guarantee for one record rests on: a layer that mixes
    records, or whose per-sample gradient is wrong, shows here. Dropout is off for the comparison.

    Args:
        module: A model. records: A few inputs [n, ...]. classes: Y.

    Raises:
        TrainingError: They differ.
    """
    still = _without_dropout(module)
    stacked = stack([still])
    tape = tape_of(stacked)
    delta = torch.arange(1.0, len(records) * classes + 1).cos_().view(len(records), classes)
    tape.forward(records)
    norms = tape.backward(delta)
    for number, (record, direction) in enumerate(zip(records, delta, strict=True)):
        weight = torch.zeros(1, len(records))
        weight[0, number] = 1.0
        own = tape.sums([weight])[0][0]
        alone = _gradient_alone(still, record, direction)
        worst = float((own - alone).norm()), abs(float(norms[number]) - float(alone.norm()))
        if not max(worst) <= _TOLERANCE * float(alone.norm()) + 1e-6:
            raise TrainingError(
                "per-sample gradients of this model differ from autograd's of one record alone",
                hint="does a layer mix records, or draw numbers of its own? leave it out",
            )


def _gradient_alone(module: nn.Module, record: Tensor, direction: Tensor) -> Tensor:
    own = [p for p in module.parameters() if p.requires_grad]
    with torch.enable_grad():
        value = (module(record.unsqueeze(0))[0] * direction).sum()
        found = torch.autograd.grad(value, own, allow_unused=True)
    parts = [torch.zeros_like(p) if g is None else g for p, g in zip(own, found, strict=True)]
    return torch.cat([part.flatten() for part in parts])


def _without_dropout(module: nn.Module) -> nn.Module:
    still = copy.deepcopy(module).train()
    for layer in still.modules():
        if isinstance(layer, nn.modules.dropout._DropoutNd):
            layer.p = 0.0
    return still
