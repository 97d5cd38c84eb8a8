"""A user's own module as a function of parameters and one record, for many records at once.

``torch.func.vmap`` runs the module as if every record were alone: inside, a batch has one record,
and no operation reaches another. Parameters and buffers are handed in as copies. What vmap cannot
run is refused, and so is a module that changes its attributes or buffers in its first passes. What
a module keeps in any other place is not looked for: a guarantee then holds if the module keeps
nothing of what it reads.

A pass is one call of the vmapped module. Its stream, some integers, names the random numbers that
it draws (dropout masks): equal streams give equal draws. A trace is what a module keeps of records.
"""

import copy
import pickle
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch._functorch.autograd_function import custom_function_call
from torch._ops import OpOverload, OpOverloadPacket
from torch.autograd.graph import disable_saved_tensors_hooks
from torch.func import functional_call, vmap
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from fairaudit.engine.devices import CPU
from fairaudit.engine.refusals import (
    ELSEWHERE,
    explained,
    fault,
    place_of,
    refuse_uncopied,
    set_mode,
)
from fairaudit.engine.stacked import in_one_row, refuse_untrainable
from fairaudit.errors import FairauditError, TrainingError, said
from fairaudit.privacy.borrowed import global_stream

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
        refuse_uncopied(module)
        refuse_untrainable(module)
        self.start: dict[str, Tensor] = {}
        self._constants: dict[str, Tensor] = {}
        with faults():  # parts may copy themselves, or have no sizes yet
            self.module = set_mode(copy.deepcopy(module).float().to(device), training=training)
            for name, value in (*self.module.named_parameters(), *self.module.named_buffers()):
                values = self.start if value.requires_grad else self._constants
                values[name] = value.detach().clone()
        self._draws: bool | None = None  # whether it draws; None: not known before the first pass
        self._parameters = [(part, dict(part._parameters)) for part in self.module.modules()]
        self._held = _held_by(self.module, self._constants)
        self._watched = WATCHED_PASSES  # passes still to be watched

    def outputs(self, values: Values, x: Tensor, stream: Sequence[int]) -> Tensor:
        """Outputs [n, Y] of records, differentiable in the parameters.

        Args:
            values: Parameters by name, used for every record.
            x: Records [n, ...], at least one.
            stream: Names the random numbers of the pass; no record changes those of another.

        Raises:
            TrainingError: The module fails, its output is not one row for a record, or it writes to
                parameters, buffers or attributes.
        """
        self.draws(values, x)  # the first time, a pass that refuses what vmap cannot run
        # Handed in as views of one row, which shows afterwards whether a parameter was written to.
        flat = torch.cat([value.flatten() for value in values.values()])
        handed = dict(zip(values, split_like(flat, values.values()), strict=True))
        return self._pass(handed, flat, x, stream)

    def graph(
        self, values: Values, x: Tensor, stream: Sequence[int]
    ) -> tuple[Tensor, Mapping[str, Tensor]]:
        """Outputs [n, Y] of records, and by name the copies of the parameters that gave them.

        Each record is computed with a copy of its own, a row of [m, ...], m >= n (the batch is
        padded to m). The copies are leaves of autograd, so that the gradient of <delta, outputs> in
        them is that of each record by itself. Arguments and errors are those of :meth:`outputs`.
        """
        # A module that draws is always given a multiple of BLOCK records: what a record draws
        # depends on how many there are.
        missing = -len(x) % BLOCK if self.draws(values, x) else 0
        padded = torch.cat([x, x.new_zeros(missing, *x.shape[1:])])
        flat = in_one_row(values.values())
        leaves = {}
        for name, value in zip(values, split_like(flat, values.values()), strict=True):
            rows = value.expand(len(padded), *value.shape)
            leaves[name] = rows.requires_grad_()
        # A hook on saved tensors would see all records at once, outside vmap.
        no_hooks = disable_saved_tensors_hooks("hooks on saved tensors")
        with torch.enable_grad(), no_hooks:
            outputs = self._pass(leaves, flat, padded, stream, by_record=True)
        return outputs[: len(x)], leaves

    def draws(self, values: Values, x: Tensor) -> bool:
        """Whether the forward pass draws random numbers; the first call runs one record to see.

        Raises:
            TrainingError: vmap cannot run the module, or :meth:`outputs` refuses it.
        """
        if self._draws is not None:
            return self._draws
        # Known from here on, for ``outputs`` below calls this method again; its pass sets True
        # where numbers are drawn.
        self._draws = False
        try:
            with torch.no_grad():
                self.outputs(values, x[:1], (0,))
        except TrainingError as error:
            if error.__cause__ is None:  # this file refused the module, which raised nothing
                raise
            # Run without vmap: if that fails too, the fault is the module's and not vmap's. It is
            # run on zeros, for an error may quote a record.
            with global_stream(0), torch.no_grad(), faults():
                self.module(torch.zeros_like(x[:1]))
            cause = error.__cause__
            unknown = TrainingError(
                f"torch.func.vmap cannot run the model over single records: {said(cause)}"
                f"{place_of(cause)}",
                hint=ELSEWHERE,
            )
            raise (explained(cause) or unknown) from error
        return self._draws

    def _pass(
        self,
        handed: Values,
        flat: Tensor,
        x: Tensor,
        stream: Sequence[int],
        *,
        by_record: bool = False,
    ) -> Tensor:
        """Outputs [n, Y] of one pass under vmap.

        Args:
            handed: Parameters by name, views of ``flat``.
            flat: All their numbers in one row, compared before and after the pass.
            x: Records [n, ...].
            stream: Names the random numbers that are drawn.
            by_record: Whether the parameters are [n, ...], a copy for each record; else all records
                share them.

        Raises:
            TrainingError: As :meth:`outputs`.
        """
        values = {**handed, **self._constants}
        axes = {name: 0 if by_record and name in handed else None for name in values}
        before = flat.detach().clone()
        watch = _Watch()
        with global_stream(*stream), warnings.catch_warnings(), faults(), watch:
            warnings.filterwarnings("ignore", "There is a performance drop")
            state = torch.get_rng_state()  # changes with every draw
            per_record = vmap(self._logits_of_one, (axes, 0), randomness="different")
            out: Tensor = per_record(values, x.clone())  # code may write to its input
            self._draws = self._draws or not torch.equal(state, torch.get_rng_state())
        if not torch.equal(_bytes_of(flat), _bytes_of(before)):
            raise _error_of_write("a parameter")
        if watch.error is not None:
            # Under vmap an error is one for all records: a module that catches it would go on
            # differently for all because of one.
            raise TrainingError(
                f"the model goes on after an error: {said(watch.error)}", hint=ELSEWHERE
            )
        if self._watched:
            self._watched -= 1
            self._refuse_traces()
        return out

    def _logits_of_one(self, values: Values, record: Tensor) -> Tensor:
        """Logits [Y] of one record, given the parameters and buffers by name; runs inside vmap."""
        handed = dict(values)
        try:
            out = functional_call(self.module, handed, (record.unsqueeze(0),))
        finally:
            # functional_call puts wrong tensors back where a submodule is known by two names.
            for part, parameters in self._parameters:
                part._parameters.update(parameters)
        for name, value in values.items():
            if handed[name] is not value:  # the module assigned to that name
                raise _error_of_write(repr(name))
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
        logits: Tensor = out[0].float()
        return logits

    def _refuse_traces(self) -> None:
        """Refuse the module if its attributes or buffers are no longer what they were at first."""
        current = _held_by(self.module, self._constants)
        for name in (*self._held, *current):
            if self._held.get(name) != current.get(name):
                raise TrainingError(
                    f"the model changes the {name} while it reads records", hint=STATELESS
                )


