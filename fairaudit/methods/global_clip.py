"""DPSGD-Global: global scaling with a fixed threshold.

In symbols C is the clipping bound ``max_grad_norm`` and Z the threshold; R is the number of
replicates, B of records in a batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any  # noqa: TID251 - it is read without torch

from fairaudit.engine.rules import ClippingRule, PublicFacts
from fairaudit.methods.defaults import FLAT, THRESHOLD
from fairaudit.methods.gradient import GradientMethod
from fairaudit.methods.spec import Guarantee, MethodSpec

if TYPE_CHECKING:
    from torch import Tensor

    from fairaudit.methods.base import Task

GLOBAL = MethodSpec(
    name="global",
    aliases=("dpsgd-global",),
    summary="scale every gradient by C/Z, drop those longer than Z, add noise",
    source="Bu et al. 2021; Esipova et al. 2023, Alg. 2",
    guarantee=Guarantee.ESTABLISHED,
    gap_on_sample=(8.0, 5.5, 10.5),
    trainer=f"{__name__}:Global",
    settings={**FLAT, "threshold": THRESHOLD},
    scales_by_threshold=True,
)


@dataclass(frozen=True, slots=True)
class GlobalClip(ClippingRule["Tensor"]):
    """Scale every gradient by C/Z; drop those longer than Z. The state is the sensitivity, C.

    Source: Bu et al. 2021; docs/methods.md 3.2. Guarantee: scale * norm <= max_grad_norm for every
    norm.
    """

    max_grad_norm: float  # C
    threshold: float  # Z >= C, public

    def init(self, replicates: int, facts: PublicFacts) -> Tensor:
        """The state, [R]: C, constant over steps."""
        return facts.expected_batch_size.new_full((replicates,), self.max_grad_norm)

    def sensitivity(self, released: Tensor) -> Tensor:
        """C for every replicate, [R]."""
        return released

    def scale(self, released: Tensor, norms: Tensor, group: Tensor) -> Tensor:
        """Each record's factor, [R, B]: C/Z where its norm is at most Z, else 0."""
        return (norms <= self.threshold).to(norms.dtype).mul_(self.max_grad_norm / self.threshold)


class Global(GradientMethod):
    """Global scaling. Source: Bu et al. 2021; docs/methods.md 3.2."""

    def rule(self, task: Task) -> ClippingRule[Any]:
        """The clipping rule: factor C/Z for gradients up to Z, which drops longer ones."""
        return GlobalClip(task.settings["max_grad_norm"], task.settings["threshold"])
