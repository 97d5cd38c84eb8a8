"""Rank correlations against scipy's, and what is read of every record against autograd."""

import numpy as np
import pytest
import torch
from hessians import hessians_of_records, landscape_of
from oracles import gradients
from scipy import stats

from fairaudit.diagnostics.correlates import RESAMPLES, Stratum, rank_correlations, spearman
from fairaudit.diagnostics.curvature import traces_of_records
from fairaudit.diagnostics.records import correlations, record_values

AB = [("a", "b")]


def pair(n=60, seed=0):
    rng = np.random.default_rng(seed)
    a = rng.standard_normal(n).round(1)  # with ties
    return a, a + rng.standard_normal(n).round(1)


def test_with_counts_as_weights_it_is_scipy_s_of_the_repeated_records():
    a, b = pair()
    counts = np.random.default_rng(1).integers(0, 4, (5, len(a))).astype(float)
    counts[0] = 1
    for row, found in zip(counts, spearman(a, b, counts.T), strict=True):
        many = row.astype(int)
        expected = stats.spearmanr(np.repeat(a, many), np.repeat(b, many)).statistic
        assert found == pytest.approx(expected)
    assert np.isnan(spearman(a, np.ones(len(a)), counts.T)).all()


def test_the_whole_weighs_strata_by_their_shares():
    a, b = pair(90)
    strata = [Stratum(slice(0, 30), 0.9), Stratum(slice(30, 90), 0.1)]
    (found,) = rank_correlations({"a": a, "b": b}, AB, strata, seed=0, label="x")
    for place, one in enumerate(strata):
        expected = stats.spearmanr(a[one.rows], b[one.rows]).statistic
        assert found[place, 0] == pytest.approx(expected)
    many = np.repeat([18, 1], [30, 60])  # .9 of 30 records, .1 of 60: 18 to 1 each
    expected = stats.spearmanr(np.repeat(a, many), np.repeat(b, many)).statistic
    assert found[2, 0] == pytest.approx(expected)
    assert (found[:, 1] < found[:, 0]).all()
    assert (found[:, 0] < found[:, 2]).all()
    again = rank_correlations({"a": a, "b": b}, AB, strata, seed=0, label="x")
    assert np.array_equal(again[0], found)


def test_intervals_cover_the_population_s_correlation():
    """Of 60 records, correlation of normal pairs .7071: 6 / pi asin(r / 2) by ranks."""
    truth, rng = 6 / np.pi * np.arcsin(0.5**0.5 / 2), np.random.default_rng(5)
    covered = 0
    for seed in range(200):
        a = rng.standard_normal(60)
        both = {"a": a, "b": a + rng.standard_normal(60)}
        found = rank_correlations(both, AB, [Stratum(slice(0, 60), 1.0)], seed=seed, label="x")
        covered += found[0, -1, 1] <= truth <= found[0, -1, 2]
    assert 178 <= covered <= 199  # .89 to .995


def test_few_unknown_or_constant_records_have_none():
    a, b = pair(10)
    few = [Stratum(slice(0, 2), 0.5), Stratum(slice(2, 10), 0.5)]
    unknown = np.where(np.arange(10) == 5, np.nan, b)
    values = {"a": a, "b": b, "unknown": unknown, "constant": np.ones(10)}
    pairs = [("a", "b"), ("a", "unknown"), ("a", "constant")]
    found = rank_correlations(values, pairs, few, seed=0, label="x")
    assert np.isnan(found[:, 0]).all()
    assert np.isfinite(found[0, 1:]).all()
    assert np.isnan(found[1:]).all()
    assert RESAMPLES == 200


@pytest.mark.parametrize("name", ["logistic-multiclass", "mlp-tanh-multiclass"])
def test_every_record_s_readings_are_those_of_autograd(name):
    landscape = landscape_of(name, absent=1)
    records = landscape.records
    found = record_values(landscape, traces_of_records(landscape))
    probabilities = torch.softmax(landscape.module(records.features).detach(), -1)
    norms = gradients(landscape.module, records.features, records.targets).norm(dim=1)
    traces = hessians_of_records(landscape).diagonal(dim1=1, dim2=2).sum(1)
    for reading, expected in (
        ("input_norm", records.features.norm(dim=1)),
        ("closeness", 1 - probabilities.square().sum(1)),
        ("gradient_norm", norms),
        ("trace", traces),
    ):
        torch.testing.assert_close(found[reading], expected.double(), rtol=1e-6, atol=1e-9)
    of_groups = correlations(landscape, found, seed=0, label="0")
    assert of_groups.shape == (3, 4, 3)
    first = records.groups == 0
    expected = stats.spearmanr(found["input_norm"][first], norms[first]).statistic
    assert float(of_groups[0, 0, 0]) == pytest.approx(expected)
    assert of_groups[:, 1].isnan().all()
    unknown = correlations(landscape, record_values(landscape, None), seed=0, label="0")
    assert unknown[0, 0, 0] == of_groups[0, 0, 0]
    assert unknown[1:].isnan().all()
