"""DP-SGD: flat clipping."""

from __future__ import annotations

from typing import TYPE_CHECKING  # noqa: TID251 - it is read without torch

from fairaudit.engine.rules import FlatClip
from fairaudit.methods.defaults import FLAT
from fairaudit.methods.gradient import GradientMethod
from fairaudit.methods.spec import Guarantee, MethodSpec

if TYPE_CHECKING:
    from fairaudit.methods.base import Task

DPSGD = MethodSpec(
    name="dpsgd",
    aliases=("dp-sgd",),
    summary="clip each record's gradient to C, add noise",
    source="Abadi et al. 2016",
    guarantee=Guarantee.ESTABLISHED,
    gap_on_sample=(5.2, 2.6, 7.8),
    trainer=f"{__name__}:DpSgd",
    settings=FLAT,
)


class DpSgd(GradientMethod):
    """Flat clipping and Gaussian noise. Source: Abadi et al. 2016; docs/methods.md 3.1."""

    def rule(self, task: Task) -> FlatClip:
        """The clipping rule: a gradient longer than C, ``max_grad_norm``, is shortened to C."""
        return FlatClip(task.settings["max_grad_norm"])
