"""Tolerance: 1e-9 of the largest value in float64 against every record's full Hessian."""

import pytest
import torch
from hessians import CHAINS, hessians_of_records, landscape_of

from fairaudit.diagnostics import exact_trace
from fairaudit.diagnostics.curvature import traces_of_each_record
from fairaudit.diagnostics.exact_trace import traces_of_records


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


# What a shallower model would not show: the first needs two hidden layers, the others three.


def test_small_chunks_for_large_matrices_change_no_answer(monkeypatch):
    landscape = landscape_of("deep-tanh")
    whole = traces_of_each_record(landscape)
    monkeypatch.setattr(exact_trace, "MATRIX_BYTES", 1)
    torch.testing.assert_close(traces_of_each_record(landscape), whole, rtol=1e-12, atol=1e-12)