class PerRecord(nn.Module):
    """A user's module as a module that computes each record of a batch [n, ...] by itself.

    It stands for a model that the layer table lacks, wherever a plain PyTorch module is wanted.

    Args:
        inner: The user's module; its parameters are this one's.
    """

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner: nn.Module = inner
        # Empty before the first call, then one; in a list, so that it is no submodule.
        self._isolated: list[Isolated] = []

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


class _Watch(TorchFunctionMode):
    """While active, refuses operations with a vmap rule of their own, and notes errors.

    ``error`` is the last error that an operation raised, even where the module caught it; None: no
    operation raised one.
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
        is_operator = isinstance(func, OpOverload | OpOverloadPacket)
        is_own = is_operator and not str(func).startswith(("aten.", "prims."))
        try:
            if is_own or func is custom_function_call:
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
    """``F.embedding`` with no gradient to the padding's row, and with dense ones.

    Under vmap PyTorch's own leaves that row out for the first record of a batch alone.
    """
    rows = F.embedding(words, weight, None, max_norm, norm_type, scale_grad_by_freq)
    if padding_idx is None:
        return rows
    is_padding = words == padding_idx % len(weight)
    return torch.where(is_padding.unsqueeze(-1), rows.detach(), rows)


def _embedding_of(
    weight: Tensor,
    words: Tensor,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """``torch.embedding`` likewise, where -1 is no padding."""
    padding = None if padding_idx < 0 else padding_idx
    return _embedding(words, weight, padding, scale_grad_by_freq=scale_grad_by_freq)


def _rrelu(
    x: Tensor,
    lower: float = 1.0 / 8,
    upper: float = 1.0 / 3,
    training: bool = False,
    inplace: bool = False,
) -> Tensor:
    """``F.rrelu`` of operations that vmap runs: a slope is drawn in training, else the mean one."""
    slope: float | Tensor = (lower + upper) / 2
    if training:
        # From the global generator, as the module itself would draw: the pass has seeded it.
        slope = torch.empty_like(x).uniform_(lower, upper, generator=None)
    out = torch.where(x >= 0, x, x * slope)
    return x.copy_(out) if inplace else out


# What vmap gets wrong or cannot run, and the same of operations that it runs.
_MENDED: Mapping[Callable[..., object], Callable[..., object]] = {
    F.embedding: _embedding,
    torch.embedding: _embedding_of,
    F.rrelu: _rrelu,
    torch.rrelu: _rrelu,
}


def split_like(flat: Tensor, shaped: Iterable[Tensor]) -> Iterator[Tensor]:
    """Views of a row of numbers [P], one after the other, in the shapes of the given tensors."""
    start = 0
    for value in shaped:
        yield flat[start : start + value.numel()].view(value.shape)
        start += value.numel()


def _held_by(module: nn.Module, constants: Values) -> dict[str, object]:
    """The buffers and attributes that a module holds, for comparing them between passes.

    Keys are names for an error message; values are bytes, or the object's identity where it cannot
    be pickled.
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
            except Exception:
                held[f"attribute {name!r}{place}"] = id(value)
    return held


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
