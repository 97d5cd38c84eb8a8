"""Whether a model takes records together as it takes each of them alone, tried once.

It finds mistakes, as a forward that mixes records or a layer of which Opacus takes other gradients
than PyTorch. It proves nothing, and no guarantee rests on it.
"""

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd
from torch.nn.utils.rnn import PackedSequence

from fairaudit.errors import TrainingError, said
from fairaudit.opacus.admitted import ADMITTED, is_trained
from fairaudit.opacus.wrapped import GhostModel, mapped, tensors_of, wrap
from fairaudit.privacy.borrowed import global_stream

RECORDS = 8  # the most that are compared
# By precision, how far sums of gradients of norm 1 may be apart, and outputs of size 1.
_ROOM = {torch.float64: 1e-6, torch.float32: 1e-2}
_HINT = (
    "let each record's output follow from that record alone; where it does, try "
    "grad_sample_mode='functorch'"
)


class Comparison:
    """Compares a batch's records together and one by one, the first time that there are two.

    Compared are outputs, and the sum of the records' gradients in directions that are made up, each
    clipped to norm 1: together by Opacus, alone by PyTorch. Copies of the model are run, without
    dropout, in float64 where they can be, and the random state stays what it is.

    Args:
        model: Before Opacus gives it hooks.
        mode: How Opacus takes gradients.
    """

    def __init__(self, model: nn.Module, mode: str) -> None:
        self._model, self._mode = model, mode
        self._bare: nn.Module | None = None  # a copy without hooks, until they are compared
        try:
            self._bare = copy.deepcopy(model)
        except Exception:  # parts of the user's own that cannot be copied
            return

    def __call__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - as the model's
        """Compare, if these are the first arguments of two records or more.

        Raises:
            TrainingError: Outputs or sums differ, or the model fails for a record alone.
        """
        first = next(tensors_of((args, kwargs)), None)
        if self._bare is None or first is None or first.dim() == 0 or len(first) < 2:
            return
        bare, self._bare = self._bare, None
        if any(isinstance(each, PackedSequence) for each in (*args, *kwargs.values())):
            return
        places = torch.linspace(0, len(first) - 1, min(len(first), RECORDS)).long()
        places = places.to(first.device)
        for dtype in _ROOM:
            rows = _Rows((args, kwargs), len(first), dtype)
            with global_stream(0), torch.enable_grad():
                if self._compare(self._ready(bare, dtype), rows, places, _ROOM[dtype]):
                    return

    def _ready(self, bare: nn.Module, dtype: torch.dtype) -> nn.Module:
        """A copy of the model as it is now, in some precision, without dropout."""
        model = copy.deepcopy(bare)
        values = (*self._model.parameters(), *self._model.buffers())
        with torch.no_grad():
            for own, value in zip((*model.parameters(), *model.buffers()), values, strict=True):
                own.copy_(value)
        for part, its in zip(model.modules(), self._model.modules(), strict=True):
            part.training = its.training and not isinstance(part, _DropoutNd | nn.RReLU)
        return model.to(dtype)

    def _compare(self, model: nn.Module, rows: "_Rows", places: Tensor, room: float) -> bool:
        """Compare the records at some places of a batch; False: it cannot be run in this precision.

        Raises:
            TrainingError: As of a call.
        """
        for _ in range(2):
            state = torch.get_rng_state()
            try:
                together = rows.outputs(model, places)
            except Exception:
                return False
            if torch.equal(state, torch.get_rng_state()):
                break
            # Dropout in a forward of the user's own: it asks for the mode of its module.
            for part in model.modules():
                part.training = part.training and (type(part) in ADMITTED or is_trained(part))
        else:
            return True  # draws of a batch are other ones than those of its records
        alone = []
        for place in torch.split(places, 1):
            try:
                output = rows.outputs(model, place)
            except Exception as error:
                raise TrainingError(
                    f"the model fails for a record alone: {said(error)}", hint=_HINT
                ) from error
            if output.numel() != together[0].numel() or len(together) != len(places):
                return True  # the first output is not that of the records
            alone.append(output.reshape(1, *together.shape[1:]))
        self._refuse_unless(_near(together, torch.cat(alone), room))
        finite = torch.cat([output.isfinite().all().unsqueeze(0) for output in alone])
        alone = [output for output, is_finite in zip(alone, finite, strict=True) if is_finite]
        if len(alone) < 2 or not all(output.requires_grad for output in alone):
            return True
        # Arbitrary output gradients, all different, so that no record can be mistaken for another.
        together = torch.cat(alone)
        directions = torch.arange(1.0, together.numel() + 1).cos_().to(together).view_as(together)
        trained = [p for p in model.parameters() if p.requires_grad]
        gradients = [
            torch.cat([g.flatten() for g in _gradients(output, trained, direction)])
            for output, direction in zip(alone, torch.split(directions, 1), strict=True)
        ]
        sums = torch.stack(gradients)
        norms = torch.linalg.vector_norm(sums, dim=1)
        smallest = max(float(norms.max()) * room, torch.finfo(norms.dtype).tiny)
        try:
            found = self._by_opacus(model, rows, places[finite], directions, smallest)
        except Exception:  # which the pass itself shows, too
            return True
        self._refuse_unless(_near(found, (1 / norms.clamp(min=smallest)) @ sums, room))
        return True

    def _by_opacus(
        self, model: nn.Module, rows: "_Rows", places: Tensor, directions: Tensor, smallest: float
    ) -> Tensor:
        """The sum of the records' gradients over their norms, or ``smallest``, by Opacus [P]."""
        wrapped = wrap(copy.deepcopy(model), self._mode)
        outputs = rows.outputs(wrapped, places)
        parts = ((outputs, directions.view_as(outputs)),)
        wrapped.differentiate(parts, retain_graph=False)
        trained = [p for p in wrapped.parameters() if p.requires_grad]
        if isinstance(wrapped, GhostModel):
            norms = torch.linalg.vector_norm(torch.stack([p._norm_sample for p in trained]), dim=0)
            wrapped.scale(parts, 1 / norms.clamp(min=smallest), trained, False)
            return torch.cat([p.grad.flatten() for p in trained])
        sums = torch.cat([p.grad_sample.flatten(1) for p in trained], 1)
        norms = torch.linalg.vector_norm(sums, dim=1)
        found: Tensor = (1 / norms.clamp(min=smallest)) @ sums
        return found

    @staticmethod
    def _refuse_unless(is_near: bool) -> None:
        """Refuse the model unless both ways give the same.

        Raises:
            TrainingError: They do not.
        """
        if not is_near:
            raise TrainingError(
                "the model takes records together in another way than alone: it mixes them, or "
                "Opacus does not see all that a parameter does",
                hint=_HINT,
            )


