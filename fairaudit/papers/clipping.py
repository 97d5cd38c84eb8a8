"""Published forms of clipping rules, kept for reproduction; none has a guarantee.

They differ from the methods' default forms in what the sum of gradients is divided by, in the bound
that sets the noise, and in floors and caps of noised counts. In symbols C0 is the clipping bound,
C_k the bound and theta_k the weight of group k, |B| the realised and qN the expected batch size; in
shapes R is the number of replicates, P of parameters, K of groups.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fairaudit.engine.release import Realised, UnprovenRelease
from fairaudit.engine.rules import PublicFacts
from fairaudit.methods.base import Task
from fairaudit.methods.dpsgd import DpSgd
from fairaudit.methods.dpsgd_f import DpSgdF, GroupAdaptiveClip, GroupBoundState
from fairaudit.methods.global_adapt import GlobalAdapt, GlobalAdaptiveClip, ThresholdState
from fairaudit.methods.global_clip import Global
from fairaudit.methods.gradient import GradientMethod
from fairaudit.methods.reweight import GroupWeightState, Reweight, ReweightedClip
from fairaudit.privacy.noise import GaussianNoise, noise_stream

NEVER = torch.inf  # the value of a cap or ceiling that the printed form does not have
# Rules below call a method of their base by the base's name: in a dataclass with slots super()
# without arguments fails, as the class is made anew.


class NoisedMean(UnprovenRelease):
    """The noised sum over a constant batch size, its noise set by the rule's claimed sensitivity.

    The printed batches have a fixed size b; here they are Poisson samples and b is their expected
    size. Subclasses change what sets the noise (``spread``) or what the sum is divided by.

    Source: Xu et al. 2021, Alg. 2 and 3.
    """

    def __init__(self, noise_multiplier: float, noise: GaussianNoise) -> None:
        self.noise_multiplier = noise_multiplier
        self.noise = noise

    def __call__(
        self, sums: Sequence[Tensor], sensitivity: Tensor, facts: PublicFacts, realised: Realised
    ) -> Tensor:
        """The step's gradient, ``[R, P]``: (sum + noise) / divisor.

        Args:
            sums: The one sum of scaled gradients, ``[R, P]``.
            sensitivity: As the rule claims it, [R].
            facts: Public numbers.
            realised: What the batch really is.
        """
        drawn = self.noise.fill(torch.empty(sums[0].shape))
        std = self.noise_multiplier * self.spread(sensitivity, realised)
        return (sums[0] + drawn * std.unsqueeze(1)) / self.divisor(facts, realised)

    def spread(self, sensitivity: Tensor, realised: Realised) -> Tensor:
        """The bound that sets the noise: what the noise multiplier multiplies, [R]."""
        return sensitivity

    def divisor(self, facts: PublicFacts, realised: Realised) -> Tensor:
        """What the noised sum is divided by, [R, 1]: here the constant b, which is qN."""
        return facts.divisor


class RealisedMean(NoisedMean):
    """Noised sum over the realised batch size, as printed.

    Dividing by |B| turns the presence of one record into a shift of up to twice the noise's
    unit. An empty batch, for which the printed form is undefined, counts as one record.

    Source: Esipova et al. 2023, Alg. 1 and 2; docs/methods.md 1.4.
    """

    def divisor(self, facts: PublicFacts, realised: Realised) -> Tensor:
        """The realised batch size |B|, at least 1, [R, 1]."""
        return realised.size.clamp_min(1.0).unsqueeze(1)


class BaseBoundMean(RealisedMean):
    """The noised sum over |B|, its noise set by C0 although groups are clipped to C_k >= C0.

    Source: Esipova et al. 2023, Alg. 3.
    """

    def __init__(self, noise_multiplier: float, noise: GaussianNoise, base: float) -> None:
        super().__init__(noise_multiplier, noise)
        self.base = base

    def spread(self, sensitivity: Tensor, realised: Realised) -> Tensor:
        """The base bound C0 for every replicate, [R], whatever sensitivity the rule claims."""
        return torch.full_like(sensitivity, self.base)


class PresentGroupsMean(NoisedMean):
    """The noised sum over qN, its noise set by the largest bound among the groups that were drawn.

    So the size of the noise in every coordinate says whether a group's only record is in the batch.
    An empty batch, at which the authors' code stops, takes the noise of the largest bound.

    Source: the code published with Esipova et al. 2023; docs/methods.md 3.5.
    """

    def spread(self, sensitivity: Tensor, realised: Realised) -> Tensor:
        """The largest C_k of the groups in the batch, [R]; of all groups for an empty batch."""
        # The bounds C_k, [R, K], as GroupAdaptiveClip.describe gives them for the trace.
        bounds = realised.described["group_bound"]
        largest_drawn = torch.where(realised.groups > 0, bounds, 0.0).amax(1)
        return torch.where(realised.size > 0, largest_drawn, sensitivity)


def _multiplier_and_noise(task: Task) -> tuple[float, GaussianNoise]:
    """The arm's noise multiplier and its noise stream, as the releases here take them."""
    stream = noise_stream(task.seed, "noise", task.arm, task.repeats)
    return task.settings["noise_multiplier"], stream


