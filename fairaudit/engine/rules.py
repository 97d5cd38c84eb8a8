"""What a method may decide: what is differentiated, how each record's gradient is scaled.

The signatures carry the privacy argument. `scale` is per record given values already released;
`sensitivity` is not handed the batch; nothing here sees a gradient or draws noise.

An objective and a clipping rule are the two parts of a step that a method supplies. Each keeps a
state: ``init`` gives it, ``update`` adds the noised answer to the part's query, if it has one, and
``step`` makes the next step's state of what was released. In shapes R is the number of replicates
(trainings side by side), B of records in the batch, Q of numbers in a record's query row, Y of
classes, K of groups; [(R,) B, Y] is [B, Y] where R is 1. "Rule R1" and the like are the rules of a
private step in docs/methods.md 1.3.

A rule is arithmetic on tensors that it is handed, so that a method's file, which holds its rule and
its description, can be read without torch.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, Self, TypeVar  # noqa: TID251 - it is read without torch

if TYPE_CHECKING:
    from torch import Tensor

State = TypeVar("State")


@dataclass(frozen=True, slots=True)
class PublicFacts:
    """All that a rule, an objective or a release may know in advance.

    Args:
        n_public: N, the number of training records, which is taken to be public.
        expected_batch_size: qN for each replicate, [R], where q is the sampling rate.
        n_groups: K.
        n_classes: Y.

    Example:
        >>> import torch
        >>> facts = PublicFacts(1000, torch.tensor([50.0]), n_groups=2, n_classes=2)
        >>> facts.divisor.tolist(), facts.each(3.0).tolist()
        ([[50.0]], [3.0])
    """

    n_public: int
    expected_batch_size: Tensor
    n_groups: int
    n_classes: int
    divisor: Tensor = field(init=False)  # what sums are divided by: qN as a column, [R, 1]

    def __post_init__(self) -> None:
        object.__setattr__(self, "divisor", self.expected_batch_size.unsqueeze(1))

    def each(self, number: float | Tensor) -> Tensor:
        """``number`` as a tensor [R]: one number is repeated for every replicate, [R] stays [R]."""
        return self.expected_batch_size.new_zeros(self.expected_batch_size.shape) + number


class StepRecords(NamedTuple):
    """What an objective may read of a batch: each record by itself, with its place in every tensor.

    Args:
        inputs: [(R,) B, d], or images [(R,) B, H, W, C]; 0 for padding. Without numbers, [(R,) B,
            .., 0], where the objective does not read them.
        logits: [(R,) B, Y].
        targets: One-hot labels, [(R,) B, Y]; 0 for padding.
        group: [(R,) B].
    """

    inputs: Tensor
    logits: Tensor
    targets: Tensor
    group: Tensor

    def some(self, piece: slice) -> StepRecords:
        """A slice of the records, of tensors that have the axis of replicates."""
        return StepRecords(*(values[:, piece] for values in self))


def leaves(state: object) -> list[object]:
    """The tensors and numbers that a part's state is made of, in their order; [] for None.

    Dataclasses, dicts, tuples and lists are taken apart, nested ones as well, so that checks of a
    method can compare states of any type.
    """
    if state is None:
        return []
    if is_dataclass(state) and not isinstance(state, type):
        entries = [getattr(state, entry.name) for entry in fields(state)]
    elif isinstance(state, dict):
        entries = list(state.values())
    elif isinstance(state, tuple | list):
        entries = list(state)
    else:
        return [state]
    return [leaf for entry in entries for leaf in leaves(entry)]


class SideQuery(ABC, Generic[State]):
    """A part of a step, which may ask one query about the batch and is given the noised answer.

    "Released" is the state with this step's answer in it. A part without a query leaves
    ``query_noise_multiplier`` None; it is never asked, and its released state is its state.
    """

    query_name: ClassVar[str] = ""
    # Names of its fields that may be tensors [R], a number for each replicate.
    per_replicate: ClassVar[frozenset[str]] = frozenset()

    @property
    def query_noise_multiplier(self) -> float | None:
        """Noise std of the query's sum, whose sensitivity is 1; None: there is no query."""
        return None

    def stacked_with(self, others: Sequence[SideQuery[Any]]) -> Self | None:
        """One part for the replicates of this and of all others, so that they can train as one.

        Parts can be made one if they are of one dataclass whose fields are plain numbers, and only
        fields in ``per_replicate`` differ. A field that differs becomes a tensor [R] with a number
        from each part; the parts are then of one replicate each.

        Returns:
            A new part; None where the parts cannot be made one.
        """
        # A subclass of a dataclass that is no dataclass itself may keep numbers outside its fields.
        if not is_dataclass(self) or "__dataclass_fields__" not in vars(type(self)):
            return None
        if any(type(other) is not type(self) for other in others):
            return None
        import torch  # here, for this module is read without it

        different = {}
        for setting in fields(self):
            values = [getattr(part, setting.name) for part in (self, *others)]
            if not all(isinstance(value, int | float) for value in values):
                return None
            if len(set(values)) > 1:
                different[setting.name] = torch.tensor(values)
        if not different.keys() <= self.per_replicate:
            return None
        return replace(self, **different)

    @abstractmethod
    def init(self, replicates: int, facts: PublicFacts) -> State:
        """The state at step 0, made of constants and public facts alone; None: it has no state."""

    def update(self, state: State, answer: Tensor) -> State:
        """The state with this step's noised answer [R, Q] in it; called if there is a query."""
        return state

    def step(self, released: State) -> State:
        """The state at the next step's beginning, from released values only."""
        return released

    def describe(self, released: State) -> dict[str, Tensor]:
        """Released values to record at every step, [R, ...] each, by name; empty: none."""
        return {}


