"""Choice -> Markdown, and its chart; the HTML is the same text with the chart drawn."""

from collections.abc import Iterator

from fairaudit.choosing import words
from fairaudit.choosing.model import Choice, Tested
from fairaudit.report.charts_epsilon import COSTS_DRAWN, AtEpsilon, epsilon_panels
from fairaudit.report.names import markdown
from fairaudit.report.panels import Chart, DataTable
from fairaudit.report.tables import UNKNOWN, Row, table
from fairaudit.report.text import REPORT_NOT_DP
from fairaudit.report.written import POINTS, written
from fairaudit.results.estimates import Interval

CHART = "choice-epsilon"
OVER_EPSILON = "Gap and cost over epsilon"
_TITLES = {
    "recommended": "Recommended: {method} at epsilon {epsilon:g}",
    "none passes": "No method passes",
    "undecided": "Undecided: no method is shown to pass",
}
_METHODS = (
    *("method", "#smallest ε that passes", "#gap (points)", "#largest cost (points)", "#accuracy (%)"),
    "why not smaller",
)
_ARMS = ("method", "#ε", "#seeds", "#gap (points)", "#largest cost (points)", "#accuracy (%)", "outcome")
_TESTS = (
    *("#test", "method", "#ε", "#seeds", "number", "#estimate", "#limit by the test", "#rule's limit"),
    "outcome",
)
_MOST_ROWS = 60
_LONGEST = 2000
_HUNDRED = 100.0


def title(choice: Choice) -> str:
    """The answer in few words."""
    test = choice.last(choice.arm or choice.nearest or "")
    return _TITLES[choice.status].format(method=test.method, epsilon=test.target_epsilon)


def to_markdown(choice: Choice) -> str:
    """The choice as text: the recommendation first."""
    return "\n".join(_lines(choice)) + "\n"


def _lines(choice: Choice) -> Iterator[str]:
    yield f"# {markdown(title(choice), 200)}"
    yield ""
    yield f"**{markdown(choice.answer, _LONGEST)}.**"
    yield ""
    test = choice.last(choice.arm or choice.nearest or "")
    at = f"epsilon {test.target_epsilon:g}, δ = {choice.delta:g}"
    yield f"{markdown(words.attack(choice), _LONGEST)} ({at})."
    yield ""
    yield f"{choice.promise} What it rests on stands below."
    if choice.train:
        yield ""
        yield "Train it for release, with fresh noise:"
        yield ""
        yield f"    {choice.train}"
    yield ""
    yield from _evidence(choice)
    yield "## What is promised, and on which conditions"
    yield ""
    yield choice.promise
    yield ""
    for condition in choice.conditions:
        yield f"- {markdown(condition, _LONGEST)}"
    yield f"- {REPORT_NOT_DP}"
    if choice.failed:
        yield ""
        yield "## Trainings that failed"
        yield ""
        yield from (f"- {markdown(one, 300)}" for one in choice.failed[:_MOST_ROWS])
    yield ""
    yield "## Reproduce"
    yield ""
    yield f"    {choice.reproduce}"
    yield ""
    yield f"Data: {markdown(choice.data)}, sha256 {choice.sha256[:16]}…; fairaudit {choice.tool.version}."


def _evidence(choice: Choice) -> Iterator[str]:
    """The tables: by method, by epsilon, by test."""
    yield "## By method"
    yield ""
    yield f"Rules: {'; '.join(markdown(f'{r.rule} ({r.words})', 400) for r in choice.rules)}."
    yield ""
    yield from table(_METHODS, [_of_method(choice, m.method) for m in choice.methods], most=_MOST_ROWS)
    yield ""
    yield "Intervals are those of the report: 95 %, over seeds and test rows. Where none passes, the figures"
    yield "are those of the epsilon at which the method ended."
    yield ""
    yield f"## {OVER_EPSILON}"
    yield ""
    yield from table(_ARMS, [_of_arm(test) for test in _last_looks(choice)], most=_MOST_ROWS)
    yield ""
    yield "## What was tested, in this order"
    yield ""
    yield from table(_TESTS, list(_tests(choice)), most=_MOST_ROWS)
    yield ""
    yield (
        f"The limit by the test is one-sided at {_HUNDRED * choice.level:.3g} %; to pass, it must keep the "
        "rule. More seeds are not tried where the one-sided 95 % limit on the other side breaks it."
    )
    yield ""


