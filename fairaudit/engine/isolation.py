"""A user's own module, run so that no record can meet another: one record at a time, nothing kept.

Each record goes through ``torch.func.functional_call`` on its own. Where the module's code allows it,
``torch.func.vmap`` runs many of these calls at once: inside, a batch has one record, and Python sees no
number of it. Else a loop hands over one copied record after the other. Parameters and buffers are handed
in, not looked up, and a module that writes to one of them, or leaves anything else behind, is refused.
So what a record contributes follows from that record, the parameters and draws that no record moves.
"""

import copy
import functools
import gc
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.func import functional_call, vjp, vmap
from torch.nn.parameter import is_lazy

from fairaudit.engine.devices import CPU
from fairaudit.engine.memory import Reading, Survivors, Unreadable, changed, has_own_vmap, read_memory
from fairaudit.engine.stacked import refuse_untrainable
from fairaudit.errors import FairauditError, TrainingError, said
from fairaudit.privacy.borrowed import global_state, global_stream

Values = Mapping[str, Tensor]  # parameter name -> value

# What writes statistics of its batch, or reads them -> what to use instead. Opacus' validator finds these
# layers; others that it finds (recurrent layers, attention) are sound once every record is by itself.
REPLACEMENTS = {
    "BatchNorm1d": "nn.GroupNorm",
    "BatchNorm2d": "nn.GroupNorm",
    "BatchNorm3d": "nn.GroupNorm",
    "SyncBatchNorm": "nn.GroupNorm",
    "InstanceNorm1d": "it without track_running_stats",
    "InstanceNorm2d": "it without track_running_stats",
    "InstanceNorm3d": "it without track_running_stats",
}
BLOCK = 32  # records of a module that draws
STATELESS = (
    "a guarantee for each record needs a forward that leaves no trace: keep no statistics, counters, caches "
    "or records; declare constants in __init__, and use nn.GroupNorm to normalise"
)


def refuse_unprivate(module: nn.Module) -> None:
    """Refuse layers whose output depends on other records of the batch, or that keep their statistics.

    Raises:
        TrainingError: Names the layer and what to use in its place.
    """
    # Importing Opacus takes seconds, and most models need none of it.
    from opacus.validators import ModuleValidator

    for path, layer in module.named_modules():
        # A subclass is what its base is, whatever name it bears.
        kind = next((kind for kind in type(layer).__mro__ if kind.__name__ in REPLACEMENTS), None)
        if kind and kind in ModuleValidator.VALIDATORS and ModuleValidator.VALIDATORS[kind](layer):
            place = f" at {path!r}" if path else ""
            name = type(layer).__name__
            raise TrainingError(
                f"the model's {name}{place} cannot be trained with a guarantee for each record",
                hint=f"use {REPLACEMENTS[kind.__name__]} in its place",
            )


@dataclass(frozen=True, slots=True)
class _Work:
    """What is computed of each record.

    Args:
        one: (handed values, record, ...) -> tensor, as vmap runs it.
        alone: The same, as the loop runs it.
        values: Parameters by name.
        stream: Names the draws.
    """

    one: Callable[..., Tensor]
    alone: Callable[..., Tensor]
    values: Values
    stream: tuple[int, ...]


