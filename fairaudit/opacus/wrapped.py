"""Opacus' wrapped models: what they give the optimizer, and what is noted of each pass.

A pass is one call of ``backward()`` on a loss of ``make_private``'s criterion. It hands the model
each record's own gradient at its output, so Opacus is always told that the loss is a sum.
"""

import copy
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import torch
from opacus.grad_sample import AbstractGradSampleModule, GradSampleModule
from opacus.grad_sample.functorch import ft_compute_per_sample_gradient, prepare_layer
from opacus.grad_sample.grad_sample_module_fast_gradient_clipping import (
    GradSampleModuleFastGradientClipping,
)
from opacus.layers.dp_rnn import RNNLinear
from torch import Tensor, nn

from fairaudit.errors import ConfigError, FairauditError, TrainingError, said
from fairaudit.opacus.admitted import KNOWN_LAYERS, is_trained, own_parameters, place
from fairaudit.opacus.criterion import Part

ELSEWHERE = (
    "hooks on layers see what their own forward reads: let every trained layer run in each pass "
    "with the records as its first axis, or freeze its parameters"
)


def tensors_of(value: object) -> Iterator[Tensor]:
    """The tensors in a value, however deep in tuples, lists and dicts, in their order."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors_of(item)
    elif isinstance(value, tuple | list):
        for item in value:
            yield from tensors_of(item)


def mapped(value: Any, change: Callable[[Tensor], Tensor]) -> Any:  # noqa: ANN401 - of any make
    """A value with each tensor in it changed, however deep in tuples, lists and dicts."""
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, dict):
        changed = copy.copy(value)  # of its type, as the outputs of some libraries' models
        for key, item in value.items():
            changed[key] = mapped(item, change)
        return changed
    if isinstance(value, tuple | list):
        items = [mapped(item, change) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


def _one_for_none(x: Tensor) -> Tensor:
    """A record of zeros in place of a batch of none."""
    return x if x.dim() == 0 or len(x) else x.new_zeros(1, *x.shape[1:])


def _needs_functorch(layer: nn.Module) -> bool:
    """Whether Opacus' formula for a layer's type is not that of this layer.

    It pads with zeros whatever a convolution pads with, and asks a LayerNorm for its bias.
    """
    if isinstance(layer, nn.LayerNorm):
        return layer.bias is None
    return getattr(layer, "padding_mode", "zeros") != "zeros"


def _right(sampler: Callable[..., Any]) -> Callable[..., Any]:
    """Opacus' formula for a type of layers, where it is right, else ``torch.func``."""

    def sample(layer: nn.Module, activations: list[Tensor], backprops: Tensor) -> Any:  # noqa: ANN401
        taken = ft_compute_per_sample_gradient if _needs_functorch(layer) else sampler
        return taken(layer, activations, backprops)

    return sample


