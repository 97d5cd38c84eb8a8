"""The documented rules behind every number that a user leaves out; functions of public sizes only.

None of them looks at a record: they read the number of training records, the number of columns, the
model's name and the noise that the target asks for, all known before training, so they cost no
privacy. Their constants are those of least regret on public tables (``benchmarks/defaults.py``).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from fairaudit.errors import ConfigError

NETWORK_GRADIENT = 10.0  # norm: two layers of 256 units start with gradients of 5 to 10
LARGEST_MOVE = 0.7  # of a logit by all noise of a training, nats: the default step allows no more


@dataclass(frozen=True, slots=True)
class PublicSizes:
    """What a rule for a default may read: public numbers, known before a record is drawn.

    Args:
        n_public: N, training records.
        columns: Raw feature columns; pixels of an image.
        model: The model's name.
        groups: K, groups of the first grouping, the level of rows without a group included.
        classes: Y, classes of the label.
        pool: Records of the student pool; 0 without one.
        noise_multiplier: sigma of a method that meets the target by releasing gradients alone; 0
            where no arm has noise.
        steps: T, its steps.
        expected_batch_size: qN, its expected batch size.
        max_grad_norm: C, its clipping bound, for the settings that are decided after it; 0 before.

    Example:
        >>> sizes = PublicSizes(n_public=10_000, columns=7, model="logistic")
        >>> sizes.longest_gradient  # sqrt(2 (columns + 1))
        4.0
    """

    n_public: int
    columns: int
    model: str
    groups: int = 2
    classes: int = 2
    pool: int = 0
    noise_multiplier: float = 0.0
    steps: int = 0
    expected_batch_size: float = 1.0
    max_grad_norm: float = 0.0

    @property
    def is_linear(self) -> bool:
        """Whether the model has no hidden layer."""
        return self.model in ("logistic", "logistic-squashed")

    @property
    def longest_gradient(self) -> float:
        """Norm of a typical record's longest gradient: a bound C at it clips hardly any gradient.

        For a linear model the gradient's norm is that of the input times that of the error at the
        outputs. A standardised numeric column and a one-hot encoded categorical column each add
        about 1 to the expected squared norm of an input, the bias adds 1, and the error at the
        outputs has norm sqrt(2) at most. For networks it is a constant, and for a CNN it grows with
        the number of pixels.
        """
        if self.is_linear:
            return math.sqrt(2.0 * (self.columns + 1.0))
        if self.model == "cnn":
            return max(NETWORK_GRADIENT, 1.5 * math.sqrt(self.columns))
        return NETWORK_GRADIENT

    @property
    def noise_spread(self) -> float:
        """sigma sqrt(T) / (qN): std of the sum of all steps' noise, in units of the clipping bound.

        0 where no arm has noise.
        """
        return self.noise_multiplier * math.sqrt(self.steps) / self.expected_batch_size


@dataclass(frozen=True, slots=True)
class Rule:
    """A default or the end of a range that follows from public sizes.

    Args:
        text: The words that the report prints for it.
        value: The number for given sizes.

    Example:
        >>> records = Rule("the number of training records", lambda sizes: float(sizes.n_public))
        >>> records.value(PublicSizes(n_public=800, columns=3, model="logistic"))
        800.0
    """

    text: str
    value: Callable[[PublicSizes], float]


def power_of_two(value: float, low: int, high: int) -> int:
    """The power of two nearest to ``value`` on a log scale, cut to [low, high]."""
    return int(min(max(2 ** round(math.log2(max(value, 1.0))), low), high))


@dataclass(frozen=True, slots=True)
class Search:
    """Where tuning looks for a number: multiples of its default, the same on all data, so public.

    Args:
        low_factor: Smallest multiple; between the two ends tuning draws log-uniformly.
        high_factor: Largest multiple.
        choices: The multiples themselves, each as likely, in place of the ends; or empty.

    Example:
        >>> Search(choices=(0.5, 1.0, 2.0)).text
        '0.5, 1, 2 times the default'
    """

    low_factor: float = 1.0
    high_factor: float = 1.0
    choices: tuple[float, ...] = ()

    @property
    def text(self) -> str:
        """The range or the choices in words, for a listing of the settings."""
        if self.choices:
            return f"{', '.join(f'{factor:g}' for factor in self.choices)} times the default"
        return f"{self.low_factor:g} to {self.high_factor:g} times the default"


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
        applies: Whether the setting means anything at these sizes (model, columns, clipping bound).
            Where it does not, the method's default form trains with 0, whatever number is given.
            None: it always means something.

    Example:
        >>> sizes = PublicSizes(n_public=800, columns=3, model="logistic")
        >>> weight = Setting("weight of a group", low=0.1, high=1.0, or_zero=True)
        >>> weight.admits(0.5, sizes), weight.admits(0.0, sizes), weight.admits(2.0, sizes)
        (True, True, False)
        >>> weight.range()
        '0 or a number from 0.1 to 1'
    """

    meaning: str
    low: float
    high: float | Rule
    unit: str = ""
    whole: bool = False
    or_zero: bool = False
    default: Rule | None = None
    search: Search | None = None
    applies: Callable[[PublicSizes], bool] | None = None

    def admits(self, value: float, sizes: PublicSizes) -> bool:
        """Whether the value may be given: in the range, whole if it must be; NaN may not."""
        if self.or_zero and value == 0:
            return True
        # With 0 digits round() gives a float; without, it raises an error at infinity and NaN.
        if self.whole and value != round(value, 0):
            return False
        return self.low <= value <= self.highest(sizes)

    def highest(self, sizes: PublicSizes) -> float:
        """The largest value that may be given, which may follow from the sizes by a rule."""
        if isinstance(self.high, Rule):
            return self.high.value(sizes)
        return self.high

    def range(self, sizes: PublicSizes | None = None) -> str:
        """The range in words, for messages and listings.

        An upper end that follows from the sizes is a number where they are given, with its rule
        behind it, and else the rule's words.
        """
        if not isinstance(self.high, Rule):
            high = _number_text(self.high)
        elif sizes is None:
            high = self.high.text
        else:
            high = f"{_number_text(self.high.value(sizes))} ({self.high.text})"
        zero = "0 or " if self.or_zero else ""
        whole = "whole " if self.whole else ""
        return f"{zero}a {whole}number from {_number_text(self.low)} to {high}"


