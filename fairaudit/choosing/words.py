"""What a choice says, in sentences no stronger than its tests."""

from collections.abc import Iterator, Sequence

from fairaudit.choosing.result import Choice, Status, Tested, TestedNumber
from fairaudit.choosing.sequence import ALPHA, unseen
from fairaudit.errors import numbered
from fairaudit.planning.plan import Plan
from fairaudit.report.written import PERCENT, POINTS, spoken_rates, written
from fairaudit.report.written import number as decimal
from fairaudit.results.estimates import Interval

PROMISE = (
    f"The chance that this procedure recommends a method at an epsilon that breaks a rule is at most "
    f"{100 * ALPHA:g} %."
)
OUTCOMES = {"passes": "passes", "breaks": "breaks", "undecided": "cannot tell"}


def answer(status: Status, test: Tested, methods: int) -> str:
    """The answer in one sentence.

    Args:
        status: Of the choice.
        test: The last look at the recommended arm, else at the nearest.
        methods: How many were looked at.
    """
    if status == "recommended":
        return f"{test.method} at epsilon {test.target_epsilon:g} keeps every rule: {figures(test)}"
    open_ones = [number for number in test.numbers if number.outcome != "passes"]
    none = "No method passes" if status == "none passes" else "Undecided: no method is shown to pass"
    nearest = "" if methods == 1 else "nearest: "
    return f"{none}; {nearest}{test.method} at epsilon {test.target_epsilon:g}: {number_text(open_ones[0])}"


def figures(test: Tested) -> str:
    """Gap, largest cost and accuracy of an arm, with 95 % intervals."""
    parts = [f"gap {written(test.gap, POINTS)} points"] if test.gap.value is not None else []
    if test.cost.value is not None:
        parts.append(f"largest cost {written(test.cost, POINTS)} points ({test.cost_group})")
    if test.accuracy.value is not None:
        parts.append(f"accuracy {percent(test.accuracy)}")
    return ", ".join(parts)


def percent(number: Interval) -> str:
    """A share in per cent with its interval."""
    return f"{written(number, POINTS)} %" if number.value is not None else written(number, PERCENT)


def training(choice: Choice) -> str:
    """What stands before the command that trains for release."""
    told = "Train it for release, with fresh noise"
    if "--accept-fitted-preprocessing" in choice.train:
        told += (
            "; scales and levels of undeclared columns are outside of epsilon, unless --columns declares them"
        )
    if "--despite-gates" in choice.train:
        told += "; the report's own 95 % intervals leave a rule open that the tests have settled"
    return told


def ended(stopped: Tested | None) -> str:
    """Why a method was not tested at a smaller epsilon; None: there was none."""
    if stopped is None:
        return "passes at every epsilon that was asked for"
    open_ones = [number for number in stopped.numbers if number.outcome == stopped.outcome]
    how = "breaks a rule" if stopped.outcome == "breaks" else f"cannot be told with {stopped.seeds} seeds"
    return f"epsilon {stopped.target_epsilon:g} {how}: {number_text(open_ones[0])}"


def number_text(number: TestedNumber) -> str:
    """A number with the limit that decides about it and, where it is undecided, what would decide."""
    where = f" ({number.group})" if number.group else ""
    if number.value is None or number.bound is None or number.other_bound is None:
        return f"{number.metric}{where} has no value to judge: {number.reason}"
    value, limit = (shown(number, x) for x in (number.value, number.limit))
    fails_high = number.bound >= number.value
    if number.outcome == "breaks":
        side, bound = ("at least" if fails_high else "at most"), number.other_bound
    else:
        side, bound = ("at most" if fails_high else "at least"), number.bound
    said = f"{number.metric}{where} is {value}, {side} {shown(number, bound)}, limit {limit}"
    return said + (f"; {_needed(number)}" if number.outcome == "undecided" else "")


def _needed(number: TestedNumber) -> str:
    if number.seeds_needed is None:
        return "it lies too near the limit for any number of seeds"
    rows = f" and {number.rows_factor:.1f} times the test rows" if number.rows_factor else ""
    return f"about {number.seeds_needed:,} seeds{rows} would decide"


def shown(number: TestedNumber, value: float) -> str:
    """A value in the unit in which people read it."""
    if number.unit == "fraction":
        unit = "points" if number.metric.endswith("_gap") or "privacy_cost" in number.metric else "%"
        return f"{decimal(100 * value, decimals=1)} {unit}"
    return f"{value:.3g}" + (" nats" if number.unit == "nats" else "")


def attack(choice: Choice) -> str:
    """What the epsilon of the answer leaves to an attacker."""
    return spoken_rates({choice.arm or choice.nearest or "": choice.attack})


def conditions(
    level: float, methods: int, looks: Sequence[int], tests: Sequence[Tested], plan: Plan
) -> Iterator[str]:
    """What the promise rests on, and what it does not cover."""
    sizes = ", ".join(map(str, looks))
    settings, covered = (
        ("such searches", "search for settings") if plan.config.tune else ("these settings", "training")
    )
    yield (
        f"The {100 * ALPHA:g} % are shared by {numbered(methods, 'method')} and "
        f"{numbered(len(looks), 'look')} ({sizes} seeds), so each test is one-sided at {100 * level:.3g} %. "
        "Epsilons are tested from the largest down, and the first that does not pass ends its method; all "
        "rules, groups and both signs of a gap must pass. So these need no further share."
    )
    seeds = max(test.seeds for test in tests)
    yield (
        f"A training that goes bad with a probability below {100 * unseen(seeds):.0f} % may never have shown "
        f"in {seeds} seeds; the promise is about means over trainings, not about the one that is released."
    )
    yield (
        "In simulations the level is kept where effects of seeds are normal and where they are exponential, "
        "small or large; where they are more skewed than that, or rare bad trainings rule, it is not "
        "(docs/choosing.md)."
    )
    if plan.config.split_column:
        yield (
            "The limits are about training randomness on this training set and about new people of the same "
            "population as the test rows."
        )
    else:
        yield (
            "The limits are about new files and new people of the population of which these rows are a "
            f"sample, and about {settings} of each method."
        )
    yield (
        f"Epsilon covers one {covered}. It does not cover the choice of method and epsilon, which was made "
        "by looking at these data."
    )
    small = dict.fromkeys(each for test in tests for each in test.left_out)
    if small:
        yield f"Groups too small to be judged are not promised anything: {'; '.join(small)}."
