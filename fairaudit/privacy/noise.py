"""The only place where noise is drawn: standard normals from one named stream per replicate.

Replicates are trainings of one model side by side; row r of a noise tensor belongs to replicate r.
"""

import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fairaudit.privacy.streams import KeyStream, Purpose, is_secure, numpy_stream, seed_of

# What PyTorch draws in float32 comes of uniforms of 24 bits: it ends at 5.768, and its steps grow
# towards that end. A record whose gradient is as long as its bound shifts a draw by 1 / sigma, so a
# shifted draw beyond that end would tell it was there. What lies beyond TAIL is drawn anew, from
# uniforms of 53 bits.
TAIL = 4.5
_NORMAL = NormalDist()
_BEYOND = 0.5 * math.erfc(TAIL / math.sqrt(2.0))  # P(Z > TAIL)

AT_ONCE = 2**15  # values from a key stream: few enough for a processor's cache


def draw_tail(stream: np.random.Generator) -> float:
    """A standard normal given that it exceeds TAIL; the largest possible one is 9.6.

    By inversion: the probability of a larger value is uniform between 0 and P(Z > TAIL).
    """
    return -_NORMAL.inv_cdf(_BEYOND * (1.0 - stream.random()))  # 1 - random() is never 0


class _Stream:
    """One replicate's noise from its seed.

    Values beyond TAIL are redrawn from a second generator, so that a redraw shifts no other value.
    """

    __slots__ = ("_bulk", "_tail")

    def __init__(self, seed: int) -> None:
        self._bulk = torch.Generator("cpu").manual_seed(seed)
        self._tail = numpy_stream(seed, "tail")

    def fill(self, row: Tensor) -> None:
        """Overwrite a contiguous row ``[n]`` on the CPU with normal numbers."""
        row.normal_(generator=self._bulk)
        if not row.numel():  # an empty row has no extremes for ``aminmax``
            return
        least, largest = torch.aminmax(row)
        if largest.item() > TAIL or least.item() < -TAIL:
            self._redraw(row.view(-1).numpy())  # an array that shares the row's memory

    def _redraw(self, values: NDArray[np.floating]) -> None:
        """Redraw, in place, each value beyond TAIL on either side, 7 in a million; signs stay.

        Args:
            values: [n], in the memory of the row that is filled.
        """
        for place in ((values > TAIL) | (values < -TAIL)).nonzero()[0].tolist():
            values[place] = math.copysign(draw_tail(self._tail), values[place])


class _SecureStream:
    """One replicate's noise from a key stream, by uniforms of 53 bits.

    Values reach up to 12 standard deviations, so no tail has to be redrawn.

    Each value is half the sum of four normals, two pairs by Box and Muller. A value made of one or
    two uniforms takes only some of all floats, so that a sum with it can give away what it was
    added to; of four uniforms there are 2**159 candidates. Source: Holohan and Braghin 2021,
    "Secure random sampling in differential privacy", n = 2; what Opacus does in its secure mode.
    """

    __slots__ = ("_words",)

    def __init__(self) -> None:
        self._words = KeyStream().words

    def fill(self, row: Tensor) -> None:
        """Overwrite a contiguous row ``[n]`` on the CPU with normal numbers."""
        for part in torch.split(row.view(-1), AT_ONCE):
            part.copy_(self._normals(len(part)))

    def _normals(self, size: int) -> Tensor:
        """Standard normals, [size] float64.

        A pair of Box and Muller sums to r (cos a + sin a) = r sqrt(2) cos(a - pi / 4). The angle
        a - pi / 4 is as uniform as a, so r sqrt(2) cos(a) has the law of the sum of two normals.
        Half the sum of two pairs is then sqrt(1/2) (r_1 cos(a_1) + r_2 cos(a_2)).
        """
        words = self._words(4 * size) >> np.uint64(11)  # 53 bits, which a float64 holds exactly
        # Read as int64, which PyTorch can convert; the words are far below its largest number.
        uniform = torch.from_numpy(words.view(np.int64)).double()
        radius, angle = uniform[: 2 * size], uniform[2 * size :]
        # sqrt(-2 log u), with u from 2**-53 to 1, so that it is never infinite.
        radius.add_(1.0).mul_(2.0**-53).log_().mul_(-2.0).sqrt_()
        radius *= angle.mul_(math.tau * 2.0**-53).cos_()
        return radius.view(2, size).sum(0).mul_(math.sqrt(0.5))


class GaussianNoise:
    """A source of standard normals in which each replicate has a generator of its own.

    A replicate's numbers depend on its own seed and on the shapes asked for, never on how many
    replicates stand beside it. They are drawn on the CPU whatever the device, so that a run does
    not change its noise with its hardware.

    Args:
        seeds: One seed per replicate, ``[R]``; they must differ in their last 32 bits, which are
            all that PyTorch's generator reads. Inside ``from_operating_system`` (streams.py) no
            number follows from them.

    Raises:
        ValueError: Two replicates would draw the same noise; their difference would carry none.
    """

    __slots__ = ("_seeds", "_streams", "draws")

    def __init__(self, seeds: Sequence[int]) -> None:
        if len({seed % 2**32 for seed in seeds}) != len(seeds):
            raise ValueError("replicates that share a noise seed would reveal their difference")
        self._seeds = tuple(seeds)
        self._streams = tuple(_SecureStream() if is_secure() else _Stream(seed) for seed in seeds)
        self.draws = 0  # calls of fill: exactly one per logical step (docs/methods.md 1.3, R10)

    @classmethod
    def of_all(cls, parts: Sequence["GaussianNoise"]) -> "GaussianNoise":
        """One source for the replicates of all parts, in their order.

        Each replicate draws what it would have drawn in its own part.

        Args:
            parts: Sources from which nothing has been drawn yet.

        Raises:
            ValueError: Two replicates would draw the same noise.
        """
        assert not any(part.draws for part in parts), "noise that was drawn would be drawn again"
        return cls([seed for part in parts for seed in part._seeds])

    def fill(self, out: Tensor) -> Tensor:
        """Overwrite ``out`` with fresh standard normals and return it.

        Args:
            out: ``[R, ...]``, floating point, on any device; row r is drawn from generator r.

        Raises:
            ValueError: ``out`` does not have one row per replicate.
        """
        shape, replicates = out.shape, len(self._streams)
        if not shape or shape[0] != replicates:
            raise ValueError(f"noise for {replicates} replicates cannot fill shape {tuple(shape)}")
        self.draws += 1
        # A strided row is drawn by another kernel, in another order: the bits would follow the
        # layout.
        direct = out.is_cpu and out.is_contiguous()
        target = out
        if not direct:
            target = torch.empty(shape, dtype=out.dtype, device="cpu")
        for stream, row in zip(self._streams, target.unbind(), strict=True):
            stream.fill(row)
        if direct:
            return out
        return out.copy_(target)


def noise_stream(
    seed: int, purpose: Purpose, arm_key: str, repeats: int, *, first: int = 0
) -> GaussianNoise:
    """The noise of one arm at one audit seed, one stream per repeat.

    Args:
        seed: The audit seed.
        purpose: ``noise`` for gradients, ``query`` for side queries.
        arm_key: The arm's key: arms that shared noise would reveal the difference of their sums.
        repeats: R, private runs trained side by side; more of them change none of the others.
        first: Number of the first repeat, where earlier ones were drawn by another call.
    """
    return GaussianNoise(
        [seed_of(seed, purpose, arm_key, first + repeat) for repeat in range(repeats)]
    )
