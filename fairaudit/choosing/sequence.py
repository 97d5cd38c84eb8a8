"""Which epsilon is tested next, and at which level. Pure; knows no report and no training.

For each method the epsilons are tested from the largest down, and the first that does not pass ends
it. A method's error is then that of the first test whose rule is truly broken, so no correction
over epsilons is needed, whatever shape the truth has (fixed-sequence testing: Maurer, Hothorn and
Lehmacher 1995). What is shared is 5 % over methods and looks: each test is made one-sided at .05 /
(methods * looks). Within a test all rules, groups and both signs of a gap must pass, so these need
no correction either (intersection-union: Berger 1982).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from fairaudit.choosing.tested import Outcome
from fairaudit.metrics.quantiles import quantiles
from fairaudit.privacy.streams import numpy_stream
from fairaudit.results.estimates import Ends

ALPHA = 0.05  # the most that the chance may be that a recommended arm breaks a rule
FUTILITY = 0.05  # one-sided level of the limit that gives an arm up: more seeds are not tried
FIRST_LOOK, SEEDS_MAX = 10, 20  # seeds, unless the command says otherwise


class Number(NamedTuple):
    """A measured number with the variances that its limits are made of.

    Args:
        value: Mean over seeds.
        seed_variance: V_seed, the variance of that mean by the spread over seeds.
        own_variance: V_own, the share of V_seed that test records cause. It comes of a mean over
            many records, so it is not skewed.
        record_variance: V_rec, the variance by test records, V_own included.
        seeds: How many.
        is_size: Whether it is an absolute value, nowhere below 0.
    """

    value: float
    seed_variance: float
    own_variance: float
    record_variance: float
    seeds: int
    is_size: bool

    def limits(self, level: float) -> Ends:
        """The lower and the upper limit, each one-sided at ``level``, also where seeds are skewed.

        Each is ``sqrt(t^2 V_seed + (c^2 - t^2) (V_seed - V_own) + z^2 V_rec)`` away from the value:
        t and z are quantiles of Student's t and the normal law, c is :func:`skewed_quantile`.
        Source: docs/methods.md 6.9.
        """
        t, z = quantiles(1.0 - level, self.seeds - 1)
        # Fewer seeds are too few to take V_own off: all of V_seed then counts as skewed.
        own = self.own_variance if self.seeds >= FIRST_LOOK else 0.0
        skewed = max(0.0, self.seed_variance - own)
        c = skewed_quantile(level, self.seeds) if skewed else t
        of_seeds = t**2 * self.seed_variance + (c**2 - t**2) * skewed
        return self._around(math.sqrt(of_seeds + z**2 * self.record_variance))

    def plain_limits(self, level: float) -> Ends:
        """The limits of the usual t interval, each one-sided at ``level``: seeds taken for normal.

        These limits only decide that more seeds are not worth trying. That lets no arm pass, so it
        costs nothing of the promise.
        """
        t, z = quantiles(1.0 - level, self.seeds - 1)
        return self._around(math.sqrt(t**2 * self.seed_variance + z**2 * self.record_variance))

    def _around(self, half: float) -> Ends:
        """The value minus and plus ``half``; the lower end of a size is not below 0."""
        low = self.value - half
        return Ends(max(0.0, low) if self.is_size else low, self.value + half)

    def judged(self, fails: Callable[[float], bool], *, fails_above: bool, level: float) -> Outcome:
        """Test the number against a rule: ``passes``, ``breaks`` or ``undecided``.

        The number passes where its limit on the side where the rule fails keeps the rule. It breaks
        the rule where the limit on the other side breaks it, by the usual t interval at
        ``FUTILITY``.

        Args:
            fails: Whether a value breaks the rule.
            fails_above: Whether it is large values that break the rule, not small ones.
            level: One-sided level of the limit that must keep the rule for a pass.
        """
        # A size above a limit may come from either sign, so a rule that fails small sizes, and
        # passes large ones, has two ways to err: half of the level for each.
        low, high = self.limits(level if fails_above or not self.is_size else level / 2)
        if not fails(high if fails_above else low):
            return "passes"
        low, high = self.plain_limits(FUTILITY)
        return "breaks" if fails(low if fails_above else high) else "undecided"


def look_sizes(first: int, most: int) -> tuple[int, ...]:
    """Seeds at each look: ``first``, then twice as many each time, at last ``most``."""
    sizes = [min(first, most)]
    while sizes[-1] < most:
        sizes.append(min(2 * sizes[-1], most))
    return tuple(sizes)


@dataclass(slots=True)
class Course:
    """How far the tests have come: per method epsilon after epsilon, per epsilon look after look.

    Args:
        families: Method -> keys of its arms, a method at an epsilon each, the largest first.
        looks: Seeds at each look.

    Attributes:
        passed: Method -> its arms that have passed, in the order of ``families``.
    """

    families: Mapping[str, Sequence[str]]
    looks: tuple[int, ...]
    passed: dict[str, list[str]] = field(init=False)
    # Method -> place in `looks` of the look that its current arm waits for; ended methods are gone.
    _look: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        """Set every method before the first look at its largest epsilon."""
        self.passed = {family: [] for family in self.families}
        self._look = dict.fromkeys(self.families, 0)

    @property
    def level(self) -> float:
        """The one-sided level of each test: ``ALPHA`` shared out to all methods and looks."""
        return ALPHA / (len(self.families) * len(self.looks))

    def due(self) -> dict[int, list[str]]:
        """Number of seeds -> arms that wait for a look with so many; empty if all methods ended."""
        by_look: dict[int, list[str]] = {}
        for family, look in self._look.items():
            by_look.setdefault(self.looks[look], []).append(self._current(family))
        return dict(sorted(by_look.items()))

    def enter(self, arm: str, outcome: Outcome, *, is_final: bool = False) -> None:
        """Note the outcome of a look at an arm that was due, and what its method tests next.

        - ``passes``: the method's next smaller epsilon is due, at the first look; without a smaller
          one the method ends.
        - ``breaks``: the method ends, and its smaller epsilons are not tested.
        - ``undecided``: the same arm is due again, at the next look; after the last look, or where
          it is ``is_final`` (more seeds cannot decide), the method ends.
        """
        family = next(name for name in self._look if self._current(name) == arm)
        if outcome == "passes":
            self.passed[family].append(arm)
            self._look[family] = 0
            if len(self.passed[family]) == len(self.families[family]):
                del self._look[family]
        elif outcome == "breaks" or is_final or self._look[family] + 1 == len(self.looks):
            del self._look[family]
        else:
            self._look[family] += 1

    def _current(self, family: str) -> str:
        """The arm at which a method stands: its largest epsilon that has not passed."""
        return self.families[family][len(self.passed[family])]


# How many samples the coefficient of variation v is drawn from, and how many values they may have
# together at most: c is then right to half a per cent.
_DRAWS, _NUMBERS = 10_000, 2**20
_LARGEST = 1e6  # upper end of the bisection for the factor


@lru_cache(maxsize=1024)
def skewed_quantile(level: float, seeds: int) -> float:
    """The c with which ``mean + c sqrt(V_seed)`` is an upper limit at a level, seeds skewed or not.

    It is at least Student's quantile. Student's t breaks its level where a bad training is worse by
    far more than a good one is better: a sample that misses the bad ones has a low mean and a small
    spread at once. With exponential effects and ten seeds the upper limit at 1.25 % fails in 7 %.
    No reading of the sample's own skewness makes up for it: it is smallest in just those samples.
    So the quantile is the larger of those that a normal and an exponential law need, and holds for
    both.

    For n exponential values the sample's mean m is independent of its coefficient of variation
    v = s / m, s its standard deviation (Basu 1955), so with m ~ Gamma(n) / n,

        P(sqrt(n) (m - 1) / s < -c) = E_v P(m < 1 / (1 + c v / sqrt(n))),

    which leaves one mean over v, taken over draws that are always the same.

    Args:
        level: One-sided chance that the limit lies below the truth, under one half.
        seeds: Number of values of which the mean is taken, at least 2.
    """
    from scipy.special import gammainc  # scipy takes 0.4 s to import

    draws = numpy_stream(0, "probe", "skew", seeds).random((min(_DRAWS, _NUMBERS // seeds), seeds))
    effects = -np.log1p(-draws)  # exponential values by inversion, [draws, seeds]
    # v / sqrt(n) of each draw, [draws].
    ratio = effects.std(axis=1, ddof=1) / effects.mean(axis=1) / math.sqrt(seeds)
    # Bisection of log(c), from Student's quantile, the least c: where that is enough, it stays.
    low = quantiles(1.0 - level, seeds - 1)[0]
    high = _LARGEST
    while high - low > 1e-9 * high:
        middle = math.sqrt(low * high)
        # n m follows Gamma(n), so P(m < x) is gammainc(n, n x).
        if gammainc(seeds, seeds / (1.0 + middle * ratio)).mean() > level:
            low = middle
        else:
            high = middle
    return high
