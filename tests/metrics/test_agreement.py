import math

import numpy as np
import pytest

from fairaudit.metrics.agreement import associate


def test_two_groups_have_agreement_of_signs_and_no_correlation():
    trace = np.array([[1.0, 2.0], [1.0, 3.0], [2.0, 1.0], [1.0, 1.0]])
    cost = np.array([[0.1, 0.2], [0.3, 0.2], [0.2, 0.1], [0.1, 0.4]])
    found = associate(trace, cost)
    assert math.isnan(found.correlation)  # it would be +1 or -1 by construction
    assert abs(np.corrcoef(trace[0], cost[0])[0, 1]) == pytest.approx(1.0)
    assert (found.agreement, found.compared, found.n_seeds) == (pytest.approx(2 / 3), 3, 4)


def test_more_groups_have_both():
    rng = np.random.default_rng(0)
    trace = rng.standard_normal((5, 4))
    cost = trace + 0.5 * rng.standard_normal((5, 4))
    found = associate(trace, cost)
    expected = np.mean([np.corrcoef(a, b)[0, 1] for a, b in zip(trace, cost, strict=True)])
    assert found.correlation == pytest.approx(expected)
    pairs = [(i, j) for i in range(4) for j in range(i)]
    same = [
        (a[i] - a[j]) * (b[i] - b[j]) > 0
        for a, b in zip(trace, cost, strict=True)
        for i, j in pairs
    ]
    assert found.agreement == pytest.approx(np.mean(same))
    assert found.compared == 30


def test_a_seed_with_a_missing_value_does_not_count():
    trace = np.array([[1.0, 2.0, 3.0], [1.0, np.nan, 3.0]])
    found = associate(trace, np.array([[1.0, 2.0, 3.0]] * 2))
    assert (found.n_seeds, found.compared, found.agreement) == (1, 3, 1.0)
    assert found.correlation == pytest.approx(1.0)


@pytest.mark.parametrize("cost", [np.zeros((2, 3)), np.full((2, 3), np.nan)])
def test_nothing_to_compare_is_no_agreement(cost):
    found = associate(np.ones((2, 3)) * [1, 2, 3], cost)
    assert math.isnan(found.agreement)
    assert math.isnan(found.correlation)
    assert found.compared == 0
