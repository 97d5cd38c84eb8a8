"""A choice: the answer, every method, every test, and what the promise rests on."""

from collections.abc import Iterator

from fairaudit.choosing.choice import Choice, TestedNumber
from fairaudit.report.document import (
    Block,
    Cell,
    Heading,
    Quantity,
    Section,
    Strong,
    Text,
    bullets,
    table,
)
from fairaudit.report.model import Report
from fairaudit.report.numbers import POINTS, UNKNOWN, written
from fairaudit.report.numbers import number as decimal
from fairaudit.report.safe_names import plain

OUTCOMES = {"passes": "passes", "breaks": "breaks", "undecided": "cannot tell"}
_TITLES = {
    "recommended": "Recommended: {method} at epsilon {epsilon:g}",
    "none passes": "No method passes",
    "undecided": "Undecided: no method is shown to pass",
}
_METHODS = (
    "method",
    "#smallest ε that passes",
    "#gap (points)",
    "#largest cost (points)",
    "#accuracy (%)",
    "why not smaller",
)
_TESTS = (
    "#test",
    "method",
    "#ε",
    "#seeds",
    "number",
    "#estimate",
    "#limit by the test",
    "#rule's limit",
    "outcome",
)
_MOST_ROWS = 60
_LONGEST = 2000  # characters of the answer or a condition


def section(report: Report) -> Section | None:
    """The section on the chosen epsilon; None where nothing was chosen."""
    choice = Choice.of(report)
    if choice is None:
        return None
    facts = choice.told
    title = _TITLES[choice.status].format(method=facts.method, epsilon=facts.target_epsilon)
    answer: list[Block] = [
        Text((Strong(f"{plain(choice.answer, _LONGEST)}."),)),
        Text(choice.promise),
    ]
    rows: list[tuple[Cell, ...]] = []
    for method in choice.methods:
        smallest = UNKNOWN
        if method.target_epsilon is not None:
            smallest = f"{method.target_epsilon:g}"
        test = choice.ended_at(method)
        cost = written(test.cost, POINTS, unknown=UNKNOWN)
        if test.cost_group:
            cost += f" ({plain(test.cost_group)})"
        rows.append(
            (
                plain(method.method),
                smallest,
                Quantity(test.gap, POINTS, UNKNOWN),
                cost,
                Quantity(test.accuracy, POINTS, UNKNOWN),
                plain(method.ended, 400),
            )
        )
    methods = table(_METHODS, rows, most=_MOST_ROWS)
    rules = "; ".join(plain(f"{rule} ({words})", 400) for rule, words in choice.rules.items())
    level = (
        f"Each limit is one-sided at {100 * choice.level:.3g} %; to pass, it must keep the "
        "rule. Intervals elsewhere are 95 %, over seeds and test rows."
    )
    tests = table(_TESTS, list(_tests(choice)), most=_MOST_ROWS)
    blocks: tuple[Block, ...] = (
        *answer,
        methods,
        Text(f"Rules: {rules}."),
        Heading("What was tested, in this order"),
        tests,
        Text(level),
        *bullets([plain(condition, _LONGEST) for condition in choice.conditions]),
        *bullets([f"Failed: {plain(failure, 300)}" for failure in choice.failed[:_MOST_ROWS]]),
    )
    brief: tuple[Block, ...] = (methods, *answer)
    return Section("choice", plain(title, 200), blocks, brief)


def _tests(choice: Choice) -> Iterator[tuple[Cell, ...]]:
    """Rows of the table of tests: one for each number of each test, in the order of the tests."""
    for place, test in enumerate(choice.tests, start=1):
        for number in test.numbers:
            where = ""
            if number.group:
                where = f" ({number.group})"
            why = ""
            if number.reason:
                why = f": {number.reason}"
            yield (
                str(place),
                plain(test.method),
                f"{test.target_epsilon:g}",
                str(test.seeds),
                plain(f"{number.metric}{where}", 200),
                UNKNOWN if number.value is None else shown(number, number.value),
                UNKNOWN if number.bound is None else shown(number, number.bound),
                shown(number, number.limit),
                plain(OUTCOMES[number.outcome] + why, 300),
            )


def number_text(number: TestedNumber) -> str:
    """One tested number in words: its value, the one-sided limit that decides, the rule's limit.

    What decides is the limit at the test's level; where the rule is broken, the 95 % limit on the
    other side.
    """
    where = ""
    if number.group:
        where = f" ({number.group})"
    if number.value is None or number.bound is None or number.other_bound is None:
        return f"{number.metric}{where} has no value to judge: {number.reason}"
    value, limit = (shown(number, x) for x in (number.value, number.limit))
    is_broken = number.outcome == "breaks"
    bound = number.other_bound if is_broken else number.bound
    # ``bound`` lies on the side that fails, and the other limit opposite.
    fails_high = number.bound >= number.value
    side = "at most"
    if fails_high == is_broken:
        side = "at least"
    return f"{number.metric}{where} is {value}, {side} {shown(number, bound)}, limit {limit}"


def shown(number: TestedNumber, value: float) -> str:
    """A value of a tested number, or its limit, in the unit in which people read it."""
    if number.unit == "nats":
        return f"{value:.3g} nats"
    if number.unit != "fraction":
        return f"{value:.3g}"
    share = decimal(100 * value, decimals=1)
    if number.metric.endswith("_gap") or "privacy_cost" in number.metric:
        return f"{share} points"
    return f"{share} %"


SECTIONS = {"summary": section}