class _Wrapped(AbstractGradSampleModule):  # type: ignore[misc]  # Opacus has no types
    """What is added to both of Opacus' wrappers, before which it stands among their bases.

    Args:
        model: To be wrapped.
        functorch: Whether all layers' gradients are taken by ``torch.func``.
    """

    GRAD_SAMPLERS: ClassVar[dict[type[nn.Module], Callable[..., Any]]] = {
        kind: _right(sampler)
        if kind in (nn.LayerNorm, nn.Conv1d, nn.Conv2d, nn.Conv3d)
        else sampler
        for kind, sampler in GradSampleModule.GRAD_SAMPLERS.items()
    }
    # Called after each call of the model as it trains: with what it put out and its arguments.
    ran: Callable[[Any, tuple[Any, ...], dict[str, Any]], None] = staticmethod(lambda *_: None)
    rest_on: Callable[[str], None] = staticmethod(lambda _: None)  # as of the accountant
    end: Callable[[], None] = staticmethod(lambda: None)  # called when hooks are removed

    def __init__(self, model: nn.Module, *, functorch: bool = False) -> None:
        for layer in model.modules():
            if type(layer) in self.GRAD_SAMPLERS and is_trained(layer) and _needs_functorch(layer):
                prepare_layer(layer)
        super().__init__(model, loss_reduction="sum", force_functorch=functorch)
        hooked = self.iterate_submodules(model)
        self._layers = [layer for layer in hooked if type(layer) in KNOWN_LAYERS]
        # What the model put out in its last call, and how often each was written to until then.
        self._put_out: list[tuple[Tensor, int]] = []

    def __getstate__(self) -> dict[str, Any]:
        """What a copy has, or a pickle: neither graphs nor ties to this training."""
        state = {k: v for k, v in vars(self).items() if k not in ("ran", "rest_on", "end")}
        return {**state, "_put_out": []}

    def forward(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as the user's model
        """What the model puts out; noted, to know it again when the criterion is handed it.

        Of a batch of no record, which many layers cannot run, it is computed by one of zeros.
        """
        is_training = torch.is_grad_enabled() and self.training
        first = next(tensors_of((args, kwargs)), None)
        is_empty = is_training and first is not None and first.dim() > 0 and not len(first)
        try:
            if is_empty:
                args, kwargs = mapped((args, kwargs), _one_for_none)
            out = super().forward(*args, **kwargs)
            if is_empty:
                out = mapped(out, lambda x: x[:0] if x.dim() else x)
            elif is_training:
                self.ran(out, args, kwargs)
        except RuntimeError as error:
            self.clear()
            if "is being modified inplace" in str(error):
                raise TrainingError(
                    "a layer writes over what another layer put out, which Opacus has to read",
                    hint="use inplace=False, as in nn.ReLU()",
                ) from error
            raise
        except BaseException:
            self.clear()
            raise
        # What has no graph, as in a validation, is never asked for.
        self._put_out = [(each, each._version) for each in tensors_of(out) if each.requires_grad]
        return out

    def has_put_out(self, outputs: Tensor) -> bool:
        """Whether outputs [B, ...] are what the model put out, or a part of it, row by row.

        A loop may do other things to them before the criterion gets them, and mix records.
        """
        return any(
            each is outputs or _has_rows(each, outputs)
            for each, version in self._put_out
            if each._version == version
        )

    @property
    def has_hooks_on_outputs(self) -> bool:
        """Whether a hook may change gradients where the model put out its last outputs."""
        return any(each._backward_hooks for each, _ in self._put_out)

    def rearrange_grad_samples(
        self, *, module: nn.Module, backprops: Tensor, loss_reduction: str, batch_first: bool
    ) -> tuple[list[Tensor], Tensor]:
        """Opacus' own, with no gradient where an embedding reads its ``padding_idx``."""
        activations, backprops = super().rearrange_grad_samples(
            module=module,
            backprops=backprops,
            loss_reduction=loss_reduction,
            batch_first=batch_first,
        )
        if isinstance(module, nn.Embedding) and module.padding_idx is not None:
            padding = (activations[0] == module.padding_idx).unsqueeze(-1)
            backprops = backprops.masked_fill(padding, 0.0)
        return activations, backprops

    def name_of(self, parameter: Tensor) -> str:
        """The name of a parameter in the user's model."""
        named = self._module.named_parameters()
        return next((name for name, p in named if p is parameter), "a parameter")

    def remove_hooks(self) -> None:
        """Opacus' own; this program's looks end, too."""
        super().remove_hooks()
        self.end()

    def differentiate(self, parts: Sequence[Part], *, retain_graph: bool) -> None:
        """One pass: hand records' own gradients at outputs to the model.

        Raises:
            ConfigError: A trained layer did not run in it, or runs were left out of it.
            TrainingError: Opacus cannot take gradients of some layer.
        """
        self._drop()
        for path, layer in self._module.named_modules():
            if is_trained(layer) and not layer.training:
                raise ConfigError(
                    f"{place(path, layer)} is trained, and not in training mode",
                    hint="call train() of the model before each epoch",
                )
        if not len(parts[0][0]):
            self._take_nothing()
            return
        self._refuse_other_runs([outputs for outputs, _ in parts])
        try:
            self._backward(parts, retain_graph=retain_graph)
        except (FairauditError, MemoryError, torch.cuda.OutOfMemoryError):
            raise
        except Exception as error:
            raise TrainingError(
                f"Opacus cannot take gradients record by record: {said(error)}",
                hint="try another grad_sample_mode",
            ) from error

    def _refuse_other_runs(self, outputs: Sequence[Tensor]) -> None:
        """Refuse a pass that is not of all runs of the layers, or of more than their runs.

        Raises:
            ConfigError: A parameter is read outside its layer, or a run is left out.
        """
        runs: Counter[nn.Parameter] = Counter()
        for layer in self._layers:
            for p in own_parameters(layer):
                runs[p] += len(getattr(layer, "activations", ()))
        uses = _uses(outputs)
        for name, p in self._module.named_parameters():
            if p not in runs or not p.requires_grad or uses[p] == runs[p]:
                continue
            self.clear()
            if uses[p] < runs[p]:
                raise ConfigError(
                    f"the layer of {name!r} ran in training mode, and what it put out did not enter"
                    " the loss",
                    hint="use torch.no_grad() for what is not trained on, and freeze what is not "
                    "used",
                )
            raise ConfigError(
                f"{name!r} is read outside its layer's own forward, which Opacus does not see",
                hint="give what reads it parameters of its own",
            )
        once = [layer for layer in self._layers if type(layer) is not RNNLinear]
        if any(len(getattr(layer, "activations", ())) > 1 for layer in once):
            self.rest_on("a model that runs more than once in a step")

    @staticmethod
    def _backward(parts: Sequence[Part], *, retain_graph: bool) -> None:
        """PyTorch's backward pass from given gradients at outputs."""
        torch.autograd.backward(
            [outputs for outputs, _ in parts],
            [gradient for _, gradient in parts],
            retain_graph=retain_graph,
        )

    def clear(self) -> None:
        """Forget calls of the model that no pass took back, as of a batch that broke off."""
        for layer in self.modules():
            if getattr(layer, "activations", None):
                layer.activations.clear()
            if "max_batch_len" in vars(layer):
                del layer.max_batch_len
        for p in self.parameters():
            p._forward_counter = 0
            if hasattr(p, "_current_grad_sample"):
                del p._current_grad_sample

    def _drop(self) -> None:
        """Drop what an earlier pass left at the parameters."""
        for p in self.parameters():
            p.grad_sample = None

    def _take_nothing(self) -> None:
        """What a pass of no record leaves."""
        self.clear()
        for p in self.parameters():
            if p.requires_grad:
                p.grad = torch.zeros_like(p)
                p.grad_sample = p.new_zeros(0, *p.shape)


class HookedModel(_Wrapped, GradSampleModule):  # type: ignore[misc]
    """A model of which a pass leaves the gradient of each record at each parameter."""


class GhostModel(_Wrapped, GradSampleModuleFastGradientClipping):  # type: ignore[misc]
    """A model of which a pass leaves the norms of the records' gradients, without the gradients."""

    def capture_activations_hook(self, *args: Any) -> None:  # noqa: ANN401 - as Opacus' own
        """Opacus' own, which takes one run of a layer for each pass.

        Raises:
            ConfigError: It is another one.
        """
        try:
            super().capture_activations_hook(*args)
        except NotImplementedError as error:
            self.clear()
            raise ConfigError(
                "ghost clipping takes one run of each layer for a backward pass, and this is "
                "another one",
                hint="use torch.no_grad() for what is not trained on; a layer that is called twice "
                "needs grad_sample_mode='hooks'",
            ) from error

    def scale(
        self, parts: Sequence[Part], factors: Tensor, parameters: Sequence[Tensor], retain: bool
    ) -> None:
        """The second pass: leave the sum of the records' gradients times ``factors`` [B].

        It is in ``p.grad``.
        """
        if not len(factors):
            return
        for p in parameters:
            p.grad = None
        scaled = [
            (outputs, gradient * factors.to(gradient).view(-1, *[1] * (gradient.dim() - 1)))
            for outputs, gradient in parts
        ]
        self.disable_hooks()
        try:
            self._backward(scaled, retain_graph=retain)
        finally:
            self.enable_hooks()

    def _drop(self) -> None:
        super()._drop()
        for p in self.parameters():
            p._norm_sample = None

    def _take_nothing(self) -> None:
        super()._take_nothing()
        for p in self.parameters():
            p._norm_sample = p.new_zeros(0)


def wrap(model: nn.Module, mode: str) -> HookedModel | GhostModel:
    """A model in Opacus' wrapper for a ``grad_sample_mode``.

    Raises:
        TrainingError: Opacus cannot take its gradients.
    """
    try:
        if mode == "ghost":
            return GhostModel(model)
        return HookedModel(model, functorch=mode == "functorch")
    except NotImplementedError as error:
        raise TrainingError(
            f"Opacus cannot take gradients record by record: {said(error)}",
            hint="try another grad_sample_mode",
        ) from error


def _uses(outputs: Sequence[Tensor]) -> Counter[Tensor]:
    """How often each parameter is read by the graph of some outputs, by its edges."""
    uses: Counter[Tensor] = Counter()
    waiting = [each.grad_fn for each in outputs]
    seen = set()
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        for following, _ in node.next_functions:
            if following is not None and hasattr(following, "variable"):
                uses[following.variable] += 1
            else:
                waiting.append(following)
    return uses


def _has_rows(whole: Tensor, part: Tensor) -> bool:
    """Whether each row of ``part`` [B, ...] is a view of numbers of that row of ``whole``."""
    if part.dim() == 0 or whole.dim() == 0 or len(part) != len(whole):
        return False
    if part.untyped_storage().data_ptr() != whole.untyped_storage().data_ptr():
        return False
    if len(part) < 2:
        return True  # no other record is there
    if part.stride(0) != whole.stride(0) or part.dtype != whole.dtype:
        return False
    if not whole.numel() or not part.numel():
        return False
    # Which places in memory the first row of the whole has, counted from its first.
    sizes, strides = whole.shape[1:], whole.stride()[1:]
    places = torch.zeros(_reach(sizes, strides) + 1, dtype=torch.bool)
    places.as_strided(sizes, strides).fill_(True)
    sizes, strides = part.shape[1:], part.stride()[1:]
    start = part.storage_offset() - whole.storage_offset()
    if start < 0 or start + _reach(sizes, strides) >= len(places):
        return False
    return bool(places.as_strided(sizes, strides, start).all())


def _reach(sizes: Sequence[int], strides: Sequence[int]) -> int:
    """How far in memory the last number of a tensor lies from its first."""
    return sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
