"""What a method may decide: what is differentiated, how each record's gradient is scaled.

The signatures carry the privacy argument. `scale` is per record given values already released;
`sensitivity` is not handed the batch; nothing here sees a gradient or draws noise.

A rule is arithmetic on tensors that it is handed, so that a method's file, which holds its rule and
its description, can be read without torch.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar  # noqa: TID251 - it is read without torch

if TYPE_CHECKING:
    from torch import Tensor

State = TypeVar("State")


@dataclass(frozen=True, slots=True)
class PublicFacts:
    """All that a rule, an objective or a release may know in advance.

    Args:
        n_public: N.
        expected_batch_size: qN per replicate, [R].
        n_groups: K.
        n_classes: Y.
    """

    n_public: int
    expected_batch_size: Tensor
    n_groups: int
    n_classes: int
    divisor: Tensor = field(init=False)  # expected_batch_size as a column, [R, 1]

    def __post_init__(self) -> None:
        object.__setattr__(self, "divisor", self.expected_batch_size.unsqueeze(1))

    def each(self, number: float | Tensor) -> Tensor:
        """A number of every replicate, [R]: the same of all, or already one of each."""
        return self.expected_batch_size.new_zeros(self.expected_batch_size.shape) + number


def leaves(state: object) -> list[object]:
    """Tensors and numbers that a rule's or an objective's state is made of, in their order."""
    if state is None:
        return []
    if is_dataclass(state) and not isinstance(state, type):
        parts = [getattr(state, part.name) for part in fields(state)]
    elif isinstance(state, dict):
        parts = list(state.values())
    elif isinstance(state, tuple | list):
        parts = list(state)
    else:
        return [state]
    tensors = []
    for part in parts:
        tensors += leaves(part)
    return tensors


class SideQuery(ABC, Generic[State]):
    """A part of a step that may ask one noised question about the batch.

    A part that asks nothing keeps ``query_noise_multiplier`` None and its state is what is
    released.
    """

    query_name: ClassVar[str] = ""
    # Its numbers that may be [R], one of each replicate.
    per_replicate: ClassVar[frozenset[str]] = frozenset()

    @property
    def query_noise_multiplier(self) -> float | None:
        """Noise std of the query, whose sensitivity is 1; None: asks nothing."""
        return None

    def beside(self, others: Sequence[SideQuery[Any]]) -> Self | None:
        """One part for the replicates of this and of all others; None where none can be.

        Only a dataclass of plain numbers can, and only those in ``per_replicate`` may differ.
        """
        # What inherits from a dataclass and is none itself keeps numbers that are not fields.
        if not is_dataclass(self) or "__dataclass_fields__" not in vars(type(self)):
            return None
        if any(type(other) is not type(self) for other in others):
            return None
        import torch

        unlike = {}
        for number in fields(self):
            values = [getattr(part, number.name) for part in (self, *others)]
            for value in values:
                if not isinstance(value, int | float):
                    return None
            if len(set(values)) > 1:
                unlike[number.name] = torch.tensor(values)
        if not unlike.keys() <= self.per_replicate:
            return None
        return replace(self, **unlike)

    @abstractmethod
    def init(self, replicates: int, facts: PublicFacts) -> State:
        """The state at step 0: constants only."""

    def update(self, state: State, answer: Tensor) -> State:
        """The state with this step's noised answer [R, Q]; computed once per step."""
        return state

    def step(self, released: State) -> State:
        """The next step's state, from released values only."""
        return released

    def describe(self, released: State) -> dict[str, Tensor]:
        """Released values worth keeping over time, [R, ...] each."""
        return {}


class Objective(SideQuery[State]):
    """What is differentiated; asks between the forward and the backward pass."""

    def query(self, state: State, logits: Tensor, group: Tensor) -> Tensor:
        """One row per record, [R, B, Q], each of L2 norm at most 1."""
        raise NotImplementedError

    @abstractmethod
    def output_gradient(
        self,
        released: State,
        logits: Tensor,
        targets: Tensor,
        group: Tensor,
    ) -> Tensor:
        """Gradient of each record's own objective at its logits, [(R,) B, Y] (rule R1)."""