class RealisedMeanMethod(GradientMethod):
    """Put before a method's class: its step then closes with the mean over the realised batch."""

    def release(self, task: Task) -> UnprovenRelease:
        """What closes a step: the noised sum divided by |B|, as printed."""
        return RealisedMean(*_multiplier_and_noise(task))


class DpSgdAsPublished(RealisedMeanMethod, DpSgd):
    """DPSGD with the mean over the realised batch. Source: Esipova et al. 2023, Alg. 1."""


class GlobalAsPublished(RealisedMeanMethod, Global):
    """DPSGD-Global with the mean over the realised batch. Source: Esipova et al. 2023, Alg. 2."""


@dataclass(frozen=True, slots=True)
class RealisedCountClip(GlobalAdaptiveClip):
    """The adaptive threshold as printed: the noised count over |B|, and no floor at C.

    |B| reaches the threshold without noise. The query says so openly: its second cell counts the
    batch in units that drown the noise, so a row's norm is far above 1 and the law that every query
    row must keep is broken.
    """

    exact = 1e5  # unit of the second cell: noise of sigma_c = 10 moves the recovered |B| by 1e-4

    def query(self, state: ThresholdState, norms: Tensor, group: Tensor) -> Tensor:
        """What each record adds, [R, B, 2]: 1 if its norm exceeds tau Z, and ``exact`` to count it.

        tau is the tolerance, Z the threshold.
        """
        exceeds = (norms > self.tolerance * state.threshold.unsqueeze(-1)).to(norms.dtype)
        return torch.stack((exceeds, torch.full_like(norms, self.exact)), -1)

    def update(self, state: ThresholdState, answer: Tensor) -> ThresholdState:
        """The state with the noised count of exceeding records as a share of |B|.

        |B| is recovered from the second cell of ``answer [R, 2]``, in which it drowns the noise.
        """
        realised = (answer[:, 1] / self.exact).round().clamp_min(1.0)
        return replace(state, exceeding=answer[:, 0] / realised)

    def step(self, released: ThresholdState) -> ThresholdState:
        """The next step's state: Z exp(-eta_Z + share), with no floor but one against underflow."""
        moved = released.threshold * torch.exp(released.exceeding - self.threshold_learning_rate)
        return replace(released, threshold=moved.clamp(1e-6 * self.max_grad_norm, self.ceiling))


class GlobalAdaptAsPublished(RealisedMeanMethod, GlobalAdapt):
    """DPSGD-Global-Adapt as printed. Source: Esipova et al. 2023, Alg. 2; docs/methods.md 3.3."""

    clip = RealisedCountClip


@dataclass(frozen=True, slots=True)
class RawCountBounds(GroupAdaptiveClip):
    """Bounds from noised counts as they come: negative, or divided by next to nothing.

    Source: Xu et al. 2021, Alg. 2.
    """

    def update(self, state: GroupBoundState, answer: Tensor) -> GroupBoundState:
        """The state with this step's bounds, from the noised counts ``answer [R, 2 K]`` unchanged.

        C_k = C0 (1 + (m_k / b_k) / (m / qN)): m_k of the b_k records counted in group k are
        clipped, m is the sum of the m_k, and qN the expected batch size, not the sum of the b_k.
        C0 where that divides by 0.
        """
        clipped, others = answer.chunk(2, 1)
        share = clipped / (clipped + others)
        reference = clipped.sum(1, keepdim=True) / state.expected_batch_size.unsqueeze(1)
        ratio = share / reference
        return replace(
            state, bound=self.max_grad_norm * (1.0 + torch.where(ratio.isfinite(), ratio, 0.0))
        )

    def scale(self, released: GroupBoundState, norms: Tensor, group: Tensor) -> Tensor:
        """Each record's factor, min(1, C_k / norm) with k its group, [R, B].

        It is 1 where the norm is 0, at which a negative bound would give minus infinity. Layers add
        ``HIDDEN``, 1e-15, to norms, so that the factor of a gradient of zeros is mostly finite;
        whatever it is, the scaled gradient is zero.
        """
        return torch.where(norms > 0, GroupAdaptiveClip.scale(self, released, norms, group), 1.0)


