"""Which layers are known to treat records one by one, and the check of each forward pass for it.

A model of these layers alone, each of which runs once, keeps the first axis that of the records all
the way, and keeps nothing of them. Of any other module that is a condition, which its author alone
can vouch for. Layers that are known to mix or remember records are refused.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import torch
from opacus.layers import DPGRU, DPLSTM, DPRNN, DPMultiheadAttention
from opacus.layers.dp_rnn import RNNLinear
from torch import Tensor, nn
from torch.ao.quantization import FakeQuantizeBase, ObserverBase
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm
from torch.nn.utils.parametrize import is_parametrized
from torch.utils.hooks import RemovableHandle

from fairaudit.engine.layers import is_plain
from fairaudit.engine.refusals import instead_of_statistics
from fairaudit.engine.small_layers import ChannelsFirst
from fairaudit.errors import ConfigError, TrainingError

# (layer, input [B, ...]) -> whether the layer keeps the records of that input apart.
Apart = Callable[[Any, Tensor], bool]


def _at_least(rank: int) -> Apart:
    """The check of layers that keep records apart in every input with at least that many axes."""
    return lambda layer, x: x.dim() >= rank


def _exactly(rank: int) -> Apart:
    """The check of layers that keep records apart in inputs with exactly that many axes.

    Such a layer takes an input with one axis fewer for a single record, and may mix along its
    first axis, which is that of the records.
    """
    return lambda layer, x: x.dim() == rank


def _over_axis(layer: Any, x: Tensor) -> bool:  # noqa: ANN401 - layers have no common type
    """Whether a layer that works along its ``dim`` works along another axis than the records'."""
    dim = layer.dim
    if dim is None:  # PyTorch then takes the first axis of 1 and 3, else the second
        dim = 0 if x.dim() in (1, 3) else 1
    return isinstance(dim, int) and dim % x.dim() != 0


def _flattens(layer: nn.Flatten, x: Tensor) -> bool:
    """Whether the records' axis, the first, is not among those that are joined."""
    return layer.start_dim % x.dim() != 0


def _normalises(layer: Any, x: Tensor) -> bool:  # noqa: ANN401
    """Whether there is an axis before those that a layer norm takes its statistics over."""
    return x.dim() > len(layer.normalized_shape)


def _pads(layer: Any, x: Tensor) -> bool:  # noqa: ANN401
    """Whether there is an axis before those that are padded: the last ones, two numbers each."""
    return x.dim() > len(layer.padding) // 2


def _pools(rank: int) -> Apart:
    """The check of pooling: inputs with that many axes, one tensor put out, and no indices."""
    return lambda layer, x: x.dim() == rank and not getattr(layer, "return_indices", False)


def _recurs(layer: Any, x: Tensor) -> bool:  # noqa: ANN401
    """Whether a recurrent layer reads [B, T, d], records first."""
    return bool(layer.batch_first) and x.dim() == 3


def _attends(layer: DPMultiheadAttention, x: Tensor) -> bool:
    """Whether attention reads [B, T, d], records first, without Opacus' bias of keys and values."""
    return bool(layer.batch_first) and not layer.add_bias_kv and x.dim() == 3


def _table() -> dict[type[nn.Module], Apart]:
    """Type of each admitted layer -> the inputs of which it keeps the records apart."""
    elementwise = (  # of each number by itself, or of each position and channel by itself
        "CELU ELU GELU Hardshrink Hardsigmoid Hardswish Hardtanh Identity LeakyReLU LogSigmoid Mish"
        " RReLU ReLU ReLU6 SELU SiLU Sigmoid Softplus Softshrink Softsign Tanh Tanhshrink Threshold"
        " AlphaDropout Dropout Dropout1d Dropout2d Dropout3d FeatureAlphaDropout Embedding"
    )
    table: dict[type[nn.Module], Apart] = {
        getattr(nn, n): _at_least(1) for n in elementwise.split()
    }
    for axes in (1, 2, 3):  # inputs are [B, channels, axes of space ...]
        for name in ("Conv", "ConvTranspose", "InstanceNorm"):
            table[getattr(nn, f"{name}{axes}d")] = _exactly(axes + 2)
        # With fixed statistics alone: `refuse_at_fault` refuses one that reads the batch's.
        table[getattr(nn, f"BatchNorm{axes}d")] = _at_least(2)
        for name in ("MaxPool", "AvgPool", "AdaptiveMaxPool", "AdaptiveAvgPool", "LPPool"):
            table[getattr(nn, f"{name}{axes}d")] = _pools(axes + 2)
        for name in ("ConstantPad", "ZeroPad", "ReflectionPad", "ReplicationPad", "CircularPad"):
            table[getattr(nn, f"{name}{axes}d")] = _pads
    return {
        **table,
        nn.Linear: _at_least(2),
        nn.PReLU: _at_least(2),
        nn.GroupNorm: _at_least(2),
        nn.SyncBatchNorm: _at_least(2),
        nn.LayerNorm: _normalises,
        nn.RMSNorm: _normalises,
        nn.LocalResponseNorm: _at_least(3),
        nn.Softmax: _over_axis,
        nn.Softmin: _over_axis,
        nn.LogSoftmax: _over_axis,
        nn.GLU: _over_axis,
        nn.Unflatten: _over_axis,
        nn.Softmax2d: _exactly(4),
        nn.Flatten: _flattens,
        nn.Unfold: _exactly(4),
        nn.Fold: _exactly(3),
        nn.PixelShuffle: _at_least(4),
        nn.PixelUnshuffle: _at_least(4),
        nn.Upsample: _at_least(3),
        nn.UpsamplingNearest2d: _at_least(3),
        nn.UpsamplingBilinear2d: _at_least(3),
        ChannelsFirst: _exactly(4),
        DPLSTM: _recurs,
        DPGRU: _recurs,
        DPRNN: _recurs,
        DPMultiheadAttention: _attends,
    }


