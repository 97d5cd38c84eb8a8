"""Published forms of flat and global clipping: the mean over the batch that was drawn."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from fairaudit.engine.release import Realised, UnprovenRelease
from fairaudit.engine.rules import ClippingRule, FlatClip, PublicFacts
from fairaudit.methods.base import Task
from fairaudit.methods.global_adapt import GlobalAdaptiveClip, ThresholdState
from fairaudit.methods.global_clip import GlobalClip
from fairaudit.methods.gradient import GradientMethod
from fairaudit.privacy.noise import GaussianNoise, noise_stream


class RealisedMean(UnprovenRelease):
    """Noised sum over the realised batch size, as printed.

    Dividing by |B| turns the presence of one record into a shift of up to twice the noise's
    unit. An empty batch, for which the printed form is undefined, counts as one record.

    Source: Esipova et al. 2023, Alg. 1 and 2; docs/methods.md 1.4.
    """

    def __init__(self, noise_multiplier: float, noise: GaussianNoise) -> None:
        self.noise_multiplier = noise_multiplier
        self.noise = noise

    def __call__(
        self, sums: Sequence[Tensor], sensitivity: Tensor, facts: PublicFacts, realised: Realised
    ) -> Tensor:
        """(sum + noise) / |B|."""
        drawn = self.noise.fill(torch.empty(sums[0].shape))
        noised = sums[0] + drawn * (self.noise_multiplier * sensitivity).unsqueeze(1)
        return noised / realised.size.clamp_min(1.0).unsqueeze(1)


class RealisedMeanMethod(GradientMethod):
    """A method whose step closes with the mean over the realised batch."""

    def release(self, task: Task) -> UnprovenRelease:
        """The noised mean over |B|."""
        noise = noise_stream(task.seed, "noise", task.arm, task.repeats)
        return RealisedMean(task.settings["noise_multiplier"], noise)


class DpSgdAsPublished(RealisedMeanMethod):
    """DPSGD with the mean over the realised batch. Source: Esipova et al. 2023, Alg. 1."""

    def rule(self, task: Task) -> ClippingRule[Any]:
        """Flat clipping."""
        return FlatClip(task.settings["max_grad_norm"])


class GlobalAsPublished(RealisedMeanMethod):
    """DPSGD-Global with the mean over the realised batch. Source: Esipova et al. 2023, Alg. 2."""

    def rule(self, task: Task) -> ClippingRule[Any]:
        """C/Z within Z, else nothing."""
        return GlobalClip(task.settings["max_grad_norm"], task.settings["threshold"])


@dataclass(frozen=True, slots=True)
class RealisedCountClip(GlobalAdaptiveClip):
    """The adaptive threshold as printed: the noised count over |B|, and no floor at C.

    |B| reaches the threshold without noise. The query says so openly: its second cell counts the
    batch in units that drown the noise, so a row's norm is far above 1 and the law that every query
    row must keep is broken.
    """

    exact = 1e5  # noise of sigma_c = 10 moves the recovered |B| by 1e-4

    def query(self, state: ThresholdState, norms: Tensor, group: Tensor) -> Tensor:
        """Exceedance, and the record's own presence, [R, B, 2]."""
        exceeds = (norms > self.tolerance * state.threshold.unsqueeze(-1)).to(norms.dtype)
        return torch.stack((exceeds, torch.full_like(norms, self.exact)), -1)

    def update(self, state: ThresholdState, answer: Tensor) -> ThresholdState:
        """Share of exceeding records among those of the batch."""
        realised = (answer[:, 1] / self.exact).round().clamp_min(1.0)
        return replace(state, exceeding=answer[:, 0] / realised)

    def step(self, released: ThresholdState) -> ThresholdState:
        """Z exp(-eta_Z + share), unbounded below but for underflow."""
        moved = released.threshold * torch.exp(released.exceeding - self.threshold_learning_rate)
        return replace(released, threshold=moved.clamp(1e-6 * self.max_grad_norm, self.ceiling))


class GlobalAdaptAsPublished(RealisedMeanMethod):
    """DPSGD-Global-Adapt as printed. Source: Esipova et al. 2023, Alg. 2; docs/methods.md 3.3."""

    def rule(self, task: Task) -> ClippingRule[Any]:
        """C / max(norm, Z), Z by the realised share."""
        settings = task.settings
        return RealisedCountClip(
            max_grad_norm=settings["max_grad_norm"],
            threshold=settings["threshold"],
            tolerance=settings["tolerance"],
            threshold_learning_rate=settings["threshold_learning_rate"],
            count_noise_multiplier=settings["count_noise_multiplier"],
            ceiling=1e4 * settings["max_grad_norm"],
        )
