"""What an observer may see of a step, and what is kept of one for readings after training.

R is the number of replicates, B of records in the batch; a record that pads a batch is not present.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, slots=True)
class StepView:
    """One step, before its release; raw data, never part of a guarantee.

    Its tensors are made anew each step and may be kept.

    Args:
        step: From 0.
        last_of_epoch: Whether an epoch ends here.
        logits, targets: [R, B, Y].
        norms, scale: L2 norm of each record's gradient, and the rule's factor for it, [R, B].
        group, index: Each record's group and its number in the training pool, [R, B].
        unclipped: The factor that the rule gives a zero gradient, [R, B]; a record whose factor is
            smaller is clipped.
        present: [R, B] booleans, False for padding; None where nothing is padded.
        step_factor: Computes the rule's ``step_factor`` of this step, [R], on call.
        n_groups: K.
    """

    step: int
    last_of_epoch: bool
    logits: Tensor
    targets: Tensor
    norms: Tensor
    scale: Tensor
    unclipped: Tensor
    group: Tensor
    index: Tensor
    present: Tensor | None
    step_factor: Callable[[], Tensor]
    n_groups: int


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A step as it was taken, for heavy readings after training: nothing has to be drawn again.

    Args:
        step: From 0.
        parameters: theta before the step, [R, P].
        objective_released, rule_released: The states of objective and rule with this step's noised
            answers in them; only the objective and the rule that made them can read them.
        sensitivity: As the rule claims it at this step, [R].
        learning_rate: eta of this step.
    """

    step: int
    parameters: Tensor
    objective_released: object
    rule_released: object
    sensitivity: Tensor
    learning_rate: float


class Observer(ABC):
    """Reads steps and returns numbers; it is handed nothing that it could change training with."""

    @abstractmethod
    def observe(self, view: StepView) -> Mapping[str, Tensor]:
        """Readings of this step to record, [R, ...] each, by name; empty: nothing to record now.

        An observer may gather over several steps and return what it gathered later.
        """
