"""Tolerance against full Hessians: 1e-9 of the largest entry in float64, 1e-4 in float32."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hessians import BUILDERS, CHAINS, K, build, group_hessians, landscape_of

from fairaudit.diagnostics import any_model, curvature, second_order
from fairaudit.diagnostics.any_model import AutodiffSecondOrder
from fairaudit.diagnostics.curvature import (
    extremes_of_groups,
    hutchinson,
    hvp,
    probe_signs,
    quadratic_forms,
    traces,
)
from fairaudit.diagnostics.landscape import Landscape
from fairaudit.diagnostics.second_order import ChainSecondOrder
from fairaudit.privacy.noise import GaussianNoise

EXACT = 1e-9


def close(found, expected, tolerance=EXACT):
    assert found.shape == expected.shape
    scale = max(1.0, float(expected.nan_to_num().abs().max()))
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=tolerance * scale, equal_nan=True)


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


def test_chains_are_read_without_a_graph_and_the_rest_by_differentiation():
    for name in BUILDERS:
        expected = ChainSecondOrder if name in CHAINS else AutodiffSecondOrder
        assert type(curvature.second_order(landscape_of(name))) is expected


@pytest.mark.parametrize("name", ["logistic", "deep-tanh", "sigmoids", "convolution"])
def test_cutting_records_and_vectors_into_pieces_changes_no_answer(name, monkeypatch):
    landscape = landscape_of(name, count=41, absent=0)
    vectors = directions(landscape, 7)
    whole = hvp(landscape, vectors), quadratic_forms(landscape, vectors), traces(landscape, seed=0).value
    for module in (any_model, second_order):
        monkeypatch.setattr(module, "ROWS_AT_ONCE", 9)
    monkeypatch.setattr(second_order, "TANGENT_BYTES", 2000)
    monkeypatch.setattr("fairaudit.diagnostics.exact_trace.WIDEST_BYTES", 500)
    monkeypatch.setattr(curvature, "BASIS_AT_ONCE", 5)
    pieces = hvp(landscape, vectors), quadratic_forms(landscape, vectors), traces(landscape, seed=0).value
    for one, other in zip(whole, pieces, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-11, equal_nan=True)


def test_graphs_hold_no_more_than_their_share_of_memory(monkeypatch):
    landscape = landscape_of("convolution", count=41)
    vectors, limit = directions(landscape, 1), 10_000
    whole = hvp(landscape, vectors)
    monkeypatch.setattr(any_model, "GRAPH_BYTES", limit)
    ways = AutodiffSecondOrder(landscape)
    fixed = ways._graph_bytes(1)  # weights stay in a graph however few its records
    assert 2 < ways._rows_at_once < 20
    assert 0.5 * limit < ways._graph_bytes(ways._rows_at_once) < limit + fixed
    torch.testing.assert_close(hvp(landscape, vectors), whole)


def test_books_that_would_be_too_large_are_made_again_for_each_call(monkeypatch):
    landscape, walks = landscape_of("mlp-tanh"), []
    walk = second_order.walk
    monkeypatch.setattr(second_order, "walk", lambda *given: walks.append(1) or walk(*given))
    vectors, answers = directions(landscape), []
    for limit, expected in ((0, 2), (2**28, 1)):
        walks.clear()
        monkeypatch.setattr(second_order, "BOOK_BYTES", limit)
        ways = ChainSecondOrder(landscape)
        answers.append(ways.forms(vectors))
        answers.append(ways.forms(vectors))
        assert len(walks) == expected
    assert all(torch.equal(answers[0], other) for other in answers)


# Terms whose loss a wrong reading would not notice on a logistic model.
BROKEN = {
    "curvature of the functions": lambda y: (second_order._tanh(y)[0], None),
    "slope of the functions": lambda y: (torch.ones_like(y), second_order._tanh(y)[1]),
}


@pytest.mark.parametrize("missing", BROKEN)
@pytest.mark.parametrize("read", ["forms", "products", "traces"])
def test_leaving_out_what_the_functions_add_would_be_seen(read, missing, monkeypatch):
    landscape = landscape_of("deep-tanh")
    vectors = directions(landscape)
    ways = {
        "forms": lambda: quadratic_forms(landscape, vectors),
        "products": lambda: hvp(landscape, vectors),
        "traces": lambda: traces(landscape, seed=0).value,
    }
    right = ways[read]()
    monkeypatch.setitem(second_order.DERIVATIVES, second_order.Tanh, BROKEN[missing])
    assert float((ways[read]() - right).abs().max()) > 1e-3


def test_the_part_between_layers_counts_in_forms_and_products(monkeypatch):
    landscape = landscape_of("mlp-tanh")
    vectors = directions(landscape)
    forms, products = quadratic_forms(landscape, vectors), hvp(landscape, vectors)
    monkeypatch.setattr(second_order.Direction, "apply_back", lambda self, delta: _nothing(self, delta))
    assert float((quadratic_forms(landscape, vectors) - forms).abs().max()) > 1e-2
    assert float((hvp(landscape, vectors) - products).abs().max()) > 1e-3


def _nothing(direction, delta):
    return delta.new_zeros(len(delta), direction.flat.shape[0] // delta.shape[1], direction.flat.shape[1])


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


def test_probes_shared_by_the_groups_have_a_far_smaller_error_of_differences_than_fresh_ones():
    """Groups with records in common: their Hessians are close, and so are their forms."""
    landscape = twins(landscape_of("mlp-tanh", count=60))
    signs = probe_signs(0, landscape.n_parameters, 64)
    shared = hutchinson(landscape, signs)
    fresh = hutchinson(landscape, probe_signs(0, landscape.n_parameters, 64, label="other"))
    independent = math.hypot(float(shared.standard_error[0]), float(fresh.standard_error[1]))
    assert float(shared.difference_error[0, 1]) < 0.3 * independent
    assert shared.difference_error[0, 1] == shared.difference_error[1, 0]
    assert float(shared.difference_error[1, 1]) == 0.0


def twins(landscape, nudge=0.02):
    """The same records in two groups, those of the second a little moved."""
    records = landscape.records
    generator = torch.Generator().manual_seed(4)
    moved = records.features + nudge * torch.randn(
        records.features.shape, generator=generator, dtype=torch.float64
    )
    groups = torch.arange(2).repeat_interleave(len(records))
    both = records.of(torch.cat([records.features, moved]), records.targets.repeat(2), groups, n_groups=2)
    return Landscape(landscape.module, landscape.theta, both)


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
    assert not found.exact
    assert found.how == curvature.HUTCHINSON


def test_probes_are_drawn_where_nothing_exact_is_cheaper(monkeypatch):
    landscape = landscape_of("gelu")
    monkeypatch.setattr(curvature, "BASIS_LIMIT", 10)
    found = traces(landscape, seed=3, probes=20)
    again = hutchinson(landscape, probe_signs(3, landscape.n_parameters, 20))
    assert torch.equal(found.value, again.value)
    assert not found.exact
    deep = landscape_of("deep-tanh")
    assert not traces(deep, seed=3, probes=2).exact  # two probes cost less than a matrix per record
    assert traces(deep, seed=3, probes=20).exact


def test_probes_are_signs_of_a_stream_of_their_own():
    signs = probe_signs(1, 400, 50)
    assert signs.shape == (50, 400)
    assert set(signs.unique().tolist()) == {-1, 1}
    assert abs(float(signs.double().mean())) < 5 / math.sqrt(20_000)
    assert torch.equal(signs, probe_signs(1, 400, 50))
    assert not torch.equal(signs, probe_signs(2, 400, 50))
    assert not torch.equal(signs, probe_signs(1, 400, 50, label=1))
    assert torch.equal(signs[:10], probe_signs(1, 400, 10))


@pytest.mark.parametrize("name", ["mlp-tanh", "gelu"])
def test_reading_writes_nothing_and_draws_nothing(name, monkeypatch):
    def refuse(*given):
        raise AssertionError("noise was drawn")

    monkeypatch.setattr(GaussianNoise, "fill", refuse)
    landscape = landscape_of(name)
    theta, features = landscape.theta.clone(), landscape.records.features.clone()
    state = torch.random.get_rng_state(), np.random.get_state()[1].copy()
    modules = [p.detach().clone() for p in landscape.module.parameters()]
    hvp(landscape, directions(landscape))
    traces(landscape, seed=0)
    extremes_of_groups(landscape)
    hutchinson(landscape, probe_signs(0, landscape.n_parameters, 4))
    assert torch.equal(landscape.theta, theta)
    assert torch.equal(landscape.records.features, features)
    assert torch.equal(torch.random.get_rng_state(), state[0])
    assert (np.random.get_state()[1] == state[1]).all()
    for parameter, before in zip(landscape.module.parameters(), modules, strict=True):
        assert torch.equal(parameter, before)
        assert parameter.grad is None


def test_a_landscape_is_read_at_its_own_parameters_whatever_the_module_holds():
    module, _ = build("gelu")
    landscape = landscape_of("gelu")
    before = hvp(landscape, directions(landscape))
    with torch.no_grad():
        for parameter in landscape.module.parameters():
            parameter.zero_()
    assert torch.equal(hvp(landscape, directions(landscape)), before)
    assert float(before.abs().max()) > 0.01
    assert len(list(module.parameters())) == 4


def test_parameters_that_are_not_finite_give_nan_not_a_number():
    landscape = landscape_of("mlp-tanh")
    broken = replace(landscape, theta=torch.full_like(landscape.theta, math.nan))
    assert traces(broken, seed=0).value.isnan().all()
    assert quadratic_forms(broken, directions(landscape)).isnan().all()
    assert all(math.isnan(found.largest) for found in extremes_of_groups(broken))