ADMITTED = _table()
# Opacus' layers that are made of several layers. The recurrent ones have, beside those, second
# names for the same parameters.
_RECURRENT = (DPLSTM, DPGRU, DPRNN)
_COMPOSED = (*_RECURRENT, DPMultiheadAttention)
# Layers that read their parameters in their own forward alone, and whose gradients Opacus takes
# right: for each parameter, runs of the layer can be counted against its uses in the graph.
KNOWN_LAYERS = (
    *(
        getattr(nn, f"{name}{axes}d")
        for name in ("Conv", "ConvTranspose", "InstanceNorm")
        for axes in (1, 2, 3)
    ),
    nn.Linear,
    nn.PReLU,
    nn.GroupNorm,
    nn.LayerNorm,
    nn.RMSNorm,
    nn.Embedding,
    RNNLinear,
)


def place(path: str, part: nn.Module) -> str:
    """A module's type and where it is in its model, for messages."""
    return type(part).__name__ + (f" at {path!r}" if path else "")


def own_parameters(part: nn.Module) -> list[nn.Parameter]:
    """The parameters that a module has itself, not in its parts."""
    if type(part) in _RECURRENT:  # they have none but second names for those of their parts
        return []
    return [p for p in part._parameters.values() if p is not None]


def is_trained(part: nn.Module) -> bool:
    """Whether a module has trained parameters itself, not in its parts."""
    return any(p.requires_grad for p in own_parameters(part))


def owners(model: nn.Module) -> Counter[int]:
    """Identity (``id``) of each parameter -> how many modules have it themselves."""
    return Counter(id(p) for part in model.modules() for p in own_parameters(part))


def refuse_at_fault(path: str, part: nn.Module) -> None:
    """Refuse a module that mixes or remembers records, or of which Opacus takes no gradients.

    Args:
        path: Where the module is in its model, for the message; "" of the model itself.
        part: The module; its own parts are not looked at.

    Raises:
        TrainingError: Names it, and what to do.
    """
    fault = next(_faults(part), None)
    if fault is not None:
        problem, hint = fault
        raise TrainingError(f"{place(path, part)} {problem}", hint=hint)


def _faults(part: nn.Module) -> Iterator[tuple[str, str]]:
    """Each fault of a module as (what it does wrong, what to do instead); of most modules none.

    Faults of the modules in it are not among them: a caller goes through those.
    """
    trained = is_trained(part)
    instead = instead_of_statistics(part)
    if instead:
        yield "reads or keeps statistics of the batch, which no clipping bounds", instead
    # In evaluation mode: a caller takes the first fault, which in training mode is the one above.
    if isinstance(part, _BatchNorm | _InstanceNorm) and trained and part.running_mean is not None:
        yield (
            "has fixed statistics, and Opacus takes no gradients of its weight and bias",
            "freeze them with requires_grad_(False), or use nn.GroupNorm",
        )
    if isinstance(part, nn.Embedding | nn.EmbeddingBag) and part.max_norm is not None:
        yield "with max_norm shortens the rows that a batch reads, without noise", "leave it out"
    if isinstance(part, nn.Embedding | nn.EmbeddingBag) and trained and part.scale_grad_by_freq:
        yield "with scale_grad_by_freq divides by what the batch holds", "leave it out"
    if isinstance(part, nn.Embedding | nn.EmbeddingBag) and trained and part.sparse:
        yield "with sparse=True has gradients that noise cannot be added to", "leave it out"
    if isinstance(part, FakeQuantizeBase | ObserverBase):
        yield "keeps the range of what it reads", "quantise the model after the training"
    parametrized = is_parametrized(part) and any(p.requires_grad for p in part.parameters())
    # An attribute in place of the parameter: the hooks of weight_norm and spectral_norm make it.
    if parametrized or (trained and isinstance(vars(part).get("weight"), Tensor)):
        yield (
            "has a weight that is made of others, of which Opacus takes no gradients",
            "train the weight itself: remove weight_norm, spectral_norm, pruning, parametrisations",
        )