class _Mode:
    """A copy of the module as it trains, or as it predicts, and how its records are run.

    Args:
        module: The copy, which is what runs.
        constants: Buffers and frozen parameters by name.
    """

    def __init__(self, module: nn.Module, constants: Values) -> None:
        self.module = module
        self._constants = constants
        self._before = _read(module)
        # Whether vmap runs it; None where that is not settled yet.
        self.at_once = False if has_own_vmap(self._before) else None
        self._draws = False  # whether the forward draws numbers
        self._own = [(part, dict(part._parameters)) for part in module.modules()]

    def call(self, handed: Values, record: Tensor) -> object:
        """What the module puts out for one record."""
        given = dict(handed)
        try:
            out: object = functional_call(self.module, given, (record.unsqueeze(0),))
        finally:
            # PyTorch puts the wrong tensors back where a part has two names, or keeps a list of its own.
            for part, own in self._own:
                for name, parameter in own.items():
                    setattr(part, name, parameter)
        for name, value in handed.items():
            if given[name] is not value:
                raise _writes(name)
        return out

    def map(self, work: _Work, arguments: Sequence[Tensor]) -> Tensor:
        """``one`` of all records under vmap, else ``alone`` of each; and the module as it was."""
        if self.at_once is None:
            # Settled on made-up records, so that no record decides how the others are computed.
            made_up = [torch.zeros_like(given[:1]).expand(2, *given.shape[1:]) for given in arguments]
            self.at_once = self._together(work, made_up) is not None
        found = self._blocks(work, arguments) if self.at_once else None
        if found is not None:
            return found
        rows = []
        for number, parts in enumerate(zip(*arguments, strict=True)):
            # A copy of its own: a view would lead back to the other records.
            record = [part.clone() for part in parts]
            with self._unchanged(work) as handed, global_stream(*work.stream, number), faults():
                rows.append(work.alone(handed, *record))
        return torch.stack(rows)

    def _blocks(self, work: _Work, arguments: Sequence[Tensor]) -> Tensor | None:
        """``one`` of all records; in padded blocks of one size where it draws, whose masks follow its place.

        What is drawn for a place in a tensor of records depends on how many there are.
        """
        if not self._draws:
            return self._together(work, arguments)
        found: list[Tensor] = []
        count = len(arguments[0])
        for start in range(0, count, BLOCK):
            rows = [given[start : start + BLOCK] for given in arguments]
            padded = [torch.cat([r, r.new_zeros(BLOCK - len(r), *r.shape[1:])]) for r in rows]
            block = self._together(replace(work, stream=(*work.stream, start)), padded)
            if block is None:
                return None
            found.append(block)
        return torch.cat(found)[:count]

    def _together(self, work: _Work, arguments: Sequence[Tensor]) -> Tensor | None:
        """``one`` of all records under vmap; None where vmap cannot, or the code met an error on its way."""
        made = Survivors()
        try:
            with (
                self._unchanged(work) as handed,
                global_stream(*work.stream),
                warnings.catch_warnings(),
                made,
            ):
                warnings.filterwarnings("ignore", "There is a performance drop")
                drawn = global_state()
                copies = [given.clone() for given in arguments]  # code may write to its input
                found: Tensor = vmap(functools.partial(work.one, handed), randomness="different")(*copies)
                self._draws |= not torch.equal(drawn, global_state())
        except (FairauditError, KeyboardInterrupt):
            raise
        except BaseException:  # the loop raises again what is the module's own fault
            return None
        if not any(value.requires_grad for value in work.values.values()):
            _refuse_survivors(made)
        # What one record makes raise, code that goes on would have done for every record.
        return None if made.has_raised else found

    @contextmanager
    def _unchanged(self, work: _Work) -> Iterator[dict[str, Tensor]]:
        """Copies of parameters and constants to hand in; refuses a module that wrote to them or to itself."""
        given = {**work.values, **self._constants}
        handed = {name: value.clone() for name, value in given.items()}
        yield handed
        for name, value in given.items():
            if not torch.equal(_bits(handed[name]), _bits(value)):
                raise _writes(name)
        name = changed(self._before, _read(self.module))
        if name:
            raise TrainingError(f"the model changes the {name} while it reads records", hint=STATELESS)


