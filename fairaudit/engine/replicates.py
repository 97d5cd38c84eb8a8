"""How a model is computed: by the layer table if it knows every layer, else isolated.

Isolated is: every record by itself, through ``torch.func.vmap`` (``isolation.py``). That takes any
module, and more time. Both kinds answer the same calls (``stacked.py``), and no method knows which
of the two computes its norms and sums.

Shapes: R replicates, B records of a batch, n of a chunk of it, P parameters, Y classes. Where R is
1, [(R,) B, ...] is [B, ...]. A draw names the random numbers of a pass (dropout masks): equal draws
give equal masks.
"""

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from fairaudit.engine.devices import CPU
from fairaudit.engine.isolation import (
    BLOCK,
    Graph,
    Isolated,
    PerRecord,
    UsedElsewhere,
    Values,
    faults,
    split_like,
)
from fairaudit.engine.layer import Shape
from fairaudit.engine.network import Network, Tape, check_table
from fairaudit.engine.refusals import set_mode
from fairaudit.engine.stacked import DEFAULT_BUDGET, GradientTape, Stacked, in_one_row
from fairaudit.engine.terms import Term
from fairaudit.errors import TrainingError
from fairaudit.privacy.borrowed import global_stream

CHUNK_BYTES = 128 * 2**20  # of one chunk's terms, which is about what its activations take
COPY_BYTES = 32 * 2**20  # of one chunk's copies of parameters, which have gradients of equal size
LARGEST_CHUNK = 512  # records
# Numbers in one chunk's inputs: a guard, for what a module's activations take is not known.
CHUNK_NUMBERS = 2**18
COMPARED = 8  # records that are made up, on which taps and copies are compared
# Shares of a gradient's norm by which two computations may differ; rounding differs by 1e-6 or so,
# mistakes by much more.
AGREEMENT = 1e-4  # with taps and with copies
_TOLERANCE = 1e-3  # in a batch and alone


@dataclass(frozen=True, slots=True)
class Tapping:
    """Which layers of a module are tapped; of the other parameters every record has a copy.

    Args:
        outputs: The layers that are tapped, by path, and the shape of their output for one record.
        numbers: How many numbers are kept of a record between norms and sums.
        copied: How many parameters every record has a copy of.
        products: How many multiplications the tapped layers take in one record's forward pass.
        why_not: Why known layers are not tapped; "" where they are, or where there is none.
    """

    outputs: Mapping[str, Shape]
    numbers: int
    copied: int
    products: int = 0
    why_not: str = ""


class _Unlike(Exception):
    """Taps and copies give different gradients, or no finite ones."""


def choose_taps(module: nn.Module, shape: Shape) -> Tapping:
    """Tap the known layers of a module if its gradients are the same with taps as with copies.

    A layer is not tapped if its parameters are used in another way than by one call of it. The
    guarantee does not rest on the comparison, which is made on the CPU, at parameters near the
    start and on records that are made up: what is chosen follows from the module and from shapes.

    Args:
        module: Of any make; it stays as it is.
        shape: Of one record.

    Raises:
        TrainingError: As :class:`Isolated` and :meth:`Isolated.outputs`.
    """
    why_not = ""
    with CPU:
        isolated = Isolated(module)
        draw = torch.Generator().manual_seed(0)
        theta = in_one_row(isolated.start.values())
        # Moved from the start, where parameters that are 0 would hide differences.
        theta += torch.empty(theta.shape).uniform_(-0.1, 0.1, generator=draw)
        if not isolated.layers:
            return Tapping({}, numbers=len(theta), copied=len(theta))
        # Normal numbers first. A module that looks up rows of a table by its inputs needs whole
        # numbers that are not negative: those below 2 become 0 or 1, which two rows suffice for.
        records = torch.empty(COMPARED, *shape)
        for make_up in (records.normal_, partial(records.uniform_, 0.0, 2.0)):
            make_up(generator=draw)
            try:
                return _checked_tapping(isolated, theta, records)
            except _Unlike as error:
                why_not = str(error)
            except TrainingError as error:
                if error.__cause__ is None:  # refused; other records do not help
                    raise
                why_not = error.message
        return Tapping({}, numbers=len(theta), copied=len(theta), why_not=why_not)