def not_admitted(model: nn.Module) -> Iterator[str]:
    """Name, in words, the parts of a model that are not known to treat records one by one.

    Args:
        model: As its author made it, before Opacus gives it hooks.
    """
    inner = _inner_parts(model)
    # A module that stands at several places of the model is called at each of them.
    calls = Counter(id(part) for _, part in model.named_modules(remove_duplicate=False))
    owner_counts = owners(model)
    for path, part in model.named_modules():
        if id(part) in inner:
            continue
        where = place(path, part)
        # nn.Sequential computes nothing itself: it calls its parts, each of which is looked at.
        if type(part) not in ADMITTED and type(part) is not nn.Sequential:
            yield f"the module {where}"
        elif not is_plain(part):
            yield f"the hooks or the replaced forward of {where}"
        elif calls[id(part)] > 1:
            yield f"{where}, which is called more than once"
        elif any(owner_counts[id(p)] > 1 for p in own_parameters(part)):
            yield f"{where}, which shares a parameter with another layer"


def refuse_for_ghost(model: nn.Module) -> None:
    """Refuse trained parameters of which ghost clipping might take a norm that is too small.

    Ghost clipping takes norms layer by layer in a first backward pass, and the sum of gradients
    from PyTorch in a second. What a parameter does outside its layer is in the sum, but not in the
    norms.

    Raises:
        ConfigError: A trained parameter of a module that is none of ``KNOWN_LAYERS`` or has hooks,
            or of several modules.
    """
    owner_counts = owners(model)
    for path, part in model.named_modules():
        if not is_trained(part):
            continue
        is_shared = any(owner_counts[id(p)] > 1 for p in own_parameters(part))
        if type(part) not in KNOWN_LAYERS or not is_plain(part) or is_shared:
            what = "shares a parameter" if is_shared else "is none of the layers that it knows"
            raise ConfigError(
                f"ghost clipping's norms may be too small: {place(path, part)} {what}",
                hint="use grad_sample_mode='hooks'",
            )


def _inner_parts(model: nn.Module) -> set[int]:
    """Identities (``id``) of the parts of Opacus' composed layers.

    They need no check of their own: the composed layer, which is admitted, calls them rightly.
    """
    inner = set()
    for composed in model.modules():
        if type(composed) in _COMPOSED:
            inner |= {id(part) for part in composed.modules() if part is not composed}
    return inner


class ModelChecks:
    """Checks, before each run of each part of a model, that it still is what was admitted.

    Args:
        model: With Opacus' hooks, which belong to it.
        mode: How Opacus takes gradients, a ``grad_sample_mode``.
        is_chain: Whether all of its parts are admitted, so that every part's input is [B, ...].
            It turns False once a part changes; inputs are not checked from then on.
        rest_on: Called with what else the guarantee rests on, in words, as soon as a run shows it.
    """

    def __init__(
        self, model: nn.Module, mode: str, rest_on: Callable[[str], None], *, is_chain: bool
    ) -> None:
        self.mode, self.is_chain = mode, is_chain
        self._rest_on = rest_on
        inner = _inner_parts(model)
        checks = [
            _PartCheck(self, path, part, is_inner=id(part) in inner)
            for path, part in model.named_modules()
        ]
        self._handles = [check.attach() for check in checks]

    def note(self, what: str) -> None:
        """Note that the guarantee rests on ``what``; from now on no part's inputs are checked."""
        self.is_chain = False
        self._rest_on(what)

    def end(self) -> None:
        """Remove the checks from the model."""
        for handle in self._handles:
            handle.remove()


def no_check(*_: object) -> None:
    """Do nothing: this hook takes the place of a :class:`_PartCheck` in a copy of the model."""


