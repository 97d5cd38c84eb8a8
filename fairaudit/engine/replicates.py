"""Which make of engine a model gets: the layer table where it knows every layer, else isolation."""

import copy
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from fairaudit.engine.devices import CPU
from fairaudit.engine.isolated import IsolatedNetwork, IsolatedTape
from fairaudit.engine.isolation import Isolated, PerRecord, faults
from fairaudit.engine.network import Network, check_table
from fairaudit.engine.stacked import DEFAULT_BUDGET, GradientTape, Stacked
from fairaudit.engine.tape import Tape
from fairaudit.errors import TrainingError
from fairaudit.privacy.borrowed import global_stream

_TOLERANCE = 1e-3  # of a gradient's norm; kernels differ by 1e-6 or so, mistakes by much more


def stack(modules: Sequence[nn.Module], seed: int = 0, device: torch.device = CPU) -> Stacked:
    """Replicates of one architecture, by the make that fits it.

    Args:
        modules: One per replicate.
        seed: Of what an isolated module draws while it trains.
        device: Where they lie.

    Raises:
        TrainingError: A layer that cannot be private.
    """
    if outside_table(modules[0]):
        return IsolatedNetwork(modules, seed, device)
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
        stacked: The replicates.
        rows: The most weight rows that are ever asked for at once.
        budget: Bytes of books kept between the two passes; performance only.
    """
    if isinstance(stacked, IsolatedNetwork):
        return IsolatedTape(stacked, rows, budget)
    assert isinstance(stacked, Network)
    return Tape(stacked, rows, budget)


def check_model(module: nn.Module, records: Tensor, classes: int) -> bool:
    """Compare what the engine computes for each of a few records with PyTorch on that record alone.

    The guarantee does not rest on it: it tells early what could not be trained as its author meant, a
    layer with a hook, a model that mixes the records of a batch, a parameter that is not handed in.

    Args:
        module: A model, which stays as it is.
        records: A few inputs [n, ...].
        classes: Y.

    Returns:
        Whether the engine takes many records at once.

    Raises:
        TrainingError: They differ.
    """
    delta = torch.arange(1.0, len(records) * classes + 1).cos_().view(len(records), classes)
    if outside_table(module):
        with faults():
            return _check_isolated(module, records, delta)
    tape = tape_of(stack([module]))
    tape.forward(records)
    norms = tape.backward(delta)
    for number, (record, direction) in enumerate(zip(records, delta, strict=True)):
        weight = torch.zeros(1, len(records))
        weight[0, number] = 1.0
        alone = _gradient_alone(module, record, direction)
        _compare(tape.sums([weight])[0][0], alone)
        _compare(norms[number], alone.norm())
    return True


def _check_isolated(module: nn.Module, records: Tensor, delta: Tensor) -> bool:
    """One record after the other by torch.func and by autograd, and all at once, where nothing is drawn."""
    isolated, bare = Isolated(module), module.inner if isinstance(module, PerRecord) else module
    # Away from the start: what looks parameters up, and is not handed them, would find the start's.
    moved = torch.Generator().manual_seed(0)
    values = {
        name: start + 0.1 * torch.empty(start.shape).uniform_(-1, 1, generator=moved)
        for name, start in isolated.start.items()
    }
    found = isolated.gradients(values, records, delta, (0,))
    outputs = isolated.outputs(values, records, (0,))
    if not torch.isfinite(outputs).any():
        raise TrainingError(
            "the model puts out nothing finite for one record alone", hint="does it normalise over the batch?"
        )
    at_once = isolated.at_once
    isolated.one_by_one()
    alone = isolated.gradients(values, records, delta, (0,))
    bare = copy.deepcopy(bare).float().train()
    with torch.no_grad():
        for name, parameter in bare.named_parameters():
            if name in values:
                parameter.copy_(values[name])
    for number, (record, direction) in enumerate(zip(records, delta, strict=True)):
        with global_stream(0, number):
            _compare(alone[number], _gradient_alone(bare, record, direction))
    if torch.equal(alone, isolated.gradients(values, records, delta, (1,))):
        _compare(found, alone)
        with torch.no_grad():
            _compare(copy.deepcopy(bare).eval()(records), outputs)
    return at_once


def _compare(found: Tensor, alone: Tensor) -> None:
    if not float((found - alone).norm()) <= _TOLERANCE * float(alone.norm()) + 1e-6:
        raise TrainingError(
            "this model in a batch differs from this model on one record alone",
            hint="does it mix the records of a batch, or keep parameters in a plain list? leave that out",
        )


def _gradient_alone(module: nn.Module, record: Tensor, direction: Tensor) -> Tensor:
    own = [p for p in module.parameters() if p.requires_grad]
    with torch.enable_grad():
        value = (module(record.unsqueeze(0))[0] * direction).sum()
        found = torch.autograd.grad(value, own, allow_unused=True)
    parts = [torch.zeros_like(p) if g is None else g for p, g in zip(own, found, strict=True)]
    return torch.cat([part.flatten() for part in parts])
