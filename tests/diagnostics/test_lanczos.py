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
@pytest.mark.parametrize(
    "spectrum", [(5.0, 3.0, -0.4), (0.2, -7.0), (2.0, 1.99, -0.02), (-3.0, -1.0)]
)
def test_both_ends_are_found_from_one_start(spectrum, dtype):
    full = matrix(*spectrum).to(dtype)
    found = lanczos(lambda v: full @ v, start_vector(full[0]))
    exact = torch.linalg.eigvalsh(full.double())
    slack = TOLERANCE * float(exact.abs().max())
    assert ends(found) == pytest.approx((float(exact[-1]), float(exact[0])), abs=slack)


def test_a_space_that_is_used_up_ends_the_search_exactly():
    full = torch.zeros(700, 700, dtype=torch.float64)
    full[:3, :3] = torch.diag(torch.tensor([2.0, 0.5, -1.0]))
    found = lanczos(lambda v: full @ v, start_vector(full[0]))
    assert ends(found) == pytest.approx((2.0, -1.0), abs=1e-9)


def test_what_is_not_found_in_time_is_missing():
    spread = torch.linspace(-1, 1, 2000, dtype=torch.float64)
    found = lanczos(lambda v: spread * v, start_vector(spread), tolerance=1e-12, iterations=25)
    assert all(math.isnan(value) for value in ends(found))


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_what_is_not_finite_is_missing(bad):
    found = lanczos(lambda v: v * bad, torch.ones(900))
    dense = extremes_of_matrix(torch.full((3, 3), bad))
    for one in (found, dense):
        assert math.isnan(one.largest)


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
    assert math.isnan(found[1].largest)