class _PartCheck:
    """Checks one part of a model: a hook that PyTorch calls before the part's forward.

    Args:
        checks: Those of the whole model.
        path: Where the part is in the model.
        part: The part itself.
        is_inner: Whether it belongs to one of Opacus' composed layers, which call it rightly.
    """

    def __init__(self, checks: ModelChecks, path: str, part: nn.Module, *, is_inner: bool) -> None:
        self._checks, self._part = checks, part
        self._path = path
        # (part, input) -> whether the part keeps the input's records apart; None: not checked.
        self._keeps_apart = None if is_inner else ADMITTED.get(type(part))
        self._n_inputs = 3 if type(part) is DPMultiheadAttention else 1  # query, key and value
        is_ghost = checks.mode == "ghost"
        # [B, d] alone: of inputs with further axes, as [B, T, d], ghost norms can be too small.
        self._wants_rank_2 = is_ghost and type(part) is nn.Linear and is_trained(part)

    def __deepcopy__(self, memo: object) -> Callable[..., None]:
        """A copy of the model is not checked."""
        return no_check

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[object, ...]]:
        """Pickle :func:`no_check` in its place: a pickled model is not checked.

        Unpickling calls ``getattr(no_check, "__call__")``, which is that function again.
        """
        return getattr, (no_check, "__call__")

    def attach(self) -> RemovableHandle:
        """Register the hook, and note what the part is made of and which hooks it has."""
        handle = self._part.register_forward_pre_hook(self, with_kwargs=True)
        self._noted_content, self._noted_hooks = self._content(), self._hooks()
        return handle

    def _content(self) -> list[int]:
        """The part's type, parameters and own parts, by identity (``id``)."""
        part = self._part
        parts = (type(part), *part._parameters.values(), *part._modules.values())
        return [id(each) for each in parts]

    def _hooks(self) -> list[int | bool]:
        """PyTorch's numbers of the part's hooks, then whether its forward is replaced."""
        part = self._part
        return [
            *part._forward_hooks,
            *part._forward_pre_hooks,
            *part._backward_hooks,
            *part._backward_pre_hooks,
            "forward" in vars(part),
        ]

    def __call__(self, part: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Check the part and the arguments that it is called with, as PyTorch hands them to a hook.

        Changed hooks are no error: the guarantee then rests on them, and inputs are not checked
        from then on.

        Raises:
            ConfigError: The part is made of other parameters or parts than in ``make_private``, or
                ghost clipping's norms would be wrong.
            TrainingError: The part mixes or remembers records, or Opacus takes no gradients of it.
        """
        if self._content() != self._noted_content:
            raise ConfigError(
                f"{place(self._path, part)} was changed since make_private",
                hint="make the model what it is to be first",
            )
        refuse_at_fault(self._path, part)
        hooks = self._hooks()
        if hooks != self._noted_hooks:
            self._noted_hooks = hooks  # a change is noted once, not at every run
            self._checks.note(f"the hooks or the replaced forward of {place(self._path, part)}")
        if not torch.is_grad_enabled():  # nothing is trained on what it reads
            return
        if self._wants_rank_2:
            self._refuse_positions(args)
        # Where a part is not admitted, the first axis of later inputs need not be the records'.
        if self._keeps_apart is not None and self._checks.is_chain:
            self._check_input(part, args, kwargs)

    def _check_input(self, part: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Refuse an input whose first axis the layer would not take for that of the records.

        Where the arguments are not the layer's tensors alone, nothing is refused: the guarantee
        then rests on what the layer does with them.

        Args:
            part: The layer.
            args, kwargs: What it is called with, positional and by name.

        Raises:
            TrainingError: The layer works along that axis, as ``Softmax(dim=0)`` does.
        """
        assert self._keeps_apart is not None  # `__call__` asks only where there is a check
        where = place(self._path, part)
        if len(args) != self._n_inputs or kwargs or not all(isinstance(x, Tensor) for x in args):
            self._checks.note(f"what {where} is given beside a batch")
        elif not all(self._keeps_apart(part, x) for x in args):
            raise TrainingError(
                f"{where} mixes records: of an input with {args[0].dim()} axes it does not leave "
                "the first one alone",
                hint="the first axis is that of the records: Softmax(dim=1), Flatten(1), images "
                "[B, C, H, W], batch_first=True",
            )

    def _refuse_positions(self, args: tuple[Any, ...]) -> None:
        """Refuse inputs other than [B, d] of a trained ``nn.Linear`` with ghost clipping.

        For [B, T, d] Opacus computes a squared norm as a sum of products over all pairs of
        positions. Where these products cancel, rounding can make the norm too small.

        Args:
            args: Of the layer's call; () where it is called by name.

        Raises:
            ConfigError: The input is not [B, d].
        """
        if args and args[0].dim() != 2:
            raise ConfigError(
                "ghost clipping's norms are wrong by rounding where an nn.Linear reads [B, T, d]",
                hint="use grad_sample_mode='hooks'",
            )
