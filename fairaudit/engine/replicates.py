"""Which make of engine a model gets: the layer table where it knows every layer, else isolation.

Replicates of a module that the table lacks stand behind the calls of any other network. They are slower and
larger by far; no method knows which of the two computes its norms and sums.
"""

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fairaudit.engine.devices import CPU
from fairaudit.engine.isolation import Isolated, PerRecord, faults
from fairaudit.engine.network import Network, Tape, check_table
from fairaudit.engine.stacked import DEFAULT_BUDGET, GradientTape, Stacked
from fairaudit.errors import TrainingError
from fairaudit.privacy.borrowed import global_stream

CHUNK_BYTES = 32 * 2**20  # of one chunk's written gradients
LARGEST_CHUNK = 256  # records
CHUNK_NUMBERS = 2**18  # of one chunk's inputs: what a module's activations take is not known
_TOLERANCE = 1e-3  # of a gradient's norm; kernels differ by 1e-6 or so, mistakes by much more


class IsolatedNetwork(Stacked):
    """Replicates of one module of any make; ``theta`` [R, P] are the parameters that are trained.

    Frozen parameters and buffers stay as they are, outside theta.

    Args:
        modules: One per replicate, of equal architecture; they are copied.
        seed: Of what a module draws in its forward pass, dropout's masks; equal seeds draw alike.
        device: Where the copies lie.

    Raises:
        TrainingError: A layer that cannot be private; no parameter to train.
    """

    def __init__(self, modules: Sequence[nn.Module], seed: int = 0, device: torch.device = CPU) -> None:
        self.seed = seed
        self.modules = [Isolated(module, device) for module in modules]
        self.theta = torch.stack([torch.cat([p.flatten() for p in m.start.values()]) for m in self.modules])
        self.bytes_per_record = 4 * self.theta.numel()  # of written gradients

    def logits(self, x: Tensor) -> Tensor:
        """Outputs [(R,) B, Y] without what a module draws while it trains."""
        with torch.inference_mode(mode=False), torch.no_grad():
            given = [x.clone()] if self.replicates == 1 else x.clone().unbind()
            found = [self.passed(r, one, (0,), training=False) for r, one in enumerate(given)]
            return found[0] if self.replicates == 1 else torch.stack(found)

    def passed(self, number: int, x: Tensor, draw: Sequence[int], *, training: bool = True) -> Tensor:
        """Outputs [n, Y] of one replicate; equal draws give equal masks."""
        # A module is never shown an empty batch, and Poisson sampling draws one now and then.
        given = x if len(x) else x.new_zeros(1, *x.shape[1:])
        stream = (self.seed, number, *draw)
        return self.modules[number].outputs(self._values(number), given, stream, training=training)[: len(x)]

    def gradients(self, number: int, x: Tensor, delta: Tensor, draw: Sequence[int]) -> Tensor:
        """Each record's gradient [n, P] of <delta, output>, for inputs x and output gradients [n, Y]."""
        if not len(x):
            return x.new_zeros(0, self.n_parameters)
        return self.modules[number].gradients(self._values(number), x, delta, (self.seed, number, *draw))

    def _values(self, number: int) -> dict[str, Tensor]:
        start = self.modules[number].start
        parts = torch.split(self.theta[number], [value.numel() for value in start.values()])
        return {
            name: part.view(value.shape) for (name, value), part in zip(start.items(), parts, strict=True)
        }


@dataclass(slots=True)
class _Piece:
    """A slice of the batch: what recomputes its gradients, and the gradients while the budget lasts."""

    rows: slice
    x: Tensor
    draw: tuple[int, ...]
    delta: Tensor | None = None
    finite: Tensor | None = None  # [(R,) n]
    written: list[Tensor] | None = None  # [n, P] of each replicate


