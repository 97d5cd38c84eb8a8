"""Tolerance against full Hessians: 1e-9 of the largest entry in float64, 1e-4 in float32."""

import math

import pytest
import torch
from hessians import BUILDERS, K, group_hessians, landscape_of

from fairaudit.diagnostics import any_model, curvature, second_order
from fairaudit.diagnostics.curvature import (
    hutchinson,
    hvp,
    probe_signs,
    quadratic_forms,
    traces,
)
from fairaudit.diagnostics.landscape import Landscape

EXACT = 1e-9


def close(found, expected, tolerance=EXACT):
    assert found.shape == expected.shape
    scale = max(1.0, float(expected.nan_to_num().abs().max()))
    torch.testing.assert_close(
        found.double(), expected, rtol=0, atol=tolerance * scale, equal_nan=True
    )


def directions(landscape, count=5):
    generator = torch.Generator().manual_seed(8)
    return torch.randn(count, landscape.n_parameters, generator=generator, dtype=torch.float64)


def diagonals(hessians):
    return hessians.diagonal(dim1=1, dim2=2).sum(1)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("name", BUILDERS)
def test_forms_and_products_are_those_of_the_full_hessian_of_each_group(name, dtype):
    landscape = landscape_of(name, absent=1, dtype=dtype)
    if dtype == torch.float32:
        landscape.module.float()
    vectors, hessians = directions(landscape), group_hessians(landscape)
    landscape.module.to(dtype)
    tolerance = EXACT if dtype == torch.float64 else 1e-4
    assert hvp(landscape, vectors).dtype == dtype
    close(hvp(landscape, vectors), torch.einsum("kpq,vq->vkp", hessians, vectors), tolerance)
    expected = torch.einsum("vp,kpq,vq->vk", vectors, hessians, vectors)
    close(quadratic_forms(landscape, vectors), expected, tolerance)


@pytest.mark.parametrize("name", ["logistic", "deep-tanh", "sigmoids", "convolution"])
def test_cutting_records_and_vectors_into_pieces_changes_no_answer(name, monkeypatch):
    landscape = landscape_of(name, count=41, absent=0)
    vectors = directions(landscape, 7)

    def read():
        trace = traces(landscape, seed=0).value
        return hvp(landscape, vectors), quadratic_forms(landscape, vectors), trace

    whole = read()
    for module in (any_model, second_order):
        monkeypatch.setattr(module, "ROWS_AT_ONCE", 9)
    monkeypatch.setattr(second_order, "TANGENT_BYTES", 2000)
    monkeypatch.setattr("fairaudit.diagnostics.exact_trace.WIDEST_BYTES", 500)
    monkeypatch.setattr(curvature, "BASIS_AT_ONCE", 5)
    for one, other in zip(whole, read(), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-11, equal_nan=True)


# Terms whose loss a wrong reading would not notice on a logistic model.


def test_the_whole_weighs_groups_by_the_shares_it_is_given():
    plain = landscape_of("mlp-tanh")
    records = plain.records
    shares = torch.tensor([0.7, 0.1, 0.2], dtype=torch.float64)
    given = records.of(records.features, records.targets, records.groups, n_groups=K, shares=shares)
    landscape = Landscape(plain.module, plain.theta, given)
    hessians = group_hessians(plain)
    found = traces(landscape, seed=0).value
    close(found[:K], diagonals(hessians)[:K])
    assert float(found[K]) == pytest.approx(float(shares @ found[:K]))
    assert float(found[K]) != pytest.approx(float(diagonals(hessians)[K]), rel=1e-3)
    products = hvp(landscape, directions(plain))
    close(products[:, K], torch.einsum("k,vkp->vp", shares, products[:, :K]))


@pytest.mark.parametrize("name", ["mlp-tanh-multiclass", "gelu"])
def test_estimated_traces_are_off_by_no_more_than_their_errors_say(name):
    """64 sets of 32 probes: the mean square of error / SE over sets is 1 within 5 of its own SE."""
    landscape = landscape_of(name)
    exact = diagonals(group_hessians(landscape))
    ratios, paired = [], []
    for label in range(64):
        found = hutchinson(landscape, probe_signs(0, landscape.n_parameters, 32, label=label))
        error = found.value - exact
        ratios.append((error / found.standard_error)[:K])
        paired.append(((error[0] - error[1]) / found.difference_error[0, 1]).item())
    for squares in (torch.stack(ratios).square().mean(1), torch.tensor(paired).square()):
        assert float(squares.mean()) == pytest.approx(1.0, abs=5 * float(squares.std()) / 8)


def test_probes_are_signs_of_a_stream_of_their_own():
    signs = probe_signs(1, 400, 50)
    assert signs.shape == (50, 400)
    assert set(signs.unique().tolist()) == {-1, 1}
    assert abs(float(signs.double().mean())) < 5 / math.sqrt(20_000)
    assert torch.equal(signs, probe_signs(1, 400, 50))
    assert not torch.equal(signs, probe_signs(2, 400, 50))
    assert not torch.equal(signs, probe_signs(1, 400, 50, label=1))
    assert torch.equal(signs[:10], probe_signs(1, 400, 10))


def test_a_landscape_is_read_at_its_own_parameters_whatever_the_module_holds():
    landscape = landscape_of("gelu")
    before = hvp(landscape, directions(landscape))
    with torch.no_grad():
        for parameter in landscape.module.parameters():
            parameter.zero_()
    assert torch.equal(hvp(landscape, directions(landscape)), before)
    assert float(before.abs().max()) > 0.01
