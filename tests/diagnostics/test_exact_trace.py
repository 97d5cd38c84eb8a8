"""Tolerance: 1e-9 of the largest value in float64 against every record's full Hessian."""

import pytest
import torch
from hessians import CHAINS, hessians_of_records, landscape_of

from fairaudit.diagnostics import exact_trace
from fairaudit.diagnostics.curvature import traces_of_each_record
from fairaudit.diagnostics.exact_trace import traces_of_records, work_of


def expected_of(landscape):
    return hessians_of_records(landscape).diagonal(dim1=1, dim2=2).sum(1)


@pytest.mark.parametrize("scale", [1.0, 4.0])
@pytest.mark.parametrize("name", CHAINS)
def test_every_records_trace_is_that_of_its_full_hessian(name, scale):
    landscape = landscape_of(name, scale=scale)
    found, expected = traces_of_records(landscape, landscape.layers()), expected_of(landscape)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9 * float(expected.abs().max()))


def test_the_trace_of_each_record_is_known_of_chains_alone():
    landscape = landscape_of("deep-tanh")
    torch.testing.assert_close(traces_of_each_record(landscape), expected_of(landscape))
    assert traces_of_each_record(landscape_of("gelu")) is None


def test_a_trace_may_be_negative_which_a_gauss_newton_part_alone_never_is():
    found = traces_of_each_record(landscape_of("mlp-tanh", count=200, scale=3.0))
    assert float(found.min()) < 0 < float(found.max())


def skip(which, monkeypatch):
    """The recursion with one of its terms left out."""
    right = exact_trace._Curvature.through_linear

    def wrong(self, weight, *, diagonal_suffices):
        if which == "diagonal":
            self.diagonal = None
        if which == "matrix":
            self.matrix = None
        right(self, weight, diagonal_suffices=diagonal_suffices or which == "off-diagonal")

    monkeypatch.setattr(exact_trace._Curvature, "through_linear", wrong)


# What a shallower model would not show: the first needs two hidden layers, the others three.
@pytest.mark.parametrize(
    ("which", "name"), [("diagonal", "mlp-tanh"), ("matrix", "deep-tanh"), ("off-diagonal", "deep-tanh")]
)
def test_leaving_out_what_upper_layers_pass_down_would_be_seen(which, name, monkeypatch):
    landscape = landscape_of(name, scale=2.0)
    right = traces_of_each_record(landscape)
    skip(which, monkeypatch)
    wrong = traces_of_each_record(landscape)
    assert float((wrong - right).abs().max()) > 1e-3


@pytest.mark.parametrize("name", CHAINS)
def test_matrices_of_the_size_foreseen_are_held_and_no_others(name, monkeypatch):
    sizes = [0]
    right = exact_trace._Curvature.through_linear

    def watch(self, weight, *, diagonal_suffices):
        right(self, weight, diagonal_suffices=diagonal_suffices)
        if self.matrix is not None:
            sizes.append(max(self.matrix[0].numel(), weight.numel()))

    monkeypatch.setattr(exact_trace._Curvature, "through_linear", watch)
    landscape = landscape_of(name)
    traces_of_records(landscape, landscape.layers())
    assert max(sizes) == work_of(landscape.layers()).matrix


def test_two_curved_hidden_layers_cost_less_than_one_gradient():
    for name, bound in (("logistic", 0.34), ("mlp-tanh", 1.0), ("deep-relu", 1.7)):
        assert work_of(landscape_of(name).layers()).gradients < bound
    assert work_of(landscape_of("deep-tanh").layers()).gradients > 2


def test_small_chunks_for_large_matrices_change_no_answer(monkeypatch):
    landscape = landscape_of("deep-tanh")
    whole = traces_of_each_record(landscape)
    monkeypatch.setattr(exact_trace, "MATRIX_BYTES", 1)
    torch.testing.assert_close(traces_of_each_record(landscape), whole, rtol=1e-12, atol=1e-12)


def test_in_float32_the_traces_are_the_same_to_its_precision():
    single = traces_of_each_record(landscape_of("deep-tanh", dtype=torch.float32))
    double = traces_of_each_record(landscape_of("deep-tanh"))
    torch.testing.assert_close(single.double(), double, rtol=1e-4, atol=1e-5)