def _of_method(choice: Choice, method: str) -> Row:
    found = next(m for m in choice.methods if m.method == method)
    test = (
        choice.last(found.arm) if found.arm else next(t for t in reversed(choice.tests) if t.method == method)
    )
    smallest = UNKNOWN if found.target_epsilon is None else f"{found.target_epsilon:g}"
    return markdown(method), smallest, *_figures(test), markdown(found.ended, 400)


def _of_arm(test: Tested) -> Row:
    outcome = words.OUTCOMES[test.outcome]
    return markdown(test.method), f"{test.target_epsilon:g}", str(test.seeds), *_figures(test), outcome


def _figures(test: Tested) -> tuple[str, str, str]:
    cost = written(test.cost, POINTS, unknown=UNKNOWN)
    of = f" ({markdown(test.cost_group)})" if test.cost_group else ""
    return (
        written(test.gap, POINTS, unknown=UNKNOWN),
        cost + of,
        written(test.accuracy, POINTS, unknown=UNKNOWN),
    )


def _tests(choice: Choice) -> Iterator[Row]:
    for number, test in enumerate(choice.tests, start=1):
        for one in test.numbers:
            value, bound = (UNKNOWN if x is None else words.shown(one, x) for x in (one.value, one.bound))
            what = f"{one.metric}{f' ({one.group})' if one.group else ''}"
            outcome = words.OUTCOMES[one.outcome] + (f": {one.reason}" if one.reason else "")
            yield (
                str(number), markdown(test.method), f"{test.target_epsilon:g}", str(test.seeds),
                markdown(what, 200), value, bound, words.shown(one, one.limit), markdown(outcome, 300),
            )  # fmt: skip


def _last_looks(choice: Choice) -> list[Tested]:
    """Each arm once, in the order of the tests."""
    return [choice.last(arm) for arm in dict.fromkeys(test.arm for test in choice.tests)]


def chart(choice: Choice) -> Chart:
    """Gap and cost against epsilon, a line for each method, on one axis, with the rules' limits."""
    arms = _last_looks(choice)
    limits: dict[str, float] = {}
    for rule in choice.rules:
        limits[rule.metric] = min(rule.limit, limits.get(rule.metric, rule.limit))
    drawn = [AtEpsilon(test.method, test.target_epsilon, test.gap, test.cost) for test in arms]
    shown = {metric: limit for metric, limit in limits.items() if metric in COSTS_DRAWN}
    head = (
        "method",
        "epsilon",
        "seeds",
        "gap (points)",
        "low",
        "high",
        "largest cost",
        "low",
        "high",
        "outcome",
    )
    rows = tuple(
        (t.method, t.target_epsilon, t.seeds, *_cells(t.gap), *_cells(t.cost), words.OUTCOMES[t.outcome])
        for t in arms
    )
    return Chart(
        name=CHART,
        title=OVER_EPSILON,
        reading="One line for each method; both drawings have one scale. The dotted line is the limit of the "
        "rule. Whiskers are 95 % intervals; a test's own limit is wider and stands in the table of tests.",
        alt=f"Gap between groups and largest cost of a group at each epsilon tested. {choice.answer}.",
        panels=epsilon_panels(drawn, shown),
        table=DataTable(head, rows),
    )


def _cells(number: Interval) -> tuple[float | None, float | None, float | None]:
    shown = number.scaled(_HUNDRED)
    return shown.value, shown.low, shown.high
