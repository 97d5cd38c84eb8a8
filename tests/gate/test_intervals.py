import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm, t

from fairaudit.gate.joint_interval import Variances, growth, widened, widened_largest
from fairaudit.results.estimates import Ends

FAMILY = st.integers(1, 300)
SEEDS = st.integers(2, 40)
VARIANCE = st.floats(1e-12, 1.0)


@given(seeds=SEEDS, among=FAMILY, v_seed=VARIANCE, v_rec=VARIANCE)
def test_the_grown_interval_is_that_of_bonferroni(seeds, among, v_seed, v_rec):
    def half(level):
        return math.sqrt(t.ppf(level, seeds - 1) ** 2 * v_seed + norm.ppf(level) ** 2 * v_rec)

    factor = growth(Variances(v_seed, v_rec), seeds=seeds, n_joint=among)
    assert factor * half(0.975) == pytest.approx(half(1 - 0.025 / among), rel=1e-9)
    assert factor <= growth(None, seeds=seeds, n_joint=among) * (1 + 1e-12)


@pytest.mark.parametrize("variances", [None, Variances(0.0, 0.3)])
def test_the_interval_of_one_model_grows_as_a_normal_one(variances):
    assert growth(variances, seeds=1, n_joint=6) == pytest.approx(
        norm.ppf(1 - 0.025 / 6) / norm.ppf(0.975)
    )


@given(
    sizes=st.lists(st.floats(0, 1), min_size=2, max_size=6),
    halves=st.lists(st.floats(1e-6, 0.5), min_size=6, max_size=6),
    factor=st.floats(1, 4),
    shares=st.lists(st.floats(0, 1), min_size=6, max_size=6),
)
def test_the_largest_of_several_is_never_given_too_narrow_an_interval(
    sizes, halves, factor, shares
):
    pairs = list(zip(sizes, halves, strict=False))
    # Each pair's own half grows by some factor of its own, at most by `factor`.
    grown = [
        (d, h * (1 + share * (factor - 1))) for (d, h), share in zip(pairs, shares, strict=False)
    ]

    def largest(those):
        return Ends(max(0.0, *(d - h for d, h in those)), max(d + h for d, h in those))

    wide = widened_largest(max(sizes), largest(pairs), factor)
    exact = largest(grown)
    assert wide.low <= exact.low + 1e-12
    assert wide.high >= exact.high - 1e-12


def test_a_gap_whose_upper_end_was_cut_at_the_largest_that_can_be_grows_by_its_whole_half():
    """By the half that is left of the upper end it would be held to lie above .7.

    And fail a gate at that.
    """
    assert widened(0.9, Ends(0.6, 1.0), 1.5)[0] == pytest.approx(0.45)
    assert widened(-0.3, Ends(-0.4, -0.2), 2.0) == pytest.approx((-0.5, -0.1))
