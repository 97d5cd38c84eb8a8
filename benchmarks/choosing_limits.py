"""Upper limits of one number beside each other.

Which of them keeps its level, and what it can show.

    python benchmarks/choosing_limits.py [--audits 20000]

Seeds' values are drawn directly, in units of the noise of one seed's test rows: an effect of the
seed, normal or exponential, of some size, plus test records of which seeds share ``rho``. Two
methods, looks at 10 and 20 seeds, 5 % shared as the command shares them. How whole audits fare,
record by record: ``choosing.py``.
"""

import argparse
import time
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from fairaudit.choosing.sequence import ALPHA, FUTILITY, Number, skewed_quantile

Array = NDArray[np.float64]
LOOKS = (10, 20)
RHO = 0.15  # splits of 30 %, half of a record's effect being its own; 0.5 on a fixed split
LIMIT = 1.5  # of a rule, for power: ten points of accuracy, 600 rows
Limit = Callable[[Array, float, float], Array]  # values [A, S], rho, level -> upper limits [A]


def draw(shape: str, size: float, rho: float, audits: int, rng: np.random.Generator) -> Array:
    """Values at each seed, mean 0, ``[A, S]``."""
    every = (audits, LOOKS[-1])
    effects = rng.normal(size=every) if shape == "normal" else rng.exponential(size=every) - 1
    if shape == "15 % bad":
        effects = ((rng.random(every) < 0.15) - 0.15) / (0.15 * 0.85) ** 0.5
    shared, own = rng.normal(size=(audits, 1)), rng.normal(size=every)
    return size * effects + rho**0.5 * shared + (1 - rho) ** 0.5 * own


def _beside_records(half: Array, x: Array, rho: float, level: float) -> Array:
    """The mean, and halves of seeds and of records put together."""
    records = rho + (1 - rho) / x.shape[1]
    return x.mean(1) + np.sqrt(half**2 + stats.norm.ppf(1 - level) ** 2 * records)


def _of_seeds(x: Array) -> tuple[Array, Array, float]:
    """Standard error, the sample's skewness, S."""
    s, centred = x.shape[1], x - x.mean(1, keepdims=True)
    sd = x.std(1, ddof=1)
    return sd / s**0.5, (centred**3).sum(1) * s / ((s - 1) * (s - 2)) / sd**3, float(s)


def student(x: Array, rho: float, level: float) -> Array:
    """Normal effects: t."""
    return _beside_records(stats.t.ppf(1 - level, x.shape[1] - 1) * _of_seeds(x)[0], x, rho, level)


def johnson(x: Array, rho: float, level: float) -> Array:
    """t with the first terms in the sample's skewness. Source: Johnson 1978, JASA 73."""
    error, skew, s = _of_seeds(x)
    t = stats.t.ppf(1 - level, s - 1)
    shift = np.maximum(0.0, skew * error / s**0.5 / 6 * (1 + 2 * t**2))
    return _beside_records(t * error + shift, x, rho, level)


def hall(x: Array, rho: float, level: float) -> Array:
    """The cubic transformation of t. Source: Hall 1992, JRSS B 54."""
    error, skew, s = _of_seeds(x)
    t, skew = stats.t.ppf(1 - level, s - 1), np.maximum(skew, 1e-9)
    a = skew / 3 / s**0.5
    inverse = (1 - np.cbrt(1 - 3 * a * (t + skew / 6 / s**0.5))) / a
    return _beside_records(np.maximum(inverse, t) * error, x, rho, level)


def bootstrap_t(x: Array, rho: float, level: float) -> Array:
    """Quantiles of t in resampled seeds. Source: Efron 1981."""
    rng, at_once, q = np.random.default_rng(0), 500, np.empty(len(x))
    picked = rng.integers(0, x.shape[1], size=(499, x.shape[1]))
    for start in range(0, len(x), at_once):
        one = x[start : start + at_once]
        again = one[:, picked]
        error = np.maximum(again.std(2, ddof=1), 1e-9) / x.shape[1] ** 0.5
        t = (again.mean(2) - one.mean(1)[:, None]) / error
        q[start : start + at_once] = -np.quantile(t, level, axis=1)
    return _beside_records(np.maximum(q, 0.0) * _of_seeds(x)[0], x, rho, level)


