"""Opacus' model wrappers, which take each record's gradient, with checks of each pass.

A pass is one call of ``backward()`` on a loss of ``make_private``'s criterion. It hands the model
each record's own gradient at its output, so Opacus is always told that the loss is a sum. A run is
one call of a layer's forward in training mode, as Opacus notes it in ``layer.activations``.
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
    """A copy of a value with each tensor in it changed, however deep in tuples, lists and dicts.

    ``change`` takes a tensor and gives the one in its place; all else in the value stays.
    """
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, dict):
        changed = copy.copy(value)  # of its type, as the outputs of some libraries' models
        for key, item in value.items():
            changed[key] = mapped(item, change)
        return changed
    if isinstance(value, tuple | list):
        items = [mapped(item, change) for item in value]
        # A named tuple takes its items one by one.
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


def _zeros_if_empty(x: Tensor) -> Tensor:
    """One record of zeros [1, ...] in place of an empty batch [0, ...]; other tensors as they are.

    Many layers cannot run an empty batch.
    """
    is_empty = x.dim() > 0 and len(x) == 0
    return x.new_zeros(1, *x.shape[1:]) if is_empty else x


def _needs_functorch(layer: nn.Module) -> bool:
    """Whether Opacus' formula for a layer's type gives wrong gradients for this layer, or fails.

    That is so of a convolution that pads with anything but zeros, as the formula pads with zeros,
    and of a layer norm without the bias that the formula reads. ``torch.func`` is right for both.
    """
    if isinstance(layer, nn.LayerNorm):
        return layer.bias is None
    return getattr(layer, "padding_mode", "zeros") != "zeros"


def _corrected(formula: Callable[..., Any]) -> Callable[..., Any]:
    """Opacus' formula for a layer type, with ``torch.func`` in its place where it is not right."""

    def gradients(layer: nn.Module, activations: list[Tensor], backprops: Tensor) -> Any:  # noqa: ANN401
        """Parameter -> each record's gradient, [B, ...], as Opacus calls it."""
        if _needs_functorch(layer):
            return ft_compute_per_sample_gradient(layer, activations, backprops)
        return formula(layer, activations, backprops)

    return gradients


