"""Tolerance: 1e-9 in float64 against full Hessians, per-sample gradients and scipy."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hessians import hessians_of_records, landscape_of
from oracles import gradients
from scipy.stats import pearsonr, spearmanr

from fairaudit.diagnostics import records as records_module
from fairaudit.diagnostics.landscape import GroupedRecords
from fairaudit.diagnostics.records import QUANTITIES, RecordReadings, read_records
from fairaudit.papers.causes import CORRELATED
from fairaudit.papers.correlates import correlate
from fairaudit.papers.ranks import Ranked, pearson

K = 3


def readings_of(count=60, seed=0, n_groups=K, absent=None, **replaced):
    """Made-up readings, gradient norms rising with input norms."""
    rng = np.random.default_rng(seed)
    groups = torch.from_numpy(rng.integers(0, n_groups, count))
    if absent is not None:
        groups[groups == absent] = (absent + 1) % n_groups
    records = GroupedRecords.of(
        torch.zeros(count, 1), torch.zeros(count), groups, n_groups=n_groups
    )
    values = {name: rng.standard_normal(count) for name in QUANTITIES}
    values["gradient_norm"] = values["input_norm"] + values["gradient_norm"]
    return RecordReadings({**values, **replaced}, records)


def numbers(found):
    return found.pearson, found.spearman


@pytest.mark.parametrize(
    "name", ["logistic", "logistic-multiclass", "mlp-tanh-multiclass", "deep-tanh", "no-bias"]
)
def test_each_record_is_read_as_brute_force_reads_it(name):
    landscape = landscape_of(name)
    found, records = read_records(landscape), landscape.records
    x, y = records.features, records.targets
    outputs = torch.softmax(landscape.module(x), -1).detach()
    expected = {
        "input_norm": x.norm(dim=1),
        "gradient_norm": gradients(landscape.module, x, y).norm(dim=1),
        "closeness": 1 - outputs.square().sum(1),
        "trace": hessians_of_records(landscape).diagonal(dim1=1, dim2=2).sum(1),
        "loss": torch.nn.functional.cross_entropy(
            landscape.module(x), y, reduction="none"
        ).detach(),
    }
    assert set(found.values) == set(QUANTITIES) == set(expected)
    for quantity, value in expected.items():
        np.testing.assert_allclose(found.values[quantity], value.numpy(), rtol=0, atol=1e-9)


def test_a_model_without_a_closed_form_has_no_trace_per_record(monkeypatch):
    monkeypatch.setattr(records_module, "traces_of_each_record", lambda landscape: None)
    readings = read_records(landscape_of("mlp-tanh"))
    assert np.isnan(readings.values["trace"]).all()
    found = correlate(readings, seed=0)
    assert np.isfinite(found.pearson[0]).all()
    assert np.isnan(found.pearson[1:]).all()
    assert np.isnan(found.spearman[1:]).all()


def test_correlations_are_scipys_in_each_group_and_in_the_whole():
    readings = readings_of()
    found, edges = correlate(readings, seed=0), readings.records.edges
    parts = [*(slice(edges[k], edges[k + 1]) for k in range(K)), slice(None)]
    for pair, (first, second) in enumerate(CORRELATED):
        for place, rows in enumerate(parts):
            a, b = readings.values[first][rows], readings.values[second][rows]
            assert found.pearson[pair, place, 0] == pytest.approx(
                pearsonr(a, b).statistic, abs=1e-12
            )
            assert found.spearman[pair, place, 0] == pytest.approx(
                spearmanr(a, b).statistic, abs=1e-12
            )


def test_an_absent_group_has_no_correlation():
    found = correlate(readings_of(absent=1), seed=0)
    for values in numbers(found):
        assert np.isnan(values[:, 1]).all()
        assert np.isfinite(values[:, [0, 2, 3]]).all()


def test_weighted_ranks_and_correlations_are_those_of_the_repeated_records():
    rng = np.random.default_rng(1)
    a, b = rng.integers(0, 6, 40).astype(float), rng.integers(0, 4, 40).astype(float)
    times = rng.integers(0, 4, 40)
    rows = np.repeat(np.arange(40), times)
    weights = times.astype(float)
    of_ranks = pearson(Ranked(a).ranks(weights), Ranked(b).ranks(weights), weights)
    assert float(of_ranks) == pytest.approx(spearmanr(a[rows], b[rows]).statistic, abs=1e-12)
    assert float(pearson(a, b, weights)) == pytest.approx(
        pearsonr(a[rows], b[rows]).statistic, abs=1e-12
    )


def test_a_sample_that_is_not_proportional_is_weighed_by_the_shares_of_its_groups():
    readings = readings_of(count=300, n_groups=2)
    shares = torch.tensor([0.9, 0.1], dtype=torch.float64)
    weighed = replace(readings, records=replace(readings.records, shares=shares))
    plain, found = correlate(readings, seed=0), correlate(weighed, seed=0)
    np.testing.assert_allclose(found.pearson[:, :2], plain.pearson[:, :2], atol=1e-12)
    edge = readings.records.edges[1]
    weights = np.where(np.arange(300) < edge, 0.9 / edge, 0.1 / (300 - edge))
    for pair, (first, second) in enumerate(CORRELATED):
        expected = np.cov(readings.values[first], readings.values[second], aweights=weights)
        ratio = expected[0, 1] / math.sqrt(expected[0, 0] * expected[1, 1])
        assert found.pearson[pair, 2, 0] == pytest.approx(ratio, abs=1e-12)


def test_the_intervals_cover_the_truth_as_often_as_they_say():
    """100 samples of 80 records, 2 pairs with known correlations: 95 % +- 4 standard errors."""
    truth = 1 / math.sqrt(2)  # of x with x + noise of the same size
    covered = 0
    for seed in range(100):
        low, high = correlate(readings_of(80, seed, n_groups=1), seed=seed).pearson[0, 1, 1:]
        covered += low <= truth <= high
    assert 0.95 - 4 * math.sqrt(0.95 * 0.05 / 100) <= covered / 100 <= 1.0


def test_intervals_do_not_depend_on_the_order_of_the_readings_but_on_seed_and_label():
    one, again = (correlate(readings_of(), seed=0, label="a") for _ in range(2))
    for left, right in zip(numbers(one), numbers(again), strict=True):
        np.testing.assert_array_equal(left, right)
    for other in (
        correlate(readings_of(), seed=1, label="a"),
        correlate(readings_of(), seed=0, label="b"),
    ):
        assert (one.pearson[..., 0] == other.pearson[..., 0]).all()
        assert (one.pearson[..., 1] != other.pearson[..., 1]).any()
