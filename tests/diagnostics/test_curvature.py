"""Tolerance against full Hessians: 1e-9 of the largest entry in float64, 1e-4 in float32."""

from itertools import product

import pytest
import torch
from cases import every_third
from hessians import BUILDERS, CHAINS, K, group_hessians, hessians_of_records, landscape_of
from image_models import image_model, images

from fairaudit.diagnostics import curvature
from fairaudit.diagnostics.curvature import extremes, quadratic_forms, traces, traces_of_records
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
    close(quadratic_forms(landscape, vectors), forms_of(vectors, hessians), tolerance)
    value, error = traces(landscape, traces_of_records(landscape), seed=0)
    close(value, diagonals(hessians), tolerance)
    assert not error.any()
    # In pieces of three records.
    monkeypatch.setattr(curvature, "NUMBERS_AT_ONCE", 3 * landscape.records.features.shape[1])
    close(quadratic_forms(landscape, vectors), forms_of(vectors, hessians), tolerance)


@pytest.mark.parametrize(("name", "limit"), every_third(product(BUILDERS, [512, 0])))
def test_extreme_eigenvalues_are_those_of_the_full_hessian_of_each_group(name, limit, monkeypatch):
    """Of the matrix itself to rounding, by products H v to half a percent of the largest."""
    monkeypatch.setattr(curvature, "DENSE_LIMIT", limit)
    landscape = landscape_of(name, absent=1)
    hessians = group_hessians(landscape)[:-1]
    monkeypatch.setattr(curvature, "NUMBERS_AT_ONCE", 3 * landscape.records.features.shape[1])
    largest, smallest = extremes(landscape)
    for k in range(K):
        if k == 1:
            assert largest[k].isnan()
            assert smallest[k].isnan()
            continue
        values = torch.linalg.eigvalsh(hessians[k])
        tolerance = 1e-9 if limit else 1e-2 * float(values.abs().max())
        assert float(largest[k]) == pytest.approx(float(values[-1]), abs=tolerance)
        assert float(smallest[k]) == pytest.approx(float(values[0]), abs=tolerance)


@pytest.mark.parametrize("rows", [1, 2**24])
@pytest.mark.parametrize("scale", [1.0, 4.0])
@pytest.mark.parametrize("name", CHAINS)
def test_every_records_trace_is_that_of_its_full_hessian(name, scale, rows, monkeypatch):
    monkeypatch.setattr(curvature, "HELD_NUMBERS", rows)
    landscape = landscape_of(name, scale=scale)
    close(traces_of_records(landscape), diagonals(hessians_of_records(landscape)))


def test_image_models_are_read_too():
    """Against differences of gradients."""
    for name in ("tanh-grey", "one-by-one"):
        module = image_model(name).double()
        x, y = images(name, 1, 9)
        theta = torch.cat([p.detach().flatten() for p in module.parameters()])
        records = GroupedRecords.of(x[0].double(), y[0], torch.arange(9) % 2 * 2, n_groups=K)
        landscape = Landscape(module, theta, records)
        vectors = directions(landscape, 2)
        forms = quadratic_forms(landscape, vectors)
        assert forms[:, 1].isnan().all()
        step = 1e-4 * vectors[0]

        def slope(at, module=module, records=records):
            leaf = at.clone().requires_grad_()
            loss = curvature.summed_loss(module, records.features, records.targets)(leaf) / 9
            return torch.autograd.grad(loss, leaf)[0]

        difference = (slope(theta + step) - slope(theta - step)) / 2e-4
        torch.testing.assert_close(forms[0, K], difference @ vectors[0], rtol=1e-5, atol=1e-6)
        assert traces_of_records(landscape) is None


def test_estimated_traces_are_off_by_no_more_than_their_errors_say(monkeypatch):
    """25 sets of 32 probes: the mean square of error / SE over sets is 1 within 5 of its own SE."""
    monkeypatch.setattr(curvature, "BASIS_LIMIT", 0)
    monkeypatch.setattr(curvature, "PROBES", 32)
    landscape = landscape_of("gelu")
    exact = diagonals(group_hessians(landscape))
    ratios = []
    for seed in range(25):
        value, error = traces(landscape, None, seed=seed)
        ratios.append(((value - exact) / error)[:K])
    squares = torch.stack(ratios).square().mean(1)
    assert float(squares.mean()) == pytest.approx(1.0, abs=5 * float(squares.std()) / 5)


def test_a_landscape_is_read_at_its_own_parameters_whatever_the_module_holds():
    landscape = landscape_of("gelu")
    before = quadratic_forms(landscape, directions(landscape))
    with torch.no_grad():
        for parameter in landscape.module.parameters():
            parameter.zero_()
    assert torch.equal(quadratic_forms(landscape, directions(landscape)), before)
    assert float(before.abs().max()) > 0.01