class Objective(SideQuery[State]):
    """What is differentiated; its query, if any, comes between forward and backward pass.

    Example:
        >>> import torch
        >>> class Halved(Objective):
        ...     def init(self, replicates, facts):
        ...         return None
        ...     def output_gradient(self, released, logits, targets, group):
        ...         return 0.5 * (torch.softmax(logits, -1) - targets)
        >>> logits, targets = torch.zeros(1, 1, 2), torch.tensor([[[1.0, 0.0]]])
        >>> Halved().output_gradient(None, logits, targets, torch.zeros(1, 1)).tolist()
        [[[-0.25, 0.25]]]
    """

    reads_inputs: ClassVar[bool] = False  # whether ``rows`` and ``gradient`` are handed inputs

    def query(self, state: State, logits: Tensor, group: Tensor) -> Tensor:
        """One row per record, [R, B, Q], each of L2 norm at most 1; their noised sum is the answer.

        Not called where ``query_noise_multiplier`` is None.
        """
        raise NotImplementedError

    @abstractmethod
    def output_gradient(
        self, released: State, logits: Tensor, targets: Tensor, group: Tensor
    ) -> Tensor:
        """Gradient of each record's objective at its logits, [(R,) B, Y], from one-hot targets.

        It follows from that record and released values, never from other records (rule R1).
        """

    def rows(self, state: State, records: StepRecords) -> Tensor:
        """The query's rows, [R, B, Q]; what the engine calls.

        An objective overrides it in place of ``query`` where a row follows from the record's input
        or label, too.
        """
        return self.query(state, records.logits, records.group)

    def gradient(self, released: State, records: StepRecords) -> Tensor:
        """The output gradients, [(R,) B, Y]; what the engine calls.

        An objective overrides it, too, where the gradient follows from the record's input as well.
        """
        return self.output_gradient(released, records.logits, records.targets, records.group)

    def records_at_once(self, state: State) -> int | None:
        """How many records' rows are made at a time, of a query that is wide; None: all.

        It follows from public sizes.
        """
        return None


class Erm(Objective[None]):
    """Empirical risk minimisation: the plain cross-entropy of the softmax, without a query."""

    def init(self, replicates: int, facts: PublicFacts) -> None:
        """None: it has no state."""
        return None

    def stacked_with(self, others: Sequence[SideQuery[Any]]) -> Self | None:
        """This one itself, for it has no numbers; None beside subclasses, which may have some."""
        if all(type(part) is Erm for part in (self, *others)):
            return self
        return None

    def output_gradient(
        self, released: None, logits: Tensor, targets: Tensor, group: Tensor
    ) -> Tensor:
        """softmax(logits) - target, ``[(R,) B, Y]``."""
        import torch

        if logits.shape[-1] == 2:
            # The softmax of two is a sigmoid of their difference, which costs a fraction of ATen's
            # softmax over two columns. Of one-hot targets the first entry is minus the second.
            first, second = logits.unbind(-1)
            of_second = torch.sub(second, first).sigmoid_().sub_(targets.select(-1, 1))
            return torch.stack((of_second.neg(), of_second), -1)
        return torch.softmax(logits, -1).sub_(targets)


