"""What a model of a user's own cannot hold, and what an error of its code comes from.

Each is one line that names the cause, and a hint that is the way out of it.
"""

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm
from torch.nn.parameter import is_lazy

from fairaudit.errors import TrainingError, is_out_of_memory, said

OR = "; or train it yourself: --trainer"
ELSEWHERE = "use operations that torch.func.vmap runs" + OR
ONE_AT_A_TIME = "records come one at a time, [1, d] or [1, C, H, W]"
_REAL_NUMBERS = "keep what is read in tensors: no .item, float, .tolist or .numpy of it"
_NO_PACKING = "leave packed sequences out: pad to one length, and hide padding with torch.where"
_NO_VMAP = "has an nn.{layer}, which torch.func.vmap cannot run over single records"
_CELL = "use opacus.layers.DPLSTM, or write the cell's four gates as linear layers"
_RECURRENT = "use opacus.layers.DP{layer} in its place, which computes the same"


@dataclass(frozen=True, slots=True)
class Unfit:
    """A kind of layer that no model may hold.

    Args:
        matches: Whether a module is such a layer, by itself and not by what is in it.
        problem: What is wrong, after "the model's LAYER at 'PATH'".
        hint: What to do.
    """

    matches: Callable[[nn.Module], bool]
    problem: str
    hint: str


@dataclass(frozen=True, slots=True)
class Cause:
    """What errors of a known kind come from.

    Args:
        marks: Texts of which one stands in the error, in the name of a function that raised it, or
            in the path of that function's file.
        problem: What the model does, after "the model"; ``{layer}`` is the type of the innermost
            layer whose code raised it.
        hint: What to do.
        layers: Types of which that layer is one, where that is mark enough.
    """

    marks: tuple[str, ...]
    problem: str
    hint: str
    layers: tuple[type[nn.Module], ...] = ()


def instead_of_statistics(layer: nn.Module) -> str:
    """What to use in place of a layer that reads or keeps statistics of records; "" for others.

    In evaluation mode a layer that keeps statistics reads these alone: it is a fixed affine layer,
    and needs no other in its place.
    """
    if isinstance(layer, _BatchNorm):
        if layer.running_mean is None:  # it reads the batch's, in evaluation mode, too
            return "use nn.GroupNorm in its place"
        if layer.training:
            return "use nn.GroupNorm in its place, or fix its statistics: put it in eval mode"
    elif isinstance(layer, _InstanceNorm) and layer.track_running_stats and layer.training:
        return "use it without track_running_stats, or fix its statistics: put it in eval mode"
    return ""


def _is_compiled(layer: nn.Module) -> bool:
    """Whether ``torch.compile`` or ``Module.compile`` made or changed it."""
    return hasattr(layer, "_orig_mod") or getattr(layer, "_compiled_call_impl", None) is not None


def _is_uninitialised(layer: nn.Module) -> bool:
    """Whether it has parameters or buffers whose sizes are not known yet."""
    own = (*layer.parameters(recurse=False), *layer.buffers(recurse=False))
    return any(is_lazy(value) for value in own)


def _is_empty(layer: nn.Module) -> bool:
    """Whether it has parameters or buffers without numbers, on the meta device."""
    own = (*layer.parameters(recurse=False), *layer.buffers(recurse=False))
    return any(value.is_meta for value in own)


def _has_hook(name: str) -> Callable[[nn.Module], bool]:
    """A test of a layer: whether it has a hook of the class ``name``, which sets its weight.

    The class is found by its name among the bases of the type of each hook that runs before
    ``forward``.
    """

    def matches(layer: nn.Module) -> bool:
        hooks = layer._forward_pre_hooks.values()
        return any(name in [kind.__name__ for kind in type(hook).__mro__] for hook in hooks)

    return matches


def _has_computed_tensor(layer: nn.Module) -> bool:
    """Whether an attribute is a tensor that was computed from parameters."""
    values = vars(layer).values()
    return any(isinstance(value, torch.Tensor) and not value.is_leaf for value in values)


