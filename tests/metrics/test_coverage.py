"""Coverage of the one interval procedure on a population with a known gap."""

import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from means import record_means

from fairaudit.metrics.intervals import EvaluatedRecords, Spread, contrast

Train = Callable[[np.ndarray, np.ndarray, np.random.Generator, int], Callable[[np.ndarray], np.ndarray]]


def draw(n: int, rng: np.random.Generator, minority: float = 0.3):
    """Features [n, d], labels [n] and groups [n]; group 1 is smaller and harder."""
    g = (rng.random(n) < minority).astype(np.int64)
    x = rng.normal(size=(n, 6))
    slope = np.where(g == 1, 0.8, 1.8)
    logit = slope * (x[:, 0] + 0.7 * x[:, 1]) + np.where(g == 1, -0.8, 0.4) * x[:, 2]
    y = (rng.random(n) < 1 / (1 + np.exp(-logit))).astype(np.int64)
    return x, y, g


PLAIN, TWIN, NOISY = range(3)  # without privacy; as the private arm, but without its noise; the private arm


def logistic(x, y, rng, arm):
    """Ridge-logistic by Newton; the private arm's weights get a pull to zero and noise."""
    z = np.concatenate([x, np.ones((len(x), 1))], axis=1)
    w = np.zeros(z.shape[1])
    for _ in range(6):
        p = 1 / (1 + np.exp(-z @ w))
        h = (z * (p * (1 - p))[:, None]).T @ z + np.eye(len(w))
        w += np.linalg.solve(h, z.T @ (y - p) - w)
    if arm != PLAIN:
        w = 0.6 * w
    if arm == NOISY:
        w = w + 0.25 * rng.normal(size=len(w))
    return lambda t: 1 / (1 + np.exp(-(np.concatenate([t, np.ones((len(t), 1))], axis=1) @ w)))


def mlp(x, y, rng, arm):
    """One hidden layer, SGD with momentum; the private arm clips and adds noise to each batch."""
    w1, b1 = rng.normal(size=(x.shape[1], 16)) * 0.5, np.zeros(16)
    w2, b2 = rng.normal(size=16) * 0.3, 0.0
    params = [w1, b1, w2, np.array(b2)]
    speed = [np.zeros_like(p) for p in params]
    for _ in range(120):
        i = rng.integers(0, len(x), 128)
        h = np.tanh(x[i] @ params[0] + params[1])
        p = 1 / (1 + np.exp(-(h @ params[2] + params[3])))
        e = (p - y[i]) / len(i)
        back = np.outer(e, params[2]) * (1 - h**2)
        grads = [x[i].T @ back, back.sum(0), h.T @ e, e.sum()]
        for k, grad in enumerate(grads):
            noisy = grad if arm == PLAIN else 0.5 * grad
            if arm == NOISY:
                noisy = noisy + 0.02 * rng.normal(size=np.shape(grad))
            speed[k] = 0.8 * speed[k] + noisy
            params[k] = params[k] - 0.3 * speed[k]
    w1, b1, w2, b2 = params
    return lambda t: 1 / (1 + np.exp(-(np.tanh(t @ w1 + b1) @ w2 + b2)))


@dataclass(frozen=True)
class Cell:
    """One setting of the coverage study."""

    train: Train
    n: int = 1500
    seeds: int = 5
    fixed_split: bool = False
    balance: bool = False
    test_size: float = 0.3
    minority: float = 0.3
    arms: tuple[int, int] = (PLAIN, NOISY)  # whose difference is measured; a part of the cost with a twin


def outcome(predict, x, y, metric):
    """Per-record accuracy or loss."""
    p = predict(x)
    if metric == "accuracy":
        return ((p > 0.5) == y).astype(np.float64)
    return -np.log(np.where(y == 1, p, 1 - p).clip(1e-30))


def difference(models, x, y, metric):
    """d_i: what the private arm loses on each record."""
    reference, private = (outcome(m, x, y, metric) for m in models)
    return reference - private if metric == "accuracy" else private - reference


def split(cell: Cell, g, rng):
    """Train and test rows; a balanced audit first cuts the majority down to the minority."""
    rows = np.arange(len(g))
    if cell.balance:
        least = np.bincount(g, minlength=2).min()
        rows = np.concatenate([rng.permutation(np.flatnonzero(g == k))[:least] for k in (0, 1)])
    test = []
    for k in (0, 1):
        of_group = rng.permutation(rows[g[rows] == k])
        test.append(of_group[: round(len(of_group) * cell.test_size)])
    test = np.sort(np.concatenate(test))
    return np.setdiff1d(rows, test), test


def audit(cell: Cell, rng: np.random.Generator, population):
    """One file audited: the spreads of both metrics, and this file's own truth (fixed split)."""
    x, y, g = draw(cell.n, rng, cell.minority)
    px, py, pg = population
    fixed = split(cell, g, rng)
    tests, d, truth = [], {"accuracy": [], "loss": []}, {"accuracy": [], "loss": []}
    for s in range(cell.seeds):
        train, test = fixed if cell.fixed_split else split(cell, g, rng)
        models = [cell.train(x[train], y[train], rng, arm) for arm in cell.arms]
        tests.append(test)
        for metric in d:
            d[metric].append(difference(models, x[test], y[test], metric))
            if not cell.fixed_split:
                everyone = difference(models, px, py, metric)
                truth[metric].append(everyone[pg == 0].mean() - everyone[pg == 1].mean())
        if cell.fixed_split and s == cell.seeds - 1:
            # Expectation over training randomness, given this training set; its own error is small.
            for _ in range(8 * cell.seeds):
                models = [cell.train(x[train], y[train], rng, arm) for arm in cell.arms]
                for metric in d:
                    everyone = difference(models, px, py, metric)
                    truth[metric].append(everyone[pg == 0].mean() - everyone[pg == 1].mean())
    return tests, d, g, {metric: float(np.mean(v)) for metric, v in truth.items()}


