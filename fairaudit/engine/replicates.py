"""How a model is computed: by the layer table if it knows every layer, else isolated.

Isolated is: every record by itself, through ``torch.func.vmap`` (``isolation.py``). That takes any
module, and more time and memory. Both kinds answer the same calls (``stacked.py``), and no method
knows which of the two computes its norms and sums.

Shapes: R replicates, B records of a batch, n of a chunk of it, P parameters, Y classes. Where R is
1, [(R,) B, ...] is [B, ...]. A draw names the random numbers of a pass (dropout masks): equal draws
give equal masks.
"""

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fairaudit.engine.devices import CPU
from fairaudit.engine.isolation import BLOCK, Isolated, PerRecord, Values, faults, split_like
from fairaudit.engine.network import Network, Tape, check_table
from fairaudit.engine.refusals import set_mode
from fairaudit.engine.stacked import DEFAULT_BUDGET, GradientTape, Stacked, in_one_row
from fairaudit.errors import TrainingError
from fairaudit.privacy.borrowed import global_stream

CHUNK_BYTES = 32 * 2**20  # of one chunk's gradients
LARGEST_CHUNK = 512  # records
# Numbers in one chunk's inputs: a guard, for what a module's activations take is not known.
CHUNK_NUMBERS = 2**18
_TOLERANCE = 1e-3  # of a gradient's norm; rounding differs by 1e-6 or so, mistakes by much more


class IsolatedNetwork(Stacked):
    """Replicates of one module of any make; ``theta`` [R, P] are the parameters that are trained.

    Frozen parameters and buffers stay as they are, outside theta.

    Args:
        modules: One per replicate, of equal architecture; they are copied.
        seed: Of what a module draws in its forward pass (dropout masks); equal seeds draw alike.
        device: Where the copies lie.

    Raises:
        TrainingError: A layer that cannot be private; no parameter to train.
    """

    def __init__(
        self, modules: Sequence[nn.Module], seed: int = 0, device: torch.device = CPU
    ) -> None:
        self.seed = seed
        # Each replicate twice: as it trains, and as it predicts.
        self.training = [Isolated(module, device) for module in modules]
        self.predicting = [Isolated(module, device, training=False) for module in modules]
        self.shapes = list(self.training[0].start.values())
        rows = [in_one_row(isolated.start.values()) for isolated in self.training]
        self.theta = torch.stack(rows)
        self.bytes_per_record = 4 * self.theta.numel()  # of gradients

    def logits(self, x: Tensor) -> Tensor:
        """Outputs [(R,) B, Y] as the module predicts, dropout off."""
        outputs = []
        with torch.inference_mode(mode=False), torch.no_grad():
            for number, records in enumerate(self.apart(x)):
                predict = self.predicting[number].outputs
                padded = _never_empty(records)
                rows = predict(self.values(number), padded, (self.seed, number, 0))
                outputs.append(rows[: len(records)])
            return self.together(outputs)

    def apart(self, batch: Tensor) -> Sequence[Tensor]:
        """Split [(R,) B, ...] into R tensors [B, ...], one for each replicate."""
        if self.replicates == 1:
            return [batch]
        return batch.unbind()

    def together(self, parts: Sequence[Tensor]) -> Tensor:
        """Join R tensors [B, ...] to [(R,) B, ...]."""
        if self.replicates == 1:
            return parts[0]
        return torch.stack(list(parts))

    def values(self, number: int) -> Values:
        """Parameters of replicate ``number`` by name, as views of theta."""
        names = self.training[number].start
        return dict(zip(names, split_like(self.theta[number], self.shapes), strict=True))

    def graph(self, number: int, x: Tensor, draw: Sequence[int]) -> tuple[Tensor, Values]:
        """Outputs [n, Y] of one replicate as it trains, and a copy of the parameters per record.

        The copies, [m, ...] each by name with m >= n, are leaves of autograd: a gradient in them is
        that of each record by itself.

        Args:
            number: The replicate, 0 to R - 1.
            x: Records [n, ...].
            draw: Equal draws give equal masks.
        """
        stream = (self.seed, number, *draw)
        outputs, leaves = self.training[number].graph(self.values(number), _never_empty(x), stream)
        return outputs[: len(x)], leaves

    def draws(self, x: Tensor, *, training: bool = True) -> bool:
        """Whether the module draws random numbers in a forward pass over records ``x`` [n, ...].

        As it trains, or with ``training`` False as it predicts.
        """
        replicate = self.training[0] if training else self.predicting[0]
        return replicate.draws(self.values(0), _never_empty(x))

    def rows_per_chunk(self, x: Tensor) -> int:
        """How many of the records [n, ...] make a chunk, a power of two.

        It depends on the model and the records' shape alone, never on the memory budget, so that
        the budget changes no bit of a result.
        """
        if self.draws(x):
            return BLOCK
        by_gradients = CHUNK_BYTES // self.bytes_per_record
        by_inputs = CHUNK_NUMBERS // math.prod(x.shape[1:])
        fitting = max(1, min(by_gradients, by_inputs))
        return min(1 << int(math.log2(fitting)), LARGEST_CHUNK)


