"""The losses of single records, and the number whose ``backward()`` hands them to the model.

A record's loss is the criterion's value on a batch of this one record, so that no other record can
enter it. Its gradient at the record's output is all that the model gets of it: whatever else a
criterion or a loop adds, as a penalty on parameters, would be lost, and is refused.
"""

import copy
import functools
import warnings
from collections.abc import Callable
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairaudit.engine.layers import is_plain
from fairaudit.errors import ConfigError, FairauditError, TrainingError, said
from fairaudit.privacy.borrowed import global_state, global_stream

Loss = Callable[[Tensor, Tensor], Tensor]  # (outputs [B, ...], targets [B, ...]) -> loss
Part = tuple[Tensor, Tensor]  # outputs [B, ...], and each record's own gradient at them, [B, ...]

# Losses that PyTorch computes number by number: outputs and targets have one shape.
_BY_NUMBER = (
    nn.BCELoss,
    nn.BCEWithLogitsLoss,
    nn.HingeEmbeddingLoss,
    nn.HuberLoss,
    nn.KLDivLoss,
    nn.L1Loss,
    nn.MSELoss,
    nn.PoissonNLLLoss,
    nn.SmoothL1Loss,
    nn.SoftMarginLoss,
)
# Losses that it computes row by row: one number for the outputs [C] of a record.
_BY_CLASS = (nn.CrossEntropyLoss, nn.NLLLoss)
_BY_ROW = (*_BY_CLASS, nn.MultiLabelMarginLoss, nn.MultiLabelSoftMarginLoss, nn.MultiMarginLoss)
# The functions that these modules call, with equal defaults.
_FUNCTIONS: dict[Callable[..., Tensor], type[nn.Module]] = {
    F.binary_cross_entropy: nn.BCELoss,
    F.binary_cross_entropy_with_logits: nn.BCEWithLogitsLoss,
    F.cross_entropy: nn.CrossEntropyLoss,
    F.hinge_embedding_loss: nn.HingeEmbeddingLoss,
    F.huber_loss: nn.HuberLoss,
    F.kl_div: nn.KLDivLoss,
    F.l1_loss: nn.L1Loss,
    F.mse_loss: nn.MSELoss,
    F.multi_margin_loss: nn.MultiMarginLoss,
    F.multilabel_margin_loss: nn.MultiLabelMarginLoss,
    F.multilabel_soft_margin_loss: nn.MultiLabelSoftMarginLoss,
    F.nll_loss: nn.NLLLoss,
    F.poisson_nll_loss: nn.PoissonNLLLoss,
    F.smooth_l1_loss: nn.SmoothL1Loss,
    F.soft_margin_loss: nn.SoftMarginLoss,
}
HOW_TO_ADD = (
    "call backward() on what the criterion gives, once for each step: a penalty is the optimizer's "
    "weight_decay, a factor its learning rate, several batches are BatchMemoryManager's"
)


def as_module(criterion: Loss) -> Loss:
    """The PyTorch module that computes what a loss of ``torch.nn.functional`` computes.

    As a module the loss is one of those that :func:`is_known` knows by type.
    A ``functools.partial`` of such a function with keyword arguments becomes a module with them.
    Any other criterion is returned as it is.
    """
    function, keywords = criterion, {}
    if type(criterion) is functools.partial and not criterion.args:
        function, keywords = criterion.func, criterion.keywords
    for known, module_type in _FUNCTIONS.items():
        if function is known:
            try:
                module: Loss = module_type(**keywords)
            except TypeError:  # the function has arguments that the module lacks
                return criterion
            return module
    return criterion


def is_known(criterion: Loss) -> bool:
    """Whether a criterion is one of PyTorch's own losses, by exact type and without hooks.

    These treat records one by one and keep nothing of them.
    """
    return type(criterion) in (*_BY_NUMBER, *_BY_ROW) and is_plain(criterion)  # type: ignore[arg-type]


