"""DPSGD-F: a clipping bound for each group, from noised counts of the records that are clipped.

In shapes R is the number of replicates, B of records in a batch, K of groups.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar  # noqa: TID251 - it is read without torch

from fairaudit.engine.rules import ClippingRule, PublicFacts
from fairaudit.methods.defaults import COUNT_NOISE_MULTIPLIER, FLAT, Rule, Setting
from fairaudit.methods.gradient import GradientMethod
from fairaudit.methods.spec import Guarantee, MethodSpec

if TYPE_CHECKING:
    from torch import Tensor

    from fairaudit.methods.base import Task

DPSGD_F = MethodSpec(
    name="dpsgd-f",
    aliases=("dpsgdf",),
    summary="clip to a bound for each group, larger where more of the group is clipped; add noise",
    source="Xu et al. 2021, Alg. 2",
    guarantee=Guarantee.ESTABLISHED,
    gap_on_sample=(2.8, -0.1, 5.7),
    trainer=f"{__name__}:DpSgdF",
    settings={
        **FLAT,
        "count_noise_multiplier": COUNT_NOISE_MULTIPLIER,
        "largest_bound_ratio": Setting(
            "largest bound of a group",
            1.0,
            1e6,
            "C",
            default=Rule("1 + the number of groups", lambda s: 1.0 + s.groups),
        ),
        "against_batch": Setting(
            "whether a group's clipped share is compared with the batch's, or (0) with the mean "
            "over groups",
            0.0,
            1.0,
            whole=True,
            default=Rule(
                "1: a group's clipped share is compared with the batch's (0: with the mean over "
                "groups)",
                lambda s: 1.0,
            ),
        ),
    },
    side_queries={"count": "count_noise_multiplier"},
    reads_groups=True,
)


@dataclass(frozen=True, slots=True)
class GroupBoundState:
    """The rule's state: the bounds C_k [R, K], which follow from releases, and qN [R], public."""

    bound: Tensor
    expected_batch_size: Tensor


@dataclass(frozen=True, slots=True)
class GroupAdaptiveClip(ClippingRule[GroupBoundState]):
    """Clip to a bound of the record's group: larger where a larger share of the group is clipped.

    The bounds follow from noised counts of clipped and of other records, rounded down to whole
    numbers of at least 0. Noise is set by the largest bound over ALL K groups, drawn or not: which
    groups are in the batch is data.

    Source: Xu et al. 2021, Alg. 2; docs/methods.md 3.5. Guarantee: scale * norm <= max_k C_k for
    every norm; one record adds 1 to one of the 2K counts.
    """

    max_grad_norm: float  # C0, the bound of a group that nothing sets apart
    count_noise_multiplier: float  # sigma_1, in records
    largest_bound_ratio: float  # kappa: C_k is at most kappa * C0
    # True: a group's clipped share is compared with the batch's; False: with the mean over groups.
    against_batch: bool
    noise_multiplier: float  # sigma of the gradient; for the trace alone

    query_name: ClassVar[str] = "count"

    @property
    def query_noise_multiplier(self) -> float:
        """sigma_1, in records: the query has sensitivity 1, for a record adds 1 to one count."""
        return self.count_noise_multiplier

    def init(self, replicates: int, facts: PublicFacts) -> GroupBoundState:
        """The state before the first step: the bound C0 for every group."""
        bound = facts.expected_batch_size.new_full((replicates, facts.n_groups), self.max_grad_norm)
        return GroupBoundState(bound, facts.expected_batch_size)

    def query(self, state: GroupBoundState, norms: Tensor, group: Tensor) -> Tensor:
        """What each record adds to the 2K counts, [R, B, 2K]: a 1 in one cell.

        Cell k is for a record of group k that is clipped (norm above C0), cell K + k for another
        one. A record that is not finite has norm 0 and counts as not clipped.
        """
        n_groups = state.bound.shape[1]
        cell = group.where(norms > self.max_grad_norm, group + n_groups)
        rows = norms.new_zeros(*norms.shape, 2 * n_groups)
        return rows.scatter_(2, cell.unsqueeze(-1), 1.0)

    def update(self, state: GroupBoundState, answer: Tensor) -> GroupBoundState:
        """The state with this step's bounds, from the noised counts ``answer [R, 2 K]``.

        C_k = C0 min(1 + r_k / rho, kappa) with r_k the clipped share of group k and rho what it is
        compared with, see ``against_batch``.
        """
        clipped, others = answer.floor().clamp_min_(0.0).chunk(2, 1)
        count = clipped + others
        share = clipped / count.clamp_min(1.0)  # 0 where nothing was counted
        if self.against_batch:
            reference = clipped.sum(1, keepdim=True) / state.expected_batch_size.unsqueeze(1)
        else:
            reference = share.mean(1, keepdim=True)
        # Where nothing is clipped share and reference are both 0, and so is their ratio.
        ratio = share / reference.where(reference > 0, 1.0)
        highest = max(self.largest_bound_ratio, 1.0)  # so that no bound is below C0
        return replace(state, bound=(1.0 + ratio).clamp_(max=highest).mul_(self.max_grad_norm))

    def sensitivity(self, released: GroupBoundState) -> Tensor:
        """The largest bound of all groups, [R]."""
        return released.bound.amax(1)

    def scale(self, released: GroupBoundState, norms: Tensor, group: Tensor) -> Tensor:
        """Each record's factor, min(1, C_k / norm) with k its group, [R, B]."""
        # A norm of 0 gives infinity, which is cut to 1.
        return released.bound.gather(1, group).div(norms).clamp_(max=1.0)

    def describe(self, released: GroupBoundState) -> dict[str, Tensor]:
        """Two series for the trace, [R, K] each: the bounds C_k, and sigma max_j C_j / C_k.

        The second is the noise multiplier that a record of group k faces in effect, because the
        noise is set by the largest bound and the record is clipped to its group's.
        """
        largest = released.bound.amax(1, keepdim=True)
        return {
            "group_bound": released.bound,
            "group_noise_multiplier": self.noise_multiplier * largest / released.bound,
        }


class DpSgdF(GradientMethod):
    """A clipping bound for each group. Source: Xu et al. 2021, Alg. 2; docs/methods.md 3.5."""

    # The class of the rule, in whose place published forms have another.
    clip: ClassVar[type[GroupAdaptiveClip]] = GroupAdaptiveClip

    def rule(self, task: Task) -> GroupAdaptiveClip:
        """The clipping rule: a bound C_k for each group, from its noised share of clipped records.

        ``max_grad_norm`` is C0.
        """
        settings = task.settings
        return self.clip(
            max_grad_norm=settings["max_grad_norm"],
            count_noise_multiplier=settings["count_noise_multiplier"],
            largest_bound_ratio=settings["largest_bound_ratio"],
            against_batch=settings["against_batch"] != 0.0,
            noise_multiplier=settings["noise_multiplier"],
        )
