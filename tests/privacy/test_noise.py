"""Noise is standard normal, fresh at every step, and private to its replicate, arm and purpose."""

import itertools
import math
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from scipy.stats import binom, chi2, kstwobign, norm

from fairaudit.privacy.noise import TAIL, GaussianNoise, draw_tail, noise_stream
from fairaudit.privacy.streams import from_operating_system, numpy_stream, seed_of

FALSE_ALARM = 1e-6  # per assertion; z of it, two-sided, is 4.89
Z_LIMIT = 4.9
STEPS, REPLICATES, WIDTH = 200, 3, 500


def drawn(fill, steps=STEPS, replicates=REPLICATES, width=WIDTH):
    """[steps, R, P], what ``steps`` logical steps receive."""
    return torch.stack([fill(torch.empty(replicates, width)) for _ in range(steps)])


def variance_is_one(noise):
    n = noise.numel()
    least, most = chi2.interval(1 - FALSE_ALARM, n)
    return least <= noise.double().square().sum().item() <= most


def correlation(a, b):
    """sqrt(n) times the mean product.

    Standard normal where a and b are independent standard normals.
    """
    return (a.double() * b.double()).mean().item() * math.sqrt(a.numel())


def steps_are_independent(noise):
    return all(abs(correlation(noise[lag:], noise[:-lag])) < Z_LIMIT for lag in (1, 2, 7))