class SingleLosses:
    """The loss of each record of a batch, and its gradient at the record's output.

    Args:
        criterion: Of outputs [B, ...] and targets [B, ...].
        reduction: ``mean`` or ``sum``: what makes one loss of several numbers of a record, where
            the criterion leaves them as they are.
    """

    def __init__(self, criterion: Loss, reduction: str) -> None:
        self.criterion = as_module(criterion)
        self._reduction = reduction
        self._runs_under_vmap = True  # until it fails to
        # Whether it was compared with its value for a whole batch; a known one need not be.
        self._is_compared = is_known(self.criterion)

    def __call__(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor | None]:
        """Compute each record's loss, and its gradient at the record's own output.

        Args:
            outputs: [B, ...]; a flat [B] is one number a record.
            targets: [B, ...].

        Returns:
            The losses [B], and the gradients in the shape of the outputs. Gradients are None where
            the outputs have no graph, as under ``torch.no_grad()``.

        Raises:
            ConfigError: The criterion's value depends on parameters beside the outputs; class
                weights that cancel in a record's own mean; no number for a record.
            TrainingError: Its value for a batch is not the mean, or sum, of those of its records.
        """
        has_graph = outputs.requires_grad and torch.is_grad_enabled()
        outputs, targets = outputs.detach(), targets.detach()
        if not len(outputs):  # no records: the empty outputs have the shape of their gradients
            return outputs.new_zeros(0), outputs if has_graph else None
        self._refuse_cancelling(outputs, targets)
        if not has_graph:
            with torch.no_grad():
                return self._values(outputs, targets), None
        if self._is_row_by_row(outputs, targets):
            leaf = outputs.requires_grad_()
            values = self._at_once(leaf, targets)
            (gradients,) = torch.autograd.grad(values.sum(), leaf)
            values = values.detach()
        else:
            values, gradients = self._one_by_one(outputs, targets)
        if not self._is_compared:
            self._is_compared = self._compare(outputs.detach(), targets)
        return values, gradients

    def _values(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The losses [B] of single records, without gradients, by the fastest way that works.

        Outputs and targets are [B, ...] each, here and in the methods below.
        """
        if self._is_row_by_row(outputs, targets):
            return self._at_once(outputs, targets)
        values: Tensor | None = self._side_by_side(self._alone, outputs, targets)
        if values is None:  # vmap cannot run the criterion
            return self._in_turn(outputs, targets)
        return values

    def _side_by_side(self, function: Callable[..., Any], outputs: Tensor, targets: Tensor) -> Any:  # noqa: ANN401
        """A function of one record, run for all records at once by ``torch.func.vmap``.

        None where vmap cannot run it; it is then never tried again.

        Args:
            function: Of one output and one target, each without the axis of records.
            outputs, targets: [B, ...] each.

        Returns:
            What the function returns, each tensor of it with a first axis [B].
        """
        if not self._runs_under_vmap:
            return None
        run = torch.func.vmap(function, randomness="different")  # each record draws by itself
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "There is a performance drop")
                return run(outputs, targets)
        except FairauditError:
            raise
        except Exception:  # a mistake of the criterion's own shows again when it is called in turn
            self._runs_under_vmap = False
            return None

    def _in_turn(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The losses [B], by one call of the criterion for each record.

        Raises:
            TrainingError: The criterion fails for a record alone.
        """
        try:
            return torch.stack([self._alone(*pair) for pair in zip(outputs, targets, strict=True)])
        except FairauditError:
            raise
        except Exception as error:
            raise TrainingError(
                f"the criterion fails for a record alone: {said(error)}",
                hint="it is called with outputs [1, ...], targets [1, ...], and keeps nothing of "
                "them",
            ) from error

    def _is_row_by_row(self, outputs: Tensor, targets: Tensor) -> bool:
        """Whether one call of the criterion without reduction gives each row's loss from that row.

        So it does for PyTorch's losses, but not where outputs, targets or weights would be
        broadcast against one another, which mixes rows.
        """
        criterion = self.criterion
        if not isinstance(criterion, nn.Module) or not is_known(criterion):
            return False
        # Buffers are the weights of classes or positions. One with as many axes as the outputs has
        # an axis of records; the gradient of one that is trained would be lost.
        if any(b.dim() >= outputs.dim() or b.requires_grad for b in criterion.buffers()):
            return False
        if type(criterion) in _BY_ROW and outputs.dim() < 2:
            return False  # PyTorch takes a flat [B] for the outputs of one record
        return targets.shape == self._shape_of_targets(outputs, targets)

    def _shape_of_targets(self, outputs: Tensor, targets: Tensor) -> torch.Size:
        """The one shape of targets [B, ...] at which a known criterion pairs each row with its own.

        PyTorch refuses other shapes of targets for some losses; for others it broadcasts them.
        """
        kind = type(self.criterion)
        has_shares = kind is nn.CrossEntropyLoss and targets.is_floating_point()
        if kind in (*_BY_CLASS, nn.MultiMarginLoss) and not has_shares:
            return outputs.shape[:1] + outputs.shape[2:]  # one class for each place, [B, ...]
        return outputs.shape

    def _at_once(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The losses [B] of a known criterion, by one call for all rows, each taken by itself.

        Where a record has several numbers, as a token sequence has one for each position, the
        criterion's own reduction is done over the record's numbers.
        """
        criterion: Any = self.criterion
        unreduced = copy.copy(criterion)
        unreduced.reduction = "none"
        losses: Tensor = unreduced(outputs, targets)
        if losses.dim() == 1:
            return losses
        losses = losses.flatten(1)  # [B, numbers of a record]
        # Where the criterion has no reduction of its own, a record's numbers are reduced by the
        # one that `make_private` was given: summed, or averaged without weights.
        reduction = self._reduction if criterion.reduction == "none" else criterion.reduction
        if reduction != "mean":
            return losses.sum(1)
        has_class_targets = type(criterion) in _BY_CLASS and not targets.is_floating_point()
        if not has_class_targets or criterion.reduction == "none":
            return losses.mean(1)
        # PyTorch's mean over positions divides by the sum of the class weights of those positions
        # that are not ignored. Where all are ignored, the loss is 0.
        counted = targets != criterion.ignore_index
        weights = counted.to(losses)
        if criterion.weight is not None:  # 0 in place of ignore_index, which may be no class
            weights = weights * criterion.weight[targets.where(counted, 0)]
        total = weights.flatten(1).sum(1)
        mean: Tensor = losses.sum(1) / total.where(total != 0, 1.0)
        return mean

    def _alone(self, output: Tensor, target: Tensor) -> Tensor:
        """The loss of one record, one number: the criterion's value on a batch of this record.

        Output and target have no axis of records. Where the criterion leaves several numbers, they
        become one by the reduction that was given.

        Raises:
            ConfigError: The criterion gives no tensor.
        """
        value = self.criterion(output.unsqueeze(0), target.unsqueeze(0))
        if not isinstance(value, Tensor):
            raise ConfigError(
                f"the criterion gives a {type(value).__name__} and no tensor",
                hint="let it return the loss alone",
            )
        return value.mean() if self._reduction == "mean" else value.sum()

    def _one_by_one(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Losses [B] and gradients at the outputs, [B, ...], each from a call with one record.

        ``torch.func.vmap`` runs the calls side by side; where it cannot, they follow one another.
        """
        both = self._side_by_side(torch.func.grad_and_value(self._alone), outputs, targets)
        if both is not None:
            gradients, values = both
            self._refuse_lost(values)
            return values.detach(), gradients.detach()
        # The outputs have no graph yet: if this loss has one, it comes from elsewhere.
        self._refuse_lost(self._in_turn(outputs[:1], targets[:1]))
        leaf = outputs.requires_grad_()
        values = self._in_turn(leaf, targets)
        # Each loss reads its own record alone, so row i of the sum's gradient is that of loss i; of
        # a criterion that reads no output all rows are 0.
        (gradients,) = torch.autograd.grad(
            values.sum(), leaf, allow_unused=True, materialize_grads=True
        )
        return values.detach(), gradients

    @staticmethod
    def _refuse_lost(value: Tensor) -> None:
        """Refuse a loss that has a graph though the outputs had none: it reads parameters.

        Raises:
            ConfigError: These parameters would get no gradient from it.
        """
        if value.requires_grad:
            raise ConfigError(
                "the criterion reads parameters beside the outputs, and their gradient would be "
                "lost",
                hint="a penalty on the parameters is the optimizer's weight_decay",
            )

    def _refuse_cancelling(self, outputs: Tensor, targets: Tensor) -> None:
        """Refuse class weights with ``reduction="mean"`` where a record has one class.

        That mean divides by the sum of the weights: of one record, by the very weight of its loss.
        A record has one class where outputs are [B, Y] and targets [B].

        Raises:
            ConfigError: The weights would change nothing.
        """
        criterion = self.criterion
        if (
            type(criterion) in _BY_CLASS
            and criterion.weight is not None  # type: ignore[attr-defined]
            and criterion.reduction == "mean"  # type: ignore[attr-defined]
            and outputs.dim() == 2
            and targets.dim() == 1
        ):
            raise ConfigError(
                f"{type(criterion).__name__}(weight=..., reduction='mean') divides by the weights "
                "of the batch, and in a record's own mean its weight cancels",
                hint="use reduction='none', which weights each record's loss",
            )

    def _compare(self, outputs: Tensor, targets: Tensor) -> bool:
        """Compare the criterion's value for a batch with its values for single records.

        A criterion that reads the whole batch, as its mean or variance, gives another value for a
        record alone. What it then trains with is not what its author meant.

        Args:
            outputs: [B, ...], without a graph; records that are not finite are left out.
            targets: [B, ...].

        Returns:
            Whether the comparison is done, or cannot be; False where the batch has fewer than two
            records with finite outputs and losses, so that another batch is needed.

        Raises:
            TrainingError: The values differ.
        """
        finite = outputs.flatten(1).isfinite().all(1) if outputs.dim() > 1 else outputs.isfinite()
        if int(finite.sum()) < 2:
            return False
        outputs, targets = outputs[finite], targets[finite]
        # The most exact precision first; the criterion may run in one of them alone.
        for dtype in (torch.float64, torch.float32, outputs.dtype):
            cast = targets.to(dtype) if targets.is_floating_point() else targets
            # A copy is run and draws are put back: the training goes on as if nothing had been.
            with global_stream(0), torch.no_grad():
                state = global_state()
                try:
                    trial = copy.copy(self)
                    trial.criterion = copy.deepcopy(self.criterion)
                    alone = trial._values(outputs.to(dtype), cast)
                    # A loss that is not finite hides all others in a sum, so it is left out. But
                    # where nearly all are not finite they are compared, and refused: a criterion
                    # that divides by the batch's variance gives nan for each record alone.
                    has_loss = alone.isfinite()
                    kept = has_loss if int(has_loss.sum()) > 1 else ~has_loss
                    together = trial.criterion(outputs.to(dtype)[kept], cast[kept])
                except Exception:  # constants of another precision, or what cannot be copied
                    continue
                if state != global_state():  # it draws: a batch and its records differ by luck
                    return True
                self._refuse_batch(together, alone[kept])
                # Infinite losses tell little: a later batch is compared as well.
                return int(has_loss.sum()) > 1
        return True

    def _refuse_batch(self, together: Tensor, alone: Tensor) -> None:
        """Refuse a value of a batch that is neither mean nor sum of its records' values.

        Args:
            together: The criterion's value for the batch.
            alone: Its values for single records, [B].

        Raises:
            TrainingError: The batch's value is neither.
        """
        value = float(together.mean() if self._reduction == "mean" else together.sum())
        if value in (float(alone.mean()), float(alone.sum())):  # also where all are infinite
            return
        # How far rounding may take the sum: ten times the square root of the precision's epsilon,
        # as a fraction of the sum of the losses' sizes.
        room = 10 * torch.finfo(alone.dtype).eps ** 0.5 * float(alone.abs().sum())
        if abs(value - float(alone.mean())) <= room / len(alone):
            return
        if abs(value - float(alone.sum())) <= room:
            return
        raise TrainingError(
            "the criterion's value for a batch is neither mean nor sum of its values for single "
            "records: it reads the batch, or divides by something of it",
            hint="let it return one number for each record, [B], that follows from this record "
            "alone",
        )


class TakePass(Protocol):
    """What ``backward()`` of a loss calls: it hands records' gradients to the model."""

    def __call__(self, parts: tuple[Part, ...], *, retain_graph: bool) -> None:
        """Differentiate the model, from each record's own gradient [B, ...] at its output.

        Args:
            parts: Outputs and gradients, a pair for each loss that was added.
            retain_graph: Whether the model's graph is kept.
        """


class BatchLoss(Tensor):
    """The loss of a batch as one number, whose ``backward()`` hands on each record's own gradient.

    Losses of equal batches, as of several outputs, can be added. What else is computed of it is a
    number to be looked at, and ``backward()`` refuses it.
    """

    # What PyTorch computes from a loss is of this class, too, and has these defaults: no parts.
    _parts: tuple[Part, ...] = ()
    _take_pass: TakePass | None = None
    # PyTorch's counter of changes in place, ``_version``, as it was when the loss was made.
    _made_version = 0

    @classmethod
    def of(cls, value: Tensor, parts: tuple[Part, ...], take_pass: TakePass | None) -> "BatchLoss":
        """Make a loss of a value and of what ``backward()`` hands on.

        Args:
            value: One number, without a graph.
            parts: Outputs and each record's own gradients at them.
            take_pass: Called with the parts; None: the outputs had no graph.
        """
        loss = value.clone().as_subclass(cls)
        loss._parts, loss._take_pass = parts, take_pass
        if take_pass is not None:  # what torch.inference_mode() made has no version
            loss._made_version = loss._version
        return loss

    def backward(
        self,
        gradient: Tensor | None = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        inputs: object = None,
    ) -> None:
        """Hand each record's own gradient at its output to the model.

        Args:
            gradient: To be left out.
            retain_graph: Whether the model's graph is kept.
            create_graph: To be left out.
            inputs: To be left out.

        Raises:
            ConfigError: This is not what the criterion gave, or it was computed without a graph, or
                an argument is given that would change what is handed on.
        """
        if not self._is_whole():
            raise ConfigError(
                "backward() is not called on the loss that the criterion gave, or that one was "
                "changed, scaled or added to",
                hint=HOW_TO_ADD,
            )
        if self._take_pass is None:
            raise ConfigError(
                "the outputs have no graph: nothing can be differentiated",
                hint="run the model without torch.no_grad(), and hand its outputs to the criterion",
            )
        if gradient is not None or create_graph or inputs is not None:
            raise ConfigError(
                "backward() of a private loss takes no gradient, inputs or create_graph",
                hint=HOW_TO_ADD,
            )
        self._take_pass(self._parts, retain_graph=bool(retain_graph))

    def mean(self, *args: Any, **kwargs: Any) -> Tensor:  # noqa: ANN401 - as PyTorch's
        """The loss itself: it is one number already, whatever the criterion's reduction."""
        return super().mean(*args, **kwargs) if args or kwargs or self.dim() else self

    def sum(self, *args: Any, **kwargs: Any) -> Tensor:  # noqa: ANN401
        """The loss itself, as in :meth:`mean`."""
        return super().sum(*args, **kwargs) if args or kwargs or self.dim() else self

    def __format__(self, spec: str) -> str:
        """The number as text."""
        return format(self.item(), spec)

    def __add__(self, other: object) -> Tensor:
        """The sum with the loss of another output of the same records, or with a constant.

        A sum of anything else is a plain number: its ``backward()`` refuses.

        Raises:
            ConfigError: A term with a gradient of its own.
        """
        if isinstance(other, Tensor) and other.requires_grad:
            raise ConfigError(
                "a term is added to the loss whose gradient would be lost", hint=HOW_TO_ADD
            )
        total: Tensor = super().__add__(other)  # type: ignore[operator]
        parts = self._parts
        if isinstance(other, BatchLoss):
            parts = (*parts, *other._parts)
            record_counts = {len(outputs) for outputs, _ in parts}
            if not other._is_whole() or len(record_counts) > 1:
                return total
        if not self._is_whole() or total.dim():  # dim: with a constant of several numbers
            return total
        return BatchLoss.of(total.as_subclass(Tensor), parts, self._take_pass)

    def _is_whole(self) -> bool:
        """Whether it is what the criterion gave, or a sum of such losses, and was not changed."""
        return bool(self._parts) and (
            self._take_pass is None or self._version == self._made_version
        )

    __radd__ = __iadd__ = __add__


class RecordCriterion:
    """The criterion that ``make_private`` returns: the user's own, taken for single records.

    Args:
        losses: Of single records.
        reduction: ``mean`` or ``sum``: what the records' losses become in the number that the loss
            of a batch shows. Gradients do not depend on it here.
        take_pass: Hands gradients at outputs to the model, as :class:`TakePass` says.
        has_put_out: Whether the model put out these outputs, row by row.
        rest_on: Called with what the guarantee rests on beside the model.
        name: The user's criterion, in words.
    """

    def __init__(
        self,
        losses: SingleLosses,
        reduction: str,
        *,
        take_pass: TakePass,
        has_put_out: Callable[[Tensor], bool],
        rest_on: Callable[[str], None],
        name: str,
    ) -> None:
        self._losses, self._reduction = losses, reduction
        self._take_pass, self._has_put_out, self._rest_on = take_pass, has_put_out, rest_on
        self._name = name
        self._note_unknown()

    def _note_unknown(self) -> None:
        """Note that the guarantee rests on the criterion, unless it is one of PyTorch's own."""
        if not is_known(self.criterion):
            self._rest_on(self._name)

    @property
    def criterion(self) -> Loss:
        """The criterion of which the losses are taken."""
        return self._losses.criterion

    def __call__(self, outputs: Tensor, targets: Tensor) -> BatchLoss:
        """The loss of a batch, whose ``backward()`` hands each record's own gradient to the model.

        Args:
            outputs: [B, ...] of the model; a flat [B] is one number a record.
            targets: [B, ...].

        Raises:
            ConfigError: Outputs and targets do not fit one another, or the criterion cannot be
                taken record by record.
            TrainingError: The criterion reads other records, or fails for a record alone.
        """
        if not isinstance(outputs, Tensor) or not isinstance(targets, Tensor):
            raise ConfigError(
                "the criterion reads one tensor of outputs and one of targets",
                hint="call it for each output of the model, and add the losses",
            )
        if targets.requires_grad:
            raise ConfigError(
                "the targets have a gradient, which would be lost", hint="targets.detach()"
            )
        if outputs.dim() == 0:  # squeeze() of one record
            outputs = outputs.unsqueeze(0)
        if targets.dim() == 0:
            targets = targets.unsqueeze(0)
        if len(outputs) != len(targets):
            raise ConfigError(
                f"the criterion gets outputs of {len(outputs):,} records and targets of "
                f"{len(targets):,}",
                hint="the first axis of both is that of the records",
            )
        self._note_unknown()  # the criterion may have got hooks since the last call
        values, gradients = self._losses(outputs, targets)
        # Of no record the loss is 0: a mean would be nan.
        value = values.mean() if self._reduction == "mean" and len(values) else values.sum()
        # No graph, so nothing can be handed on: ``backward()`` refuses. The outputs stand in for
        # gradients, as a loss without parts would pass for one that the loop made.
        if gradients is None:
            return BatchLoss.of(value, ((outputs, outputs),), None)
        if not self._has_put_out(outputs):
            self._rest_on("what the loop makes of the model's outputs before the criterion")
        return BatchLoss.of(value, ((outputs, gradients),), self._take_pass)
