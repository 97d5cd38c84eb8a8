"""Plain SGD: the non-private reference."""

from __future__ import annotations

from typing import TYPE_CHECKING  # noqa: TID251 - it is read without torch

from fairaudit.engine.rules import NoClip
from fairaudit.methods.defaults import LEARNING_RATE
from fairaudit.methods.gradient import GradientMethod
from fairaudit.methods.spec import REFERENCE, Guarantee, MethodSpec

if TYPE_CHECKING:
    from fairaudit.engine.release import ExactRelease
    from fairaudit.methods.base import Task

SGD = MethodSpec(
    name=REFERENCE,
    aliases=("non-private", "nonprivate"),
    summary="plain SGD on the same batches: the reference that every cost is measured against",
    source="none",
    guarantee=Guarantee.NONE,
    trainer=f"{__name__}:Sgd",
    settings={"learning_rate": LEARNING_RATE},
    reference=None,
)


class Sgd(GradientMethod):
    """The non-private reference: same start, same batches, no clipping, no noise."""

    def rule(self, task: Task) -> NoClip:
        """The clipping rule of no clipping: every gradient has factor 1."""
        return NoClip()

    def release(self, task: Task) -> ExactRelease:
        """What closes a step: the sum of gradients over qN, without noise."""
        from fairaudit.engine.release import ExactRelease

        return ExactRelease()