class IsolatedTape(GradientTape):
    """Records of one batch through modules of any make; replicates and chunks one after the other.

    A record with a non-finite output or gradient has both zeroed, as on any tape.

    Args:
        network: The replicates.
        rows: The most weight rows that are ever asked for at once.
        budget: Bytes of gradients kept between the two passes; performance only.
    """

    def __init__(self, network: IsolatedNetwork, rows: int = 1, budget: int = DEFAULT_BUDGET) -> None:
        self.network, self.budget = network, budget
        self.single = network.replicates == 1
        self._rows = [torch.zeros_like(network.theta) for _ in range(rows)]
        self._pieces: list[_Piece] = []
        self._passes = 0

    def rows_per_chunk(self, numbers: int) -> int:
        """Records that go together, each of so many numbers; it depends on the model alone."""
        fitting = min(CHUNK_BYTES // self.network.bytes_per_record, CHUNK_NUMBERS // numbers)
        return min(1 << int(math.log2(max(1, fitting))), LARGEST_CHUNK)

    @torch.inference_mode(False)  # autograd keeps no tensor that was made in inference mode
    def forward(self, x: Tensor, norms: Tensor | None = None, *, clean: bool = False) -> Tensor:
        """Logits [(R,) B, Y]; see the base class."""
        self._passes += 1
        self._pieces = []
        outputs = []
        total = x.shape[0 if self.single else 1]
        at_once = self.rows_per_chunk(math.prod(x.shape[1 if self.single else 2 :]))
        for start in range(0, max(total, 1), at_once):
            rows = slice(start, min(start + at_once, total))
            piece = _Piece(rows, (x[rows] if self.single else x[:, rows]).clone(), (self._passes, start))
            with torch.no_grad():
                found = [self.network.passed(r, one, piece.draw) for r, one in enumerate(self._each(piece.x))]
            logits = torch.stack(found)
            finite = torch.isfinite(logits).all(-1)
            if clean and not bool(finite.all()):
                piece.finite = finite
                logits = torch.where(finite.unsqueeze(-1), logits, 0.0)
            self._pieces.append(piece)
            outputs.append(logits)
        together = torch.cat(outputs, 1)
        return together[0] if self.single else together

    @torch.inference_mode(False)
    def backward(self, output_gradient: Tensor) -> Tensor:
        """L2 norms of the per-sample gradients, [(R,) B]."""
        norms, kept = [], 0
        for piece in self._pieces:
            delta = output_gradient[piece.rows] if self.single else output_gradient[:, piece.rows]
            piece.delta = (delta.unsqueeze(0) if self.single else delta).clone()
            written = self._write(piece)
            own = torch.stack([torch.linalg.vector_norm(rows, dim=1) for rows in written])
            norms.append(own)
            kept += self.network.bytes_per_record * own.shape[1]
            piece.written = written if kept <= self.budget else None
        together = torch.cat(norms, 1)
        return together[0] if self.single else together

    @torch.inference_mode(False)
    def sums(self, weights: Sequence[Tensor]) -> list[Tensor]:
        """``sum_i w_i g_i`` of each row of weights; see the base class."""
        for number, piece in enumerate(self._pieces):
            written = piece.written or self._write(piece)
            for out, row in zip(self._rows, weights, strict=False):
                for target, rows, weight in zip(out, written, row[:, piece.rows], strict=True):
                    found = torch.mv(rows.t(), weight.clone())
                    (target.add_ if number else target.copy_)(found)
        return self._rows[: len(weights)]

    def _write(self, piece: _Piece) -> list[Tensor]:
        """Gradients [n, P] of each replicate; zero where an output or a gradient is not finite."""
        assert piece.delta is not None
        finite = torch.isfinite(piece.delta).all(-1)
        finite = finite if piece.finite is None else finite & piece.finite
        written = []
        for number, (x, delta, usable) in enumerate(
            zip(self._each(piece.x), piece.delta, finite, strict=True)
        ):
            delta = torch.where(usable.unsqueeze(1), delta, 0.0)
            rows = self.network.gradients(number, x, delta, piece.draw)
            usable = usable & torch.isfinite(torch.linalg.vector_norm(rows, dim=1))
            written.append(torch.where(usable.unsqueeze(1), rows, 0.0))
        return written

    def _each(self, x: Tensor) -> Sequence[Tensor]:
        return [x] if self.single else x.unbind()


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
