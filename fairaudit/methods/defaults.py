"""The documented rules behind every number that a user leaves out; functions of public sizes only.

None of them looks at a record: they read the number of training records, the number of columns and
the model's name, so they cost no privacy.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sizes:
    """What a rule may read.

    Args:
        n_public: N, training records. columns: Raw feature columns. model: Its name.
        groups: K, groups of the first grouping, the level of rows without one included.
        pool: Records of the student pool.
    """

    n_public: int
    columns: int
    model: str
    groups: int = 2
    pool: int = 0

    @property
    def is_linear(self) -> bool:
        """Whether the model has no hidden layer."""
        return self.model in ("logistic", "logistic-squashed")

    @property
    def input_norm(self) -> float:
        """Root mean square norm of an encoded record with its bias input.

        A standardised numeric column and a one-hot encoded categorical column each add about 1 to
        the expected squared norm, the bias adds 1.
        """
        return math.sqrt(self.columns + 1.0)


@dataclass(frozen=True, slots=True)
class Rule:
    """A default: its value for given sizes, and the words that the report prints for it."""

    text: str
    value: Callable[[Sizes], float]


def power_of_two(value: float, low: int, high: int) -> int:
    """The power of two nearest to ``value`` on a log scale, within [low, high]."""
    return int(min(max(2 ** round(math.log2(max(value, 1.0))), low), high))


RULES: dict[str, Rule] = {
    "batch_size": Rule(
        "power of two nearest to 2 sqrt(N), within 32 and 4,096",
        lambda s: power_of_two(2 * math.sqrt(s.n_public), 32, 4096),
    ),
    "epochs": Rule(
        "20, or what 1,000 steps take if that is more (at most 100); 500 steps for networks",
        lambda s: min(100, max(20, math.ceil(_least_steps(s) * _batch(s) / s.n_public))),
    ),
    "learning_rate": Rule(
        "8 / (columns + 1), at most 1, for linear models; 0.1 for networks",
        lambda s: min(1.0, 8.0 / (s.columns + 1.0)) if s.is_linear else 0.1,
    ),
    "max_grad_norm": Rule("1", lambda s: 1.0),
    "threshold": Rule(
        "sqrt(2 (columns + 1)), a typical record's longest gradient, for linear models; 50 for networks, as "
        "in Esipova et al. 2023",
        lambda s: math.sqrt(2.0) * s.input_norm if s.is_linear else 50.0,
    ),
    "tolerance": Rule("1", lambda s: 1.0),
    "threshold_learning_rate": Rule("0.1", lambda s: 0.1),
    "count_noise_multiplier": Rule("10", lambda s: 10.0),
    "largest_bound_ratio": Rule("1 + the number of groups", lambda s: 1.0 + s.groups),
    "against_batch": Rule(
        "1: a group's clipped share is compared with the batch's (0: with the mean over groups)",
        lambda s: 1.0,
    ),
    "smallest_count": Rule("1 record", lambda s: 1.0),
    "largest_weight": Rule("10 times the number of groups", lambda s: 10.0 * s.groups),
    "gamma1": Rule("1", lambda s: 1.0),
    "gamma2": Rule("1", lambda s: 1.0),
    "statistic_noise_ratio": Rule(
        "10 / sqrt(2): counts and sums each get 10 times the gradient's noise multiplier",
        lambda s: 10.0 / math.sqrt(2.0),
    ),
    "statistic_decay": Rule("0.95", lambda s: 0.95),
    "smallest_share": Rule("0.01", lambda s: 0.01),
    "penalty": Rule("10 / N", lambda s: float(f"{10 / s.n_public:.3g}")),
    "feature_norm": Rule("1", lambda s: 1.0),
    "intercept": Rule("1", lambda s: 1.0),
    "noise_draws": Rule(
        "100 for linear models, 5 for networks: draws of noise behind each expectation",
        lambda s: 100.0 if s.is_linear else 5.0,
    ),
    "teachers": Rule("N / 100, at most 150", lambda s: float(max(2, min(150, s.n_public // 100)))),
    # Labels share one budget, so more of them carry more noise each.
    "queries": Rule(
        "every record of the student pool, at most 20,000", lambda s: float(max(1, min(20_000, s.pool)))
    ),
    "teacher_penalty": Rule("0.01", lambda s: 0.01),
    "student_penalty": Rule("0.01", lambda s: 0.01),
}


ZERO_ALLOWED = frozenset(
    {
        *("noise_multiplier", "tolerance", "threshold_learning_rate", "intercept"),
        *("against_batch", "gamma1", "gamma2", "statistic_decay", "smallest_share"),
    }
)


def effective_step(step: float, threshold: float, bound: float, sizes: Sizes) -> float:
    """The step with which a method that scales by C/Z goes as far as ``step`` does without.

    For a linear model what C/Z takes away is given back. In a network noise reaches every weight, and
    over a training it moves each by step * C * sigma * sqrt(steps) / qN whatever Z is: the step stays.
    """
    return step * threshold / bound if sizes.is_linear else step


def _least_steps(sizes: Sizes) -> int:
    return 1000 if sizes.is_linear else 500


def _batch(sizes: Sizes) -> float:
    return RULES["batch_size"].value(sizes)


def default_delta(n_public: int) -> float:
    """The largest power of ten that is at most 1 / (10 N)."""
    return float(f"1e{math.floor(-math.log10(10.0 * n_public) + 1e-12)}")