def with_exponential_pivot(x: Array, rho: float, level: float) -> Array:
    """The larger of t's limit and the exact one for exponential effects of unknown scale."""
    rng, s = np.random.default_rng(0), x.shape[1]
    pivot = (1 - rng.exponential(size=200_000) / s) / (rng.gamma(s - 1, size=200_000) / s)
    above = (np.quantile(pivot, 1 - level) - 1) * (x.mean(1) - x.min(1))
    return np.maximum(student(x, rho, level), _beside_records(above, x, rho, level))


def empirical_bernstein(x: Array, rho: float, level: float) -> Array:
    """For any law on an interval, here of ten standard deviations.

    Source: Maurer and Pontil 2009, Th. 4.
    """
    s, log = x.shape[1], np.log(2 / level)
    wide = 10 * np.sqrt(1 + x.var(1, ddof=1))
    half = np.sqrt(2 * x.var(1, ddof=1) * log / s) + 7 * wide * log / (3 * (s - 1))
    return _beside_records(half, x, rho, level)


def skewed_whole(x: Array, rho: float, level: float) -> Array:
    """The exponential law's quantile of t, for all of V_seed."""
    return _beside_records(skewed_quantile(level, x.shape[1]) * _of_seeds(x)[0], x, rho, level)


def as_built(x: Array, rho: float, level: float) -> Array:
    """The same for what records do not explain: the command's own."""
    s = x.shape[1]
    own, records = (1 - rho) / s, rho + (1 - rho) / s
    numbers = zip(x.mean(1).tolist(), (x.var(1, ddof=1) / s).tolist(), strict=True)
    return np.array(
        [Number(m, v, own, records, s, is_size=False).limits(level).high for m, v in numbers]
    )


LIMITS: Mapping[str, Limit] = {
    "Student's t": student,
    "Johnson's t": johnson,
    "Hall's transformation": hall,
    "bootstrap-t": bootstrap_t,
    "larger of t and an exponential pivot": with_exponential_pivot,
    "empirical Bernstein": empirical_bernstein,
    "exponential quantile": skewed_whole,
    "exponential quantile of the excess (built)": as_built,
}


def course(x: Array, rho: float, limit: Limit, rule: float, methods: int) -> tuple[float, float]:
    """Share of audits that pass at a look, and seeds used."""
    level = ALPHA / methods / len(LOOKS)
    going, passed, seeds = np.ones(len(x), bool), np.zeros(len(x), bool), np.zeros(len(x))
    for look in LOOKS:
        seeds[going] = look
        seen = x[:, :look]
        passes = going & (limit(seen, rho, level) <= rule)
        passed |= passes
        lowest = 2 * seen.mean(1) - student(seen, rho, FUTILITY)
        going &= ~passes & (lowest <= rule)
    return float(passed.mean()), float(seeds.mean())


def main() -> None:
    """The tables of benchmarks/README.md, "Choices"."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--audits", type=int, default=20_000)
    audits, start = parser.parse_args().audits, time.perf_counter()
    normal, skewed, bad = "normal", "exponential", "15 % bad"
    at_limit = [
        (normal, 1.0, RHO),
        (normal, 20.0, RHO),
        *((skewed, size, RHO) for size in (1.0, 2.0, 5.0)),
        (skewed, 5.0, 0.5),
        (skewed, 20.0, RHO),
        (bad, 5.0, RHO),
    ]
    easier = (normal, 0.5), (normal, 1.0), (normal, 2.0), (skewed, 1.0)
    below = [(shape, size, part) for shape, size in easier for part in (0.5, 0.0)]
    print("two methods at the limit: share with a recommendation, at most .05")
    print(
        *(
            f"{shape}, {size:g}{' fixed split' if rho > RHO else ''}"
            for shape, size, rho in at_limit
        ),
        sep=" | ",
    )
    print("then, one method: share that passes / seeds, truth at half the limit and at 0")
    print(*(f"{shape}, {size:g}, {part:g}" for shape, size, part in below), sep=" | ")
    for name, limit in LIMITS.items():
        rng = np.random.default_rng(1)
        some = audits // 5 if limit is bootstrap_t else audits
        level = [
            1 - (1 - course(draw(*cell, some, rng), cell[2], limit, 0.0, 2)[0]) ** 2
            for cell in at_limit
        ]
        shown = [
            course(draw(shape, size, RHO, some, rng) - (1 - part) * LIMIT, RHO, limit, 0.0, 1)
            for shape, size, part in below
        ]
        told = [f"{share:.3f}" for share in level] + [
            f"{p:.2f} / {seeds:.1f}" for p, seeds in shown
        ]
        print(f"{name:42s}", *told, sep=" | ", flush=True)
    print(f"{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