def _never_empty(x: Tensor) -> Tensor:
    """The records [n, ...], or one record of zeros where n is 0; callers cut it off the outputs.

    Poisson sampling draws an empty batch now and then, which many modules cannot run on.
    """
    if len(x):
        return x
    return x.new_zeros(1, *x.shape[1:])


def gradients_of(outputs: Tensor, leaves: Values, delta: Tensor) -> list[Tensor]:
    """Each record's gradient of <delta, output>: a list of [n, ...], one per parameter.

    Args:
        outputs, leaves: As :meth:`IsolatedNetwork.graph` gives them: the outputs [n, Y], and for
            each record a copy of the parameters from which they were computed.
        delta: Output gradients [n, Y].
    """
    parameters = list(leaves.values())
    gradients = torch.autograd.grad(
        outputs, parameters, delta, allow_unused=True, materialize_grads=True
    )
    return [gradient[: len(delta)] for gradient in gradients]


def weighted_sum(rows: Tensor, weights: Tensor) -> Tensor:
    """``sum_i w_i rows_i`` [...] of rows [n, ...] and weights [n], without copying the rows."""
    # A product with a matrix would copy rows that are transposed, as most gradients of weights are.
    axes = sorted(range(1, rows.dim()), key=rows.stride, reverse=True)
    ordered = rows.permute(0, *axes)
    matrix = ordered.reshape(len(rows), math.prod(ordered.shape[1:]))
    total = torch.mv(matrix.t(), weights).view(ordered.shape[1:])
    back = sorted(range(len(axes)), key=axes.__getitem__)
    return total.permute(back)


@dataclass(slots=True)
class _Chunk:
    """A slice of a replicate's batch, and what is kept of it between the passes.

    Args:
        rows: Slice of the batch.
        x: Its inputs [n, ...].
        draw: Names the dropout masks, so that a second computation meets the same ones.
        graph: Outputs and leaves, kept where the batch is one chunk; None: not kept, computed again
            when they are needed.
        delta: Output gradients [n, Y]; None before the backward pass.
        finite: Which outputs are finite, [n]; None: all are, or it was not tested.
        gradients: Each record's gradient, [n, ...] per parameter, kept while the budget lasts;
            None: not kept, computed again when they are needed.
    """

    rows: slice
    x: Tensor
    draw: tuple[int, ...]
    graph: tuple[Tensor, Values] | None = None
    delta: Tensor | None = None
    finite: Tensor | None = None
    gradients: list[Tensor] | None = None


class _ReplicateTape:
    """The tape of one replicate: the records of a batch on their way through it.

    Args:
        network: All replicates.
        number: Which of them this is, 0 to R - 1.
        budget: Bytes of gradients kept between backward pass and sums.
    """

    def __init__(self, network: IsolatedNetwork, number: int, budget: int) -> None:
        self.network = network
        self.number = number
        self.kept_records = budget // (4 * network.n_parameters)
        self.chunks: list[_Chunk] = []

    def forward(self, x: Tensor, step: int, *, clean: bool) -> Tensor:
        """Logits [B, Y] of inputs [B, ...] at a step, whose number seeds the dropout masks.

        With ``clean`` the logits of records that are not finite are 0.
        """
        self.chunks = []
        logits = []
        size = self.network.rows_per_chunk(x)
        for start in range(0, max(len(x), 1), size):
            rows = slice(start, start + size)
            chunk = _Chunk(
                rows,
                x[rows].clone(),  # autograd refuses what was made in inference mode, as x is
                (step, start),
            )
            graph = self.network.graph(self.number, chunk.x, chunk.draw)
            if len(x) <= size:  # graphs of several chunks together would take too much memory
                chunk.graph = graph
            outputs = graph[0].detach()
            if clean and not math.isfinite(outputs.sum().item()):
                chunk.finite = torch.isfinite(outputs).all(-1)
                outputs = outputs.where(chunk.finite.unsqueeze(-1), 0.0)
            self.chunks.append(chunk)
            logits.append(outputs)
        return torch.cat(logits)

    def backward(self, delta: Tensor) -> Tensor:
        """L2 norms of the per-sample gradients, [B], from the gradient at the logits [B, Y]."""
        norms = []
        for chunk in self.chunks:
            chunk.delta = delta[chunk.rows].clone()
            gradients, chunk_norms = self._gradients(chunk)
            norms.append(chunk_norms)
            if chunk.rows.start + len(chunk.x) <= self.kept_records:
                chunk.gradients = gradients
        return torch.cat(norms)

    def sum_into(self, targets: Sequence[Tensor], weights: Tensor) -> None:
        """Write ``sum_i w_i g_i`` with weights [B] to ``targets``, one tensor per parameter."""
        for number, chunk in enumerate(self.chunks):
            gradients = chunk.gradients or self._gradients(chunk)[0]
            chunk_weights = weights[chunk.rows].clone()
            for target, rows in zip(targets, gradients, strict=True):
                part = weighted_sum(rows, chunk_weights)
                if number:
                    target.add_(part)
                else:
                    target.copy_(part)

    def _gradients(self, chunk: _Chunk) -> tuple[list[Tensor], Tensor]:
        """Each record's gradient, [n, ...] per parameter, and its norm over all of them, [n].

        Both are 0 where an output or a gradient of the record is not finite. The forward pass is
        repeated where its graph was not kept.
        """
        assert chunk.delta is not None
        graph = chunk.graph or self.network.graph(self.number, chunk.x, chunk.draw)
        chunk.graph = None  # a backward pass frees it
        with faults():
            gradients = gradients_of(*graph, chunk.delta)
        lengths = []
        for rows in gradients:
            # One axis more: a parameter that is a single number has none to sum over.
            axes = tuple(range(1, rows.dim() + 1))
            lengths.append(torch.linalg.vector_norm(rows.unsqueeze(-1), dim=axes))
        norms = torch.linalg.vector_norm(torch.stack(lengths), dim=0)
        if chunk.finite is None and math.isfinite(norms.sum().item()):
            return gradients, norms
        usable = torch.isfinite(norms) & torch.isfinite(chunk.delta).all(-1)
        if chunk.finite is not None:
            usable &= chunk.finite
        for rows in gradients:
            rows[~usable] = 0.0
        return gradients, norms.where(usable, 0.0)


