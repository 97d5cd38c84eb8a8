"""What a choice says, in sentences no stronger than its tests."""

from collections.abc import Iterator, Sequence

from fairaudit.choosing.choice import Status, Tested
from fairaudit.choosing.section import number_text, percent
from fairaudit.choosing.sequence import ALPHA, unseen
from fairaudit.errors import numbered
from fairaudit.planning.plan import Plan
from fairaudit.report.numbers import POINTS, written

PROMISE = (
    "The chance that this procedure recommends a method at an epsilon that breaks a rule is at "
    f"most {100 * ALPHA:g} %."
)


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
    none = (
        "No method passes" if status == "none passes" else "Undecided: no method is shown to pass"
    )
    nearest = "" if methods == 1 else "nearest: "
    return (
        f"{none}; {nearest}{test.method} at epsilon {test.target_epsilon:g}: "
        f"{number_text(open_ones[0])}"
    )


def figures(test: Tested) -> str:
    """Gap, largest cost and accuracy of an arm, with 95 % intervals."""
    parts = [f"gap {written(test.gap, POINTS)} points"] if test.gap.value is not None else []
    if test.cost.value is not None:
        parts.append(f"largest cost {written(test.cost, POINTS)} points ({test.cost_group})")
    if test.accuracy.value is not None:
        parts.append(f"accuracy {percent(test.accuracy)}")
    return ", ".join(parts)


def ended(stopped: Tested | None) -> str:
    """Why a method was not tested at a smaller epsilon; None: there was none."""
    if stopped is None:
        return "passes at every epsilon that was asked for"
    open_ones = [number for number in stopped.numbers if number.outcome == stopped.outcome]
    how = (
        "breaks a rule"
        if stopped.outcome == "breaks"
        else f"cannot be told with {stopped.seeds} seeds"
    )
    return f"epsilon {stopped.target_epsilon:g} {how}: {number_text(open_ones[0])}"


def conditions(
    level: float,
    methods: int,
    looks: Sequence[int],
    tests: Sequence[Tested],
    plan: Plan,
) -> Iterator[str]:
    """What the promise rests on, and what it does not cover."""
    sizes = ", ".join(map(str, looks))
    settings, covered = (
        ("such searches", "search for settings")
        if any(arm.search for arm in plan.arms)
        else ("these settings", "training")
    )
    yield (
        f"The {100 * ALPHA:g} % are shared by {numbered(methods, 'method')} and "
        f"{numbered(len(looks), 'look')} ({sizes} seeds), so each test is one-sided at "
        f"{100 * level:.3g} %. Epsilons are tested from the largest down, and the first that does "
        "not pass ends its method; all rules, groups and both signs of a gap must pass. So these "
        "need no further share."
    )
    passed = [test.seeds for test in tests if test.outcome == "passes"]
    seeds = min(passed, default=max(test.seeds for test in tests))
    rate = 100 * unseen(seeds, level)
    yield (
        f"A training that goes bad with a probability below {rate:.0f} % may never "
        f"have shown in {seeds} seeds; the promise is about means over trainings, not about the "
        "one that is released."
    )
    yield (
        "In simulations the level is kept where effects of seeds are normal and where they are "
        "exponential, small or large; where they are more skewed than that, or rare bad trainings "
        "rule, it is not (docs/choosing.md)."
    )
    if plan.config.split_column:
        yield (
            "The limits are about training randomness on this training set and about new people "
            "of the same population as the test rows."
        )
    else:
        yield (
            f"The limits are about {settings} of each method, trained on rows of this file, and "
            "about new people of the same population. A new file may move a loss by more: limits "
            "of 1.2 to 1.5 times the width would allow for it."
        )
    yield (
        f"Epsilon covers one {covered}. It does not cover the choice of method and epsilon, which "
        "was made by looking at these data."
    )
    small = dict.fromkeys(each for test in tests for each in test.left_out)
    if small:
        yield f"Groups too small to be judged are not promised anything: {'; '.join(small)}."