def _checked_tapping(isolated: Isolated, theta: Tensor, records: Tensor) -> Tapping:
    """Tap the layers that can be, once each record's gradient is the same as with copies.

    Args:
        isolated: The module as it trains.
        theta: Its parameters in one row [P].
        records: On which gradients are compared, [n, ...].

    Raises:
        _Unlike: Gradients differ.
        TrainingError: The module fails on these records, or is refused.
    """
    stream = (0,)
    shapes = dict(isolated.shapes(theta, records, stream))
    with_copies = isolated.record(theta, records, stream, {})
    delta = _directions(with_copies.outputs)
    with faults():
        gradients = gradients_of(with_copies.outputs, with_copies.copies, delta)
    by_copies = dict(zip(with_copies.copies, gradients, strict=True))
    # A layer whose parameters are used elsewhere, too, is tapped no more, and the others are tried
    # again. This ends: each error names a parameter of at least one layer that is still tapped.
    while True:
        with_taps = isolated.record(theta, records, stream, _output_shapes(shapes))
        try:
            terms = with_taps.terms(delta)
            break
        except UsedElsewhere as error:
            for path in list(shapes):
                if not set(error.names).isdisjoint(isolated.layers[path].names(path)):
                    del shapes[path]
    for number in range(len(records)):
        if not _gives_gradient(terms, by_copies, number):
            raise _Unlike("layers of known types have other gradients in it than by autograd")
    copied = sum(isolated.start[name].numel() for name in with_taps.copies)
    numbers, products = copied, 0
    for path, of_record in shapes.items():
        numbers += isolated.layers[path].numbers(*of_record)
        products += isolated.layers[path].multiplications(*of_record)
    return Tapping(_output_shapes(shapes), numbers, copied, products)


def _gives_gradient(terms: Mapping[str, Term], gradients: Values, number: int) -> bool:
    """Whether the terms of n records give the gradient of record ``number``, but for rounding.

    Args:
        terms: Of some parameters, by name; the gradient in one without a term is 0.
        gradients: Every record's, [n, ...], of all parameters by name.
        number: 0 to n - 1.
    """
    differences, lengths = [], []
    for name, rows in gradients.items():
        # A weighted sum in which this record alone has a weight is the record's gradient.
        weights = torch.zeros(len(rows))
        weights[number] = 1.0
        gradient = torch.zeros_like(rows[number])
        if name in terms:
            terms[name].add_to(gradient, weights)
        differences.append((gradient - rows[number]).norm())
        lengths.append(rows[number].norm())
    limit = AGREEMENT * torch.stack(lengths).norm() + 1e-6
    return bool(torch.stack(differences).norm() <= limit)  # False for NaN


def _output_shapes(shapes: Mapping[str, tuple[Shape, Shape]]) -> dict[str, Shape]:
    """The shapes of outputs, by path, from those of inputs and outputs."""
    return {path: output for path, (_, output) in shapes.items()}


def _directions(outputs: Tensor) -> Tensor:
    """Arbitrary output gradients in the shape of outputs [n, Y].

    All are different, so that no record can be mistaken for another.
    """
    return torch.arange(1.0, outputs.numel() + 1).cos_().view(outputs.shape)


