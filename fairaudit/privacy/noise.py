"""The only place where noise is drawn: standard normals from one named stream per replicate."""

from collections.abc import Sequence

import torch
from torch import Tensor

from fairaudit.privacy.streams import Purpose, seed_of


class GaussianNoise:
    """Standard normals, each replicate from a generator of its own.

    A replicate's numbers depend on its own seed and on the shapes asked for, never on how many
    replicates stand beside it. They are drawn on the CPU whatever the device, so that a run does
    not change its noise with its hardware.

    Args:
        seeds: One seed per replicate, ``[R]``; they must differ.

    Raises:
        ValueError: Two replicates share a seed; their difference would carry no noise.
    """

    __slots__ = ("_draws", "_generators")

    def __init__(self, seeds: Sequence[int]) -> None:
        if len(set(seeds)) != len(seeds):
            raise ValueError("replicates that share a noise seed would reveal their difference")
        self._generators = tuple(torch.Generator("cpu").manual_seed(seed) for seed in seeds)
        self._draws = 0

    @property
    def replicates(self) -> int:
        """R, how many rows every draw fills."""
        return len(self._generators)

    @property
    def draws(self) -> int:
        """How often :meth:`fill` was called: exactly once per logical step (METHODS R10)."""
        return self._draws

    def fill(self, out: Tensor) -> Tensor:
        """Overwrite ``out`` with fresh standard normals and return it.

        Args:
            out: ``[R, ...]``, floating point; row r is drawn from generator r.

        Raises:
            ValueError: ``out`` has not one row per replicate.
        """
        if out.ndim == 0 or out.shape[0] != self.replicates:
            raise ValueError(f"noise for {self.replicates} replicates cannot fill shape {tuple(out.shape)}")
        self._draws += 1
        # A strided row is drawn by another kernel, in another order: the bits would follow the layout.
        direct = out.is_cpu and out.is_contiguous()
        target = out if direct else torch.empty(out.shape, dtype=out.dtype, device="cpu")
        rows = (target,) if self.replicates == 1 else target.unbind()  # a view costs as much as a small draw
        for row, generator in zip(rows, self._generators, strict=True):
            row.normal_(generator=generator)
        return out if direct else out.copy_(target)


def noise_stream(seed: int, purpose: Purpose, arm_key: str, repeats: int, *, first: int = 0) -> GaussianNoise:
    """The noise of one arm at one audit seed, one stream per repeat.

    Args:
        seed: The audit seed.
        purpose: ``noise`` for gradients, ``query`` for side queries.
        arm_key: The arm's key: arms that shared noise would reveal the difference of their sums.
        repeats: R, private runs trained side by side; more of them change none of the others.
        first: Number of the first of them, where others have been drawn before.
    """
    return GaussianNoise([seed_of(seed, purpose, arm_key, first + repeat) for repeat in range(repeats)])
