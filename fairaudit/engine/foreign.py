"""Modules with layers that the table lacks: autograd runs them, Opacus gives each record's gradient.

Slower and larger than the table by far, but behind the same calls, so that no method knows which of
the two computes its norms and sums.
"""

import copy
import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fairaudit.engine.devices import CPU
from fairaudit.engine.stacked import DEFAULT_BUDGET, GradientTape, Stacked, refuse_untrainable
from fairaudit.errors import TrainingError
from fairaudit.privacy.borrowed import global_stream

CHUNK_BYTES = 64 * 2**20  # of one chunk's written gradients
LARGEST_CHUNK = 64  # records: what a foreign module's activations take is not known

# What cannot be private, or only in another form -> what to use instead.
REPLACEMENTS = {
    "BatchNorm1d": "nn.GroupNorm",
    "BatchNorm2d": "nn.GroupNorm",
    "BatchNorm3d": "nn.GroupNorm",
    "SyncBatchNorm": "nn.GroupNorm",
    "LSTM": "opacus.layers.DPLSTM",
    "GRU": "opacus.layers.DPGRU",
    "MultiheadAttention": "opacus.layers.DPMultiheadAttention",
    "InstanceNorm1d": "it without track_running_stats",
    "InstanceNorm2d": "it without track_running_stats",
    "InstanceNorm3d": "it without track_running_stats",
}


def refuse_unprivate(module: nn.Module) -> None:
    """Refuse a module in which one record's output depends on others, or that Opacus cannot take apart.

    Raises:
        TrainingError: Names the layer and what to use in its place.
    """
    # Importing Opacus takes seconds, and most models need none of it.
    from opacus.validators import ModuleValidator

    for path, layer in module.named_modules():
        kind = type(layer).__name__
        if type(layer) in ModuleValidator.VALIDATORS and ModuleValidator.VALIDATORS[type(layer)](layer):
            place = f" at {path!r}" if path else ""
            raise TrainingError(
                f"the model's {kind}{place} cannot be trained with a guarantee for each record",
                hint=f"use {REPLACEMENTS.get(kind, 'another layer')} in its place",
            )


class ForeignNetwork(Stacked):
    """Replicates of one module of any make; their parameters lie side by side in ``theta`` [R, P].

    Frozen parameters stay as they are, outside theta.

    Args:
        modules: One per replicate, of equal architecture; they are copied.
        seed: Of what a module draws while it trains, dropout's masks; equal seeds draw alike.
        device: Where the copies lie.

    Raises:
        TrainingError: A layer that cannot be private; no parameter to train.
    """

    def __init__(self, modules: Sequence[nn.Module], seed: int = 0, device: torch.device = CPU) -> None:
        from opacus import GradSampleModule

        refuse_unprivate(modules[0])
        refuse_untrainable(modules[0])
        self.seed = seed
        copies = [copy.deepcopy(module).to(device).train() for module in modules]
        trained = [[p for p in module.parameters() if p.requires_grad] for module in copies]
        self.theta = torch.stack([torch.cat([p.detach().reshape(-1) for p in own]) for own in trained])
        for row, own in zip(self.theta, trained, strict=True):
            start = 0
            for parameter in own:  # now a view: in-place updates of theta are seen by the module
                parameter.data = row[start : start + parameter.numel()].view(parameter.shape)
                start += parameter.numel()
        try:
            self.modules = [GradSampleModule(module, loss_reduction="sum") for module in copies]
        except NotImplementedError as error:
            raise TrainingError(
                f"Opacus cannot give per-sample gradients of this model: {_first_line(error)}",
                hint="leave out the layer that it names",
            ) from error
        self.trained = trained

    @property
    def bytes_per_record(self) -> int:
        """Of one record's written gradients, over the replicates."""
        return 4 * self.theta.numel()

    def logits(self, x: Tensor) -> Tensor:
        """Outputs [(R,) B, Y] without what a module draws while it trains."""
        with torch.no_grad(), _evaluating(self.modules):
            found = [m(one) for m, one in zip(self.modules, self._each(x), strict=True)]
        return found[0] if self.replicates == 1 else torch.stack(found)

    def _each(self, x: Tensor) -> Sequence[Tensor]:
        return [x] if self.replicates == 1 else x.unbind()

    def passed(self, number: int, x: Tensor, draw: tuple[int, ...]) -> Tensor:
        """Outputs [n, Y] of one replicate as it trains; equal draws give equal masks."""
        # Few modules bear an empty batch, and Poisson sampling draws one now and then.
        given = x if len(x) else x.new_zeros(1, *x.shape[1:])
        with global_stream(self.seed, number, *draw):
            out: Tensor = self.modules[number](given)
        return out[: len(x)]

    def gradients(self, number: int, x: Tensor, delta: Tensor, draw: tuple[int, ...]) -> Tensor:
        """Each record's gradient [n, P] of <delta, output>, for inputs x and output gradients [n, Y]."""
        own = self.trained[number]
        if not len(x):
            return x.new_zeros(0, self.n_parameters)
        for parameter in own:
            parameter.grad = parameter.grad_sample = None  # type: ignore[attr-defined]
        with torch.enable_grad(), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Full backward hook is firing")  # no input needs a gradient
            torch.autograd.backward(self.passed(number, x, draw), delta)
        rows = [_row(parameter, len(x)) for parameter in own]
        for parameter in own:
            parameter.grad = parameter.grad_sample = None  # type: ignore[attr-defined]
        return torch.cat(rows, 1)


