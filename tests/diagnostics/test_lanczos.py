import math

import pytest
import torch
from hessians import group_hessians, landscape_of

from fairaudit.diagnostics import curvature
from fairaudit.diagnostics.curvature import (
    TOLERANCE,
    extremes,
    extremes_of_groups,
    extremes_of_matrix,
    lanczos,
    start_vector,
)


def matrix(*spectrum, size=300, seed=0):
    """A symmetric matrix with these eigenvalues; the others are spread closely around zero."""
    generator = torch.Generator().manual_seed(seed)
    rest = 1e-3 * torch.randn(size - len(spectrum), generator=generator, dtype=torch.float64)
    values = torch.cat([torch.tensor(spectrum, dtype=torch.float64), rest])
    basis = torch.linalg.qr(torch.randn(size, size, generator=generator, dtype=torch.float64))[0]
    return (basis * values) @ basis.t()


def ends(found):
    return found.largest, found.smallest


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("spectrum", [(5.0, 3.0, -0.4), (0.2, -7.0), (2.0, 1.99, -0.02), (-3.0, -1.0)])
def test_both_ends_are_found_from_one_start(spectrum, dtype):
    full = matrix(*spectrum).to(dtype)
    found = lanczos(lambda v: full @ v, start_vector(full[0]))
    exact = torch.linalg.eigvalsh(full.double())
    slack = TOLERANCE * float(exact.abs().max())
    assert ends(found) == pytest.approx((float(exact[-1]), float(exact[0])), abs=slack)
    assert 0 <= found.within <= slack
    assert found.reason == ""
    assert found.products < 60


def test_a_smallest_value_below_zero_proves_negative_curvature():
    full = matrix(4.0, -0.03)
    found = lanczos(lambda v: full @ v, start_vector(full[0]))
    lowest = float(torch.linalg.eigvalsh(full)[0])
    assert lowest - 1e-12 <= found.smallest < 0


def test_power_iteration_would_miss_the_largest_of_an_indefinite_matrix():
    full = matrix(1.0, -4.0)
    vector = start_vector(full[0])
    for _ in range(50):
        vector = full @ vector
        vector = vector / vector.norm()
    assert float(vector @ full @ vector) == pytest.approx(-4.0, abs=1e-6)
    assert lanczos(lambda v: full @ v, start_vector(full[0])).largest == pytest.approx(1.0, abs=0.02)


def skew(vectors):
    basis = torch.stack(vectors)
    return float((basis @ basis.t() - torch.eye(len(vectors))).abs().max())


def test_the_basis_stays_orthogonal_where_the_three_term_recurrence_loses_it():
    full = matrix(1e4, 9e3, -50.0).float()
    asked = []

    def apply(vector):
        asked.append(vector.clone())
        return full @ vector

    lanczos(apply, start_vector(full[0]), tolerance=0.0, iterations=60)
    loose = asked[:1]
    while len(loose) < 60:
        image = full @ loose[-1]
        for known in loose[-2:]:
            image = image - known * (known @ image)
        loose.append(image / image.norm())
    assert skew(asked) < 1e-5
    assert skew(loose) > 0.5


def test_a_space_that_is_used_up_ends_the_search_exactly():
    full = torch.zeros(700, 700, dtype=torch.float64)
    full[:3, :3] = torch.diag(torch.tensor([2.0, 0.5, -1.0]))
    found = lanczos(lambda v: full @ v, start_vector(full[0]))
    assert ends(found) == pytest.approx((2.0, -1.0), abs=1e-9)
    assert found.products <= 5


def test_a_flat_landscape_has_ends_at_zero():
    found = lanczos(torch.zeros_like, torch.ones(900))
    assert (*ends(found), found.reason) == (0.0, 0.0, "")


def test_what_is_not_found_in_time_is_missing_and_says_why():
    spread = torch.linspace(-1, 1, 2000, dtype=torch.float64)
    found = lanczos(lambda v: spread * v, start_vector(spread), tolerance=1e-12, iterations=25)
    assert all(math.isnan(value) for value in (*ends(found), found.within))
    assert found.reason == "not found to 1e-12 of the largest in 25 products"
    assert found.products == 25


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_what_is_not_finite_is_missing_and_says_why(bad):
    found = lanczos(lambda v: v * bad, torch.ones(900))
    dense = extremes_of_matrix(torch.full((3, 3), bad))
    for one in (found, dense):
        assert math.isnan(one.largest)
        assert one.reason == "the Hessian is not finite"


def test_the_start_is_the_same_every_time_and_holds_no_zero():
    one, two = start_vector(torch.ones(500)), start_vector(torch.ones(500, dtype=torch.float64))
    assert torch.equal(one.double(), two)
    assert (one.abs() == 1).all()
    assert 200 < int((one > 0).sum()) < 300


@pytest.mark.parametrize("name", ["logistic", "mlp-tanh-multiclass", "deep-relu", "gelu"])
@pytest.mark.parametrize("dense_limit", [0, 10_000])
def test_ends_are_those_of_each_groups_full_hessian(name, dense_limit, monkeypatch):
    monkeypatch.setattr(curvature, "DENSE_LIMIT", dense_limit)
    landscape = landscape_of(name, absent=1)
    exact = torch.linalg.eigvalsh(group_hessians(landscape).nan_to_num())
    found = [*extremes_of_groups(landscape), extremes(landscape)]
    for k in (0, 2, 3):
        slack = 1e-9 if dense_limit else TOLERANCE * float(exact[k].abs().max())
        assert ends(found[k]) == pytest.approx((float(exact[k, -1]), float(exact[k, 0])), abs=slack)
        assert found[k].within <= slack
    assert math.isnan(found[1].largest)
    assert found[1].reason == "the group has no records"


def test_in_float32_the_ends_are_found_too():
    single = extremes(landscape_of("deep-tanh", dtype=torch.float32))
    double = extremes(landscape_of("deep-tanh"))
    assert ends(single) == pytest.approx(ends(double), abs=1e-5)
