"""What the steps of a training loop cost so far."""

import math
from dataclasses import dataclass, replace

from fairaudit.errors import PrivacyError
from fairaudit.methods.spec import Guarantee
from fairaudit.privacy.accounting import checked_delta, epsilon
from fairaudit.privacy.events import SampledGaussian, shown_up


@dataclass
class Accountant:
    """Counts the steps of one training; gradient and noised counts of a step are one event.

    Args:
        planned: What the whole training releases, or None at noise multiplier 0.
        target_delta: At which :meth:`epsilon` answers.
        target_epsilon: What the noise was set for: a step beyond the plan is refused. None: no step
            is.
        guarantee: Who stands behind the epsilon.
        steps: Taken so far, empty batches included.

    Source: docs/methods.md 2.1.
    """

    planned: SampledGaussian | None
    target_delta: float
    target_epsilon: float | None
    guarantee: Guarantee
    steps: int = 0

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
        """
        event, delta = self.event(), checked_delta(self.target_delta if delta is None else delta)
        if event is None:
            if self.steps:
                return math.inf
            return 0.0
        return epsilon(event, delta)

    def charge(self) -> None:
        """Count one step; called before anything of it is released.

        Raises:
            PrivacyError: The steps that the target was planned for are taken.
        """
        if self.planned is not None and self.target_epsilon and self.steps >= self.planned.steps:
            raise PrivacyError(
                f"the {self.planned.steps:,} steps that epsilon {shown_up(self.target_epsilon)} "
                "was planned for are taken",
                hint="train anew with more epochs in make_private",
            )
        self.steps += 1