@dataclass(frozen=True, slots=True)
class RealisedShareBounds(GroupAdaptiveClip):
    """Bounds by a share of the realised batch, without a ceiling.

    |B| reaches the bounds without noise. As in the adaptive threshold's printed form the query says
    so: its last cell counts the batch in units that drown the noise, so its rows are far longer
    than 1.

    Source: Esipova et al. 2023, Alg. 3.
    """

    exact = 1e5  # unit of the last cell: noise of sigma_1 = 10 moves the recovered |B| by 1e-4

    def query(self, state: GroupBoundState, norms: Tensor, group: Tensor) -> Tensor:
        """What each record adds, [R, B, 2K + 1]: 1 to one of 2K counts, ``exact`` to the last."""
        rows = GroupAdaptiveClip.query(self, state, norms, group)
        return torch.cat((rows, torch.full_like(norms, self.exact).unsqueeze(-1)), -1)

    def update(self, state: GroupBoundState, answer: Tensor) -> GroupBoundState:
        """The state with this step's bounds, from the noised ``answer [R, 2 K + 1]``.

        C_k = C0 (1 + (m_k / b_k) / (m / |B|)), with m_k clipped of b_k records of group k and m in
        all; C0 where nothing is clipped. |B| is recovered from the last cell.
        """
        realised = (answer[:, -1] / self.exact).round().clamp_min(1.0)
        # With |B| in the place of qN, by which the default form divides; qN stays in the state.
        with_realised = replace(state, expected_batch_size=realised)
        bound = GroupAdaptiveClip.update(self, with_realised, answer[:, :-1]).bound
        return replace(state, bound=bound)


@dataclass(frozen=True, slots=True)
class AuthorsBounds(GroupAdaptiveClip):
    """Bounds by the mean of the groups' shares; an empty group counts as wholly clipped.

    Source: the code published with Esipova et al. 2023; docs/methods.md 3.5.
    """

    def update(self, state: GroupBoundState, answer: Tensor) -> GroupBoundState:
        """The state with this step's bounds, from the noised counts ``answer [R, 2 K]``.

        C_k = C0 (1 + r_k / (mean r + 1e-8)) with r_k the clipped share of group k; the counts are
        cut to whole numbers towards 0.
        """
        clipped, others = answer.trunc().clamp_min(0.0).chunk(2, 1)
        count = clipped + others
        share = torch.where(count > 0, clipped / count.clamp_min(1.0), 1.0)
        reference = share.mean(1, keepdim=True) + 1e-8
        return replace(state, bound=self.max_grad_norm * (1.0 + share / reference))


@dataclass(frozen=True, slots=True)
class RawCountWeights(ReweightedClip):
    """Weights from noised counts as they come: negative, or next to infinite.

    Source: Xu et al. 2021, Alg. 3.
    """

    def update(self, state: GroupWeightState, answer: Tensor) -> GroupWeightState:
        """The state with this step's weights, from the noised counts b_k, ``answer [R, K]``.

        theta_k = (b / K) / b_k with b = qN; 1 where that divides by 0, which has probability 0.
        """
        weight = state.expected_batch_size.unsqueeze(1) / answer.shape[1] / answer
        return replace(state, weight=torch.where(weight.isfinite(), weight, 1.0))


class _UncappedDpSgdF(DpSgdF):
    """DPSGD-F whose bounds have no ceiling, as all published forms; subclasses set ``clip``."""

    def rule(self, task: Task) -> GroupAdaptiveClip:
        """The clipping rule, without a largest bound, its shares compared with the batch's."""
        return replace(super().rule(task), largest_bound_ratio=NEVER, against_batch=True)


class DpSgdFXu(_UncappedDpSgdF):
    """DPSGD-F as first printed: bounds without a floor either. Source: Xu et al. 2021, Alg. 2."""

    clip = RawCountBounds

    def release(self, task: Task) -> UnprovenRelease:
        """What closes a step: the sum with noise set by the largest bound, over the constant qN."""
        return NoisedMean(*_multiplier_and_noise(task))


class DpSgdFEsipova(_UncappedDpSgdF):
    """DPSGD-F as printed by Esipova et al. 2023, Alg. 3."""

    clip = RealisedShareBounds

    def release(self, task: Task) -> UnprovenRelease:
        """What closes a step: the sum with noise set by the base bound C0, over |B|."""
        return BaseBoundMean(*_multiplier_and_noise(task), task.settings["max_grad_norm"])


class DpSgdFAuthors(_UncappedDpSgdF):
    """DPSGD-F as in the code published with Esipova et al. 2023."""

    clip = AuthorsBounds

    def release(self, task: Task) -> UnprovenRelease:
        """What closes a step: the sum over qN, with noise by the bounds of the groups drawn.

        That is the largest clipping bound among groups that have a record in the batch.
        """
        return PresentGroupsMean(*_multiplier_and_noise(task))


class ReweightXu(Reweight):
    """Naive reweighting as printed, without floor or cap. Source: Xu et al. 2021, Alg. 3."""

    clip = RawCountWeights

    def rule(self, task: Task) -> ReweightedClip:
        """The clipping rule with weights by the noised counts as they are, without floor or cap."""
        return replace(super().rule(task), smallest_count=0.0, largest_weight=NEVER)

    def release(self, task: Task) -> UnprovenRelease:
        """What closes a step: the sum with noise set by C times the largest weight, over qN."""
        return NoisedMean(*_multiplier_and_noise(task))