class Erm(Objective[None]):
    """The plain mean cross-entropy of the softmax."""

    def init(self, replicates: int, facts: PublicFacts) -> None:
        """No state."""
        return None

    def beside(self, others: Sequence[SideQuery[Any]]) -> Self | None:
        """It has no numbers; what inherits from it may have some."""
        if all(type(part) is Erm for part in (self, *others)):
            return self
        return None

    def output_gradient(
        self,
        released: None,
        logits: Tensor,
        targets: Tensor,
        group: Tensor,
    ) -> Tensor:
        """softmax(logits) - target, ``[(R,) B, Y]``."""
        import torch

        if logits.shape[-1] == 2:
            # The softmax of two is a sigmoid of their difference, which costs a fraction of ATen's
            # softmax over two columns.
            first, second = logits.unbind(-1)
            error = torch.sub(second, first).sigmoid_().sub_(targets.select(-1, 1))
            return torch.stack((error.neg(), error), -1)
        return torch.softmax(logits, -1).sub_(targets)


class ClippingRule(SideQuery[State]):
    """How each record's gradient is scaled; asks after the norms are known."""

    def query(self, state: State, norms: Tensor, group: Tensor) -> Tensor:
        """One row per record, [R, B, Q], each of L2 norm at most 1."""
        raise NotImplementedError

    @abstractmethod
    def sensitivity(self, released: State) -> Tensor:
        """Largest norm that a scaled gradient can have, [R]."""

    @abstractmethod
    def scale(self, released: State, norms: Tensor, group: Tensor) -> Tensor:
        """Factor of each record's gradient, [R, B]; scale * norm <= sensitivity, always."""

    def step_factor(self, released: State, facts: PublicFacts) -> Tensor:
        """The one factor, [R], by which this step is longer or shorter than one of plain SGD.

        What else the rule does to gradients is clipping. Here it is what a gradient that is not
        clipped takes, the mean over groups; not finite where no gradient is too short to clip.
        """
        import torch

        shape = (len(facts.expected_batch_size), facts.n_groups)
        norms = facts.expected_batch_size.new_zeros(shape)
        group = torch.arange(facts.n_groups, device=norms.device).expand(shape)
        return self.scale(released, norms, group).mean(1)


@dataclass(frozen=True, slots=True)
class NoClip(ClippingRule["Tensor"]):
    """Gradients as they are: for the non-private reference."""

    def init(self, replicates: int, facts: PublicFacts) -> Tensor:
        """An infinite bound."""
        return facts.expected_batch_size.new_full((replicates,), math.inf)

    def sensitivity(self, released: Tensor) -> Tensor:
        """Unbounded."""
        return released

    def scale(self, released: Tensor, norms: Tensor, group: Tensor) -> Tensor:
        """One."""
        return norms.new_ones(norms.shape)


@dataclass(frozen=True, slots=True)
class FlatClip(ClippingRule["Tensor"]):
    """Scale a gradient down to C if it is longer.

    Source: Abadi et al. 2016; docs/methods.md 3.1.
    """

    per_replicate: ClassVar[frozenset[str]] = frozenset({"max_grad_norm"})

    max_grad_norm: float | Tensor  # C

    def init(self, replicates: int, facts: PublicFacts) -> Tensor:
        """The bound, constant over steps."""
        return facts.each(self.max_grad_norm)

    def sensitivity(self, released: Tensor) -> Tensor:
        """C."""
        return released

    def scale(self, released: Tensor, norms: Tensor, group: Tensor) -> Tensor:
        """min(1, C / norm); 1 for a zero gradient and for C = inf."""
        return released.unsqueeze(-1).div(norms).clamp_(max=1.0)