def _number_text(value: float) -> str:
    """The end of a range as text: whole numbers with thousands separators, others as they are."""
    if value == int(value):
        return f"{int(value):,}"
    return f"{value:g}"


def _default_step(sizes: PublicSizes) -> float:
    """The default step size: 4 / G^2, or less where the noise would move a logit too far.

    With gradients of norm G a softmax regression has smoothness G^2 / 4 at most, whose inverse is
    the first number. All noise of a training together moves a logit by about step * G * C * s, with
    C the default clipping bound and s the noise spread; the step is shortened until a logit moves
    by ``LARGEST_MOVE`` at most.
    """
    bound = sizes.longest_gradient  # C
    if sizes.is_linear:
        gradient_norm = bound  # G
    else:
        gradient_norm = NETWORK_GRADIENT
    without_noise = 4.0 / gradient_norm**2
    if sizes.noise_spread:
        return min(without_noise, LARGEST_MOVE / (gradient_norm * bound * sizes.noise_spread))
    return without_noise


_BOUND = Rule(
    "sqrt(2 (columns + 1)), a typical record's longest gradient, for linear models; 10 for "
    "networks, for cnn 1.5 sqrt(pixels) if that is more",
    lambda s: s.longest_gradient,
)
_OF_GRADIENT = "norm of a record's gradient"
WIDE = Search(1 / 16, 16.0)
EPOCHS_SEARCH = Search(choices=(0.25, 0.5, 1.0, 2.0))

