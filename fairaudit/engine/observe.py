"""What an observer may see of a step, and what is kept of one."""

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
        norms, scale: [R, B].
        group, index: [R, B].
        unclipped: The factor that the rule gives a zero gradient, [R, B]; a smaller one is a clip.
        present: [R, B] booleans, or None where nothing is padded.
        step_factor: Asks the rule for the factor of this step, [R].
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
        objective_released, rule_released: What this step's parts had released, noise included; only
            the objective and the rule that made them can read them.
        sensitivity: [R].
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
        """Named readings of this step, [R, ...] each; empty when there is nothing to add yet."""
