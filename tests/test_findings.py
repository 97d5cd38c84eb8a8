"""The grid behind docs/findings.md: how a cell is called."""

import sys
from itertools import combinations

import pytest
from places import ROOT
from scipy import stats

from fairaudit.metrics.quantiles import half_width

MODULES = ("findings", "findings_cells", "findings_page")


@pytest.fixture
def findings(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    yield pytest.importorskip("findings")
    for name in MODULES:
        sys.modules.pop(name, None)


@pytest.fixture
def cells(findings):
    return sys.modules["findings_cells"]


def cell(cells, value, sd, margin=0.02, seeds=10):
    """A cell of training randomness alone, so that Student's t says everything."""
    return cells.Cell(
        audit="adult default",
        measure="tpr",
        epsilon=1.0,
        a="F",
        b="M",
        value=value,
        training_sd=sd,
        records_sd=0.0,
        seeds=seeds,
        margin=margin,
        is_weak=False,
    ).tested()


def closed(p_values):
    """Holm's adjusted p-values as the closed test of Bonferroni: every subset is tried."""
    family = range(len(p_values))
    adjusted = []
    for member in family:
        largest = 0.0
        for size in range(1, len(p_values) + 1):
            for subset in combinations(family, size):
                if member in subset:
                    largest = max(largest, size * min(p_values[k] for k in subset))
        adjusted.append(min(1.0, largest))
    return adjusted


@pytest.mark.parametrize(("training", "records", "seeds"), [(0.01, 0.004, 10), (0.002, 0.01, 5)])
def test_a_p_value_is_below_5_percent_where_the_reports_interval_excludes_zero(
    cells, training, records, seeds
):
    half = half_width(training**2, records**2, seeds)
    for factor, is_small in ((0.999, False), (1.001, True)):
        p = 2 * cells.tail(factor * half, training, records, seeds)
        assert (p < 0.05) == is_small


def test_holm_counts_the_planned_cells_that_are_missing(cells):
    p_values = [0.004, 0.2, 0.0101, 0.0001]
    assert cells.holm(p_values, 6) == pytest.approx(closed([*p_values, 1.0, 1.0])[:4])
    assert cells.holm(p_values, 4) == pytest.approx(closed(p_values))


def test_cells_are_called_what_two_computations_say(cells):
    values = [0.001, 0.01, 0.05, -0.05, 0.019, 0.0]
    sds = [0.001, 0.0005, 0.005, 0.02, 0.0001, 0.02]
    named = cells.worded([cell(cells, v, s) for v, s in zip(values, sds, strict=True)], 6, 0.05)
    p_diff, p_eq = [], []
    for value, sd in zip(values, sds, strict=True):
        p_diff.append(2 * stats.t.sf(abs(value) / sd, 9))
        p_eq.append(max(stats.t.sf((0.02 - value) / sd, 9), stats.t.sf((0.02 + value) / sd, 9)))
    expected = []
    for differs, equals in zip(closed(p_diff), closed(p_eq), strict=True):
        if equals <= 0.05:
            expected.append(cells.EQUAL)
        elif differs <= 0.05:
            expected.append(cells.DIFFERENT)
        else:
            expected.append(cells.CANNOT_TELL)
    assert [one.word for one in named] == expected
    assert {word: expected.count(word) for word in cells.WORDS} == {
        cells.EQUAL: 3,
        cells.DIFFERENT: 1,
        cells.CANNOT_TELL: 2,
    }
    assert named[1].p_diff < 0.001  # equal though it is told from 0
    assert named[1].word == cells.EQUAL
