"""Coverage of the one interval procedure on a population with a known gap."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from fairaudit.metrics.intervals import Records, Spread, contrast, record_means

Train = Callable[[np.ndarray, np.ndarray, np.random.Generator, bool], Callable[[np.ndarray], np.ndarray]]


def draw(n: int, rng: np.random.Generator, minority: float = 0.3):
    """Features [n, d], labels [n] and groups [n]; group 1 is smaller and harder."""
    g = (rng.random(n) < minority).astype(np.int64)
    x = rng.normal(size=(n, 6))
    slope = np.where(g == 1, 0.8, 1.8)
    logit = slope * (x[:, 0] + 0.7 * x[:, 1]) + np.where(g == 1, -0.8, 0.4) * x[:, 2]
    y = (rng.random(n) < 1 / (1 + np.exp(-logit))).astype(np.int64)
    return x, y, g


def logistic(x, y, rng, private):
    """Ridge-logistic by Newton; the private arm's weights get noise and a pull to zero."""
    z = np.concatenate([x, np.ones((len(x), 1))], axis=1)
    w = np.zeros(z.shape[1])
    for _ in range(6):
        p = 1 / (1 + np.exp(-z @ w))
        h = (z * (p * (1 - p))[:, None]).T @ z + np.eye(len(w))
        w += np.linalg.solve(h, z.T @ (y - p) - w)
    if private:
        w = 0.6 * w + 0.25 * rng.normal(size=len(w))
    return lambda t: 1 / (1 + np.exp(-(np.concatenate([t, np.ones((len(t), 1))], axis=1) @ w)))


def mlp(x, y, rng, private):
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
            noisy = 0.5 * grad + 0.02 * rng.normal(size=np.shape(grad)) if private else grad
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
        models = [cell.train(x[train], y[train], rng, private) for private in (False, True)]
        tests.append(test)
        for metric in d:
            d[metric].append(difference(models, x[test], y[test], metric))
            if not cell.fixed_split:
                everyone = difference(models, px, py, metric)
                truth[metric].append(everyone[pg == 0].mean() - everyone[pg == 1].mean())
        if cell.fixed_split and s == cell.seeds - 1:
            for _ in range(40):  # expectation over training randomness, given this training set
                models = [cell.train(x[train], y[train], rng, private) for private in (False, True)]
                for metric in d:
                    everyone = difference(models, px, py, metric)
                    truth[metric].append(everyone[pg == 0].mean() - everyone[pg == 1].mean())
    return tests, d, g, {metric: float(np.mean(v)) for metric, v in truth.items()}


def spread_of(tests, d, g, metric: str) -> Spread:
    """The product's own reduction of one audit."""
    records = Records.of(tests, g, 2)
    unit = "fraction" if metric == "accuracy" else "nats"
    return contrast(record_means(metric, d, records, unit=unit), 0, 1)


def coverage(cell: Cell, files: int, seed: int):
    """metric -> (share of files whose interval holds the truth, median width)."""
    rng = np.random.default_rng(seed)
    population = draw(20_000, rng, 0.5)
    audits = [audit(cell, rng, population) for _ in range(files)]
    out = {}
    for metric in ("accuracy", "loss"):
        grand = float(np.mean([a[3][metric] for a in audits]))
        hits, widths = [], []
        for tests, d, g, truth in audits:
            spread = spread_of(tests, d[metric], g, metric)
            half = spread.half_width()
            target = truth[metric] if cell.fixed_split else grand
            hits.append(abs(spread.value - target) <= half)
            widths.append(2 * half)
        out[metric] = float(np.mean(hits)), float(np.median(widths))
    return out


CELLS = {
    "logistic, 5 splits": (Cell(logistic), 400),
    "logistic, 10 splits": (Cell(logistic, seeds=10), 300),
    "logistic, 5 splits, 5,000 rows": (Cell(logistic, n=5000), 250),
    "logistic, fixed split": (Cell(logistic, fixed_split=True), 400),
    "logistic, balanced": (Cell(logistic, balance=True), 400),
    "logistic, minority of 5 %": (Cell(logistic, minority=0.05), 400),
    "MLP, 5 splits": (Cell(mlp), 150),
    "MLP, fixed split": (Cell(mlp, fixed_split=True), 100),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CELLS)
def test_intervals_of_trained_models_cover_the_known_gap(name):
    cell, files = CELLS[name]
    for metric, (share, width) in coverage(cell, files, seed=7).items():
        print(f"{name:32s} {metric:9s} {files:4d} files  coverage {share:.3f}  median width {width:.4f}")  # noqa: T201
        assert 0.93 <= share <= 1.0, metric


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