def coordinates_are_independent(noise):
    return all(
        abs(correlation(noise[..., lag:], noise[..., :-lag])) < Z_LIMIT
        for lag in (1, 2, 8, 16, WIDTH // 2)
    )


def replicates_are_independent(noise):
    pairs = itertools.combinations(range(noise.shape[1]), 2)
    return all(abs(correlation(noise[:, a], noise[:, b])) < Z_LIMIT for a, b in pairs)


@pytest.mark.parametrize("source", [nullcontext, from_operating_system])
def test_noise_is_standard_normal_and_independent_everywhere(source):
    with source():
        fill = noise_stream(0, "noise", "dpsgd", REPLICATES).fill
    noise = drawn(fill)
    assert variance_is_one(noise)
    assert all(variance_is_one(noise[:, r]) for r in range(REPLICATES))
    assert steps_are_independent(noise)
    assert coordinates_are_independent(noise)
    assert replicates_are_independent(noise)

    noise = noise.flatten().double()
    for quantile in (0.0005, 0.01, 0.5, 0.99, 0.9995):
        level = torch.special.ndtri(torch.tensor(quantile, dtype=torch.float64))
        seen = (noise <= level).double().mean().item()
        assert abs(seen - quantile) < Z_LIMIT * math.sqrt(quantile * (1 - quantile) / noise.numel())


@pytest.mark.parametrize("width", [1, 2, 15, 16, 17, 500])
def test_replicates_together_equal_each_alone_bit_for_bit(width):
    together = drawn(noise_stream(5, "noise", "dpsgd", 4).fill, steps=3, replicates=4, width=width)
    for r in range(4):
        alone = drawn(GaussianNoise([seed_of(5, "noise", "dpsgd", r)]).fill, 3, 1, width)
        assert torch.equal(together[:, r : r + 1], alone)


def test_every_fill_counts_as_one_draw_whatever_its_shape():
    noise = noise_stream(0, "noise", "dpsgd", 3)
    assert noise.draws == 0
    out = torch.full((3, 7), math.nan)
    assert noise.fill(out) is out
    assert torch.isfinite(out).all()
    assert noise.fill(torch.empty(3, 2, 0)).shape == (3, 2, 0)
    assert noise.draws == 2
    with pytest.raises(ValueError, match="3 replicates"):
        noise.fill(torch.empty(2, 7))
    assert noise.draws == 2


# --- tails: what PyTorch draws in float32 ends at 5.768, and thins out on the way there
# ------------------


def test_the_tail_follows_its_exact_law_and_is_never_below_its_start():
    stream = numpy_stream(3, "tail")
    found = np.array([draw_tail(stream) for _ in range(200_000)])
    assert found.min() >= TAIL
    law = norm.sf(found) / norm.sf(TAIL)
    distance = np.abs(np.sort(law) - (np.arange(len(law)) + 0.5) / len(law)).max()
    assert distance * math.sqrt(len(law)) < kstwobign.isf(FALSE_ALARM)
    for level in (4.6, 5.0, 5.5, 5.768, 6.0):
        share = norm.sf(level) / norm.sf(TAIL)
        least, most = binom.interval(1 - FALSE_ALARM, len(found), share)
        assert least <= (found > level).sum() <= most


def beyond(fill, draws, levels, size=10**6):
    """How many of ``draws`` values lie beyond each level."""
    out, counts = torch.empty(1, size), np.zeros(len(levels), dtype=np.int64)
    for _ in range(draws // size):
        values = fill(out).abs()
        extreme = values[values > levels[0]].numpy()
        counts += (extreme[:, None] > np.array(levels)).sum(0)
    return counts


@pytest.mark.parametrize("draws", [20_000_000, pytest.param(200_000_000, marks=pytest.mark.slow)])
def test_a_whole_draw_has_the_tail_of_the_normal_law_and_no_hole_at_its_seam(draws):
    levels = (3.0, TAIL - 0.01, TAIL, TAIL + 0.01, 5.0, 5.5, 5.768, 6.0)
    counts = beyond(GaussianNoise([12]).fill, draws, levels)
    for seen, level in zip(counts, levels, strict=True):
        expected = 2 * norm.sf(level)
        # Uniforms of 24 bits leave the mass of the tail 0.21 % short.
        assert binom.ppf(FALSE_ALARM / 2, draws, 0.9979 * expected) <= seen
        assert seen <= binom.isf(FALSE_ALARM / 2, draws, expected)
    for index in (1, 2):  # on either side of the seam
        share = 2 * (norm.sf(levels[index]) - norm.sf(levels[index + 1]))
        seen = counts[index] - counts[index + 1]
        assert binom.ppf(FALSE_ALARM / 2, draws, 0.9979 * share) <= seen
        assert seen <= binom.isf(FALSE_ALARM / 2, draws, share)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_only_what_lies_in_the_tail_differs_from_pytorchs_own_draw(dtype):
    width, steps = 300_000, 4
    ours, generator = GaussianNoise([5]), torch.Generator().manual_seed(5)
    redrawn = 0
    for _ in range(steps):
        mended = ours.fill(torch.empty(1, width, dtype=dtype))
        drawn = torch.empty(1, width, dtype=dtype).normal_(generator=generator)
        inside = drawn.abs() <= TAIL
        assert torch.equal(mended[inside], drawn[inside])
        assert (mended[~inside] != drawn[~inside]).all()
        assert (mended[~inside].sign() == drawn[~inside].sign()).all()
        assert (mended[~inside].abs() >= TAIL).all()
        redrawn += int((~inside).sum())
    assert redrawn > 0


@pytest.mark.parametrize("width", [40_000, 500])
def test_tails_of_replicates_are_independent_of_their_company(width):
    """Long enough that every replicate has values in its tail."""
    steps = 1_600_000 // width
    together = GaussianNoise([5, 6, 7])
    alone = [GaussianNoise([seed]) for seed in (5, 6, 7)]
    tails = []
    for _ in range(steps):
        drawn = together.fill(torch.empty(3, width))
        for row, single in zip(drawn, alone, strict=True):
            assert torch.equal(row, single.fill(torch.empty(1, width))[0])
        tails.append(drawn[drawn.abs() > TAIL].abs())
    found = torch.cat(tails)
    assert len(found) == len(found.unique()) > 10


@pytest.mark.parametrize(
    ("sigma", "epochs"), [(1.0, 20), (0.8, 30), (0.8, 60)]
)  # those of the presets
def test_no_record_can_leave_the_noises_support_with_a_probability_that_matters(sigma, epochs):
    """A gradient as long as its bound shifts one coordinate by 1 / sigma.

    In every epoch once on average.
    """

    class Highest:
        def random(self):
            return 1.0 - 2.0**-53  # the largest number that a generator gives

    assert epochs * norm.sf(draw_tail(Highest()) - 1 / sigma) < 1e-3 * 1e-6  # of delta


def test_seeds_that_pytorch_cannot_tell_apart_are_refused():
    """Its generator reads 32 bits of a seed."""
    one, other = (
        torch.empty(20).normal_(generator=torch.Generator().manual_seed(s)) for s in (7, 7 + 2**32)
    )
    assert torch.equal(one, other)
    with pytest.raises(ValueError, match="share a noise seed"):
        GaussianNoise([7, 7 + 2**32])