class Isolated:
    """One module's function of parameters and one record, and its gradients, for many records.

    Args:
        module: Of any make; it is copied, and the copies are what runs.
        device: Where the copies lie.

    Raises:
        TrainingError: A layer that cannot be private, no parameter to train, or a module that cannot be
            copied or read.
    """

    def __init__(self, module: nn.Module, device: torch.device = CPU) -> None:
        module = module.inner if isinstance(module, PerRecord) else module
        refuse_unprivate(module)
        refuse_untrainable(module)
        if any(isinstance(part, torch.jit.ScriptModule) for part in module.modules()):
            raise TrainingError("the model is compiled by torch.jit", hint="hand in the Python module")
        if any(is_lazy(p) for p in (*module.parameters(), *module.buffers())):
            raise TrainingError(
                "the model has lazy layers, whose sizes are not known yet", hint="give every layer its sizes"
            )
        with faults():  # parts may copy themselves
            training = copy.deepcopy(module).float().to(device).train()
            predicting = copy.deepcopy(training).eval()
        named = [*training.named_parameters(), *training.named_buffers()]
        self.start = {name: p.detach().clone() for name, p in named if p.requires_grad}
        constants = {name: c.detach().clone() for name, c in named if name not in self.start}
        self._training, self._predicting = (_Mode(each, constants) for each in (training, predicting))
        self._classes: int | None = None

    @property
    def at_once(self) -> bool:
        """Whether vmap runs many training records at once, as far as that is settled."""
        return bool(self._training.at_once)

    def one_by_one(self) -> None:
        """From now on, run one record after the other."""
        self._training.at_once = self._predicting.at_once = False

    def outputs(self, values: Values, x: Tensor, stream: Sequence[int], *, training: bool = False) -> Tensor:
        """Outputs [n, Y] of records [n, ...].

        Args:
            values: Parameters by name.
            x: Records.
            stream: Names the draws of the forward passes; no record moves another's.
            training: Whether layers behave as in training, dropout above all.

        Raises:
            TrainingError: The module fails, puts out something else, or leaves a trace.
        """
        mode = self._training if training else self._predicting
        differentiable = any(value.requires_grad for value in values.values())

        def alone(handed: Values, record: Tensor) -> Tensor:
            return self._call(mode, handed, record)

        def one(handed: Values, record: Tensor) -> Tensor:
            if differentiable:
                return alone(handed, record)
            # vmap takes more layers apart where a gradient is asked for.
            out: Tensor = vjp(lambda given: alone({**handed, **given}, record), _of(values, handed))[0]
            return out

        return mode.map(_Work(one, alone, values, tuple(stream)), (x,))

    def gradients(self, values: Values, x: Tensor, delta: Tensor, stream: Sequence[int]) -> Tensor:
        """Gradient [n, P] of each record's <delta, output> as it trains; see :meth:`outputs`.

        Args:
            values, x, stream: As there.
            delta: Output gradients [n, Y].
        """
        mode = self._training

        def one(handed: Values, record: Tensor, direction: Tensor) -> Tensor:
            _, pull, *_ = vjp(
                lambda given: self._call(mode, {**handed, **given}, record), _of(values, handed)
            )
            (found,) = pull(direction)
            return torch.cat([found[name].flatten() for name in values])

        def alone(handed: Values, record: Tensor, direction: Tensor) -> Tensor:
            # Plain autograd: it takes functions that functorch refuses.
            own = [handed[name].requires_grad_() for name in values]
            with torch.enable_grad():
                out = self._call(mode, handed, record)
                found = (
                    torch.autograd.grad(out, own, direction, allow_unused=True) if out.requires_grad else ()
                )
            parts = zip(own, found or [None] * len(own), strict=True)
            return torch.cat([(torch.zeros_like(p) if g is None else g).flatten() for p, g in parts])

        return mode.map(_Work(one, alone, values, tuple(stream)), (x, delta))

    def _call(self, mode: _Mode, handed: Values, record: Tensor) -> Tensor:
        """Output [Y] of one record."""
        out = mode.call(handed, record)
        shape = tuple(out.shape) if isinstance(out, Tensor) else type(out).__name__
        is_dense = isinstance(out, Tensor) and out.layout is torch.strided and out.is_floating_point()
        if not isinstance(out, Tensor) or out.dim() != 2 or len(out) != 1 or not is_dense:
            raise TrainingError(
                f"the model puts out {shape} for one record", hint="put out [n, classes], the logits"
            )
        self._classes = self._classes or out.shape[1]
        if out.shape[1] != self._classes:
            raise TrainingError(
                f"the model puts out {shape[1]} numbers for one record and {self._classes} for others"
            )
        return out[0].float()


class PerRecord(nn.Module):
    """A user's module as a module that reads a batch [n, ...] one record at a time.

    Args:
        inner: The user's module; its parameters are this one's.
    """

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner: nn.Module = inner
        self._isolated: list[Isolated] = []  # made at the first call; in a list, so that it is no part

    def forward(self, x: Tensor) -> Tensor:
        """Outputs [n, Y], dropout off; differentiable."""
        if not self._isolated:
            self._isolated.append(Isolated(self.inner))
        named = dict(self.inner.named_parameters())
        isolated = self._isolated[0]
        return isolated.outputs({name: named[name] for name in isolated.start}, x, (0,))


def _of(values: Values, handed: Values) -> dict[str, Tensor]:
    return {name: handed[name] for name in values}


def _bits(value: Tensor) -> Tensor:
    """The bytes of a tensor: NaN is unequal to itself, and a model that diverged is no model that writes."""
    return value.detach().contiguous().view(-1).view(torch.uint8)


def _read(module: nn.Module) -> Reading:
    try:
        return read_memory(module)
    except Unreadable as error:
        raise TrainingError(f"the model's {error}", hint=STATELESS) from error


def _writes(name: str) -> TrainingError:
    return TrainingError(f"the model writes to {name!r} while it reads a record", hint=STATELESS)


def _refuse_survivors(made: Survivors) -> None:
    if made.any():
        gc.collect()  # a cycle is no memory
    if made.any():
        raise TrainingError("the model keeps tensors of the records that it has read", hint=STATELESS)


@contextmanager
def faults() -> Iterator[None]:
    """What a user's code raises, as an error that a user can act on."""
    try:
        yield
    except (FairauditError, KeyboardInterrupt):
        raise
    except BaseException as error:  # SystemExit too: it is no wish of the user's
        if isinstance(error, MemoryError) or "not enough memory" in said(error):
            hint = "use a smaller --batch-size or fewer --workers"
            raise TrainingError("the model ran out of memory", hint=hint) from error
        raise TrainingError(
            f"the model raised {said(error)}", hint="records come one at a time, [1, d] or [1, C, H, W]"
        ) from error