class IsolatedNetwork(Stacked):
    """Replicates of one module of any make; ``theta`` [R, P] are the parameters that are trained.

    Every record is computed by itself. Frozen parameters and buffers stay as they are, outside
    theta.

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
        # Two copies of each module: one in training mode, one as it predicts (dropout off).
        self.training = [Isolated(module, device) for module in modules]
        self.predicting = [Isolated(module, device, training=False) for module in modules]
        self.shapes = list(self.training[0].start.values())
        rows = [in_one_row(isolated.start.values()) for isolated in self.training]
        self.theta = torch.stack(rows)
        self._values = [self.named(row) for row in self.theta]  # views: theta moves in place
        self._module = modules[0]  # from which taps are chosen at the first pass
        self._tapping: Tapping | None = None  # None: not chosen yet
        self.bytes_per_record = 4 * self.theta.numel()  # of gradients

    def logits(self, x: Tensor) -> Tensor:
        """Outputs [(R,) B, Y] as the module predicts, dropout off."""
        outputs = []
        with torch.inference_mode(mode=False), torch.no_grad():
            for number, records in enumerate(self.by_replicate(x)):
                predict = self.predicting[number].outputs
                padded = _never_empty(records)
                rows = predict(self.values(number), padded, (self.seed, number, 0))
                outputs.append(rows[: len(records)])
            return self.together(outputs)

    def by_replicate(self, batch: Tensor) -> Sequence[Tensor]:
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
        return self._values[number]

    def named(self, row: Tensor) -> Values:
        """Views of a row [P] by the parameters' names, in their shapes."""
        names = self.training[0].start
        return dict(zip(names, split_like(row, self.shapes), strict=True))

    def tapping(self, x: Tensor) -> Tapping:
        """Which layers are tapped for records [n, ...]; the first call chooses."""
        if self._tapping is None:
            self._tapping = choose_taps(self._module, tuple(x.shape[1:]))
        return self._tapping

    def copy_all(self, error: UsedElsewhere) -> None:
        """From now on tap no layer and copy all parameters for every record.

        For a module that uses parameters in other ways than when taps were chosen; the text of
        ``error`` is their names.
        """
        size = self.n_parameters
        self._tapping = Tapping({}, size, size, why_not=f"{error} are used in changing ways")

    def graph(self, number: int, x: Tensor, draw: Sequence[int]) -> Graph:
        """A pass of one replicate as it trains, from which gradients of single records follow.

        Args:
            number: The replicate, 0 to R - 1.
            x: Records [n, ...].
            draw: Equal draws give equal masks.
        """
        stream = (self.seed, number, *draw)
        tapped = self.tapping(x).outputs
        return self.training[number].record(self.theta[number], _never_empty(x), stream, tapped)

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
        if self.draws(x):  # a pass is filled up to BLOCK records, which fixes their masks
            return BLOCK
        tapping = self.tapping(x)
        by_terms = CHUNK_BYTES // (4 * tapping.numbers)
        by_copies = COPY_BYTES // (4 * max(1, tapping.copied))
        by_inputs = CHUNK_NUMBERS // math.prod(x.shape[1:])
        fitting = max(1, min(by_terms, by_copies, by_inputs))
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
        outputs: Of n records, [n, Y].
        leaves: The parameters by name from which they were computed, [m, ...]: a copy for each of
            m >= n records. Those beyond n fill up the pass.
        delta: Output gradients [n, Y].
    """
    parameters = list(leaves.values())
    # materialize_grads: 0, not None, of a parameter that no output depends on.
    gradients = torch.autograd.grad(
        outputs, parameters, delta, allow_unused=True, materialize_grads=True
    )
    return [gradient[: len(delta)] for gradient in gradients]


@dataclass(slots=True)
class _Chunk:
    """A slice of a replicate's batch, and what is kept of it between the passes.

    Args:
        rows: Slice of the batch.
        x: Its inputs [n, ...].
        draw: (step, first record): names the dropout masks, so that a second computation meets the
            same ones.
        graph: Of its forward pass, kept while the budget lasts; None: not kept, computed again when
            it is needed.
        delta: Output gradients [n, Y]; None before the backward pass.
        finite: Which outputs are finite, [n]; None: all are, or it was not tested.
        terms: Of each parameter by name, kept while the budget lasts; None: not kept, computed
            again when they are needed.
    """

    rows: slice
    x: Tensor
    draw: tuple[int, ...]
    graph: Graph | None = None
    delta: Tensor | None = None
    finite: Tensor | None = None
    terms: dict[str, Term] | None = None


class _ReplicateTape:
    """The tape of one replicate: the records of a batch on their way through it.

    Args:
        network: All replicates.
        number: Which of them this is, 0 to R - 1.
        budget: Bytes of graphs and of terms kept between the passes.
    """

    def __init__(self, network: IsolatedNetwork, number: int, budget: int) -> None:
        self.network = network
        self.number = number
        self.budget = budget
        self.chunks: list[_Chunk] = []

    def forward(self, x: Tensor, step: int, *, clean: bool) -> Tensor:
        """Logits [B, Y] of inputs [B, ...] at a step, whose number seeds the dropout masks.

        With ``clean`` the logits of records that are not finite are 0.
        """
        self.chunks = []
        logits = []
        size = self.network.rows_per_chunk(x)
        if len(x) > size and not self.network.draws(x):
            # As many chunks of about equal size, so that the last one is not of a few records.
            size = math.ceil(len(x) / math.ceil(len(x) / size))
        # An empty batch is one empty chunk, so that logits, norms and sums have their shapes.
        for start in range(0, max(len(x), 1), size):
            rows = slice(start, start + size)
            chunk = _Chunk(rows, x[rows], (step, start))
            graph = self.network.graph(self.number, chunk.x, chunk.draw)
            outputs = graph.outputs.detach()[: len(chunk.x)]
            # The graph of a batch of one chunk is kept in any case: one has to fit anyway.
            if len(x) <= size or self._keeps(chunk):
                chunk.graph = graph
            if clean and not math.isfinite(outputs.sum().item()):
                chunk.finite = torch.isfinite(outputs).all(-1)
                outputs = outputs.where(chunk.finite.unsqueeze(-1), 0.0)
            self.chunks.append(chunk)
            logits.append(outputs)
        return torch.cat(logits) if len(logits) > 1 else logits[0]

    def backward(self, delta: Tensor) -> Tensor:
        """L2 norms of the per-sample gradients, [B], from the gradient at the logits [B, Y]."""
        norms = []
        for chunk in self.chunks:
            # Cloned, because autograd takes no tensor that was made in inference mode, as the
            # loop makes them.
            chunk.delta = delta[chunk.rows].clone()
            terms, chunk_norms = self._terms(chunk)
            norms.append(chunk_norms)
            if self._keeps(chunk):
                chunk.terms = terms
        return torch.cat(norms) if len(norms) > 1 else norms[0]

    def add_to(self, targets: Values, weights: Tensor) -> None:
        """Add ``sum_i w_i g_i``, with weights [B], to ``targets``, one tensor per parameter."""
        for chunk in self.chunks:
            terms = self._terms(chunk)[0] if chunk.terms is None else chunk.terms
            chunk_weights = weights[chunk.rows].clone()  # for the reason given in ``backward``
            for name, term in terms.items():
                term.add_to(targets[name], chunk_weights)

    def _keeps(self, chunk: _Chunk) -> bool:
        """Whether the budget lasts for what is kept of all records to the end of this chunk."""
        numbers = self.network.tapping(chunk.x).numbers
        last: int = chunk.rows.start + len(chunk.x)
        return 4 * numbers * last <= self.budget

    def _terms(self, chunk: _Chunk) -> tuple[dict[str, Term], Tensor]:
        """The terms of a chunk by parameter name, and the norm of each record's gradient, [n].

        A record with an output or a gradient that is not finite has 0 in both (rule R6). The
        forward pass is repeated where its graph was not kept.
        """
        assert chunk.delta is not None
        network = self.network
        graph = chunk.graph or network.graph(self.number, chunk.x, chunk.draw)
        chunk.graph = None  # a backward pass frees it
        try:
            terms = graph.terms(chunk.delta)
        except UsedElsewhere as error:  # the graph has taps; a new one has copies alone
            network.copy_all(error)
            terms = network.graph(self.number, chunk.x, chunk.draw).terms(chunk.delta)
        norms = chunk.delta.new_zeros(len(chunk.delta))
        if terms:
            norms_by_parameter = torch.stack([term.norms for term in terms.values()])
            norms = torch.linalg.vector_norm(norms_by_parameter, dim=0)
        # One scalar test in the common case; masks only where something is not finite.
        if chunk.finite is None and math.isfinite(norms.sum().item()):
            return terms, norms
        usable = torch.isfinite(norms) & torch.isfinite(chunk.delta).all(-1)
        if chunk.finite is not None:
            usable &= chunk.finite
        terms = {name: term.without(usable) for name, term in terms.items()}
        return terms, norms.where(usable, 0.0)


class IsolatedTape(GradientTape):
    """The tape of any module: replicates and chunks are computed one after the other.

    Of a record with a non-finite output or gradient the norm and the gradient's terms are 0; with
    ``clean`` its logits are, too.

    Args:
        network: The replicates.
        most_sums: The most weighted sums that one call of :meth:`sums` computes, each with weights
            [R, B] of the records.
        budget: Bytes of graphs and terms kept between the tape's passes; affects performance only.
    """

    def __init__(
        self, network: IsolatedNetwork, most_sums: int = 1, budget: int = DEFAULT_BUDGET
    ) -> None:
        self.network = network
        self._steps = 0  # forward passes so far, which name the dropout masks
        self._replicates: list[_ReplicateTape] = []
        for number in range(network.replicates):
            self._replicates.append(_ReplicateTape(network, number, budget // network.replicates))
        self._sums = [torch.zeros_like(network.theta) for _ in range(most_sums)]
        # Views that sums are written to: of each sum, each replicate, each parameter.
        self._targets: list[list[Values]] = []
        for total in self._sums:
            self._targets.append([network.named(of_replicate) for of_replicate in total])

    @torch.inference_mode(False)  # autograd keeps no tensor that was made in inference mode
    def forward(self, x: Tensor, norms: Tensor | None = None, *, clean: bool = False) -> Tensor:
        """Logits [(R,) B, Y] of inputs ``x``; ``norms`` are not needed here.

        With ``clean`` records that are not finite are zeroed now, because a query reads the logits
        before the backward pass; otherwise that pass does it.
        """
        self._steps += 1
        logits = []
        for replicate, inputs in zip(self._replicates, self.network.by_replicate(x), strict=True):
            logits.append(replicate.forward(inputs, self._steps, clean=clean))
        return self.network.together(logits)

    @torch.inference_mode(False)
    def backward(self, output_gradient: Tensor) -> Tensor:
        """L2 norms of the per-sample gradients, [(R,) B], from the gradient at the logits."""
        deltas = self.network.by_replicate(output_gradient)
        norms = []
        for replicate, delta in zip(self._replicates, deltas, strict=True):
            norms.append(replicate.backward(delta))
        return self.network.together(norms)

    @torch.inference_mode(False)
    def sums(self, weights: Sequence[Tensor]) -> list[Tensor]:
        """``sum_i w_i g_i``, ``[R, P]``, for each row of weights ``[R, B]``.

        They lie in the tape's own memory, and the next call overwrites them.
        """
        for total in self._sums[: len(weights)]:
            total.zero_()
        # There may be fewer rows of weights than the tape has memory for.
        for row, by_replicate in zip(weights, self._targets, strict=False):
            for tape, weight, targets in zip(self._replicates, row, by_replicate, strict=True):
                tape.add_to(targets, weight)
        return self._sums[: len(weights)]


def stack(modules: Sequence[nn.Module], seed: int = 0, device: torch.device = CPU) -> Stacked:
    """Replicates of one architecture: a Network if the layer table knows it, else isolated.

    Args:
        modules: One per replicate; they are copied.
        seed: Of what an isolated module draws while it trains (dropout masks).
        device: Where the copies lie.

    Raises:
        TrainingError: A layer that cannot be private.
    """
    if why_not_in_table(modules[0]):
        return IsolatedNetwork(modules, seed, device)
    return Network(modules, device)


def why_not_in_table(module: nn.Module) -> str:
    """Why the layer table cannot compute a model, in words for people; empty where it can."""
    try:
        check_table(module)
    except TrainingError as error:
        return error.message
    return ""


def tape_of(stacked: Stacked, most_sums: int = 1, budget: int = DEFAULT_BUDGET) -> GradientTape:
    """The tape that fits the replicates, a table's network or isolated modules.

    Args:
        stacked: The replicates.
        most_sums: The most weighted sums that one call of ``sums`` computes, each with weights
            [R, B] of the records.
        budget: Bytes kept between the tape's passes; affects performance only.
    """
    if isinstance(stacked, IsolatedNetwork):
        return IsolatedTape(stacked, most_sums, budget)
    assert isinstance(stacked, Network)
    return Tape(stacked, most_sums, budget)


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
        draws_training = draws_predicting = False
        if isinstance(network, IsolatedNetwork):
            draws_training = network.draws(records)
            draws_predicting = network.draws(records, training=False)
        if not draws_training:
            set_mode(bare, training=True)
            delta = _directions(torch.empty(len(records), classes))
            _check_gradients(tape, bare, records, delta)
        if not draws_predicting:
            with torch.no_grad():
                set_mode(bare, training=False)
                if not _agree(network.logits(records), bare(records.clone())):
                    raise _difference(bare, records)


def _check_gradients(tape: GradientTape, bare: nn.Module, records: Tensor, delta: Tensor) -> None:
    """Compare each record's gradient of <delta, output>, and its norm, on the tape and by autograd.

    Args:
        tape: Of one replicate, after its forward pass over the records.
        bare: The user's module with the same parameters, as PyTorch runs it.
        records: [n, ...].
        delta: Output gradients [n, Y].

    Raises:
        TrainingError: They differ.
    """
    trained = [parameter for parameter in bare.parameters() if parameter.requires_grad]
    norms = tape.backward(delta)
    for number, (record, direction) in enumerate(zip(records, delta, strict=True)):
        with torch.enable_grad():
            value = (bare(record.clone().unsqueeze(0))[0] * direction).sum()
            gradients = torch.autograd.grad(
                value, trained, allow_unused=True, materialize_grads=True
            )
        alone = in_one_row(gradient.to_dense() for gradient in gradients)
        # A weighted sum in which this record alone has a weight is the record's gradient.
        weights = torch.zeros(1, len(records))
        weights[0, number] = 1.0
        on_tape = tape.sums([weights])[0][0]
        if not (_agree(on_tape, alone) and _agree(norms[number], alone.norm())):
            raise _difference(bare, records)


def _agree(batched: Tensor, alone: Tensor) -> bool:
    """Whether what the engine computes equals what PyTorch computes, but for rounding.

    Args:
        batched: A record's gradient, its norm or its logits, as the engine computes them in a
            batch.
        alone: The same from PyTorch, for the record by itself.
    """
    limit = _TOLERANCE * float(alone.norm()) + 1e-6
    return float((batched - alone).norm()) <= limit  # False for NaN


def _difference(module: nn.Module, records: Tensor) -> TrainingError:
    """The error of a model that the engine computes otherwise than PyTorch, with a likely cause.

    Args:
        module: The model, in the mode (training or predicting) in which it differs.
        records: The inputs on which it does, [n, ...].
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
