"""A user's own module as a function of parameters and one record, for many records at once.

``torch.func.vmap`` runs the module as if every record were alone: inside, a batch has one record,
and no operation reaches another. Parameters and buffers are handed in as copies. What vmap cannot
run is refused, and so is a module that changes its attributes or buffers in its first passes. What
a module keeps in any other place is not looked for: a guarantee then holds if the module keeps
nothing of what it reads.

A pass is one call of the vmapped module. Its stream, some integers, names the random numbers that
it draws (dropout masks): equal streams give equal draws. A trace is what a module keeps of records.

Gradients of single records come in two ways. Every record is given a copy of a parameter; or a
layer of known type has a tap, and its parameters are shared by all records (``taps.py``). Both are
functions of one record alone. Which way a layer goes is decided on records that are made up, so it
depends on the module and on shapes, and on no record.
"""

import copy
import math
import pickle
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch._functorch.autograd_function import custom_function_call
from torch._ops import OpOverload, OpOverloadPacket
from torch.autograd.graph import disable_saved_tensors_hooks
from torch.func import vmap
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from fairaudit.engine.devices import CPU
from fairaudit.engine.layer import Shape
from fairaudit.engine.refusals import (
    ELSEWHERE,
    explained,
    fault,
    place_of,
    refuse_uncopyable,
    set_mode,
)
from fairaudit.engine.stacked import in_one_row, refuse_untrainable
from fairaudit.engine.taps import Recording, Taps
from fairaudit.engine.terms import Gradients, TappedLayer, Term
from fairaudit.errors import FairauditError, TrainingError, said
from fairaudit.privacy.borrowed import (
    global_stream,
    other_generator_states,
    torch_states,
    torch_stream,
)

Values = Mapping[str, Tensor]  # parameter name -> value

# A module that draws random numbers gets a multiple of so many records in each pass: what a record
# draws depends on how many there are.
BLOCK = 64
WATCHED_PASSES = 8  # the first passes, after each of which attributes and buffers are compared
STATELESS = (
    "a guarantee for each record needs a forward that leaves no trace: keep no statistics, "
    "counters, caches or records; declare constants in __init__, and use nn.GroupNorm to normalise"
)