# What several methods read. The ends are where training is still finite.
LEARNING_RATE = Setting(
    "step size",
    1e-9,
    1e6,
    "step per unit of the mean gradient",
    default=Rule(
        "2 / (columns + 1) for linear models, 0.04 for networks; with noise no more than "
        "0.35 / ((columns + 1) s) or 0.07 / (C s), s = sigma sqrt(steps) / (qN)",
        _default_step,
    ),
    search=WIDE,
)
MAX_GRAD_NORM = Setting("clipping bound C", 1e-6, 1e6, _OF_GRADIENT, default=_BOUND, search=WIDE)
NOISE_MULTIPLIER = Setting("noise over sensitivity; 0 is not private", 0.001, 1e6, or_zero=True)
THRESHOLD = Setting(
    "threshold Z, where the method adapts it its start",
    1e-6,
    1e6,
    _OF_GRADIENT,
    default=_BOUND,
    search=WIDE,
)
COUNT_NOISE_MULTIPLIER = Setting(
    "noise on counts of records",
    0.1,
    1e6,
    "records",
    default=Rule(
        "10, or 2.5 sigma of dpsgd if that is more, up to half the expected batch and 1,000",
        lambda s: max(10.0, min(2.5 * s.noise_multiplier, s.expected_batch_size / 2.0, 1000.0)),
    ),
)
SMALLEST_COUNT = Setting(
    "a smaller noised count is taken for this one",
    0.001,
    1e9,
    "records",
    default=Rule("1 record", lambda s: 1.0),
)
# Newton steps that an exact minimiser is taken to need, where its work is foreseen.
NEWTON_STEPS = 5
NOISE_DRAWS = Setting(
    "draws of noise behind each expectation",
    1.0,
    10_000.0,
    "draws",
    whole=True,
    default=Rule(
        "100 for linear models, 5 for networks: draws of noise behind each expectation",
        lambda s: 100.0 if s.is_linear else 5.0,
    ),
)
FLAT = {
    "learning_rate": LEARNING_RATE,
    "max_grad_norm": MAX_GRAD_NORM,
    "noise_multiplier": NOISE_MULTIPLIER,
}  # of a method that clips and adds noise

_BATCH = Rule(
    "power of two nearest to 2 sqrt(N), within 32 and 4,096",
    lambda s: power_of_two(2 * math.sqrt(s.n_public), 32, 4096),
)
SCHEDULE_RULES: dict[str, Rule] = {
    "batch_size": _BATCH,
    "epochs": Rule(
        "20, or what 1,000 steps take if that is more (at most 100); 500 steps for networks",
        lambda s: min(
            100, max(20, math.ceil((1000 if s.is_linear else 500) * _BATCH.value(s) / s.n_public))
        ),
    ),
}


def effective_step(step: float, threshold: float, bound: float) -> float:
    """The step size for a method that multiplies gradients by C/Z: ``step`` times Z/C.

    Its parameters then move as far as those of a method that scales nothing do at ``step``.

    Args:
        step: Step size of the methods that do not scale.
        threshold: Z.
        bound: C.
    """
    return step * threshold / bound


def default_delta(n_public: int) -> float:
    """The delta of an audit that names none: the largest power of ten up to 1 / (10 N)."""
    # The addend keeps rounding from giving the next smaller power where 10 N is a power of ten.
    return float(f"1e{math.floor(-math.log10(10.0 * n_public) + 1e-12)}")


def refuse_large_delta(delta: float, n_public: int) -> None:
    """Stop where delta is not below 1/N, for then a mechanism may publish a whole record.

    Raises:
        ConfigError: Delta is 1/N or more; the hint names the default.
    """
    if not delta < 1.0 / n_public:  # refuses NaN, too
        raise ConfigError(
            f"delta {delta:g} is not below 1/N = {1 / n_public:.2g}: a record might be published",
            hint=f"use --delta {default_delta(n_public):g}",
        )
