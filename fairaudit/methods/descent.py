"""Plain SGD on stacked networks, for data that need no protection or are protected afterwards (PATE)."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from fairaudit.engine.replicates import tape_of
from fairaudit.engine.stacked import Stacked
from fairaudit.errors import DivergedError


@dataclass(frozen=True, slots=True)
class Descent:
    """How long and how far.

    Args:
        steps: Of every replicate.
        learning_rate: Step size.
        penalty: lambda of lambda/2 |theta|^2.
    """

    steps: int
    learning_rate: float
    penalty: float


def descend(network: Stacked, draw: Callable[[], tuple[Tensor, Tensor]], descent: Descent) -> None:
    """Train ``network`` in place on the mean cross-entropy of the drawn records.

    Replicates that diverge are left as they are: where each has records of its own, to stop for one would
    tell of its records.

    Args:
        network: R replicates.
        draw: The next batch, inputs [R, B, ...] and targets [R, B, Y]; targets of 0 for no record.
        descent: Schedule.
    """
    tape = tape_of(network)
    single = network.replicates == 1
    for _ in range(descent.steps):
        x, targets = draw()
        logits = tape.forward(x[0] if single else x)
        logits = logits.unsqueeze(0) if single else logits
        delta = targets.sum(-1, keepdim=True) * torch.softmax(logits, -1) - targets
        delta = delta / targets.shape[1]
        tape.backward(delta[0] if single else delta)
        gradient = tape.sums([torch.ones(targets.shape[:2])])[0]
        network.theta.sub_(gradient + descent.penalty * network.theta, alpha=descent.learning_rate)


def refuse_diverged(network: Stacked, descent: Descent) -> None:
    """Stop where what was released made a replicate diverge.

    Raises:
        DivergedError: Parameters that are not finite.
    """
    if not torch.isfinite(network.theta).all():
        raise DivergedError(
            f"diverged: parameters are not finite after {descent.steps} steps",
            hint=f"use a smaller step, e.g. --learning-rate {descent.learning_rate / 10:.2g}",
        )