class Isolated:
    """One copy of a module, as it trains or as it predicts, run on each record by itself.

    ``start`` holds the trainable parameters' initial values by name.

    Args:
        module: Of any make; it is copied, and the copy is what runs.
        device: Where the copy lies.
        training: Whether layers behave as in training, dropout above all.

    Raises:
        TrainingError: A layer that cannot be private, no parameter to train, or a module that
            cannot be copied.
    """

    def __init__(
        self, module: nn.Module, device: torch.device = CPU, *, training: bool = True
    ) -> None:
        if isinstance(module, PerRecord):
            module = module.inner
        refuse_uncopyable(module)
        refuse_untrainable(module)
        self.start: dict[str, Tensor] = {}
        self._constants: dict[str, Tensor] = {}
        with faults():  # parts may copy themselves, or have no sizes yet
            self.module = set_mode(copy.deepcopy(module).float().to(device), training=training)
            for name, value in (*self.module.named_parameters(), *self.module.named_buffers()):
                values = self.start if value.requires_grad else self._constants
                values[name] = value.detach().clone()
        self._draws: bool | None = None  # whether it draws; None: not known before the first pass
        # Whether Python's or NumPy's generator is drawn from, as far as passes were watched.
        self._uses_other_generators = False
        self._watch = _Watch()
        # What a pass sets for ``of_one``, to which vmap hands the tensors of one record alone:
        # values that all records share, names of parameters that each has a copy of, the recording.
        self._shared: Values = {}
        self._copied: tuple[str, ...] = ()
        self._recording: Recording | None = None
        self._slots = list(_slots_of(self.module))
        self._taps = Taps(self.module)
        self._held = _held_by(self.module, self._constants)
        self._watched = WATCHED_PASSES  # passes still to be watched

    def outputs(self, values: Values, x: Tensor, stream: Sequence[int]) -> Tensor:
        """Outputs [n, Y] of records, differentiable in the parameters.

        Args:
            values: Parameters by name, in the order of ``start``; used for every record.
            x: Records [n, ...], at least one.
            stream: Names the random numbers of the pass; no record changes those of another.

        Raises:
            TrainingError: The module fails, its output is not one row for a record, or it writes to
                parameters, buffers or attributes.
        """
        # The module is handed views of one row, ``flat``. If that differs from its copy ``theta``
        # after the pass, the module wrote to a parameter.
        flat = torch.cat([value.flatten() for value in values.values()])
        theta = flat.detach().clone()
        self._draws_at(theta, x)  # the first time, a pass that refuses what vmap cannot run
        return self._pass(theta, flat, self._named(flat), x, stream)

    def graph(
        self, values: Values, x: Tensor, stream: Sequence[int]
    ) -> tuple[Tensor, Mapping[str, Tensor]]:
        """Outputs [n, Y] of records, and by name the copies of the parameters that gave them.

        Each record is computed with a copy of its own, a row of [m, ...], m >= n (the batch is
        padded to m). The copies are leaves of autograd, so that the gradient of <delta, outputs> in
        them is that of each record by itself. Arguments and errors are those of :meth:`outputs`.
        """
        graph = self.record(in_one_row(values.values()), x, stream, tapped={})
        return graph.outputs, graph.copies

    def record(
        self, theta: Tensor, x: Tensor, stream: Sequence[int], tapped: Mapping[str, Shape]
    ) -> "Graph":
        """One pass over records [n, ...], from which :meth:`Graph.terms` makes their gradients.

        Args:
            theta: The values of all parameters in one row [P].
            x, stream: As of :meth:`outputs`.
            tapped: Layers that get a tap, by path, and the shape of their output for one record.
                All records share the parameters of these; others are copied for each record.

        Raises:
            TrainingError: As :meth:`outputs`.
        """
        # A module that draws is always given a multiple of BLOCK records: what a record draws
        # depends on how many there are.
        missing = -len(x) % BLOCK if self._draws_at(theta, x) else 0
        if missing:
            x = torch.cat([x, x.new_zeros(missing, *x.shape[1:])])
        layers = {path: self.layers[path] for path in tapped}
        names_of_tapped = {name for path, layer in layers.items() for name in layer.names(path)}
        flat = theta.clone()  # parameters are views of it: a write to one shows against ``theta``
        copies: dict[str, Tensor] = {}
        shared: dict[str, Tensor] = {}
        for name, value in self._named(flat).items():
            if name in names_of_tapped:
                shared[name] = value.requires_grad_()
            else:
                copies[name] = value.expand(len(x), *value.shape).requires_grad_()
        # The same values once more, which autograd does not follow: tapped layers compute with
        # these, and the module is handed ``shared``.
        bare = self._named(flat)
        taps = {}
        for path, shape in tapped.items():
            layer = layers[path]
            # A bias is the last of a layer's names. The tap is a view of it (or of a zero) with an
            # entry for each number of the outputs, and so is its gradient.
            has_bias = "bias" in layer.trained
            bias = bare[layer.names(path)[-1]] if has_bias else flat.new_zeros(())
            taps[path] = layer.spread(bias, (len(x), *shape)).requires_grad_()
        recording = Recording(taps, bare) if taps else None
        # A hook on saved tensors would see all records at once, outside vmap.
        no_hooks = disable_saved_tensors_hooks("hooks on saved tensors")
        with torch.enable_grad(), no_hooks:
            outputs = self._pass(theta, flat, shared, x, stream, copies, recording)
            if missing:
                outputs = outputs[:-missing]
        return Graph(outputs, copies, shared, taps, layers, recording.inputs if recording else {})

    @property
    def layers(self) -> Mapping[str, TappedLayer]:
        """The layers of known types, by path."""
        return self._taps.layers

    def shapes(
        self, theta: Tensor, x: Tensor, stream: Sequence[int]
    ) -> Mapping[str, tuple[Shape, Shape]]:
        """Shapes of one record's input and output at each layer that may be tapped, by path.

        Arguments and errors are those of :meth:`record`.
        """
        self._draws_at(theta, x)  # the first time, a pass that refuses what vmap cannot run
        flat = theta.clone()
        values = self._named(flat)
        recording = Recording({}, values)  # without taps it records shapes alone
        with torch.no_grad():
            self._pass(theta, flat, values, x, stream, {}, recording)
        return recording.shapes

    def draws(self, values: Values, x: Tensor) -> bool:
        """Whether the forward pass draws random numbers; the first call runs one record to see.

        Args:
            values: Parameters by name.
            x: Records [n, ...], at least one.

        Raises:
            TrainingError: vmap cannot run the module, or :meth:`outputs` refuses it.
        """
        if self._draws is None:
            return self._draws_at(in_one_row(values.values()), x)
        return self._draws

    def _draws_at(self, theta: Tensor, x: Tensor) -> bool:
        """As :meth:`draws`, with the values of all parameters in one row [P].

        The first call runs one record, and so refuses a module that vmap cannot run.
        """
        if self._draws is not None:
            return self._draws
        flat = theta.clone()
        try:
            with torch.no_grad():
                # A pass sets ``_draws``: whether a generator's state moved.
                self._pass(theta, flat, self._named(flat), x[:1], (0,))
        except TrainingError as error:
            if error.__cause__ is None:  # this file refused the module, which raised nothing
                raise
            # Run without vmap: if that fails too, ``faults`` raises, for the fault is the module's
            # and not vmap's. It is run on zeros, for an error may quote a record.
            with global_stream(0), torch.no_grad(), faults():
                self.module(torch.zeros_like(x[:1]))
            cause = error.__cause__
            unknown = TrainingError(
                f"torch.func.vmap cannot run the model over single records: {said(cause)}"
                f"{place_of(cause)}",
                hint=ELSEWHERE,
            )
            raise (explained(cause) or unknown) from error
        return bool(self._draws)

    def _named(self, flat: Tensor) -> dict[str, Tensor]:
        """Views of a row [P] of parameters by their names, in their shapes."""
        return dict(zip(self.start, split_like(flat, self.start.values()), strict=True))

    def _pass(
        self,
        theta: Tensor,
        flat: Tensor,
        shared: Values,
        x: Tensor,
        stream: Sequence[int],
        copies: Values | None = None,
        recording: Recording | None = None,
    ) -> Tensor:
        """Outputs [n, Y] of one pass under vmap.

        Args:
            theta: The values of all parameters in one row [P].
            flat: A copy of it, of which ``shared`` and ``copies`` are views: where the two differ
                after the pass, the module wrote to a parameter.
            shared: Parameters by name that all records share.
            x: Records [n, ...].
            stream: Names the random numbers that are drawn.
            copies: Parameters [n, ...] by name, a copy for each record.
            recording: Of the known layers; it is filled. None: they run as they are.

        Raises:
            TrainingError: As :meth:`outputs`.
        """
        copies = copies or {}
        taps = {} if recording is None else recording.taps
        self._shared = {**shared, **self._constants}
        self._copied = tuple(copies)
        self._recording = recording
        self._watch = _Watch()
        is_watched = self._watched > 0
        # To seed PyTorch's generators alone is faster.
        seeded = global_stream if is_watched or self._uses_other_generators else torch_stream
        with seeded(*stream), warnings.catch_warnings(), faults():
            warnings.filterwarnings("ignore", "There is a performance drop")
            # A generator's state changes with every draw.
            other_states = other_generator_states() if is_watched else None
            states = torch_states()
            # One record each, [n, 1, ...]; a copy, for the module's code may write to its input.
            records = x.clone().unsqueeze(1)
            out, *inputs = _of_records(self, records, (*copies.values(), *taps.values()))
            has_drawn = not all(map(torch.equal, states, torch_states()))
            self._draws = bool(self._draws) or has_drawn
            if is_watched and other_states != other_generator_states():
                self._uses_other_generators = True
        if not _equal_bits(flat.detach(), theta):
            raise _error_of_write("a parameter")
        if self._watch.error is not None:
            # Under vmap an error is one for all records: a module that catches it would go on
            # differently for all because of one.
            raise TrainingError(
                f"the model goes on after an error: {said(self._watch.error)}", hint=ELSEWHERE
            )
        if is_watched:
            self._watched -= 1
            self._refuse_traces()
        if recording is not None:
            recording.fill(inputs)
        return out.squeeze(1)

    def of_one(self, record: Tensor, own: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """What vmap runs for each record: its logits [1, Y], then what tapped layers were given.

        Args:
            record: [1, ...].
            own: The record's copies of parameters, in the order of ``_copied``, and then its taps.
        """
        count = len(self._copied)
        copies = dict(zip(self._copied, own[:count], strict=True))
        with self._taps.recorded(self._recording, own[count:]) as inputs:
            return self._logits_of_one({**self._shared, **copies}, record), *inputs

    def _logits_of_one(self, values: Values, record: Tensor) -> Tensor:
        """Logits [1, Y] of one record [1, ...], given parameters and buffers by name, in vmap.

        The values take the places of the module's own while it runs, and are taken out afterwards.
        """
        for held, key, name, _ in self._slots:
            held[key] = values[name]
        try:
            with self._watch:
                out = self.module(record)
            for held, key, name, _ in self._slots:
                if held.get(key) is not values[name]:  # the module assigned to that name
                    raise _error_of_write(repr(name))
        finally:
            for held, key, _, own in self._slots:
                held[key] = own
        if not isinstance(out, Tensor) or out.dim() != 2 or len(out) != 1:
            shape = tuple(out.shape) if isinstance(out, Tensor) else type(out).__name__
            raise TrainingError(
                f"the model puts out {shape} for one record",
                hint="put out [n, classes], the logits",
            )
        if not out.is_floating_point():
            raise TrainingError(
                f"the model puts out numbers of {str(out.dtype).removeprefix('torch.')}",
                hint="put out [n, classes], the logits, as real numbers",
            )
        logits: Tensor = out.float()
        return logits

    def _refuse_traces(self) -> None:
        """Refuse the module if its attributes or buffers are no longer what they were at first."""
        current = _held_by(self.module, self._constants)
        for name in (*self._held, *current):  # of both: an attribute may be new, or gone
            if self._held.get(name) != current.get(name):
                raise TrainingError(
                    f"the model changes the {name} while it reads records", hint=STATELESS
                )


# From an Isolated, records [n, 1, ...] and each one's own tensors [n, ...] to all that ``of_one``
# gives, [n, ...]; random numbers differ from record to record. Made once: to wrap a function takes
# as long as a small layer. Not of a bound method, which would hold the object that holds it.
_of_records = vmap(Isolated.of_one, in_dims=(None, 0, 0), randomness="different")


def _slots_of(module: nn.Module) -> Iterator[tuple[dict[str, Any], str, str, Tensor]]:
    """Every place in a module that holds a parameter or a buffer.

    Each is (the dict of a layer that holds it, its key there, its name in the whole module, what it
    holds now). A tensor in several places has one name.
    """
    names = {id(value): name for name, value in module.named_parameters()}
    names |= {id(value): name for name, value in module.named_buffers()}
    for part in module.modules():
        for held in (part._parameters, part._buffers):
            for key, value in held.items():
                if value is not None:
                    yield held, key, names[id(value)], value


class UsedElsewhere(Exception):
    """A parameter of tapped layers was used outside the calls that were tapped.

    Args:
        names: Of such parameters.
    """

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(", ".join(names))
        self.names = tuple(names)


@dataclass(frozen=True, slots=True)
class Graph:
    """A pass over n records that autograd can go back through.

    Args:
        outputs: [n, Y].
        copies: Parameters of which every record had a copy, by name: leaves [m, ...], m >= n.
        shared: Those of tapped layers, which all records share: leaves. They have a gradient only
            where the module uses them outside the layer's call.
        taps: By the layer's path, leaves [m, ...].
        layers: What is known of the tapped layers, by path.
        inputs: What they were given, [m, ...], by path; a layer that was not called is left out.
    """

    outputs: Tensor
    copies: Values
    shared: Values
    taps: Values
    layers: Mapping[str, TappedLayer]
    inputs: Values

    def terms(self, delta: Tensor) -> dict[str, Term]:
        """Each record's gradient of <delta, output>, by the parameters' names.

        A parameter that no output depends on has no term; without records there is none at all.

        Args:
            delta: Output gradients [n, Y].

        Raises:
            UsedElsewhere: The terms of some tapped layers are not the whole gradient.
        """
        if not len(delta):
            return {}
        # Names of parameters and paths of layers are different: a path has no parameter's name.
        leaves = {**self.shared, **self.copies, **self.taps}
        with faults():
            derivatives = torch.autograd.grad(
                self.outputs, list(leaves.values()), delta, allow_unused=True
            )
        gradients = dict(zip(leaves, derivatives, strict=True))
        used_elsewhere = [name for name in self.shared if gradients[name] is not None]
        if used_elsewhere:
            raise UsedElsewhere(used_elsewhere)
        count = len(delta)  # n of the m rows; the others fill up the pass
        terms: dict[str, Term] = {}
        for name in self.copies:
            if gradients[name] is not None:
                terms[name] = Gradients(gradients[name][:count])
        for path in self.taps:
            # A tap with a gradient was added to an output, so the layer was called and has inputs.
            if gradients[path] is not None:
                layer = self.layers[path]
                of_layer = layer.terms(self.inputs[path].detach()[:count], gradients[path][:count])
                terms.update(zip(layer.names(path), of_layer, strict=True))
        return terms


class _NotCopied(list[Isolated]):
    """Holds the ``Isolated`` of a ``PerRecord``: none before its first call, then one.

    A copy of the ``PerRecord`` begins with an empty list and makes its own. A list, because
    ``nn.Module`` would register the module itself as a second submodule.
    """

    def __reduce__(self) -> tuple[type["_NotCopied"], tuple[()]]:
        """Copy and pickle as an empty list."""
        return _NotCopied, ()


class PerRecord(nn.Module):
    """A user's module as a module that computes each record of a batch [n, ...] by itself.

    It stands for a model that the layer table lacks, wherever a plain PyTorch module is wanted.

    Args:
        inner: The user's module; its parameters are this one's.
    """

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner: nn.Module = inner
        self._isolated = _NotCopied()

    def train(self, mode: bool = True) -> "PerRecord":
        """Set this module's own mode; the user's keeps the one in which it was handed in.

        That mode says which of its normalisations are frozen.
        """
        self.training = mode
        return self

    def forward(self, x: Tensor) -> Tensor:
        """Outputs [n, Y], dropout off; differentiable in the parameters.

        Equal inputs give equal outputs, for the stream of what the module may draw is always (0,).
        """
        if not self._isolated:
            self._isolated.append(Isolated(self.inner, training=False))
        named = dict(self.inner.named_parameters())
        isolated = self._isolated[0]
        return isolated.outputs({name: named[name] for name in isolated.start}, x, (0,))


_OPERATORS = (OpOverload, OpOverloadPacket)


class _Watch(TorchFunctionMode):
    """While active, refuses operations with a vmap rule of their own, and notes errors.

    It also replaces those of ``_MENDED``. ``error`` is the last error that an operation raised,
    even where the module caught it; None: no operation raised one.
    """

    def __init__(self) -> None:
        super().__init__()
        self.error: BaseException | None = None

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: object,
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        """Call the operation ``func``, unless it is refused."""
        try:
            if func is custom_function_call or (
                isinstance(func, _OPERATORS) and not str(func).startswith(("aten.", "prims."))
            ):
                # The user's own code for vmap would see all records.
                raise TrainingError(
                    "the model has operations whose rule for vmap is its own", hint=ELSEWHERE
                )
            return _MENDED.get(func, func)(*args, **(kwargs or {}))
        except BaseException as error:
            self.error = error
            raise


def _embedding(
    words: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """``F.embedding`` with no gradient to the padding's row, and with dense gradients.

    Under vmap PyTorch's own leaves the padding's gradient out for the first record of a batch
    alone. ``sparse`` is taken and ignored: it changes no number.
    """
    rows = F.embedding(words, weight, None, max_norm, norm_type, scale_grad_by_freq)
    if padding_idx is None:
        return rows
    is_padding = words == padding_idx % len(weight)  # a negative index counts from the end
    return torch.where(is_padding.unsqueeze(-1), rows.detach(), rows)


def _embedding_of(
    weight: Tensor,
    indices: Tensor,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """``torch.embedding`` by :func:`_embedding`; a negative ``padding_idx`` is no padding here."""
    padding = None if padding_idx < 0 else padding_idx
    return _embedding(indices, weight, padding, scale_grad_by_freq=scale_grad_by_freq)


def _rrelu(
    input: Tensor,
    lower: float = 1.0 / 8,
    upper: float = 1.0 / 3,
    training: bool = False,
    inplace: bool = False,
) -> Tensor:
    """``F.rrelu`` by :func:`_rrelu_of`."""
    out = _rrelu_of(input, lower, upper, training)
    return input.copy_(out) if inplace else out


def _rrelu_of(
    input: Tensor,
    lower: float = 1.0 / 8,
    upper: float = 1.0 / 3,
    training: bool = False,
    generator: torch.Generator | None = None,
) -> Tensor:
    """``torch.rrelu``, a leaky ReLU of random slopes, made of operations that vmap runs.

    Each number's slope is drawn from [lower, upper] in training; else it is the mean of the two.
    ``generator`` None is the global one, as the module itself would draw: the pass has seeded it.
    """
    slope: float | Tensor = (lower + upper) / 2
    if training:
        slope = torch.empty_like(input).uniform_(lower, upper, generator=generator)
    return torch.where(input >= 0, input, input * slope)


# What vmap gets wrong or cannot run, and the same of operations that it runs.
_MENDED: Mapping[Callable[..., object], Callable[..., object]] = {
    F.embedding: _embedding,
    torch.embedding: _embedding_of,
    F.rrelu: _rrelu,
    torch.rrelu: _rrelu_of,
}


def split_like(flat: Tensor, shaped: Iterable[Tensor]) -> Iterator[Tensor]:
    """Views of a row of numbers [P], one after the other, in the shapes of the given tensors."""
    shapes = [value.shape for value in shaped]
    parts = torch.split(flat, [math.prod(shape) for shape in shapes])
    for part, shape in zip(parts, shapes, strict=True):
        yield part.view(shape)


def _held_by(module: nn.Module, constants: Values) -> dict[str, object]:
    """The buffers and attributes that a module holds, for comparing them between passes.

    Keys are names for an error message, as "buffer 'mean'"; values are bytes, or the object's
    identity where it cannot be pickled. ``constants`` are buffers and frozen parameters by name.
    """
    held: dict[str, object] = {}
    for name, value in constants.items():
        held[f"buffer {name!r}"] = _bytes_of(value).cpu().numpy().tobytes()
    for path, part in module.named_modules():
        place = f" of {type(part).__name__}" + (f" at {path!r}" if path else "")
        for name, value in vars(part).items():
            if name in ("_parameters", "_buffers", "_modules"):
                continue
            try:
                held[f"attribute {name!r}{place}"] = pickle.dumps(value)
            except Exception:  # whatever the attribute's own code raises
                held[f"attribute {name!r}{place}"] = id(value)
    return held


def _equal_bits(one: Tensor, other: Tensor) -> bool:
    """Whether two rows of float32 have the same bits; the numbers NaN and NaN would be unequal."""
    one, other = one.view(torch.int32), other.view(torch.int32)
    if one.is_cpu:  # NumPy takes a quarter of PyTorch's time
        return np.array_equal(one.numpy(), other.numpy())
    return torch.equal(one, other)


def _bytes_of(value: Tensor) -> Tensor:
    """The bytes of a tensor, for comparing: NaN is unequal to itself, its bytes are equal."""
    return value.detach().contiguous().view(-1).view(torch.uint8)


def _error_of_write(name: str) -> TrainingError:
    """The error of a module that writes to a parameter or buffer in its forward pass."""
    return TrainingError(f"the model writes to {name} while it reads a record", hint=STATELESS)


@contextmanager
def faults() -> Iterator[None]:
    """Inside the block, whatever a user's code raises becomes a TrainingError with a hint.

    Errors of this program, and an interrupt from the keyboard, pass unchanged.
    """
    try:
        yield
    except (FairauditError, KeyboardInterrupt):
        raise
    except BaseException as error:  # SystemExit too: a model must not end the program
        raise fault(error) from error
