"""How often a report finds fault with a private learner that has none.

    python benchmarks/learners.py OUT [--epsilon 3] [--seeds 5]

Twenty learners, four kinds with five settings each, trained through ``--trainer`` on a table of
1,500 rows whose groups are coin flips. Every one spends its epsilon as it should and is set so that
it loses little without noise, so that each of these words would be false: that other settings would
help, that the reference is behind its private model, that privacy changes nothing, that classes are
in another order. The last line says how many learners met any. Planted mistakes, which must be
named, are in ``tests/test_trainers.py``.
"""

import argparse
import math
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

import fairaudit

FALSE_WORDS = {"reference_behind", "privacy_not_heeded", "classes_reordered"}
ROWS = 1500


def logistic(margin):
    """Chances of the upper class."""
    return 1 / (1 + np.exp(-np.clip(margin, -30, 30)))


def with_constant(features):
    """The features ``[n, d]`` and a column of ones, no row longer than 1 on average."""
    columns = np.hstack([features, np.ones((len(features), 1))]).astype(float)
    return columns / math.sqrt(columns.shape[1])


def rho_of(privacy):
    """The zCDP that is epsilon at delta; None without noise."""
    if privacy is None or math.isinf(privacy.epsilon):
        return None
    log = -math.log(privacy.delta)
    return (math.sqrt(log + privacy.epsilon) - math.sqrt(log)) ** 2


def linear(weights):
    """What predicts by a logistic model."""

    def predict(features):
        upper = logistic(with_constant(features) @ weights)
        return np.stack([1 - upper, upper], 1)

    return predict


def clipped_sum(x, y, weights, bound):
    """The sum of the records' gradients, each at most as long as the bound."""
    gradients = (logistic(x @ weights) - y)[:, None] * x
    norms = np.linalg.norm(gradients, axis=1, keepdims=True)
    return (gradients * np.minimum(1, bound / np.maximum(norms, 1e-9))).sum(0)


def descent(data, privacy, seed, *, bound, rounds):
    """Gradient descent over all rows, noise on every sum."""
    rho, draw = rho_of(privacy), np.random.default_rng(seed)
    sigma = 0.0 if rho is None else bound * math.sqrt(rounds / (2 * rho))
    bound = math.inf if privacy is None else bound
    x, weights = with_constant(data.features), np.zeros(data.features.shape[1] + 1)
    for _ in range(rounds):
        total = clipped_sum(x, data.labels, weights, bound)
        weights -= 6.0 * (total + sigma * draw.normal(size=len(weights))) / len(x)
    return linear(weights)


def passes(data, privacy, seed, *, parts, epochs):
    """Gradient descent over disjoint parts of the rows, one after another, in every epoch."""
    rho, draw = rho_of(privacy), np.random.default_rng(seed)
    sigma = 0.0 if rho is None else math.sqrt(epochs / (2 * rho))
    bound = math.inf if privacy is None else 1.0
    x, weights = with_constant(data.features), np.zeros(data.features.shape[1] + 1)
    part = draw.integers(0, parts, len(x))
    for _ in range(epochs):
        for number in range(parts):
            rows = part == number
            total = clipped_sum(x[rows], data.labels[rows], weights, bound)
            weights -= 3.0 * (total + sigma * draw.normal(size=len(weights))) * parts / len(x)
    return linear(weights)


def perturbed(data, privacy, seed, *, penalty):
    """The minimum of a penalised loss, with noise of its sensitivity."""
    rho, draw = rho_of(privacy), np.random.default_rng(seed)
    x = with_constant(data.features)
    x /= np.maximum(1, np.linalg.norm(x, axis=1, keepdims=True))
    weights = np.zeros(x.shape[1])
    for _ in range(500):
        slope = x.T @ (logistic(x @ weights) - data.labels) / len(x) + penalty * weights
        weights -= slope / (0.25 + penalty)
    if rho is not None:
        sensitivity = 2 / (penalty * ROWS / 2)  # at least half of the table trains
        weights += sensitivity / math.sqrt(2 * rho) * draw.normal(size=len(weights))
    return linear(weights)


def counted(data, privacy, seed, *, bins):
    """Naive Bayes by noisy counts of every feature's bins."""
    rho, draw = rho_of(privacy), np.random.default_rng(seed)
    edges = np.linspace(-2.5, 2.5, bins - 1)
    count = data.features.shape[1]
    sigma = 0.0 if rho is None else math.sqrt(count / (2 * rho))
    tables = []
    for column in data.features.T:
        counts = np.zeros((2, bins))
        np.add.at(counts, (data.labels, np.digitize(column, edges)), 1)
        counts = np.maximum(counts + sigma * draw.normal(size=counts.shape), 0) + 1
        tables.append(np.log(counts / counts.sum(1, keepdims=True)))
    prior = np.log((np.bincount(data.labels, minlength=2) + 1) / len(data.labels))

    def predict(features):
        scores = np.tile(prior, (len(features), 1))
        for column, table in zip(features.T, tables, strict=True):
            scores += table[:, np.digitize(column, edges)].T
        shares = np.exp(scores - scores.max(1, keepdims=True))
        return shares / shares.sum(1, keepdims=True)

    return predict


LEARNERS = {}
for bound, rounds in ((1, 40), (1, 80), (2, 60), (2, 120), (3, 80)):
    LEARNERS[f"descent_{bound}_{rounds}"] = partial(descent, bound=bound, rounds=rounds)
for parts, epochs in ((2, 30), (2, 60), (3, 40), (4, 30), (5, 40)):
    LEARNERS[f"passes_{parts}_{epochs}"] = partial(passes, parts=parts, epochs=epochs)
for hundredths in (1, 2, 3, 5, 10):
    LEARNERS[f"perturbed_{hundredths}"] = partial(perturbed, penalty=hundredths / 100)
for bins in (6, 8, 10, 12, 16):
    LEARNERS[f"counted_{bins}"] = partial(counted, bins=bins)
for learner in LEARNERS.values():
    learner.supports_no_noise = True
globals().update(LEARNERS)


def people():
    """A table of two groups by coins."""
    draw = np.random.default_rng(3)
    x = draw.normal(size=(ROWS, 6))
    table = pd.DataFrame(x, columns=[*"abcdef"]).assign(sex=draw.choice([*"FM"], ROWS))
    margin = x @ [1.5, -1, 0.7, 0.5, 0, 0] + draw.logistic(size=ROWS)
    table["y"] = np.where(margin > 0.5, "yes", "no")
    return table


def main() -> None:
    """A line for each learner that is found fault with, and how many those are."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--epsilon", type=float, default=3.0)
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    people().to_csv(options.out / "people.csv", index=False)
    report = fairaudit.run_audit(
        options.out / "people.csv",
        group="sex",
        label="y",
        trainer=[f"learners:{name}" for name in LEARNERS],
        epsilon=options.epsilon,
        seeds=options.seeds,
        twins="always",
        workers=1,
        out=options.out / "report",
    )
    blamed = set()
    for finding in report.findings:
        if finding.advice and finding.advice.knob == "own settings":
            print(f"{finding.arm}: {finding.text} {finding.advice.text}")
            blamed.add(finding.arm)
    for warning in report.warnings:
        if warning.code in FALSE_WORDS:
            print(f"{warning.arm}: {warning.message}")
            blamed.add(warning.arm.removesuffix("-reference"))
    print(f"{len(blamed)} of {len(LEARNERS)} sound learners are found fault with")


if __name__ == "__main__":
    main()