UNCOPIED = (
    Unfit(
        _is_uninitialised,
        "is lazy, and its sizes are not known yet",
        "give every layer its sizes, or initialise it in the factory: run one record of zeros "
        "through the model",
    ),
    Unfit(
        lambda layer: isinstance(layer, torch.jit.ScriptModule),
        "is compiled by torch.jit",
        "hand in the Python module",
    ),
    Unfit(
        _is_compiled, "is compiled by torch.compile", "hand in the module that torch.compile took"
    ),
    Unfit(
        lambda layer: isinstance(layer, nn.DataParallel | nn.parallel.DistributedDataParallel),
        "spreads a batch over devices",
        "hand in the module that it wraps, its .module",
    ),
    Unfit(
        _is_empty,
        "has parameters on the meta device, without numbers",
        "make it on the CPU, or move it there by .to_empty and start its parameters",
    ),
    Unfit(
        _has_hook("WeightNorm"),
        "has its weight from the old weight_norm, which cannot be copied",
        "use torch.nn.utils.parametrizations.weight_norm",
    ),
    Unfit(
        _has_hook("SpectralNorm"),
        "has its weight from spectral_norm, which keeps a vector from pass to pass",
        "leave it out, or torch.nn.utils.remove_spectral_norm it in the factory",
    ),
    Unfit(
        _has_hook("BasePruningMethod"),
        "is pruned by a mask, which cannot be copied",
        "make it last with torch.nn.utils.prune.remove in the factory",
    ),
    Unfit(
        _has_computed_tensor,
        "has an attribute that was computed from parameters, which cannot be copied",
        "compute it in forward, or by torch.nn.utils.parametrize",
    ),
)

CAUSES = (
    Cause((), _NO_VMAP, _RECURRENT, layers=(nn.RNN, nn.GRU, nn.LSTM)),
    Cause((), _NO_VMAP, _CELL, layers=(nn.LSTMCell,)),
    Cause(
        ("torch/utils/checkpoint.py", "hooks on saved tensors"),
        "recomputes activations (torch.utils.checkpoint), or hooks what autograd keeps",
        "leave checkpointing out: call the layers themselves",
    ),
    Cause(
        ("torch/ao/quantization",),
        "observes records to quantise itself",
        "quantise the trained model",
    ),
    Cause(("pack_padded_sequence", "pack_sequence"), "packs sequences", _NO_PACKING),
    Cause(
        ("embedding_renorm_",),
        "has an embedding that shortens its rows while it reads a record (max_norm)",
        "leave max_norm out",
    ),
    Cause(
        ("Batch norm got a batched tensor", "Expected more than 1 value per channel"),
        "normalises by statistics of the batch, or keeps them",
        "use group_norm, or batch_norm with training=False and constant statistics",
    ),
    Cause(
        ("inplace arithmetic", "doesn't match the broadcast shape"),
        "writes a record's numbers into memory that belongs to no record",
        "make that memory by x.new_zeros, not by torch.zeros or torch.empty",
    ),
    Cause(
        ("data-dependent control flow",),
        "lets Python decide by a record's numbers",
        "use torch.where in place of an if or a while",
    ),
    Cause(
        (".item()", "doesn't have storage"), "reads a record's numbers into Python", _REAL_NUMBERS
    ),
    Cause(
        ("dynamic shape",),
        "makes tensors whose length depends on a record's numbers",
        "use torch.where in place of x[mask], nonzero or unique",
    ),
    Cause(
        ("explicit positive num_classes",),
        "calls one_hot without saying how many classes there are",
        "give one_hot its num_classes",
    ),
    Cause(
        ("must override the setup_context",),
        "has an autograd.Function, whose derivative torch.func.vmap cannot run",
        "write it with PyTorch's own operations",
    ),
    Cause(
        ("does not require grad and does not have a grad_fn",),
        "puts out numbers that no gradient leads back from",
        "leave .detach, torch.no_grad and torch.inference_mode out of its forward",
    ),
)