def spread_of(tests, d, g, metric: str) -> Spread:
    """The product's own reduction of one audit."""
    records = EvaluatedRecords.of(tests, g, 2)
    unit = "fraction" if metric == "accuracy" else "nats"
    return contrast(record_means(metric, d, records, unit=unit), 0, 1)


class Studied(NamedTuple):
    """Of many files: the share of intervals that hold the truth, and their mean half-width.

    ``conservative`` and ``seeds_only`` are those of the broken twins: what is in V_seed counted twice,
    and Student's t over the seeds alone.
    """

    held: float
    half: float
    conservative: tuple[float, float]
    seeds_only: tuple[float, float]


def coverage(cell: Cell, files: int, seed: int) -> dict[str, Studied]:
    rng = np.random.default_rng(seed)
    population = draw(20_000, rng, 0.5)
    audits = [audit(cell, rng, population) for _ in range(files)]
    out = {}
    for metric in ("accuracy", "loss"):
        grand = float(np.mean([a[3][metric] for a in audits]))
        spreads = [spread_of(tests, d[metric], g, metric) for tests, d, g, _ in audits]
        truth = np.array([a[3][metric] if cell.fixed_split else grand for a in audits])
        miss = np.abs(np.array([s.value for s in spreads]) - truth)
        halves = (
            [s.half_width() for s in spreads],
            [s.half_width(conservative=True) for s in spreads],
            [replace(s, shared_variance=0.0).half_width() for s in spreads],
        )
        own, *twins = ((float(np.mean(miss <= h)), float(np.mean(h))) for h in halves)
        out[metric] = Studied(*own, *twins)
    return out


CELLS = {
    "logistic, 3 splits": (Cell(logistic, seeds=3), 400),
    "logistic, 5 splits": (Cell(logistic), 400),
    "logistic, 10 splits": (Cell(logistic, seeds=10), 300),
    "logistic, 20 splits": (Cell(logistic, seeds=20), 200),
    "logistic, 5 splits, 5,000 rows": (Cell(logistic, n=5000), 300),
    "logistic, fixed split, 5 seeds": (Cell(logistic, fixed_split=True), 250),
    "logistic, fixed split, 10 seeds": (Cell(logistic, fixed_split=True, seeds=10), 150),
    "logistic, balanced": (Cell(logistic, balance=True), 400),
    "logistic, minority of 5 %": (Cell(logistic, minority=0.05), 400),
    "MLP, 5 splits": (Cell(mlp), 150),
    "MLP, fixed split, 5 seeds": (Cell(mlp, fixed_split=True), 100),
    "logistic, without noise": (Cell(logistic, arms=(PLAIN, TWIN)), 300),
    "logistic, noise alone": (Cell(logistic, arms=(TWIN, NOISY)), 300),
    "logistic, without noise, fixed split": (Cell(logistic, arms=(PLAIN, TWIN), fixed_split=True), 150),
    "logistic, noise alone, fixed split": (Cell(logistic, arms=(TWIN, NOISY), fixed_split=True), 150),
    "MLP, without noise": (Cell(mlp, arms=(PLAIN, TWIN)), 80),
    "MLP, noise alone": (Cell(mlp, arms=(TWIN, NOISY)), 80),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CELLS)
def test_intervals_of_trained_models_cover_the_known_gap(name):
    cell, files = CELLS[name]
    for metric, found in coverage(cell, files, seed=7).items():
        narrower, short = found.half / found.conservative[1], found.seeds_only[0]
        told = f"held {found.held:.3f}  width {narrower:.2f} of the conservative  t over seeds {short:.3f}"
        print(f"{name:32s} {metric:9s} {files:4d} files  {told}")  # noqa: T201
        assert found.held >= 0.94 - 2.5 * (0.06 * 0.94 / files) ** 0.5, metric
        if cell.arms == (PLAIN, NOISY):  # where seeds differ little both forms say the same
            assert narrower < 0.98
        assert found.conservative[0] >= found.held
        if cell.seeds == 20:
            assert short < 0.93


@pytest.fixture(scope="module")
def study():
    """benchmarks/coverage.py, whose audits are drawn without training."""
    path = Path(__file__).resolve().parents[2] / "benchmarks" / "coverage.py"
    spec = importlib.util.spec_from_file_location("coverage_study", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


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


# Reported, not required to hold .94: gates do not read the first, and where the seeds of what is measured
# are skewed and their effects far larger than those of records, no form that learns from few seeds does.
LESS_IS_KNOWN = {
    "loss of small groups, not gated": 0.92,
    "exponential seeds, one group alone": 0.92,
    "rarely bad seeds in one group": 0.85,
}
FAMILIES = (
    "accuracy",
    "loss",
    "small groups",
    "five groups, all pairs at once",
    "exponential seeds in both groups",
    "exponential seeds in one group",
    "far larger exponential seeds in one group",
    *LESS_IS_KNOWN,
)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_intervals_of_simulated_audits_hold_the_gap_and_are_not_too_wide(study, family):
    audits, cells = 1500, study.cells()
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
