"""Tolerance against full Hessians: 1e-9 of the largest entry in float64, 1e-4 in float32."""

import pytest
import torch
from hessians import BUILDERS, CHAINS, group_hessians, hessians_of_records, landscape_of

from fairaudit.diagnostics import curvature
from fairaudit.diagnostics.curvature import (
    hvp,
    quadratic_forms,
    traces,
    traces_of_each_record,
)

EXACT = 1e-9


def close(found, expected, tolerance=EXACT):
    assert found.shape == expected.shape
    scale = max(1.0, float(expected.nan_to_num().abs().max()))
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=tolerance * scale, equal_nan=True)


def directions(landscape, count=5):
    generator = torch.Generator().manual_seed(8)
    return torch.randn(count, landscape.n_parameters, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("name", BUILDERS)
def test_forms_and_products_are_those_of_the_full_hessian_of_each_group(name):
    landscape = landscape_of(name, absent=1)
    vectors, hessians = directions(landscape), group_hessians(landscape)
    close(hvp(landscape, vectors), torch.einsum("kpq,vq->vkp", hessians, vectors))
    close(quadratic_forms(landscape, vectors), torch.einsum("vp,kpq,vq->vk", vectors, hessians, vectors))


@pytest.mark.parametrize("name", BUILDERS)
def test_traces_are_those_of_the_full_hessians(name):
    landscape = landscape_of(name, absent=2)
    found = traces(landscape, seed=0)
    close(found.value, group_hessians(landscape).diagonal(dim1=1, dim2=2).sum(1))
    assert found.exact
    assert found.how == (curvature.CLOSED_FORM if name in CHAINS else curvature.BASIS)
    assert (found.standard_error == 0).all()
    assert (found.difference_error == 0).all()


@pytest.mark.parametrize("name", CHAINS)
def test_the_trace_of_each_record_stands_where_the_record_stood(name):
    landscape = landscape_of(name)
    expected = hessians_of_records(landscape).diagonal(dim1=1, dim2=2).sum(1)
    close(traces_of_each_record(landscape), landscape.records.as_given(expected))