def refuse_uncopyable(module: nn.Module) -> None:
    """Refuse a module with a layer that cannot be copied and run as it stands.

    Raises:
        TrainingError: Names the layer and what to do.
    """
    for path, layer in module.named_modules():
        for unfit in UNCOPIED:
            if unfit.matches(layer):
                raise TrainingError(f"{_named(layer, path)} {unfit.problem}", hint=unfit.hint)


def refuse_unprivate(module: nn.Module) -> None:
    """Refuse layers whose output depends on other records, or that keep statistics of records.

    Recurrent layers of Opacus and attention, which Opacus' own validator refuses, are sound where
    every record is computed by itself.

    Raises:
        TrainingError: Names the layer and what to use in its place.
    """
    for path, layer in module.named_modules():
        hint = instead_of_statistics(layer)
        if hint:
            problem = "cannot be trained with a guarantee for each record"
            raise TrainingError(f"{_named(layer, path)} {problem}", hint=hint)


def _named(layer: nn.Module, path: str) -> str:
    """The layer as an error names it."""
    return f"the model's {type(layer).__name__}" + (f" at {path!r}" if path else "")


def set_mode(module: nn.Module, *, training: bool) -> nn.Module:
    """Put a module into the mode in which it trains or predicts, in place, and return it.

    Statistics of normalisations that were fixed (in evaluation mode) stay so.

    Args:
        module: Of the user.
        training: Whether it is to train; else it is to predict.

    Raises:
        TrainingError: As it trains, it has a layer that :func:`refuse_unprivate` refuses.
    """
    normalisations = (_BatchNorm, _InstanceNorm)
    layers = [layer for layer in module.modules() if isinstance(layer, normalisations)]
    fixed = [layer for layer in layers if not layer.training]
    # All layers are set to train and the fixed ones back, so that the others are refused.
    module.train()
    for layer in fixed:
        layer.eval()
    refuse_unprivate(module)
    return module if training else module.eval()


def explained(error: BaseException) -> TrainingError | None:
    """The error of a model whose code raised ``error``, if that is of a known kind; else None."""
    frames = traceback.extract_tb(error.__traceback__)
    # as_posix: the marks of files have "/" on every system.
    functions = [f"{frame.name} {Path(frame.filename).as_posix()}" for frame in frames]
    texts = [str(error), *functions]
    layer = _layer_of(error)
    name = type(layer).__name__
    for cause in CAUSES:
        is_marked = any(mark in text for mark in cause.marks for text in texts)
        # ``layers`` () has no layer in it.
        if is_marked or isinstance(layer, cause.layers):
            problem = cause.problem.format(layer=name) + place_of(error)
            return TrainingError(f"the model {problem}", hint=cause.hint.format(layer=name) + OR)
    return None


def place_of(error: BaseException) -> str:
    """The innermost line of the user's code on the way to an error, as " (nets.py, line 3)".

    "" where only fairaudit and PyTorch are on the way.
    """
    package = Path(__file__).parents[1]  # fairaudit itself
    libraries = (package, Path(torch.__file__).parent)
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = Path(frame.filename)
        if path.is_file() and not any(path.is_relative_to(library) for library in libraries):
            return f" ({path.name}, line {frame.lineno})"
    return ""


def _layer_of(error: BaseException) -> nn.Module | None:
    """The innermost module whose code raised the error; None where no module's code is on the way.

    A module is known as the ``self`` of a call.
    """
    layer = None
    for frame, _ in traceback.walk_tb(error.__traceback__):  # outermost call first
        owner = frame.f_locals.get("self")
        if isinstance(owner, nn.Module):
            layer = owner
    return layer


def fault(error: BaseException) -> TrainingError:
    """The error to raise for what a model's code raised: one line, with the way out."""
    if is_out_of_memory(error):
        hint = "use a smaller --batch-size or fewer --workers"
        return TrainingError("the model ran out of memory", hint=hint)
    known = explained(error)
    if known is not None:
        return known
    return TrainingError(f"the model raised {said(error)}{place_of(error)}", hint=ONE_AT_A_TIME)