class ClippingRule(SideQuery[State]):
    """How each record's gradient is scaled; its query, if any, comes once the norms are known.

    ``norms`` [R, B] are upper bounds of the L2 norms of the records' gradients, ``group`` [R, B]
    their groups, 0 to K - 1.

    Example:
        >>> import torch
        >>> class Normalised(ClippingRule):
        ...     def init(self, replicates, facts):
        ...         return facts.each(2.0)
        ...     def sensitivity(self, released):
        ...         return released
        ...     def scale(self, released, norms, group):
        ...         return released.unsqueeze(-1) / norms
        >>> facts = PublicFacts(1000, torch.tensor([50.0]), n_groups=2, n_classes=2)
        >>> rule = Normalised()
        >>> norms, group = torch.tensor([[0.5, 4.0]]), torch.tensor([[0, 1]])
        >>> scale = rule.scale(rule.init(1, facts), norms, group)
        >>> (scale * norms).tolist()  # all as long as claimed
        [[2.0, 2.0]]
    """

    def query(self, state: State, norms: Tensor, group: Tensor) -> Tensor:
        """One row per record, [R, B, Q], each of L2 norm at most 1; their noised sum is the answer.

        Not called where ``query_noise_multiplier`` is None.
        """
        raise NotImplementedError

    @abstractmethod
    def sensitivity(self, released: State) -> Tensor:
        """The largest norm that any record's scaled gradient can have, [R]; it sets the noise."""

    @abstractmethod
    def scale(self, released: State, norms: Tensor, group: Tensor) -> Tensor:
        """The factor for each record's gradient, [R, B]; scale * norm <= sensitivity, always."""

    def step_factor(self, released: State, facts: PublicFacts) -> Tensor:
        """The factor, [R], by which the rule lengthens or shortens this step as a whole.

        By this factor diagnostics separate a rule's effect on the step size from its clipping: a
        training by plain SGD with these factors takes equally long steps. By default it is the
        factor of a gradient too short to be clipped, one of norm 0, as the mean over groups; not
        finite where every gradient is rescaled.
        """
        import torch

        # One made-up record of each group, whose gradient has norm 0.
        shape = (len(facts.expected_batch_size), facts.n_groups)
        norms = facts.expected_batch_size.new_zeros(shape)
        group = torch.arange(facts.n_groups, device=norms.device).expand(shape)
        return self.scale(released, norms, group).mean(1)


@dataclass(frozen=True, slots=True)
class NoClip(ClippingRule["Tensor"]):
    """Gradients as they are: for the non-private reference.

    Example:
        >>> import torch
        >>> norms, group = torch.tensor([[3.0, 0.5]]), torch.zeros(1, 2)
        >>> NoClip().scale(torch.tensor([torch.inf]), norms, group).tolist()
        [[1.0, 1.0]]
    """

    def init(self, replicates: int, facts: PublicFacts) -> Tensor:
        """An infinite bound for every replicate, [R]."""
        return facts.expected_batch_size.new_full((replicates,), math.inf)

    def sensitivity(self, released: Tensor) -> Tensor:
        """Infinity, [R]: gradients are unbounded."""
        return released

    def scale(self, released: Tensor, norms: Tensor, group: Tensor) -> Tensor:
        """1 for every record, [R, B]."""
        return norms.new_ones(norms.shape)


@dataclass(frozen=True, slots=True)
class FlatClip(ClippingRule["Tensor"]):
    """Scale a gradient down to C if it is longer.

    Source: Abadi et al. 2016; docs/methods.md 3.1.

    Example:
        >>> import torch
        >>> facts = PublicFacts(1000, torch.tensor([50.0]), n_groups=2, n_classes=2)
        >>> rule = FlatClip(max_grad_norm=2.0)
        >>> bound, norms, group = rule.init(1, facts), torch.tensor([[1.0, 4.0]]), torch.zeros(1, 2)
        >>> rule.scale(bound, norms, group).tolist(), rule.sensitivity(bound).tolist()
        ([[1.0, 0.5]], [2.0])
    """

    per_replicate: ClassVar[frozenset[str]] = frozenset({"max_grad_norm"})

    max_grad_norm: float | Tensor  # C

    def init(self, replicates: int, facts: PublicFacts) -> Tensor:
        """The bound C of every replicate, [R], which is the state at every step."""
        return facts.each(self.max_grad_norm)

    def sensitivity(self, released: Tensor) -> Tensor:
        """C, [R]."""
        return released

    def scale(self, released: Tensor, norms: Tensor, group: Tensor) -> Tensor:
        """min(1, C / norm); 1 for a zero gradient and for C = inf."""
        return released.unsqueeze(-1).div(norms).clamp_(max=1.0)
