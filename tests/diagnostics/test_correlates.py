"""Tolerance: 1e-9 in float64 against full Hessians, per-sample gradients and scipy."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hessians import hessians_of_records, landscape_of
from oracles import gradients
from scipy.stats import pearsonr, spearmanr

from fairaudit.diagnostics import correlates
from fairaudit.diagnostics.correlates import (
    PAIRS,
    QUANTITIES,
    RecordReadings,
    correlate,
    read_records,
)
from fairaudit.diagnostics.landscape import GroupedRecords, Landscape
from fairaudit.metrics.agreement import Ranked, pearson

K = 3


def readings_of(count=60, seed=0, n_groups=K, absent=None, **replaced):
    """Made-up readings, gradient norms rising with input norms."""
    rng = np.random.default_rng(seed)
    groups = torch.from_numpy(rng.integers(0, n_groups, count))
    if absent is not None:
        groups[groups == absent] = (absent + 1) % n_groups
    records = GroupedRecords.of(torch.zeros(count, 1), torch.zeros(count), groups, n_groups=n_groups)
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
        "loss": torch.nn.functional.cross_entropy(landscape.module(x), y, reduction="none").detach(),
    }
    assert set(found.values) == set(QUANTITIES) == set(expected)
    for quantity, value in expected.items():
        np.testing.assert_allclose(found.values[quantity], value.numpy(), rtol=0, atol=1e-9)


def test_the_trace_of_a_softmax_regression_is_closeness_times_the_squared_input_norm():
    found = read_records(landscape_of("logistic-multiclass")).values
    with_bias = found["input_norm"] ** 2 + 1
    np.testing.assert_allclose(found["trace"], found["closeness"] * with_bias, rtol=1e-9)


def test_reading_leaves_the_model_as_it_was():
    landscape = landscape_of("mlp-tanh", scale=2.0)
    before = [p.detach().clone() for p in landscape.module.parameters()]
    read_records(landscape)
    assert all(torch.equal(a, b) for a, b in zip(before, landscape.module.parameters(), strict=True))


def test_the_readings_are_taken_at_the_parameters_of_the_landscape_not_of_the_module():
    near, far = landscape_of("mlp-tanh"), landscape_of("mlp-tanh", scale=3.0)
    assert not np.allclose(read_records(near).values["loss"], read_records(far).values["loss"])


def test_float32_readings_equal_those_of_float64():
    single, double = (
        read_records(landscape_of("mlp-tanh", dtype=t)).values for t in (torch.float32, torch.float64)
    )
    for name in QUANTITIES:
        np.testing.assert_allclose(single[name], double[name], rtol=2e-5, atol=1e-6)


def test_a_model_without_a_closed_form_has_no_trace_per_record(monkeypatch):
    monkeypatch.setattr(correlates, "traces_of_each_record", lambda landscape: None)
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
    for pair, (first, second) in enumerate(PAIRS):
        for place, rows in enumerate(parts):
            a, b = readings.values[first][rows], readings.values[second][rows]
            assert found.pearson[pair, place, 0] == pytest.approx(pearsonr(a, b).statistic, abs=1e-12)
            assert found.spearman[pair, place, 0] == pytest.approx(spearmanr(a, b).statistic, abs=1e-12)


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
    assert float(pearson(a, b, weights)) == pytest.approx(pearsonr(a[rows], b[rows]).statistic, abs=1e-12)


def test_a_sample_that_is_not_proportional_is_weighed_by_the_shares_of_its_groups():
    readings = readings_of(count=300, n_groups=2)
    shares = torch.tensor([0.9, 0.1], dtype=torch.float64)
    weighed = replace(readings, records=replace(readings.records, shares=shares))
    plain, found = correlate(readings, seed=0), correlate(weighed, seed=0)
    np.testing.assert_allclose(found.pearson[:, :2], plain.pearson[:, :2], atol=1e-12)
    edge = readings.records.edges[1]
    weights = np.where(np.arange(300) < edge, 0.9 / edge, 0.1 / (300 - edge))
    for pair, (first, second) in enumerate(PAIRS):
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
    for other in (correlate(readings_of(), seed=1, label="a"), correlate(readings_of(), seed=0, label="b")):
        assert (one.pearson[..., 0] == other.pearson[..., 0]).all()
        assert (one.pearson[..., 1] != other.pearson[..., 1]).any()


def test_resampling_keeps_the_size_of_every_group():
    """Between groups alone there is correlation; drawn without strata, group sizes would add spread."""
    sizes = (6, 200)
    groups = torch.tensor([0] * sizes[0] + [1] * sizes[1])
    records = GroupedRecords.of(torch.zeros(206, 1), torch.zeros(206), groups, n_groups=2)
    flat = np.where(groups.numpy() == 0, 5.0, 0.0)
    jitter = np.random.default_rng(0).standard_normal(206) * 1e-3
    values = dict.fromkeys(QUANTITIES, flat + jitter)
    # Every resample has six records of the small group, so the correlation stays; a resample
    # without strata has none of them with probability exp(-6), and then no correlation between groups.
    noise = dict(values, gradient_norm=flat + 0.5 * np.random.default_rng(1).standard_normal(206))
    low, high = correlate(RecordReadings(noise, records), seed=0).pearson[0, 2, 1:]
    rng, loose = np.random.default_rng(2), []
    for _ in range(200):
        rows = rng.integers(206, size=206)
        loose.append(pearsonr(flat[rows] + jitter[rows], noise["gradient_norm"][rows]).statistic)
    assert high - low < 0.6 * (np.quantile(loose, 0.975) - np.quantile(loose, 0.025))


def test_readings_of_a_landscape_pass_through_to_correlations():
    landscape = landscape_of("mlp-tanh", count=50)
    assert isinstance(landscape, Landscape)
    found = correlate(read_records(landscape), seed=0)
    assert np.isfinite(found.pearson).all()
    assert (np.abs(found.spearman) <= 1 + 1e-12).all()
    assert (found.pearson[..., 1] <= found.pearson[..., 2]).all()