@dataclass(slots=True)
class _Piece:
    """A slice of the batch: what recomputes its gradients, and the gradients while the budget lasts."""

    rows: slice
    x: Tensor
    draw: tuple[int, ...]
    delta: Tensor | None = None
    finite: Tensor | None = None  # [(R,) n]
    written: list[Tensor] | None = None  # [n, P] of each replicate


class OpacusTape(GradientTape):
    """Records of one batch through a foreign module; replicates and chunks one after the other.

    A record with a non-finite output or gradient has both zeroed, as on any tape.

    Args:
        network: The replicates. rows: The most weight rows that are ever asked for at once.
        budget: Bytes of gradients kept between the two passes; performance only.
    """

    def __init__(self, network: ForeignNetwork, rows: int = 1, budget: int = DEFAULT_BUDGET) -> None:
        self.network, self.budget = network, budget
        self.single = network.replicates == 1
        fitting = 2 ** int(math.log2(max(1, CHUNK_BYTES // network.bytes_per_record)))
        self.rows_per_chunk = min(fitting, LARGEST_CHUNK)
        self._rows = [torch.zeros_like(network.theta) for _ in range(rows)]
        self._pieces: list[_Piece] = []
        self._passes = 0

    @torch.inference_mode(False)  # autograd keeps no tensor that was made in inference mode
    def forward(self, x: Tensor, norms: Tensor | None = None, *, clean: bool = False) -> Tensor:
        """Logits [(R,) B, Y]; see the base class."""
        self._passes += 1
        self._pieces = []
        outputs = []
        total = x.shape[0 if self.single else 1]
        for start in range(0, max(total, 1), self.rows_per_chunk):
            rows = slice(start, min(start + self.rows_per_chunk, total))
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


def _row(parameter: nn.Parameter, count: int) -> Tensor:
    """[n, size] of one parameter's per-sample gradients; zero where the output does not depend on it."""
    found: Tensor | list[Tensor] | None = parameter.grad_sample  # type: ignore[attr-defined]
    if found is None:
        return parameter.new_zeros(count, parameter.numel())
    parts = found if isinstance(found, list) else [found]
    return torch.stack([part.reshape(count, parameter.numel()) for part in parts]).sum(0).detach()


@contextmanager
def _evaluating(modules: Sequence[nn.Module]) -> Iterator[None]:
    for module in modules:
        module.eval()
    try:
        yield
    finally:
        for module in modules:
            module.train()


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
