"""Draws from the operating system.

The laws that seeded ones keep, and nothing that could repeat them.
"""

import math
import os

import numpy as np
import pytest
import torch
from scipy.stats import chi2, kstest

from fairaudit.privacy.noise import AT_ONCE, GaussianNoise, noise_stream
from fairaudit.privacy.streams import (
    KeyStream,
    SecureStream,
    from_operating_system,
    is_secure,
    numpy_stream,
)

ALARM = 1e-6


@pytest.fixture
def secure():
    with from_operating_system():
        yield


@pytest.fixture
def asked(monkeypatch):
    """How many bytes the operating system was asked for."""
    counts = []
    real = os.urandom
    monkeypatch.setattr(os, "urandom", lambda size: counts.append(size) or real(size))
    return counts


def test_every_stream_takes_its_key_from_the_operating_system(secure, asked):
    noise_stream(0, "noise", "dpsgd", 3)
    numpy_stream(0, "sampling", "a")
    assert sorted(asked) == [16] * 4 + [32] * 4


def test_the_key_is_what_decides(monkeypatch):
    monkeypatch.setattr(os, "urandom", bytes)
    again = [KeyStream().words(1000) for _ in range(2)]
    assert (
        again[0] == again[1]
    ).all()  # a system without randomness is the only way to repeat a stream
    monkeypatch.setattr(os, "urandom", lambda size: bytes([1]) * size)
    assert not (KeyStream().words(1000) == again[0]).any()


def test_streams_are_as_before_outside_of_the_block():
    wanted = numpy_stream(3, "split").random(5)
    with from_operating_system():
        assert is_secure()
        assert not isinstance(numpy_stream(3, "split"), np.random.Generator)
    assert not is_secure()
    assert (numpy_stream(3, "split").random(5) == wanted).all()
    with pytest.raises(RuntimeError), from_operating_system():
        raise RuntimeError
    assert not is_secure()


def test_a_draw_that_it_does_not_know_is_an_error(secure):
    with pytest.raises(AttributeError):
        numpy_stream(0, "probe").standard_normal(3)


def test_uniforms_exponentials_and_integers_follow_their_laws():
    stream = SecureStream()
    assert kstest(stream.random(200_000), "uniform").pvalue > ALARM
    assert kstest(stream.standard_exponential(200_000), "expon").pvalue > ALARM
    for high in (1, 3, 7, 1000):
        counts = np.bincount(stream.integers(high, 100_000), minlength=high)
        assert len(counts) == high
        assert ((counts - 1e5 / high) ** 2).sum() / (1e5 / high) <= chi2.isf(
            ALARM, max(high - 1, 1)
        )


def test_integers_draw_words_beyond_the_last_multiple_anew(monkeypatch):
    """Of 2**64 words, those above the last multiple of 3 * 2**62 are a quarter.

    And would be doubled.
    """
    high = 3 * 2**61
    found = SecureStream().integers(high, 30_000)
    assert kstest(found / high, "uniform").pvalue > ALARM
    assert not (found >= high).any()


def test_permutations_are_even_and_keep_every_value():
    stream = SecureStream()
    counts = np.zeros((4, 4))
    for _ in range(4000):
        order = stream.permutation(4)
        counts[np.arange(4), order] += 1
    assert (np.abs(counts - 1000) < 5 * math.sqrt(750)).all()
    rows = np.array([5, 7, 9])
    assert sorted(stream.permutation(rows)) == [5, 7, 9]


def test_a_value_is_half_the_sum_of_four_normals_by_hand(secure):
    rng = np.random.default_rng(0)
    words = rng.integers(0, 2**64, 40, dtype=np.uint64)
    noise = GaussianNoise([0])
    noise._streams[0]._words = lambda size: words[:size]
    u = (words >> np.uint64(11)).astype(float) / 2**53
    radius, angle = np.sqrt(-2 * np.log(u[:20] + 2**-53)), 2 * np.pi * u[20:] + np.pi / 4
    four = radius * np.cos(angle), radius * np.sin(angle)  # turned by an eighth: as even as before
    wanted = (four[0] + four[1]).reshape(2, 10).sum(0) / 2
    found = noise._streams[0]._normals(10).numpy()
    assert found == pytest.approx(wanted, abs=1e-12)


def test_the_smallest_and_largest_words_give_finite_noise(secure):
    stream = GaussianNoise([0])._streams[0]
    for word in (0, 2**64 - 1):
        stream._words = lambda size, word=word: np.full(size, word, np.uint64)
        out = torch.empty(5)
        stream.fill(out)
        assert torch.isfinite(out).all()
        assert float(out.abs().max()) < 12.2


@pytest.mark.parametrize("width", [1, 1000, 1025, AT_ONCE + 1])
def test_no_value_is_handed_out_twice(secure, width):
    noise = GaussianNoise([0, 1])
    values = torch.cat(
        [noise.fill(torch.empty(2, width, dtype=torch.float64)).flatten() for _ in range(40)]
    )
    assert len(values.unique()) == len(values)