class _Rows:
    """Some records of a batch as the arguments of a model.

    Args:
        given: The arguments for the whole batch: positional and by name.
        size: How many records it has.
        dtype: In which precision records are handed on.
    """

    def __init__(self, given: tuple[Any, Any], size: int, dtype: torch.dtype) -> None:
        self._given, self._size, self._dtype = given, size, dtype

    def outputs(self, model: nn.Module, places: Tensor) -> Tensor:
        """The first tensor that the model puts out for the records at some places."""
        args, kwargs = self._at(self._given, places)
        return next(tensors_of(model(*args, **kwargs)))

    def _at(self, value: Any, places: Tensor) -> Any:  # noqa: ANN401 - whatever a model is given
        """The value, of which every tensor of the batch has these rows alone."""

        def some(tensor: Tensor) -> Tensor:
            rows = tensor.detach()
            if rows.dim() and len(rows) == self._size:
                rows = rows.index_select(0, places)
            return rows.to(self._dtype) if rows.is_floating_point() else rows

        return mapped(value, some)


def _gradients(output: Tensor, trained: Sequence[Tensor], direction: Tensor) -> tuple[Tensor, ...]:
    """The gradient of an output in a direction, 0 for parameters that it does not read."""
    return torch.autograd.grad(
        output, trained, direction, allow_unused=True, materialize_grads=True
    )


def _near(one: Tensor, other: Tensor, room: float) -> bool:
    """Whether two results are the same but for rounding; NaN and inf have to be in both."""
    size = max(1.0, float(other.detach().abs().nan_to_num(0.0, 0.0, 0.0).max()))
    return torch.allclose(one, other, rtol=room, atol=room * size, equal_nan=True)
