"""What is differentiated beside the plain loss; how it is privatised is not said here."""

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from fairaudit.engine.rules import Objective, PublicFacts

NOISE_STDS = 2.0  # a running count within so many noise stds of 0 says nothing of its group


@dataclass(frozen=True, slots=True)
class GroupStatistics:
    """Running noised counts and sums of s, and the weights they give; all [R, K], all released."""

    counts: Tensor
    sums: Tensor
    weights: Tensor


@dataclass(frozen=True, slots=True)
class FairLens(Objective[GroupStatistics]):
    """Cross-entropy plus gamma2 sum_a |E_a s - E s|, s = 1 - sum_c f_c^2, decoupled between records.

    The penalty's gradient is E[w_a grad s] with w_k = xi_k / p_k - sum_a xi_a, xi_a the sign of
    E_a s - E s. Only shares and means couple the records; they are released with noise, and each
    record's own gradient follows from the released weights. A construction of this tool, not of the
    paper, whose own penalty bounds no record's influence.

    Source: Tran et al. 2021, eq. (6), practical form; docs/methods.md 3.7. Guarantee: the output gradient of
    a record depends on that record and on released values; a row of the query is at most 1 long.
    """

    gamma2: float  # weight of the penalty
    noise_multiplier: float  # of the query, whose sensitivity is 1
    decay: float  # beta of the running sums
    smallest_count: float  # n_min, floor of every count that divides
    smallest_share: float  # p_min, floor of a group's share
    n_classes: int  # Y

    query_name: ClassVar[str] = "statistics"

    @property
    def query_noise_multiplier(self) -> float:
        """Noise std of the one row that holds counts and sums."""
        return self.noise_multiplier

    @property
    def largest(self) -> float:
        """s_max, the largest s: that of equal probabilities."""
        return 1.0 - 1.0 / self.n_classes

    def init(self, replicates: int, facts: PublicFacts) -> GroupStatistics:
        """Nothing known yet: no penalty."""
        nothing = torch.zeros(replicates, facts.n_groups)
        return GroupStatistics(nothing, nothing.clone(), nothing.clone())

    def query(self, state: GroupStatistics, logits: Tensor, group: Tensor) -> Tensor:
        """(onehot, s / s_max * onehot) / sqrt(2), [R, B, 2K]: one row for both statistics."""
        n_groups = state.counts.shape[1]
        probabilities = torch.softmax(logits, -1)
        s = (1.0 - probabilities.square().sum(-1)) / self.largest
        s = torch.where(torch.isfinite(s), s, 0.0).clamp_(0.0, 1.0)
        rows = s.new_zeros(*s.shape, 2 * n_groups)
        cell = group.unsqueeze(-1)
        rows.scatter_(2, cell, math.sqrt(0.5))
        return rows.scatter_(2, cell + n_groups, s.unsqueeze(-1) * math.sqrt(0.5))

    def absorb(self, state: GroupStatistics, answer: Tensor) -> GroupStatistics:
        """Running statistics, then the weights of this step."""
        counts, sums = (answer * math.sqrt(2.0)).chunk(2, 1)
        running = replace(
            state,
            counts=self.decay * state.counts + counts,
            sums=self.decay * state.sums + self.largest * sums,
        )
        return replace(running, weights=self.weights(running.counts, running.sums))

    def weights(self, counts: Tensor, sums: Tensor) -> Tensor:
        """w_k, from noised counts n_k and noised sums of s, [R, K] each."""
        known = counts.clamp_min(0.0)
        share = known / known.sum(1, keepdim=True).clamp_min(self.smallest_count)
        share = share.clamp_min(self.smallest_share)
        share = share / share.sum(1, keepdim=True)
        mean = sums / counts.clamp_min(self.smallest_count)
        overall = sums.sum(1, keepdim=True) / counts.sum(1, keepdim=True).clamp_min(self.smallest_count)
        # The mean of a group that the noise drowns (one without members, the first steps) has a random
        # sign, which would push all other records; it is left out. The bound is public.
        heard = counts > NOISE_STDS * self.running_noise
        sign = torch.where(heard, torch.sign(mean - overall), 0.0)
        return sign / share - sign.sum(1, keepdim=True)

    @property
    def running_noise(self) -> float:
        """Noise std that a running count settles at, in records."""
        return self.noise_multiplier * math.sqrt(2.0 / max(1.0 - self.decay**2, 1e-6))

    def output_gradient(
        self, released: GroupStatistics, logits: Tensor, targets: Tensor, group: Tensor
    ) -> Tensor:
        """(f - y) + gamma2 w_a ds/dz, ds/dz = -2 f (f - sum_c f_c^2)."""
        f = torch.softmax(logits, -1)
        table = released.weights if group.dim() == 2 else released.weights[0]
        weight = table.gather(-1, group).unsqueeze(-1)
        slope = f * (f.square().sum(-1, keepdim=True) - f) * 2.0
        return torch.addcmul(f - targets, weight, slope, value=self.gamma2)

    def describe(self, released: GroupStatistics) -> dict[str, Tensor]:
        """w_k of this step."""
        return {"group_penalty_weight": released.weights}
