"""The control of global-adapt: flat clipping at the threshold Z that global-adapt settled on.

In symbols C is global-adapt's clipping bound ``max_grad_norm`` and eta the learning rate.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING  # noqa: TID251 - it is read without torch

from fairaudit.engine.rules import FlatClip
from fairaudit.methods.defaults import FLAT
from fairaudit.methods.dpsgd import DpSgd
from fairaudit.methods.spec import Guarantee, MethodSpec

if TYPE_CHECKING:
    from fairaudit.methods.base import Task

SETTLED = 0.8  # share of the steps, counted from the last, that a matched threshold averages over

DPSGD_MATCHED = MethodSpec(
    name="dpsgd-matched",
    aliases=("matched",),
    summary="control: dpsgd that clips at the threshold global-adapt settled on, with its "
    "effective step",
    source="control of this project for Esipova et al. 2023, Alg. 2",
    guarantee=Guarantee.ESTABLISHED,
    trainer=f"{__name__}:DpSgdMatched",
    settings=FLAT,
    control_of="global-adapt",
)


class DpSgdMatched(DpSgd):
    """DPSGD that clips at the threshold global-adapt settled on, with its effective step.

    global-adapt is flat clipping at Z with the step times C/Z. If this arm does as well, clipping
    less is what helped, not scaling globally. It reads released thresholds of the same seed's run,
    so its own use composes with that run's; it serves the audit, not a release.

    Source: docs/methods.md 3.4.
    """

    def rule(self, task: Task) -> FlatClip:
        """The clipping rule: flat clipping with the settled threshold Z as its bound."""
        return FlatClip(self._settled(task))

    def learning_rate(self, task: Task) -> float:
        """The effective step of global-adapt, which scales gradients by C / Z: eta C / Z."""
        return task.settings["learning_rate"] * task.settings["max_grad_norm"] / self._settled(task)

    @staticmethod
    def _settled(task: Task) -> float:
        """Z: geometric mean of global-adapt's thresholds, over the last steps and all its repeats.

        The last share SETTLED of the steps counts: in the first ones the threshold still moves from
        its start.
        """
        import torch

        thresholds = torch.from_numpy(task.source["threshold"]).double()  # [T, repeats]
        late = thresholds[-max(1, math.ceil(SETTLED * len(thresholds))) :]
        return float(late.log().mean().exp())