class IsolatedTape(GradientTape):
    """The tape of any module: replicates and chunks are computed one after the other.

    A record with a non-finite output or gradient has both zeroed, as on any tape.

    Args:
        network: The replicates.
        rows: The most rows of weights that :meth:`sums` is ever given.
        budget: Bytes of gradients kept between backward pass and sums; affects performance only.
    """

    def __init__(
        self, network: IsolatedNetwork, rows: int = 1, budget: int = DEFAULT_BUDGET
    ) -> None:
        self.network = network
        self._steps = 0
        self._replicates: list[_ReplicateTape] = []
        for number in range(network.replicates):
            self._replicates.append(_ReplicateTape(network, number, budget // network.replicates))
        self._rows = [torch.zeros_like(network.theta) for _ in range(rows)]
        # Views that sums are written to: of each row of weights, each replicate, each parameter.
        self._targets: list[list[list[Tensor]]] = []
        for row in self._rows:
            self._targets.append([list(split_like(isolated, network.shapes)) for isolated in row])

    @torch.inference_mode(False)  # autograd keeps no tensor that was made in inference mode
    def forward(self, x: Tensor, norms: Tensor | None = None, *, clean: bool = False) -> Tensor:
        """Logits [(R,) B, Y] of inputs ``x``; ``norms`` are not needed here.

        With ``clean`` records that are not finite are zeroed now, because a query reads the logits
        before the backward pass; otherwise that pass does it.
        """
        self._steps += 1
        logits = []
        for records, inputs in zip(self._replicates, self.network.apart(x), strict=True):
            logits.append(records.forward(inputs, self._steps, clean=clean))
        return self.network.together(logits)

    @torch.inference_mode(False)
    def backward(self, output_gradient: Tensor) -> Tensor:
        """L2 norms of the per-sample gradients, [(R,) B], from the gradient at the logits."""
        deltas = self.network.apart(output_gradient)
        norms = []
        for records, delta in zip(self._replicates, deltas, strict=True):
            norms.append(records.backward(delta))
        return self.network.together(norms)

    @torch.inference_mode(False)
    def sums(self, weights: Sequence[Tensor]) -> list[Tensor]:
        """``sum_i w_i g_i``, ``[R, P]``, for each row of weights ``[R, B]``.

        They lie in the tape's own memory, and the next call overwrites them.
        """
        for row, by_replicate in zip(weights, self._targets, strict=False):
            for records, weight, targets in zip(self._replicates, row, by_replicate, strict=True):
                records.sum_into(targets, weight)
        return self._rows[: len(weights)]


def stack(modules: Sequence[nn.Module], seed: int = 0, device: torch.device = CPU) -> Stacked:
    """Replicates of one architecture: a Network if the layer table knows it, else isolated.

    Args:
        modules: One per replicate; they are copied.
        seed: Of what an isolated module draws while it trains (dropout masks).
        device: Where the copies lie.

    Raises:
        TrainingError: A layer that cannot be private.
    """
    if outside_table(modules[0]):
        return IsolatedNetwork(modules, seed, device)
    return Network(modules, device)


def outside_table(module: nn.Module) -> str:
    """Why the layer table cannot compute a model, in words for people; empty where it can."""
    try:
        check_table(module)
    except TrainingError as error:
        return error.message
    return ""


def tape_of(stacked: Stacked, rows: int = 1, budget: int = DEFAULT_BUDGET) -> GradientTape:
    """The tape that fits the replicates, a table's network or isolated modules.

    Args:
        stacked: The replicates.
        rows: The most rows of weights that ``sums`` is ever given.
        budget: Bytes kept between the tape's passes; affects performance only.
    """
    if isinstance(stacked, IsolatedNetwork):
        return IsolatedTape(stacked, rows, budget)
    assert isinstance(stacked, Network)
    return Tape(stacked, rows, budget)


def check_model(module: nn.Module, records: Tensor, classes: int) -> None:
    """Compare what the engine computes for each of a few records with PyTorch on that record alone.

    The guarantee does not rest on it. It finds early a model that would not train as its author
    meant: a layer with a hook, a model that mixes the records of a batch, a parameter that the
    model keeps where the engine does not see it. Passes that draw random numbers are not compared.

    Args:
        module: A model, which stays as it is.
        records: A few inputs [n, ...].
        classes: Y.

    Raises:
        TrainingError: They differ, or the module fails.
    """
    if isinstance(module, PerRecord):
        module = module.inner
    # Arbitrary output gradients, all different, so that no record can be mistaken for another.
    delta = torch.arange(1.0, len(records) * classes + 1).cos_().view(len(records), classes)
    network = stack([module])
    # Parameters are moved away from the start, so that a module that reads its own parameters and
    # not those that it is handed gives a different result.
    moved = torch.Generator().manual_seed(0)
    network.theta += 0.1 * torch.empty(network.theta.shape).uniform_(-1, 1, generator=moved)
    with faults():
        bare = copy.deepcopy(module).float()
        trained = [parameter for parameter in bare.parameters() if parameter.requires_grad]
        nn.utils.vector_to_parameters(network.theta[0].clone(), trained)
        tape = tape_of(network)
        tape.forward(records)
        draws = draws_at_last = False  # whether it draws numbers: as it trains, as it predicts
        if isinstance(network, IsolatedNetwork):
            draws = network.draws(records)
            draws_at_last = network.draws(records, training=False)
        if not draws:
            norms = tape.backward(delta)
            set_mode(bare, training=True)
            for number, (record, direction) in enumerate(zip(records, delta, strict=True)):
                weight = torch.zeros(1, len(records))
                weight[0, number] = 1.0
                with torch.enable_grad():
                    value = (bare(record.clone().unsqueeze(0))[0] * direction).sum()
                    gradients = torch.autograd.grad(
                        value, trained, allow_unused=True, materialize_grads=True
                    )
                alone = in_one_row(rows.to_dense() for rows in gradients)
                summed = tape.sums([weight])[0][0]
                if not (_agree(summed, alone) and _agree(norms[number], alone.norm())):
                    raise _difference(bare, records)
        if not draws_at_last:
            with torch.no_grad():
                set_mode(bare, training=False)
                if not _agree(network.logits(records), bare(records.clone())):
                    raise _difference(bare, records)


def _agree(batched: Tensor, alone: Tensor) -> bool:
    """Whether what the engine computes equals what PyTorch computes, but for rounding.

    Args:
        batched: A record's gradient, its norm or its logits, as the engine computes them in a
            batch.
        alone: The same from PyTorch, for the record by itself.
    """
    return float((batched - alone).norm()) <= _TOLERANCE * float(alone.norm()) + 1e-6  # not of NaN


def _difference(module: nn.Module, records: Tensor) -> TrainingError:
    """The error of a model that would not train as its author meant, with what makes it differ.

    Args:
        module: In the mode in which it differs.
        records: On which it does, [n, ...].
    """
    with global_stream(0), torch.no_grad():
        alone = torch.cat([module(record.clone().unsqueeze(0)) for record in records])
        together = module(records.clone())
    if not bool(torch.isfinite(alone).all()):
        return TrainingError(
            "the model puts out numbers that are not finite for one record alone",
            hint="a division by 0, or the logarithm or root of one? add a small constant",
        )
    if together.shape != alone.shape or not _agree(together, alone):
        return TrainingError(
            "the model puts out other numbers for records in a batch than for one record alone",
            hint="leave out what reads other records: a mean over the batch, its size, a layer "
            "without batch_first=True",
        )
    return TrainingError(
        "the model's gradients under torch.func.vmap are not those of one record alone",
        hint="does it compute in half precision, as under autocast, or keep parameters in a plain "
        "list? leave that out",
    )
