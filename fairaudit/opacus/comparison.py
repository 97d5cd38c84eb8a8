"""A trial of a model: does it treat records together as it treats each of them alone?

The trial is run once. It finds mistakes, as a forward that mixes records or a layer of which Opacus
takes other gradients than PyTorch. It proves nothing, and no guarantee rests on it.
"""

import copy
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd
from torch.nn.utils.rnn import PackedSequence

from fairaudit.errors import FairauditError, TrainingError, said
from fairaudit.opacus.admitted import ADMITTED, is_trained
from fairaudit.opacus.wrapped import GhostModel, mapped, tensors_of, wrap
from fairaudit.privacy.borrowed import global_state, global_stream

RECORDS = 8  # the most that are compared
# Precision -> by how much outputs of size 1, and sums of gradients of norm 1, may differ.
_ROOM = {torch.float64: 1e-6, torch.float32: 1e-2}
_OUT_OF_MEMORY = (MemoryError, torch.cuda.OutOfMemoryError)
_HINT = (
    "let each record's output follow from that record alone; where it does, try "
    "grad_sample_mode='functorch'"
)


class FirstComparison:
    """Compares a batch's records together and one by one, in the first call with two or more.

    Compared are the outputs, and the sum of the records' clipped gradients: together by Opacus,
    alone by PyTorch. The gradient at each output is made up, for no loss is there yet, and each
    record's gradient is divided by its norm. Copies of the model are run, without dropout and in
    float64 where that works, and the random state is put back.

    Args:
        model: Before Opacus gives it hooks.
        mode: How Opacus takes gradients.
    """

    def __init__(self, model: nn.Module, mode: str) -> None:
        self._model, self._mode = model, mode
        # A copy without Opacus' hooks; None once the comparison is done, or where it cannot be.
        self._bare: nn.Module | None = None
        try:
            self._bare = copy.deepcopy(model)
        except Exception:  # parts of the user's own that cannot be copied
            return

    def __call__(self, out: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:  # noqa: ANN401 - as the model's
        """Compare, if this is the first call with two records or more.

        Args:
            out: What the model put out.
            args: Of the model, positional.
            kwargs: Of the model, by name.

        Raises:
            TrainingError: Outputs or sums differ, or the model fails for a record alone.
        """
        first = next(tensors_of((args, kwargs)), None)
        if self._bare is None or first is None or first.dim() == 0 or len(first) < 2:
            return
        output = next((each for each in tensors_of(out) if each.dim()), None)
        if output is None or len(output) != len(first):
            return  # the first axis of one of the two is not that of the records
        bare, self._bare = self._bare, None  # no later call compares
        # The tensors of a packed sequence have no axis of records.
        if any(isinstance(each, PackedSequence) for each in (*args, *kwargs.values())):
            return
        # Which rows of the batch are compared: RECORDS of them or all, evenly spread.
        places = torch.linspace(0, len(first) - 1, min(len(first), RECORDS)).long()
        places = places.to(first.device)
        try:
            for dtype, room in _ROOM.items():  # float32 where the model cannot run in float64
                rows = _Rows((args, kwargs), len(first), dtype)
                with global_stream(0), torch.enable_grad(), _full_precision(first):
                    if self._compare(self._current(bare, dtype), rows, places, room):
                        return
        except _OUT_OF_MEMORY:  # the training itself may have enough: it is not refused for this
            return

    def _current(self, bare: nn.Module, dtype: torch.dtype) -> nn.Module:
        """A copy without hooks, with the model's present parameters and modes, without dropout.

        Args:
            bare: The copy that was made before Opacus gave the model its hooks. It is copied again,
                so that each precision starts from it.
            dtype: The precision of the result.
        """
        model = copy.deepcopy(bare)
        values = (*self._model.parameters(), *self._model.buffers())
        with torch.no_grad():
            for own, value in zip((*model.parameters(), *model.buffers()), values, strict=True):
                own.copy_(value)
        for part, original in zip(model.modules(), self._model.modules(), strict=True):
            # Dropout and RReLU draw in training mode, and other numbers for a batch than alone.
            part.training = original.training and not isinstance(part, _DropoutNd | nn.RReLU)
        return model.to(dtype)

    def _compare(self, model: nn.Module, rows: "_Rows", places: Tensor, room: float) -> bool:
        """Compare outputs and clipped sums of some records, together and one by one.

        Args:
            model: A copy of the model in the precision of ``rows``, which may be changed.
            rows: The batch.
            places: Numbers of the batch's rows that are compared, [8] or fewer.
            room: By how much numbers of size 1 may differ.

        Returns:
            Whether the comparison is done, or cannot be; False where the model does not run in this
            precision.

        Raises:
            TrainingError: Outputs or sums differ, or the model fails for a record alone.
        """
        # A model that draws random numbers is tried once more, with the user's own modules in
        # evaluation mode.
        for _ in range(2):
            state = global_state()
            try:
                together = rows.outputs(model, places)
            except Exception:  # out of memory included, of which float32 takes half
                return False
            if state == global_state():
                break
            # Dropout in a forward of the user's own asks for the mode of its module. Trained
            # modules stay in training mode, in which alone Opacus takes their gradients.
            for part in model.modules():
                part.training = part.training and (type(part) in ADMITTED or is_trained(part))
        else:
            return True  # it still draws: a batch and its records would differ by luck
        is_finite = []  # of each record's output
        for number, place in enumerate(torch.split(places, 1)):
            try:
                alone = rows.outputs(model, place)
            except _OUT_OF_MEMORY:
                raise
            except Exception as error:
                raise TrainingError(
                    f"the model fails for a record alone: {said(error)}", hint=_HINT
                ) from error
            if len(together) != len(places) or alone.numel() != together[number].numel():
                return True  # the first output is not that of the records
            self._refuse_unless(_near(together[number], alone.view_as(together[number]), room))
            is_finite.append(bool(alone.isfinite().all()))
        # A record whose output is not finite has no finite gradient to be summed.
        places = places[torch.tensor(is_finite, device=places.device)]
        if len(places) > 1 and together.requires_grad:
            self._compare_sums(model, rows, places, together[: len(places)], room)
        return True

    def _compare_sums(
        self, model: nn.Module, rows: "_Rows", places: Tensor, like: Tensor, room: float
    ) -> None:
        """Compare the sums of some records' clipped gradients, [P]: by Opacus and by PyTorch.

        Args:
            model: A copy.
            rows: The batch.
            places: Its rows of records whose outputs are finite.
            like: Any tensor with the shape of their outputs.
            room: By how much sums of gradients of norm 1 may differ.

        Raises:
            TrainingError: The sums differ.
        """
        # Made-up gradients at the outputs, all different, so that no record can pass for another.
        directions = torch.arange(1.0, like.numel() + 1).cos_().to(like).view_as(like)
        trained = [p for p in model.parameters() if p.requires_grad]

        def gradients() -> Iterator[Tensor]:
            """Each record's gradient [P], by PyTorch; one at a time, as P may be large.

            A parameter that the output does not depend on has zeros.
            """
            for place, direction in zip(torch.split(places, 1), directions, strict=True):
                output = rows.outputs(model, place)
                of_parameters = torch.autograd.grad(
                    output,
                    trained,
                    direction.view_as(output),
                    allow_unused=True,
                    materialize_grads=True,
                )
                yield torch.cat([each.flatten() for each in of_parameters])

        norms = torch.stack([torch.linalg.vector_norm(row) for row in gradients()])
        # A gradient is divided by its norm, or by this bound if the norm is smaller: else one that
        # is rounding alone would become as long as the others. The bound is above 0 even if all
        # norms are 0.
        bound = max(float(norms.max()) * room, torch.finfo(norms.dtype).tiny)
        expected = torch.zeros(sum(p.numel() for p in trained)).to(norms)
        for row, norm in zip(gradients(), norms, strict=True):
            expected += row / norm.clamp(min=bound)
        try:
            summed = self._by_opacus(model, rows, places, directions, bound)
        except FairauditError:  # the training's own pass raises it, too, with the user's own loss
            return
        self._refuse_unless(summed is None or _near(summed, expected, room))

    def _by_opacus(
        self, model: nn.Module, rows: "_Rows", places: Tensor, directions: Tensor, bound: float
    ) -> Tensor | None:
        """The sum of the records' gradients, each over its norm or ``bound``, by Opacus, [P].

        None where a parameter has not one gradient for each record: the training's own pass refuses
        that with its name.

        Args:
            model: A copy.
            rows: The batch.
            places: Its rows that are compared, B of them.
            directions: The gradients at the outputs, [B, ...].
            bound: The least that a gradient is divided by.
        """
        wrapped = wrap(copy.deepcopy(model), self._mode)
        is_ghost = isinstance(wrapped, GhostModel)
        outputs = rows.outputs(wrapped, places)
        parts = ((outputs, directions.view_as(outputs)),)
        wrapped.differentiate(parts, retain_graph=is_ghost)
        trained = [p for p in wrapped.parameters() if p.requires_grad]
        samples = [p._norm_sample if is_ghost else p.grad_sample for p in trained]
        if any(each is None or len(each) != len(places) for each in samples):
            return None
        if isinstance(wrapped, GhostModel):
            norms = torch.linalg.vector_norm(torch.stack(samples), dim=0)
            wrapped.scale(parts, 1 / norms.clamp(min=bound), trained, False)
            return torch.cat([p.grad.flatten() for p in trained])
        gradients = torch.cat([each.flatten(1) for each in samples], 1)  # [B, P]
        norms = torch.linalg.vector_norm(gradients, dim=1)
        summed: Tensor = (1 / norms.clamp(min=bound)) @ gradients
        return summed

    @staticmethod
    def _refuse_unless(is_near: bool) -> None:
        """Refuse the model unless results of records together and alone were near enough.

        Raises:
            TrainingError: They were not.
        """
        if not is_near:
            raise TrainingError(
                "the model takes records together in another way than alone: it mixes them, or "
                "Opacus does not see all that a parameter does",
                hint=_HINT,
            )


class _Rows:
    """A batch of which a model can be given some records alone.

    Args:
        given: The model's arguments for the whole batch: positional, and by name.
        size: How many records the batch has.
        dtype: The precision in which the model is given them.
    """

    def __init__(self, given: tuple[Any, Any], size: int, dtype: torch.dtype) -> None:
        self._given, self._size, self._dtype = given, size, dtype

    def outputs(self, model: nn.Module, places: Tensor) -> Tensor:
        """The first tensor that the model puts out for the records at some places."""
        args, kwargs = self._at(self._given, places)
        return next(tensors_of(model(*args, **kwargs)))

    def _at(self, value: Any, places: Tensor) -> Any:  # noqa: ANN401 - whatever a model is given
        """The arguments ``value`` with the batch's rows at ``places`` in place of all.

        A tensor that has as many rows as the batch is taken for one of its records.
        """

        def some(tensor: Tensor) -> Tensor:
            """The tensor's rows at the places, in this batch's precision, without a graph."""
            rows = tensor.detach()
            if rows.dim() and len(rows) == self._size:
                rows = rows.index_select(0, places)
            return rows.to(self._dtype) if rows.is_floating_point() else rows

        return mapped(value, some)


def _full_precision(x: Tensor) -> AbstractContextManager[Any]:
    """Inside the block autocast is off on the tensor's device."""
    return torch.autocast(x.device.type, enabled=False)


def _near(one: Tensor, other: Tensor, room: float) -> bool:
    """Whether two results are the same but for rounding; NaN and inf have to be in both.

    Args:
        one, other: Tensors of one shape.
        room: By how much numbers of size 1 may differ; larger numbers by as much more.
    """
    # The size of the largest number that is finite: NaN and inf count as 0 in it.
    size = max(1.0, float(other.detach().abs().nan_to_num(0.0, 0.0, 0.0).max()))
    return torch.allclose(one, other, rtol=room, atol=room * size, equal_nan=True)
