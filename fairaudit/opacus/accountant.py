"""What the steps of a training loop cost so far."""

import math
from dataclasses import dataclass, field, replace

from fairaudit.errors import PrivacyError
from fairaudit.methods.spec import Guarantee
from fairaudit.privacy.accounting import checked_delta, epsilon
from fairaudit.privacy.events import SampledGaussian, shown_up


@dataclass
class Accountant:
    """Counts the steps of one training, and computes the epsilon that they cost.

    The noised gradient of a step and the noised counts that a rule asks for are one event together.

    Args:
        planned: What the whole training releases, or None at noise multiplier 0.
        target_delta: The delta at which :meth:`epsilon` answers.
        target_epsilon: What the noise was calibrated to: a step beyond the planned ones is refused.
            None: the noise was given, and no step is refused.
        guarantee: What the epsilon rests on, in a word or a clause.
        steps: Taken so far, empty batches included.
        conditions: The parts of model, criterion and loop that a conditional guarantee rests on.

    Source: docs/methods.md 2.1.
    """

    planned: SampledGaussian | None
    target_delta: float
    target_epsilon: float | None
    guarantee: Guarantee
    steps: int = 0
    conditions: list[str] = field(default_factory=list)

    def rest_on(self, what: str) -> None:
        """Let the guarantee rest on something that is not known to treat records one by one.

        Args:
            what: In words, as "the criterion focal".

        Example:
            >>> accountant = Accountant(None, 1e-5, None, Guarantee.ESTABLISHED)
            >>> accountant.rest_on("the criterion focal")
            >>> print(accountant.guarantee)
            established if model and criterion treat records one by one and keep nothing of them
        """
        if what not in self.conditions:
            self.conditions.append(what)
        self.guarantee = self.guarantee.of_own_loop()  # the same however many conditions there are

    def statement(self) -> str:
        """What was spent so far, what that rests on, and what it does not cover, in sentences.

        Example:
            >>> accountant = Accountant(None, 1e-5, None, Guarantee.ESTABLISHED)
            >>> accountant.rest_on("the criterion focal")
            >>> accountant.statement().split(". ")[1]
            'It rests on the criterion focal'
        """
        text = (
            f"Epsilon {shown_up(self.epsilon())} at delta {self.target_delta:g} after "
            f"{self.steps:,} steps, for adding or removing one record: {self.guarantee}."
        )
        if self.conditions:
            text += f" It rests on {', '.join(self.conditions)}."
        return (
            f"{text} What the loop does to records before the model and the criterion read them is "
            "not covered: mixing them, or scaling them by the batch."
        )

    def event(self) -> SampledGaussian | None:
        """What the steps so far released; None without noise, where nothing is claimed."""
        if self.planned is None:
            return None
        return replace(self.planned, steps=self.steps)

    def epsilon(self, delta: float | None = None) -> float:
        """Epsilon of the steps so far, for adding or removing one record.

        Without noise it is 0 before the first step and inf after it.

        Args:
            delta: In (0, 1); None: ``target_delta``.

        Raises:
            PrivacyError: A delta too small to be accounted for.

        Example:
            >>> accountant = Accountant(None, 1e-5, None, Guarantee.NONE)
            >>> accountant.epsilon()
            0.0
            >>> accountant.charge()  # a step without noise
            >>> accountant.epsilon()
            inf
        """
        delta = checked_delta(self.target_delta if delta is None else delta)
        event = self.event()
        if event is None:
            return math.inf if self.steps else 0.0
        return epsilon(event, delta)

    def charge(self) -> None:
        """Count one step; called before anything of it is released.

        Raises:
            PrivacyError: The steps that the target was planned for are taken.
        """
        # With noise that was given there is no target to exceed: one step more costs more.
        if self.planned is not None and self.target_epsilon and self.steps >= self.planned.steps:
            raise PrivacyError(
                f"the {self.planned.steps:,} steps that epsilon {shown_up(self.target_epsilon)} "
                "was planned for are taken",
                hint="train anew with more epochs in make_private",
            )
        self.steps += 1
