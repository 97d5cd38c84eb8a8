"""Noise is standard normal, fresh at every step, and private to its replicate, arm and purpose."""

import itertools
import math
from collections.abc import Callable

import pytest
import torch
from scipy.stats import chi2
from torch import Tensor

from fairaudit.privacy.noise import GaussianNoise, noise_stream
from fairaudit.privacy.streams import seed_of

FALSE_ALARM = 1e-6  # per assertion; z of it, two-sided, is 4.89
Z_LIMIT = 4.9
STEPS, REPLICATES, WIDTH = 200, 3, 500
Fill = Callable[[Tensor], Tensor]


def drawn(fill: Fill, steps: int = STEPS, replicates: int = REPLICATES, width: int = WIDTH) -> Tensor:
    """[steps, R, P], what ``steps`` logical steps receive."""
    return torch.stack([fill(torch.empty(replicates, width)) for _ in range(steps)])


def variance_is_one(noise: Tensor) -> bool:
    n = noise.numel()
    total = noise.double().square().sum().item()
    return bool(chi2.ppf(FALSE_ALARM / 2, n) <= total <= chi2.isf(FALSE_ALARM / 2, n))


def correlation(a: Tensor, b: Tensor) -> float:
    """sqrt(n) times the mean product: standard normal where a and b are independent standard normals."""
    return (a.double() * b.double()).mean().item() * math.sqrt(a.numel())


def steps_are_independent(noise: Tensor) -> bool:
    return all(abs(correlation(noise[lag:], noise[:-lag])) < Z_LIMIT for lag in (1, 2, 7))


