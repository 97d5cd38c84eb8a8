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


@dataclass(frozen=True, slots=True)
class Setting:
    """A number that a method reads: what it is, the values that it may have, and its default.

    Args:
        meaning: One line. low, high: Ends of the range, both in it; ``high`` may be a rule.
        unit: Of the number; "" for a pure one. whole: No fractions. or_zero: 0 will do as well.
        default: Its rule; None where there is none, so that it is given or calibrated.
    """

    meaning: str
    low: float
    high: float | Rule
    unit: str = ""
    whole: bool = False
    or_zero: bool = False
    default: Rule | None = None

    def admits(self, value: float, sizes: Sizes) -> bool:
        """Whether the value lies in the range; NaN does not."""
        high = self.high.value(sizes) if isinstance(self.high, Rule) else self.high
        if self.or_zero and value == 0:
            return True
        return self.low <= value <= high and (not self.whole or value == int(value))

    def range(self, sizes: Sizes | None = None) -> str:
        """The range in words; without sizes, what its end depends on is named."""
        if not isinstance(self.high, Rule):
            high = _end(self.high)
        else:
            high = self.high.text if sizes is None else f"{_end(self.high.value(sizes))} ({self.high.text})"
        kind = f"{'0 or ' if self.or_zero else ''}a {'whole ' if self.whole else ''}number"
        return f"{kind} from {_end(self.low)} to {high}"


def _end(value: float) -> str:
    return f"{int(value):,}" if value == int(value) else f"{value:g}"


_RECORDS = Rule("the number of training records", lambda s: float(s.n_public))
_POOL = Rule("the records of the student pool", lambda s: float(max(1, s.pool)))
_OF_GRADIENT = "norm of a record's gradient"

# One entry for every number that a built-in method reads. The ends are where training is still finite.
SETTINGS: dict[str, Setting] = {
    "learning_rate": Setting(
        "step size",
        1e-9,
        1e6,
        "step per unit of the mean gradient",
        default=Rule(
            "8 / (columns + 1), at most 1, for linear models; 0.1 for networks",
            lambda s: min(1.0, 8.0 / (s.columns + 1.0)) if s.is_linear else 0.1,
        ),
    ),
    "max_grad_norm": Setting(
        "clipping bound C", 1e-6, 1e6, _OF_GRADIENT, default=Rule("1", lambda s: 1.0)
    ),
    "noise_multiplier": Setting("noise over sensitivity; 0 is not private", 0.001, 1e6, or_zero=True),
    "threshold": Setting(
        "threshold Z, where the method adapts it its start",
        1e-6,
        1e6,
        _OF_GRADIENT,
        default=Rule(
            "sqrt(2 (columns + 1)), a typical record's longest gradient, for linear models; 50 for networks, "
            "as in Esipova et al. 2023",
            lambda s: math.sqrt(2.0) * s.input_norm if s.is_linear else 50.0,
        ),
    ),
    "tolerance": Setting(
        "a norm above so many Z counts as exceeding", 0.0, 1e6, "Z", default=Rule("1", lambda s: 1.0)
    ),
    "threshold_learning_rate": Setting(
        "how far Z shrinks where nothing exceeds it", 0.0, 10.0, "log Z per step",
        default=Rule("0.1", lambda s: 0.1),
    ),
    "count_noise_multiplier": Setting(
        "noise on counts of records", 0.1, 1e6, "records", default=Rule("10", lambda s: 10.0)
    ),
    "largest_bound_ratio": Setting(
        "largest bound of a group", 1.0, 1e6, "C",
        default=Rule("1 + the number of groups", lambda s: 1.0 + s.groups),
    ),
    "against_batch": Setting(
        "whether a group's clipped share is compared with the batch's, or (0) with the mean over groups",
        0.0,
        1.0,
        whole=True,
        default=Rule(
            "1: a group's clipped share is compared with the batch's (0: with the mean over groups)",
            lambda s: 1.0,
        ),
    ),
    "smallest_count": Setting(
        "a smaller noised count is taken for this one", 0.001, 1e9, "records",
        default=Rule("1 record", lambda s: 1.0),
    ),
    "largest_weight": Setting(
        "largest weight of a group", 0.001, 1e6,
        default=Rule("10 times the number of groups", lambda s: 10.0 * s.groups),
    ),
    "gamma1": Setting(
        "weight of the penalty on gradients", 0.0, 1e6, default=Rule("1", lambda s: 1.0)
    ),
    "gamma2": Setting(
        "weight of the penalty on distances to the boundary", 0.0, 1e6, default=Rule("1", lambda s: 1.0)
    ),
    "statistic_noise_ratio": Setting(
        "noise multiplier of the groups' statistics over the gradient's", 0.1, 1e6,
        default=Rule(
            "10 / sqrt(2): counts and sums each get 10 times the gradient's noise multiplier",
            lambda s: 10.0 / math.sqrt(2.0),
        ),
    ),
    "statistic_decay": Setting(
        "share of the running statistics that is kept at each step", 0.0, 1.0,
        default=Rule("0.95", lambda s: 0.95),
    ),
    "smallest_share": Setting(
        "a smaller share of a group is taken for this one", 1e-6, 1.0, "of the records",
        default=Rule("0.01", lambda s: 0.01),
    ),
    "penalty": Setting(
        "weight of the squared norm of the parameters", 1e-9, 1e6, "nats",
        default=Rule("10 / N", lambda s: float(f"{10 / s.n_public:.3g}")),
    ),
    "feature_norm": Setting(
        "largest norm R of a record's inputs", 1e-6, 1e6, default=Rule("1", lambda s: 1.0)
    ),
    "intercept": Setting(
        "constant input b of every record; 0 for none", 0.0, 1e6, default=Rule("1", lambda s: 1.0)
    ),
    "noise_draws": Setting(
        "draws of noise behind each expectation", 1.0, 10_000.0, "draws", whole=True,
        default=Rule(
            "100 for linear models, 5 for networks: draws of noise behind each expectation",
            lambda s: 100.0 if s.is_linear else 5.0,
        ),
    ),
    "teachers": Setting(
        "teachers, each on records of its own", 1.0, _RECORDS, "teachers", whole=True,
        default=Rule("N / 100, at most 150", lambda s: float(max(2, min(150, s.n_public // 100)))),
    ),
    # Labels share one budget, so more of them carry more noise each.
    "queries": Setting(
        "records of the student pool that the teachers label", 1.0, _POOL, "records", whole=True,
        default=Rule(
            "every record of the student pool, at most 20,000", lambda s: float(max(1, min(20_000, s.pool)))
        ),
    ),
    "teacher_penalty": Setting(
        "weight of the squared norm of a teacher's parameters", 1e-9, 1e6, "nats",
        default=Rule("0.01", lambda s: 0.01),
    ),
    "student_penalty": Setting(
        "weight of the squared norm of the student's parameters", 1e-9, 1e6, "nats",
        default=Rule("0.01", lambda s: 0.01),
    ),
}  # fmt: skip

RULES: dict[str, Rule] = {
    "batch_size": Rule(
        "power of two nearest to 2 sqrt(N), within 32 and 4,096",
        lambda s: power_of_two(2 * math.sqrt(s.n_public), 32, 4096),
    ),
    "epochs": Rule(
        "20, or what 1,000 steps take if that is more (at most 100); 500 steps for networks",
        lambda s: min(100, max(20, math.ceil(_least_steps(s) * _batch(s) / s.n_public))),
    ),
    **{name: setting.default for name, setting in SETTINGS.items() if setting.default is not None},
}


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
