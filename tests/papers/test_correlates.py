"""Tolerance: 1e-9 in float64 against full Hessians, per-sample gradients and scipy."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hessians import hessians_of_records, landscape_of
from oracles import gradients
from scipy.stats import spearmanr

from fairaudit.diagnostics.curvature import traces_of_records
from fairaudit.diagnostics.landscape import GroupedRecords
from fairaudit.diagnostics.records import QUANTITIES, RecordReadings, read_records
from fairaudit.papers.causes import CORRELATED
from fairaudit.papers.correlates import correlate
from fairaudit.papers.ranks import rank_correlation

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


@pytest.mark.parametrize(
    "name", ["logistic", "logistic-multiclass", "mlp-tanh-multiclass", "deep-tanh", "no-bias"]
)
def test_each_record_is_read_as_brute_force_reads_it(name):
    landscape = landscape_of(name)
    found = read_records(landscape, traces_of_records(landscape))
    records = landscape.records
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


def test_a_model_without_a_closed_form_has_no_trace_per_record():
    readings = read_records(landscape_of("mlp-tanh"), None)
    assert np.isnan(readings.values["trace"]).all()
    found = correlate(readings, seed=0)
    assert np.isfinite(found[0]).all()
    assert np.isnan(found[1:]).all()


def test_correlations_are_scipys_in_each_group_and_in_the_whole():
    readings = readings_of()
    found, edges = correlate(readings, seed=0), readings.records.edges
    parts = [*(slice(edges[k], edges[k + 1]) for k in range(K)), slice(None)]
    for pair, (first, second) in enumerate(CORRELATED):
        for place, rows in enumerate(parts):
            a, b = readings.values[first][rows], readings.values[second][rows]
            assert found[pair, place, 0] == pytest.approx(spearmanr(a, b).statistic, abs=1e-12)


def test_an_absent_group_has_no_correlation():
    found = correlate(readings_of(absent=1), seed=0)
    assert np.isnan(found[:, 1]).all()
    assert np.isfinite(found[:, [0, 2, 3]]).all()


def test_weighted_correlations_are_those_of_the_repeated_records():
    rng = np.random.default_rng(1)
    a, b = rng.integers(0, 6, 40).astype(float), rng.integers(0, 4, 40).astype(float)
    times = rng.integers(0, 4, (40, 9))
    first = times[:, 0].astype(float)
    found = rank_correlation(a, b, first, [times[:, 1:].astype(float)])
    of_repeated = [
        spearmanr(np.repeat(a, column), np.repeat(b, column)).statistic for column in times.T
    ]
    assert found[0] == pytest.approx(of_repeated[0], abs=1e-12)
    assert found[1:] == pytest.approx(np.quantile(of_repeated[1:], [0.025, 0.975]), abs=1e-12)


def test_a_sample_that_is_not_proportional_is_weighed_by_the_shares_of_its_groups():
    readings = readings_of(count=300, n_groups=2)
    edge = readings.records.edges[1]
    # A share of 3 to 1 between equally weighted records of each group: the first stand three times.
    shares = torch.tensor([3.0 * edge, 300.0 - edge], dtype=torch.float64)
    weighed = replace(readings, records=replace(readings.records, shares=shares))
    plain, found = correlate(readings, seed=0), correlate(weighed, seed=0)
    np.testing.assert_allclose(found[:, :2], plain[:, :2], atol=1e-12)
    times = np.where(np.arange(300) < edge, 3, 1)
    for pair, (first, second) in enumerate(CORRELATED):
        a, b = (np.repeat(readings.values[name], times) for name in (first, second))
        assert found[pair, 2, 0] == pytest.approx(spearmanr(a, b).statistic, abs=1e-12)


def test_the_intervals_cover_the_truth_as_often_as_they_say():
    """100 samples of 80 records whose normals are correlated by 1 / sqrt(2)."""
    truth = 6 / math.pi * math.asin(0.5 / math.sqrt(2))
    covered = 0
    for seed in range(100):
        low, high = correlate(readings_of(80, seed, n_groups=1), seed=seed)[0, 1, 1:]
        covered += low <= truth <= high
    assert 0.95 - 4 * math.sqrt(0.95 * 0.05 / 100) <= covered / 100 <= 1.0