class _Wrapped(AbstractGradSampleModule):  # type: ignore[misc]  # Opacus has no types
    """Adds this program's checks to Opacus' wrappers, as the first base of a class of both.

    Args:
        model: To be wrapped.
        functorch: Whether all layers' gradients are taken by ``torch.func``.
    """

    GRAD_SAMPLERS: ClassVar[dict[type[nn.Module], Callable[..., Any]]] = {
        layer_type: _corrected(formula)
        if layer_type in (nn.LayerNorm, nn.Conv1d, nn.Conv2d, nn.Conv3d)
        else formula
        for layer_type, formula in GradSampleModule.GRAD_SAMPLERS.items()
    }
    # `make_private` puts functions in the place of these three.
    # Called after each call of the model in training: with what it put out and its arguments.
    after_forward: Callable[[Any, tuple[Any, ...], dict[str, Any]], None] = staticmethod(
        lambda *_: None
    )
    rest_on: Callable[[str], None] = staticmethod(lambda _: None)  # as of the accountant
    on_end: Callable[[], None] = staticmethod(lambda: None)  # called when hooks are removed

    def __init__(self, model: nn.Module, *, functorch: bool = False) -> None:
        for layer in model.modules():
            # Opacus prepares for torch.func those layers alone for which it has no formula.
            if type(layer) in self.GRAD_SAMPLERS and is_trained(layer) and _needs_functorch(layer):
                prepare_layer(layer)
        super().__init__(model, loss_reduction="sum", force_functorch=functorch)
        hooked = self.iterate_submodules(model)
        # The layers whose runs are counted, see `_refuse_other_runs`.
        self._known_layers = [layer for layer in hooked if type(layer) in KNOWN_LAYERS]
        # Each tensor that the model put out in its last call, with PyTorch's counter of writes to
        # it (``_version``) as it was then.
        self._put_out: list[tuple[Tensor, int]] = []

    def __getstate__(self) -> dict[str, Any]:
        """The state of a copy or a pickle: without graphs and without ties to this training.

        A copy has the class's three functions again, which do nothing.
        """
        state = {
            k: v for k, v in vars(self).items() if k not in ("after_forward", "rest_on", "on_end")
        }
        return {**state, "_put_out": []}

    def forward(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as the user's model
        """Run the user's model, and note what it put out, for :meth:`has_put_out`.

        An empty batch is run as one record of zeros, of whose outputs no row is returned.

        Raises:
            TrainingError: A layer writes in place over what Opacus has to read.
        """
        is_training = torch.is_grad_enabled() and self.training
        first = next(tensors_of((args, kwargs)), None)
        is_empty = is_training and first is not None and first.dim() > 0 and not len(first)
        try:
            if is_empty:  # every empty tensor among the arguments becomes one record
                args, kwargs = mapped((args, kwargs), _zeros_if_empty)
            out = super().forward(*args, **kwargs)
            if is_empty:
                out = mapped(out, lambda x: x[:0] if x.dim() else x)
            elif is_training:  # with records, which can be compared
                self.after_forward(out, args, kwargs)
        except RuntimeError as error:
            self.clear()  # of the runs of layers before the one that failed
            if "is being modified inplace" in str(error):
                raise TrainingError(
                    "a layer writes over what another layer put out, which Opacus has to read",
                    hint="use inplace=False, as in nn.ReLU()",
                ) from error
            raise
        except BaseException:
            self.clear()
            raise
        # What has no graph, as in a validation, has no backward pass.
        self._put_out = [(each, each._version) for each in tensors_of(out) if each.requires_grad]
        return out

    def has_put_out(self, outputs: Tensor) -> bool:
        """Whether outputs [B, ...] are what the model put out last, or a part of it, row by row.

        Anything else was made in the loop, which may have mixed records. Outputs that were written
        to since count as made there, too: their version is another.
        """
        return any(
            each is outputs or _has_rows(each, outputs)
            for each, version in self._put_out
            if each._version == version
        )

    @property
    def has_hooks_on_outputs(self) -> bool:
        """Whether a gradient hook is on a tensor that the model put out last."""
        return any(each._backward_hooks for each, _ in self._put_out)

    def rearrange_grad_samples(
        self, *, module: nn.Module, backprops: Tensor, loss_reduction: str, batch_first: bool
    ) -> tuple[list[Tensor], Tensor]:
        """Opacus' inputs and output gradients of a layer, with 0 where an embedding reads padding.

        PyTorch leaves the row at ``padding_idx`` as it is; Opacus' formula does not.

        Args:
            module: The layer, which has just run backward.
            backprops: Gradients at its output.
            loss_reduction, batch_first: As of Opacus.
        """
        activations, backprops = super().rearrange_grad_samples(
            module=module,
            backprops=backprops,
            loss_reduction=loss_reduction,
            batch_first=batch_first,
        )
        if isinstance(module, nn.Embedding) and module.padding_idx is not None:
            # Of the row numbers that the embedding reads, [B, ..]; then an axis for its outputs.
            padding = (activations[0] == module.padding_idx).unsqueeze(-1)
            backprops = backprops.masked_fill(padding, 0.0)
        return activations, backprops

    def name_of(self, parameter: Tensor) -> str:
        """The name of a parameter in the user's model, for messages."""
        named = self._module.named_parameters()
        return next((name for name, p in named if p is parameter), "a parameter")

    def remove_hooks(self) -> None:
        """Remove Opacus' hooks, and those of this program."""
        super().remove_hooks()
        self.on_end()

    def differentiate(self, parts: Sequence[Part], *, retain_graph: bool) -> None:
        """Run one backward pass from records' own gradients at outputs.

        Each record's gradient, or its norm, is at the parameters then, where Opacus leaves it.

        Args:
            parts: Outputs [B, ...] and each record's own gradient at them, a pair for each loss.
            retain_graph: Whether the graph is kept for another pass.

        Raises:
            ConfigError: A trained layer did not run in training mode, or some of the runs do not
                belong to these outputs.
            TrainingError: Opacus cannot take gradients of some layer.
        """
        self._drop_samples()  # those of an earlier pass, which would pass for this one's
        for path, layer in self._module.named_modules():
            if is_trained(layer) and not layer.training:
                raise ConfigError(
                    f"{place(path, layer)} is trained, and not in training mode",
                    hint="call train() of the model before each epoch",
                )
        if not len(parts[0][0]):  # an empty batch
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
        """Refuse a pass in which a parameter is not used exactly as often as its layer has run.

        Opacus sees runs alone: a use outside of them would be missing in the records' gradients,
        and a run whose result is not used would be taken for one of this pass.

        Args:
            outputs: Those that the pass goes back from, one tensor for each loss.

        Raises:
            ConfigError: A parameter is read outside its layer, or a run is left out.
        """
        runs: Counter[nn.Parameter] = Counter()
        for layer in self._known_layers:
            for p in own_parameters(layer):
                runs[p] += len(getattr(layer, "activations", ()))  # Opacus keeps one item a run
        uses = _uses(outputs)
        for name, p in self._module.named_parameters():
            if p not in runs or not p.requires_grad or uses[p] == runs[p]:
                continue
            self.clear()  # the pass is refused, and its runs are not to count in another
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
        # The part of a recurrent layer runs once for each position. Any other layer runs once,
        # unless the model, or a layer of it, is called several times before the pass.
        once = [layer for layer in self._known_layers if type(layer) is not RNNLinear]
        if any(len(getattr(layer, "activations", ())) > 1 for layer in once):
            self.rest_on("a model that runs more than once in a step")

    @staticmethod
    def _backward(parts: Sequence[Part], *, retain_graph: bool) -> None:
        """PyTorch's backward pass from given gradients at outputs; Opacus' hooks run in it."""
        torch.autograd.backward(
            [outputs for outputs, _ in parts],
            [gradient for _, gradient in parts],
            retain_graph=retain_graph,
        )

    def clear(self) -> None:
        """Forget runs that no backward pass followed, as of a batch that broke off.

        It deletes what Opacus' hooks keep at layers and parameters between forward and backward.
        """
        for layer in self.modules():
            if getattr(layer, "activations", None):
                layer.activations.clear()
            if "max_batch_len" in vars(layer):
                del layer.max_batch_len
        for p in self.parameters():
            p._forward_counter = 0
            if hasattr(p, "_current_grad_sample"):
                del p._current_grad_sample

    def _drop_samples(self) -> None:
        """Drop each record's gradients that an earlier pass left at the parameters."""
        for p in self.parameters():
            p.grad_sample = None

    def _take_nothing(self) -> None:
        """Leave at the parameters what a pass of an empty batch would: sums of 0, and no rows.

        An empty batch ran as a record of zeros, whose runs are forgotten.
        """
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
        """Note a run of a layer, as Opacus does, which takes one run of a layer for each pass.

        Raises:
            ConfigError: This is the layer's second run.
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
        """Run the second backward pass: the sum of the records' gradients, each times its factor.

        The sum is left in ``p.grad``. An empty batch changes nothing.

        Args:
            parts: Outputs [B, ...] and each record's own gradient at them, as of the first pass.
            factors: One for each record, [B].
            parameters: The trained ones.
            retain: Whether the graph is kept.
        """
        if not len(factors):
            return
        for p in parameters:
            p.grad = None
        scaled = []
        for outputs, gradient in parts:
            column = factors.to(gradient).view(-1, *[1] * (gradient.dim() - 1))  # [B, 1, ...]
            scaled.append((outputs, gradient * column))
        self.disable_hooks()  # PyTorch's sums alone are wanted
        try:
            self._backward(scaled, retain_graph=retain)
        finally:
            self.enable_hooks()

    def _drop_samples(self) -> None:
        super()._drop_samples()
        for p in self.parameters():
            p._norm_sample = None

    def _take_nothing(self) -> None:
        super()._take_nothing()
        for p in self.parameters():
            p._norm_sample = p.new_zeros(0)


def wrap(model: nn.Module, mode: str) -> HookedModel | GhostModel:
    """A model in Opacus' wrapper for a ``grad_sample_mode``, which adds hooks to the model itself.

    Args:
        model: Of the user.
        mode: ``hooks``, ``functorch`` or ``ghost``.

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
    """Parameter -> how often the graph of some outputs reads it: the graph's edges to it."""
    uses: Counter[Tensor] = Counter()
    waiting = [each.grad_fn for each in outputs]  # nodes of the graph that are still to be visited
    seen = set()
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        for source, _ in node.next_functions:
            if source is not None and hasattr(source, "variable"):  # PyTorch's node of a leaf
                uses[source.variable] += 1
            else:
                waiting.append(source)
    return uses


def _has_rows(whole: Tensor, part: Tensor) -> bool:
    """Whether each row of ``part`` [B, ...] is a view of numbers of the same row of ``whole``.

    Judged by places in memory: both share a storage, rows lie equally far apart in both, and the
    first row of ``part`` has no place that the first row of ``whole`` has not.
    """
    if part.dim() == 0 or whole.dim() == 0 or len(part) != len(whole):  # no axis of records
        return False
    if part.untyped_storage().data_ptr() != whole.untyped_storage().data_ptr():
        return False
    if len(part) < 2:
        return True  # no other record is there
    if part.stride(0) != whole.stride(0) or part.dtype != whole.dtype:
        return False
    if not whole.numel() or not part.numel():
        return False
    # True at each place in memory that the first row of the whole has, counted from its first one:
    # a row need not be contiguous.
    sizes, strides = whole.shape[1:], whole.stride()[1:]
    in_row = torch.zeros(_reach(sizes, strides) + 1, dtype=torch.bool)
    in_row.as_strided(sizes, strides).fill_(True)
    sizes, strides = part.shape[1:], part.stride()[1:]
    # Where the first row of the part begins; it has to lie inside that of the whole.
    start = part.storage_offset() - whole.storage_offset()
    if start < 0 or start + _reach(sizes, strides) >= len(in_row):
        return False
    return bool(in_row.as_strided(sizes, strides, start).all())


def _reach(sizes: Sequence[int], strides: Sequence[int]) -> int:
    """How many places in memory the last number of a tensor lies behind its first."""
    return sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
