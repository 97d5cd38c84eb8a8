"""Quantiles in plain Python beside scipy's, and beside integrals at forty digits."""

import math
from itertools import product

import mpmath
import numpy as np
import pytest
from scipy.special import ndtri, stdtrit

from fairaudit.metrics.quantiles import half_width, quantiles

DEGREES = [1, 1.0001, 1.5, 2, 2.7, 3, 4, 5, 6.6, 9, 14, 19, 29.5, 99, 1e3, 12345.6, 1e6, 1e9, 1e15]
# Up to the largest number below 1; shares of the 5 % among up to a million numbers.
BEYOND = [*np.geomspace(2.0**-53, 0.4, 40), *(0.025 / np.geomspace(1, 1e6, 13)), 0.2, 0.05]


def t(level, degrees):
    return quantiles(float(level), degrees)[0]


def off(value, right):
    return abs(value / right - 1.0)


def test_students_quantile_is_scipys_at_many_degrees_and_levels():
    for beyond, degrees in product(BEYOND, DEGREES):
        level = 1.0 - beyond
        assert off(t(level, degrees), stdtrit(degrees, level)) < 1e-9, (degrees, level)
        assert off(quantiles(level, degrees)[1], ndtri(level)) < 1e-13, level


def test_at_one_and_two_degrees_it_is_the_closed_form():
    for beyond in (0.49, 0.2, 0.025, 2.0**-20, 2.0**-40):
        level = 1.0 - beyond
        assert off(t(level, 1), 1 / math.tan(math.pi * (1.0 - level))) < 1e-12
        assert off(t(level, 2), (2 * level - 1) / math.sqrt(2 * (1.0 - level) * level)) < 1e-12


@pytest.mark.parametrize("degrees", [1, 1.5, 4, 29.5])
@pytest.mark.parametrize("level", [1e-100, 1e-30, 1e-12, 0.025 / 45.5, 0.025, 0.4])
def test_the_probability_beyond_it_is_what_was_asked_for(degrees, level):
    value = t(level, degrees)
    with mpmath.workdps(60):
        nu = mpmath.mpf(degrees)
        at = nu / (nu + mpmath.mpf(value) ** 2)
        share = at ** (nu / 2) / (nu * mpmath.beta(nu / 2, 0.5))
        share *= mpmath.hyp2f1(nu / 2, 0.5, nu / 2 + 1, at)  # the incomplete beta function, halved
    assert off(float(share), level) < 1e-13


@pytest.mark.parametrize("degrees", DEGREES)
def test_the_lower_half_is_the_upper_one_mirrored(degrees):
    for level in (0.75, 1 - 2.0**-10, 1 - 2.0**-52):
        assert t(1.0 - level, degrees) == -t(level, degrees)


def test_near_the_median_it_is_as_exact_as_a_level_can_be_told():
    for degrees in (1, 4, 99):
        slope = float(mpmath.gamma((degrees + 1) / 2) / mpmath.gamma(degrees / 2))
        slope /= math.sqrt(math.pi * degrees)  # the density at 0
        for away in (0.0, 2.0**-40, 2.0**-20):
            assert abs(t(0.5 + away, degrees) - away / slope) < 1e-14


def test_many_degrees_are_the_normal_law():
    assert quantiles(0.975, math.inf) == (quantiles(0.975, 5)[1],) * 2
    assert abs(t(0.975, 1e300) - ndtri(0.975)) < 1e-14


def test_half_an_interval_has_both_quantiles_and_shares_the_five_percent():
    level = 1 - 0.025 / 12.5
    right = math.sqrt(stdtrit(4, level) ** 2 * 0.3 + ndtri(level) ** 2 * 0.2)
    assert off(half_width(0.3, 0.2, 5, 12.5), right) < 1e-12
    assert half_width(0.3, 0.2, 5, 0.5) == half_width(0.3, 0.2, 5)
