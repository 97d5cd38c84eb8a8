"""Replicates of a module that the layer table lacks, behind the calls of any other network.

Slower and larger than the table by far; no method knows which of the two computes its norms and sums.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fairaudit.engine.devices import CPU
from fairaudit.engine.isolation import Isolated
from fairaudit.engine.stacked import DEFAULT_BUDGET, GradientTape, Stacked

CHUNK_BYTES = 32 * 2**20  # of one chunk's written gradients
LARGEST_CHUNK = 256  # records
CHUNK_NUMBERS = 2**18  # of one chunk's inputs: what a module's activations take is not known


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

    @property
    def bytes_per_record(self) -> int:
        """Of one record's written gradients, over the replicates."""
        return 4 * self.theta.numel()

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