def coordinates_are_independent(noise: Tensor) -> bool:
    return all(
        abs(correlation(noise[..., lag:], noise[..., :-lag])) < Z_LIMIT for lag in (1, 2, 8, 16, WIDTH // 2)
    )


def replicates_are_independent(noise: Tensor) -> bool:
    pairs = itertools.combinations(range(noise.shape[1]), 2)
    return all(abs(correlation(noise[:, a], noise[:, b])) < Z_LIMIT for a, b in pairs)


def is_sound(noise: Tensor) -> bool:
    return (
        variance_is_one(noise)
        and steps_are_independent(noise)
        and coordinates_are_independent(noise)
        and replicates_are_independent(noise)
    )


def correct() -> Fill:
    return noise_stream(0, "noise", "dpsgd", REPLICATES).fill


def reused_over_steps() -> Fill:
    once = correct()(torch.empty(REPLICATES, WIDTH))
    return lambda out: out.copy_(once)


def reseeded_at_every_step() -> Fill:
    return lambda out: noise_stream(0, "noise", "dpsgd", len(out)).fill(out)


def five_percent_too_small() -> Fill:
    fill = correct()
    return lambda out: fill(out).mul_(0.95)


def shared_by_replicates() -> Fill:
    fill = noise_stream(0, "noise", "dpsgd", 1).fill
    return lambda out: out.copy_(fill(torch.empty(1, WIDTH)).expand_as(out))


def repeated_within_a_draw() -> Fill:
    fill = correct()
    return lambda out: out.copy_(fill(torch.empty(REPLICATES, WIDTH // 2)).repeat(1, 2))


def test_noise_is_standard_normal_and_independent_everywhere():
    noise = drawn(correct())
    assert variance_is_one(noise)
    assert all(variance_is_one(noise[:, r]) for r in range(REPLICATES))
    assert steps_are_independent(noise)
    assert coordinates_are_independent(noise)
    assert replicates_are_independent(noise)


def test_noise_follows_the_normal_distribution_in_its_tails():
    noise = drawn(correct()).flatten().double()
    for quantile in (0.0005, 0.01, 0.5, 0.99, 0.9995):
        level = torch.special.ndtri(torch.tensor(quantile, dtype=torch.float64))
        seen = (noise <= level).double().mean().item()
        assert abs(seen - quantile) < Z_LIMIT * math.sqrt(quantile * (1 - quantile) / noise.numel())


@pytest.mark.parametrize(
    ("broken", "check"),
    [
        (reused_over_steps, steps_are_independent),
        (reseeded_at_every_step, steps_are_independent),
        (five_percent_too_small, variance_is_one),
        (shared_by_replicates, replicates_are_independent),
        (repeated_within_a_draw, coordinates_are_independent),
    ],
)
def test_broken_noise_is_caught_by_its_check(broken, check):
    assert not check(drawn(broken()))
    assert not is_sound(drawn(broken()))


@pytest.mark.parametrize("width", [1, 2, 15, 16, 17, 500])
def test_replicates_together_equal_each_alone_bit_for_bit(width):
    together = drawn(noise_stream(5, "noise", "dpsgd", 4).fill, steps=3, replicates=4, width=width)
    for r in range(4):
        alone = drawn(GaussianNoise([seed_of(5, "noise", "dpsgd", r)]).fill, 3, 1, width)
        assert torch.equal(together[:, r : r + 1], alone)


def test_adding_repeats_leaves_the_first_ones_as_they_were():
    few = drawn(noise_stream(5, "noise", "dpsgd", 2).fill, steps=3, replicates=2)
    many = drawn(noise_stream(5, "noise", "dpsgd", 6).fill, steps=3, replicates=6)
    assert torch.equal(many[:, :2], few)


def test_later_repeats_alone_are_those_among_all():
    all_of_them = drawn(noise_stream(5, "noise", "dpsgd", 6).fill, steps=3, replicates=6)
    later = drawn(noise_stream(5, "noise", "dpsgd", 4, first=2).fill, steps=3, replicates=4)
    assert torch.equal(all_of_them[:, 2:], later)


def test_same_stream_gives_the_same_bits():
    assert torch.equal(drawn(correct(), steps=4), drawn(correct(), steps=4))


def test_arms_purposes_seeds_and_repeats_have_streams_of_their_own():
    streams = [
        noise_stream(seed, purpose, arm, 2).fill(torch.empty(2, 2_000))[r]
        for seed in (0, 1)
        for purpose in ("noise", "query")
        for arm in ("dpsgd", "global", "dpsgd@1", "dpsgd#self-check")
        for r in range(2)
    ]
    pairs = list(itertools.combinations(streams, 2))
    assert all(not torch.equal(a, b) for a, b in pairs)
    assert all(abs(correlation(a, b)) < 5.8 for a, b in pairs)  # 496 pairs at 1e-8 each


@pytest.mark.parametrize(
    "blind_to",
    [
        lambda seed, purpose, arm: noise_stream(0, purpose, arm, 1),
        lambda seed, purpose, arm: noise_stream(seed, "noise", arm, 1),
        lambda seed, purpose, arm: noise_stream(seed, purpose, "arm", 1),
    ],
)
def test_a_stream_blind_to_seed_purpose_or_arm_is_caught(blind_to):
    keys = itertools.product((0, 1), ("noise", "query"), ("dpsgd", "global"))
    first = [blind_to(*key).fill(torch.empty(1, 4))[0] for key in keys]
    assert any(torch.equal(a, b) for a, b in itertools.combinations(first, 2))


def test_every_fill_counts_as_one_draw_whatever_its_shape():
    noise = noise_stream(0, "noise", "dpsgd", 3)
    assert noise.draws == 0
    noise.fill(torch.empty(3, 7))
    noise.fill(torch.empty(3, 2, 5))
    assert noise.draws == 2
    with pytest.raises(ValueError, match="3 replicates"):
        noise.fill(torch.empty(2, 7))
    assert noise.draws == 2


def test_fill_writes_in_place_and_returns_its_argument():
    out = torch.full((2, 9), math.nan)
    assert noise_stream(0, "noise", "dpsgd", 2).fill(out) is out
    assert torch.isfinite(out).all()


def test_layout_of_the_target_does_not_change_the_bits():
    straight = noise_stream(0, "noise", "dpsgd", 2).fill(torch.empty(2, 64))
    strided = noise_stream(0, "noise", "dpsgd", 2).fill(torch.empty(64, 2).t())
    assert torch.equal(straight, strided)


def test_the_global_generator_is_neither_read_nor_moved():
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = noise_stream(0, "noise", "dpsgd", 1).fill(torch.empty(1, 8))
    assert torch.equal(before, torch.get_rng_state())
    torch.manual_seed(2)
    assert torch.equal(first, noise_stream(0, "noise", "dpsgd", 1).fill(torch.empty(1, 8)))


def test_replicates_cannot_share_a_seed():
    with pytest.raises(ValueError, match="share a noise seed"):
        GaussianNoise([7, 7])
