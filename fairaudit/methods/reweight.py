"""Flat clipping, then a weight of the record's group, from noised group counts.

In shapes R is the number of replicates, B of records in a batch, K of groups.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar  # noqa: TID251 - it is read without torch

from fairaudit.engine.rules import ClippingRule, PublicFacts
from fairaudit.methods.defaults import COUNT_NOISE_MULTIPLIER, FLAT, SMALLEST_COUNT, Rule, Setting
from fairaudit.methods.gradient import GradientMethod
from fairaudit.methods.spec import Guarantee, MethodSpec

if TYPE_CHECKING:
    from torch import Tensor

    from fairaudit.methods.base import Task

REWEIGHT = MethodSpec(
    name="reweight",
    aliases=("naive",),
    summary="clip each record's gradient to C, weigh groups by their inverse noised counts; add "
    "noise",
    source="Xu et al. 2021, Alg. 3",
    guarantee=Guarantee.ESTABLISHED,
    gap_on_sample=(-2.4, -4.2, -0.5),
    trainer=f"{__name__}:Reweight",
    settings={
        **FLAT,
        "count_noise_multiplier": COUNT_NOISE_MULTIPLIER,
        "smallest_count": SMALLEST_COUNT,
        "largest_weight": Setting(
            "largest weight of a group",
            0.001,
            1e6,
            default=Rule("2 times the number of groups", lambda s: 2.0 * s.groups),
        ),
    },
    side_queries={"count": "count_noise_multiplier"},
    reads_groups=True,
    part_words="clipping and weights",
)


@dataclass(frozen=True, slots=True)
class GroupWeightState:
    """The rule's state: weights theta_k [R, K], which follow from releases, and qN [R], public."""

    weight: Tensor
    expected_batch_size: Tensor


@dataclass(frozen=True, slots=True)
class ReweightedClip(ClippingRule[GroupWeightState]):
    """Clip to C, then weigh each group by the inverse of its noised share of the batch.

    A floor of the counts and a cap of the weights keep a small or negative noised count from making
    a weight, and with it the noise, arbitrarily large. They act on released values and cost no
    privacy.

    Source: Xu et al. 2021, Alg. 3 ("Naive"); docs/methods.md 3.6. Guarantee: scale * norm <=
    C max_k theta_k for every norm, the maximum over ALL K groups; one record adds 1 to one count.
    """

    max_grad_norm: float  # C
    count_noise_multiplier: float  # sigma_1, in records
    smallest_count: float  # b_min: a smaller noised count is taken for this one
    largest_weight: float  # theta_max
    noise_multiplier: float  # sigma of the gradient; for the trace alone

    query_name: ClassVar[str] = "count"

    @property
    def query_noise_multiplier(self) -> float:
        """sigma_1, in records: the query has sensitivity 1, for a record adds 1 to one count."""
        return self.count_noise_multiplier

    def init(self, replicates: int, facts: PublicFacts) -> GroupWeightState:
        """The state before the first step: weight 1 for every group, ``[R, K]``."""
        return GroupWeightState(
            facts.expected_batch_size.new_ones(replicates, facts.n_groups),
            facts.expected_batch_size,
        )

    def query(self, state: GroupWeightState, norms: Tensor, group: Tensor) -> Tensor:
        """What each record adds to the counts of the groups, [R, B, K]: a 1 in its group's cell."""
        rows = norms.new_zeros(*norms.shape, state.weight.shape[1])
        return rows.scatter_(2, group.unsqueeze(-1), 1.0)

    def update(self, state: GroupWeightState, answer: Tensor) -> GroupWeightState:
        """The state with this step's weights, from the noised counts ``answer [R, K]``.

        theta_k = min((qN / K) / max(count, b_min), theta_max), where qN / K is the expected count
        of groups of equal size.
        """
        even = state.expected_batch_size.unsqueeze(1) / answer.shape[1]
        weight = even / answer.clamp_min(self.smallest_count)
        return replace(state, weight=weight.clamp_(max=self.largest_weight))

    def sensitivity(self, released: GroupWeightState) -> Tensor:
        """C times the largest weight of all groups, [R]."""
        return released.weight.amax(1) * self.max_grad_norm

    def scale(self, released: GroupWeightState, norms: Tensor, group: Tensor) -> Tensor:
        """Each record's factor, theta_k min(1, C / norm) with k its group, [R, B]."""
        # A norm of 0 gives infinity, which is cut to 1.
        clipped = norms.new_full((), self.max_grad_norm).div(norms).clamp_(max=1.0)
        return clipped.mul_(released.weight.gather(1, group))

    def step_factor(self, released: GroupWeightState, facts: PublicFacts) -> Tensor:
        """How much longer than one of plain SGD a step is without clipping: 1 for all, [R].

        Weights that are inverse to the groups' shares have mean 1 over records.
        """
        return released.weight.new_ones(len(released.weight))

    def describe(self, released: GroupWeightState) -> dict[str, Tensor]:
        """Two series for the trace, [R, K] each: the weights, and sigma max_j theta_j / theta_k.

        The second is the noise multiplier that a record of group k faces in effect, because the
        noise is set by the largest weight.
        """
        largest = released.weight.amax(1, keepdim=True)
        return {
            "group_weight": released.weight,
            "group_noise_multiplier": self.noise_multiplier * largest / released.weight,
        }


class Reweight(GradientMethod):
    """A weight for each group. Source: Xu et al. 2021, Alg. 3; docs/methods.md 3.6."""

    # The class of the rule, in whose place a published form has another.
    clip: ClassVar[type[ReweightedClip]] = ReweightedClip

    def rule(self, task: Task) -> ReweightedClip:
        """The clipping rule: clip to C, then weigh by theta_k, from the group's noised count."""
        settings = task.settings
        return self.clip(
            max_grad_norm=settings["max_grad_norm"],
            count_noise_multiplier=settings["count_noise_multiplier"],
            smallest_count=settings["smallest_count"],
            largest_weight=settings["largest_weight"],
            noise_multiplier=settings["noise_multiplier"],
        )
