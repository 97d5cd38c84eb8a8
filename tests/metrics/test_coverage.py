"""Coverage of the one interval procedure on a population with a known gap."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
from means import record_means

from fairaudit.metrics.intervals import EvaluatedRecords, Spread, contrast


def spread_of(tests, d, g, metric: str) -> Spread:
    """The product's own reduction of one audit."""
    records = EvaluatedRecords.of(tests, g, 2)
    unit = "fraction" if metric == "accuracy" else "nats"
    return contrast(record_means(metric, d, records, unit=unit), 0, 1)


def benchmark(name):
    path = Path(__file__).resolve().parents[2] / "benchmarks" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"{name}_study", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def study():
    """Whose audits are drawn without training."""
    return benchmark("coverage")


@pytest.mark.slow
def test_intervals_of_real_trainings_hold_what_is_true_of_models_of_the_file():
    trainings = benchmark("trainings")
    held = {}
    for found in trainings.audits(trainings.worlds(0), files=40, more=40, seed=0):
        for (_, metric, kind), one in found.items():
            if kind != "group":
                held.setdefault(metric, []).append(abs(one.value - one.truth) <= one.half)
    assert all(np.mean(each) >= 0.88 for each in held.values())
    assert 0.93 <= np.mean([np.mean(each) for each in held.values()]) <= 0.98


@pytest.mark.parametrize("metric", ["accuracy", "loss"])
@pytest.mark.parametrize("fixed_split", [True, False])
def test_the_study_reduces_audits_as_the_report_does(study, metric, fixed_split):
    rng = np.random.default_rng(5)
    sizes, seeds = (40, 25), 4
    d = [rng.integers(-1, 2, (1, seeds, n)).astype(float) for n in sizes]
    mask = [rng.random((1, seeds, n)) < 0.4 for n in sizes]
    if fixed_split:
        mask = [np.broadcast_to(m[:, :1], m.shape) for m in mask]
    found = study.contrast(*(study.reduced(a, b, metric) for a, b in zip(d, mask, strict=True)))
    rows = [np.flatnonzero(np.concatenate([m[0, s] for m in mask])) for s in range(seeds)]
    values = [np.concatenate([v[0, s] for v in d])[r] for s, r in enumerate(rows)]
    spread = spread_of(rows, values, np.repeat([0, 1], sizes), metric)
    told = (spread.value, spread.seed_variance, spread.shared_variance, spread.record_variance)
    assert [float(part[0]) for part in found] == pytest.approx(told, abs=1e-15)
    forms = study.Spreads(*found)
    for name, conservative in (("report", False), ("twice", True)):
        half = study.FORMS[name](forms, 3.182446305, 1.959963985, seeds)[0] ** 0.5
        assert half == pytest.approx(spread.half_width(conservative=conservative), rel=1e-8)


# Reported, not required to hold .94: gates do not read the first, and where the seeds of what is
# measured are skewed and their effects far larger than those of records, no form that learns from
# few seeds does.
LESS_IS_KNOWN = {
    "loss of small groups, not gated": 0.92,
    "exponential seeds, one group alone": 0.92,
    "rarely bad seeds in one group": 0.85,
}
FAMILIES = (
    "accuracy",
    "loss",
    "small groups",
    "one group alone",
    "rarely a difference",
    "five groups, all pairs at once",
    "exponential seeds in both groups",
    "exponential seeds in one group",
    "far larger exponential seeds in one group",
    *LESS_IS_KNOWN,
)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_intervals_of_simulated_audits_hold_the_gap_and_are_not_too_wide(study, family):
    audits, cells = 800, study.cells()
    assert tuple(sorted(cells)) == tuple(sorted(FAMILIES))
    required = LESS_IS_KNOWN.get(family, 0.94)
    found = []
    for number, cell in enumerate(cells[family]):
        spreads = study.simulate(cell, audits, np.random.default_rng([11, number]))
        found.append(study.covered(cell, spreads))
        assert found[-1]["report"][0] >= required - 3 * (0.06 * 0.94 / audits) ** 0.5, cell
    held = {name: np.array([each[name][0] for each in found]) for name in study.FORMS}
    width = np.mean([each["report"][1] / each["twice"][1] for each in found])
    if "alone" not in family:  # a group alone has the conservative form
        assert width < 0.995  # the broken twin counts twice what records put into V_seed
    assert held["seeds only"].min() < 0.935  # the other one forgets what seeds share
    if family not in LESS_IS_KNOWN:
        assert held["report"].mean() >= 0.945
    if family == "accuracy":
        assert held["less V_rec"].min() < 0.935  # V_rec taken off V_seed, which holds less of it


def simulated_audit(rng, fixed_split, metric, seeds=5, n=1500, gap=0.05):
    """Test rows and d_si drawn directly: people differ, seeds differ, the gap is known."""
    groups = np.repeat([0, 1], [n * 7 // 10, n - n * 7 // 10])
    person = rng.random(n)  # how easily privacy flips this person's prediction
    fixed = np.sort(rng.choice(n, n // 3, replace=False))
    tests, d = [], []
    for _ in range(seeds):
        test = fixed if fixed_split else np.sort(rng.choice(n, n // 3, replace=False))
        rate = np.where(groups[test] == 0, 0.05 + gap, 0.05) + rng.normal(0, 0.01, 2)[groups[test]]
        stable = person[test]  # the same at every seed: what makes the record the cluster
        if metric == "accuracy":
            d.append((stable < rate).astype(np.float64))
        else:
            d.append(rate - 1 - np.log(1 - stable) + 0.2 * rng.normal(size=len(test)))
        tests.append(test)
    return tests, d, groups


@pytest.mark.parametrize("fixed_split", [True, False])
@pytest.mark.parametrize("metric", ["accuracy", "loss"])
def test_intervals_of_simulated_predictions_cover_the_known_gap(fixed_split, metric):
    rng = np.random.default_rng(3)
    hits, pairs_apart, seeds_only = [], [], []
    for _ in range(300):
        spread = spread_of(*simulated_audit(rng, fixed_split, metric), metric)
        miss = abs(spread.value - 0.05)
        hits.append(miss <= spread.half_width())
        only_seeds = 2.776 * spread.seed_variance**0.5
        pairs_apart.append(
            miss <= (2.776**2 * spread.seed_variance + 1.96**2 * spread.record_variance / 5) ** 0.5
        )
        seeds_only.append(miss <= only_seeds)
    assert np.mean(hits) >= 0.93
    if fixed_split:  # the two usual choices do not hold their level, and this test can tell
        assert np.mean(pairs_apart) < 0.92
        assert np.mean(seeds_only) < 0.80
