"""Tolerance against full Hessians: 1e-9 of the largest entry in float64, 1e-4 in float32."""

import math

import pytest
import torch
from hessians import BUILDERS, CHAINS, K, group_hessians, hessians_of_records, landscape_of
from image_models import image_model, images

from fairaudit.diagnostics import curvature
from fairaudit.diagnostics.curvature import (
    TOLERANCE,
    extremes,
    extremes_of_groups,
    extremes_of_matrix,
    hessian_products,
    hutchinson,
    lanczos,
    probe_signs,
    quadratic_forms,
    start_vector,
    traces,
    traces_of_records,
)
from fairaudit.diagnostics.landscape import GroupedRecords, Landscape


def close(found, expected, tolerance=1e-9):
    scale = max(1.0, float(expected.nan_to_num().abs().max()))
    torch.testing.assert_close(
        found.double(), expected, rtol=0, atol=tolerance * scale, equal_nan=True
    )


def directions(landscape, count=5):
    generator = torch.Generator().manual_seed(8)
    return torch.randn(count, landscape.n_parameters, generator=generator, dtype=torch.float64)


def forms_of(vectors, hessians):
    return torch.einsum("vp,kpq,vq->vk", vectors, hessians, vectors)


def diagonals(hessians):
    return hessians.diagonal(dim1=1, dim2=2).sum(1)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("name", BUILDERS)
def test_readings_are_those_of_the_full_hessian_of_each_group(name, dtype, monkeypatch):
    landscape = landscape_of(name, absent=1, dtype=dtype)
    vectors, hessians = directions(landscape), group_hessians(landscape)
    landscape.module.to(dtype)
    tolerance = 1e-9 if dtype == torch.float64 else 1e-4
    products = hessian_products(landscape, vectors.to(dtype))
    assert products.dtype == dtype
    close(products, vectors @ hessians[K], tolerance)
    close(quadratic_forms(landscape, vectors), forms_of(vectors, hessians), tolerance)
    trace = traces(landscape, traces_of_records(landscape), seed=0)
    close(trace.value, diagonals(hessians), tolerance)
    assert not trace.standard_error.any()
    # In pieces of three records.
    monkeypatch.setattr(curvature, "NUMBERS_AT_ONCE", 3 * landscape.records.features.shape[1])
    close(quadratic_forms(landscape, vectors), forms_of(vectors, hessians), tolerance)


@pytest.mark.parametrize("rows", [1, 2**24])
@pytest.mark.parametrize("scale", [1.0, 4.0])
@pytest.mark.parametrize("name", CHAINS)
def test_every_records_trace_is_that_of_its_full_hessian(name, scale, rows, monkeypatch):
    monkeypatch.setattr(curvature, "COLUMN_NUMBERS", rows)
    landscape = landscape_of(name, scale=scale)
    close(traces_of_records(landscape), diagonals(hessians_of_records(landscape)))


def test_image_models_are_read_too():
    """Forms against products, and products against differences of gradients."""
    for name in ("tanh-grey", "one-by-one"):
        module = image_model(name).double()
        x, y = images(name, 1, 9)
        theta = torch.cat([p.detach().flatten() for p in module.parameters()])
        records = GroupedRecords.of(x[0].double(), y[0], torch.arange(9) % 2 * 2, n_groups=K)
        landscape = Landscape(module, theta, records)
        vectors = directions(landscape, 2)
        forms = quadratic_forms(landscape, vectors)
        assert forms[:, 1].isnan().all()
        products = hessian_products(landscape, vectors)
        torch.testing.assert_close(forms[:, K], (products * vectors).sum(1))
        step = 1e-4 * vectors[0]

        def slope(at, module=module, records=records):
            leaf = at.clone().requires_grad_()
            loss = curvature.summed_loss(module, records.features, records.targets)(leaf) / 9
            return torch.autograd.grad(loss, leaf)[0]

        difference = (slope(theta + step) - slope(theta - step)) / 2e-4
        torch.testing.assert_close(products[0], difference, rtol=1e-5, atol=1e-6)
        assert traces_of_records(landscape) is None


def test_estimated_traces_are_off_by_no_more_than_their_errors_say():
    """25 sets of 32 probes: the mean square of error / SE over sets is 1 within 5 of its own SE."""
    landscape = landscape_of("gelu")
    exact = diagonals(group_hessians(landscape))
    ratios, paired = [], []
    for label in range(25):
        found = hutchinson(landscape, probe_signs(0, landscape.n_parameters, 32, label=label))
        error = found.value - exact
        ratios.append((error / found.standard_error)[:K])
        paired.append(((error[0] - error[1]) / found.difference_error[0, 1]).item())
    for squares in (torch.stack(ratios).square().mean(1), torch.tensor(paired).square()):
        assert float(squares.mean()) == pytest.approx(1.0, abs=5 * float(squares.std()) / 5)


def test_a_landscape_is_read_at_its_own_parameters_whatever_the_module_holds():
    landscape = landscape_of("gelu")
    before = hessian_products(landscape, directions(landscape))
    with torch.no_grad():
        for parameter in landscape.module.parameters():
            parameter.zero_()
    assert torch.equal(hessian_products(landscape, directions(landscape)), before)
    assert float(before.abs().max()) > 0.01


def matrix(*spectrum, size=300, seed=0):
    """A symmetric matrix with these eigenvalues; the others are spread closely around zero."""
    generator = torch.Generator().manual_seed(seed)
    rest = 1e-3 * torch.randn(size - len(spectrum), generator=generator, dtype=torch.float64)
    values = torch.cat([torch.tensor(spectrum, dtype=torch.float64), rest])
    basis = torch.linalg.qr(torch.randn(size, size, generator=generator, dtype=torch.float64))[0]
    return (basis * values) @ basis.t()


def ends(found):
    return found.largest, found.smallest


@pytest.mark.parametrize("spectrum", [(5.0, 3.0, -0.4), (0.2, -7.0), (2.0, 1.99, -0.02)])
def test_both_ends_are_found_from_one_start(spectrum):
    full = matrix(*spectrum).float()
    found = lanczos(lambda v: full @ v, start_vector(full[0]))
    exact = torch.linalg.eigvalsh(full.double())
    slack = TOLERANCE * float(exact.abs().max())
    assert ends(found) == pytest.approx((float(exact[-1]), float(exact[0])), abs=slack)


def test_a_space_that_is_used_up_ends_the_search_exactly():
    full = torch.zeros(700, 700, dtype=torch.float64)
    full[:3, :3] = torch.diag(torch.tensor([2.0, 0.5, -1.0]))
    found = lanczos(lambda v: full @ v, start_vector(full[0]))
    assert ends(found) == pytest.approx((2.0, -1.0), abs=1e-9)


def test_what_is_not_found_in_time_or_not_finite_is_missing():
    spread = torch.linspace(-1, 1, 2000, dtype=torch.float64)
    late = lanczos(lambda v: spread * v, start_vector(spread), tolerance=1e-12, iterations=25)
    infinite = lanczos(lambda v: v * math.inf, torch.ones(900))
    dense = extremes_of_matrix(torch.full((3, 3), math.nan))
    for found in (late, infinite, dense):
        assert math.isnan(found.largest)
        assert math.isnan(found.smallest)


@pytest.mark.parametrize("name", ["logistic", "deep-relu", "gelu"])
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
