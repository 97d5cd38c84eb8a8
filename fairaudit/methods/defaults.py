"""The documented rules behind every number that a user leaves out; functions of public sizes only.

None of them looks at a record: they read the number of training records, the number of columns, the
model's name and the noise that the target asks for, all known before training, so they cost no privacy.
Their constants are those of least regret on public tables (``benchmarks/defaults.py``).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

NETWORK_GRADIENT = 10.0  # two layers of 256 units start with gradients of 5 to 10
BORNE = 0.7  # nats by which all noise of a training may move a logit


@dataclass(frozen=True, slots=True)
class Sizes:
    """What a rule may read.

    Args:
        n_public: N, training records. columns: Raw feature columns. model: Its name.
        groups: K, groups of the first grouping, the level of rows without one included.
        pool: Records of the student pool.
        noise_multiplier: sigma of the arm if it released gradients alone; 0 where none has noise.
        steps: T of that arm. expected_batch_size: qN, the same.
    """

    n_public: int
    columns: int
    model: str
    groups: int = 2
    pool: int = 0
    noise_multiplier: float = 0.0
    steps: int = 0
    expected_batch_size: float = 1.0

    @property
    def is_linear(self) -> bool:
        """Whether the model has no hidden layer."""
        return self.model in ("logistic", "logistic-squashed")

    @property
    def longest_gradient(self) -> float:
        """A typical record's longest gradient: clipped to it, hardly any gradient is.

        A standardised numeric column and a one-hot encoded categorical column each add about 1 to the
        expected squared norm of an input and the bias adds 1; at the outputs it is at most sqrt(2).
        """
        if self.is_linear:
            return math.sqrt(2.0 * (self.columns + 1.0))
        return (
            max(NETWORK_GRADIENT, 1.5 * math.sqrt(self.columns)) if self.model == "cnn" else NETWORK_GRADIENT
        )

    @property
    def noise_spread(self) -> float:
        """sigma sqrt(T) / (qN): the noise of all steps together, in clipping bounds."""
        return self.noise_multiplier * math.sqrt(self.steps) / self.expected_batch_size


@dataclass(frozen=True, slots=True)
class Rule:
    """A default: its value for given sizes, and the words that the report prints for it."""

    text: str
    value: Callable[[Sizes], float]


def power_of_two(value: float, low: int, high: int) -> int:
    """The power of two nearest to ``value`` on a log scale, within [low, high]."""
    return int(min(max(2 ** round(math.log2(max(value, 1.0))), low), high))


@dataclass(frozen=True, slots=True)
class Search:
    """Where tuning looks for a number: multiples of its default, the same on all data, so public.

    Args:
        low_factor: Smallest multiple; between the two ends tuning draws log-uniformly.
        high_factor: Largest multiple.
        choices: The multiples themselves, each as likely, in place of the ends; or empty.
    """

    low_factor: float = 1.0
    high_factor: float = 1.0
    choices: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Setting:
    """A number that a method reads: what it is, the values that it may have, and its default.

    Args:
        meaning: One line.
        low: Smallest value.
        high: Largest value, or the rule for it.
        unit: Of the number; "" for a pure one.
        whole: No fractions.
        or_zero: 0 will do as well.
        default: Its rule; None where there is none, so that it is given or calibrated.
        search: Where tuning looks for it; None where it keeps its default.
    """

    meaning: str
    low: float
    high: float | Rule
    unit: str = ""
    whole: bool = False
    or_zero: bool = False
    default: Rule | None = None
    search: Search | None = None

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


def _step(sizes: Sizes) -> float:
    """Without noise twice the inverse of the loss's smoothness; noise makes it shorter.

    With gradients of norm G a softmax regression has smoothness G^2 / 4 at most. All noise of a training
    together moves a logit by about step * C * s * G, s the noise spread.
    """
    bound = sizes.longest_gradient
    slope = bound if sizes.is_linear else NETWORK_GRADIENT
    plain = 4.0 / slope**2
    return min(plain, BORNE / (slope * bound * sizes.noise_spread)) if sizes.noise_spread else plain


_BOUND = Rule(
    "sqrt(2 (columns + 1)), a typical record's longest gradient, for linear models; 10 for networks, "
    "for cnn 1.5 sqrt(pixels) if that is more",
    lambda s: s.longest_gradient,
)
_RECORDS = Rule("the number of training records", lambda s: float(s.n_public))
_POOL = Rule("the records of the student pool", lambda s: float(max(1, s.pool)))
_OF_GRADIENT = "norm of a record's gradient"
_WIDE = Search(1 / 16, 16.0)
EPOCHS_SEARCH = Search(choices=(0.25, 0.5, 1.0, 2.0))

# One entry for every number that a built-in method reads. The ends are where training is still finite.
SETTINGS: dict[str, Setting] = {
    "learning_rate": Setting(
        "step size",
        1e-9,
        1e6,
        "step per unit of the mean gradient",
        default=Rule(
            "2 / (columns + 1) for linear models, 0.04 for networks; with noise no more than "
            "0.35 / ((columns + 1) s) or 0.07 / (C s), s = sigma sqrt(steps) / (qN)",
            _step,
        ),
        search=_WIDE,
    ),
    "max_grad_norm": Setting("clipping bound C", 1e-6, 1e6, _OF_GRADIENT, default=_BOUND, search=_WIDE),
    "noise_multiplier": Setting("noise over sensitivity; 0 is not private", 0.001, 1e6, or_zero=True),
    "threshold": Setting(
        "threshold Z, where the method adapts it its start",
        1e-6,
        1e6,
        _OF_GRADIENT,
        default=_BOUND,
        search=_WIDE,
    ),
    "tolerance": Setting(
        "a norm above so many Z counts as exceeding", 0.0, 1e6, "Z", default=Rule("1", lambda s: 1.0)
    ),
    "threshold_learning_rate": Setting(
        "how far Z shrinks where nothing exceeds it", 0.0, 10.0, "log Z per step",
        default=Rule("0.1", lambda s: 0.1),
    ),
    "count_noise_multiplier": Setting(
        "noise on counts of records", 0.1, 1e6, "records",
        default=Rule(
            "10, or 2.5 sigma of dpsgd if that is more, up to half the expected batch and 1,000",
            lambda s: max(10.0, min(2.5 * s.noise_multiplier, s.expected_batch_size / 2.0, 1000.0)),
        ),
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
        default=Rule("2 times the number of groups", lambda s: 2.0 * s.groups),
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
        default=Rule("10 / N", lambda s: float(f"{10 / s.n_public:.3g}")), search=_WIDE,
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
        search=Search(0.25, 4.0),
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


def effective_step(step: float, threshold: float, bound: float) -> float:
    """The step with which a method that scales by C/Z goes as far as ``step`` does without."""
    return step * threshold / bound


def _least_steps(sizes: Sizes) -> int:
    return 1000 if sizes.is_linear else 500


def _batch(sizes: Sizes) -> float:
    return RULES["batch_size"].value(sizes)


def default_delta(n_public: int) -> float:
    """The largest power of ten that is at most 1 / (10 N)."""
    return float(f"1e{math.floor(-math.log10(10.0 * n_public) + 1e-12)}")
