"""Choice -> document, for Markdown and the page, its chart, and the files that show it."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from fairaudit.analysis.text import REPORT_NOT_DP
from fairaudit.choosing import words
from fairaudit.choosing.result import Choice, OfMethod, Tested
from fairaudit.io.atomic import output_error, write_atomically
from fairaudit.report.charts_costs import COSTS_DRAWN, AtEpsilon, epsilon_panels
from fairaudit.report.document import (
    Block,
    Cell,
    Chart,
    Document,
    Listing,
    Quantity,
    Rank,
    Section,
    Strong,
    Text,
    bullets,
    complete,
    data_table,
    figures,
    table,
)  # fmt: skip
from fairaudit.report.render.markdown import to_text
from fairaudit.report.safe_names import plain
from fairaudit.report.to_json import part_json
from fairaudit.report.write import FIGURES, PICTURES, write_figure
from fairaudit.report.written import POINTS, UNKNOWN, written
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


def document(choice: Choice) -> Document:
    """The choice as all renderers read it, the recommendation first."""
    return complete(plain(title(choice), 200), [part for part in _sections(choice) if part is not None])


def _sections(choice: Choice) -> Iterator[Section | None]:
    test = choice.last(choice.arm or choice.nearest or "")
    at = f"epsilon {test.target_epsilon:g}, δ = {choice.delta:g}"
    answer: list[Block] = [
        Text((Strong(f"{plain(choice.answer, _LONGEST)}."),)),
        Text(f"{plain(words.attack(choice), _LONGEST)} ({at})."),
        Text(f"{choice.promise} What it rests on stands below."),
    ]
    if choice.train:
        answer += [Text(f"{words.training(choice)}:"), Listing(choice.train)]
    yield Section("answer", "", Rank.MAIN, tuple(answer))
    rules = "; ".join(plain(f"{r.rule} ({r.words})", 400) for r in choice.rules)
    methods = [_of_method(choice, method) for method in choice.methods]
    told = (
        "Intervals are those of the report: 95 %, over seeds and test rows. Where none passes, the figures "
        "are those of the epsilon at which the method ended."
    )
    by_method: tuple[Block, ...] = (
        Text(f"Rules: {rules}."),
        table(_METHODS, methods, most=_MOST_ROWS),
        Text(told),
    )
    yield Section("methods", "By method", Rank.MAIN, by_method)
    arms = [_of_arm(test) for test in _last_looks(choice)]
    over: tuple[Block, ...] = (*figures(chart(choice)), table(_ARMS, arms, most=_MOST_ROWS))
    yield Section("epsilons", OVER_EPSILON, Rank.MAIN, over)
    level = (
        f"The limit by the test is one-sided at {_HUNDRED * choice.level:.3g} %; to pass, it must keep the "
        "rule. More seeds are not tried where the one-sided 95 % limit on the other side breaks it."
    )
    tests: tuple[Block, ...] = (table(_TESTS, list(_tests(choice)), most=_MOST_ROWS), Text(level))
    yield Section("tests", "What was tested, in this order", Rank.DETAIL, tests)
    conditions = bullets([*(plain(condition, _LONGEST) for condition in choice.conditions), REPORT_NOT_DP])
    promise: tuple[Block, ...] = (Text(choice.promise), *conditions)
    yield Section("promise", "What is promised, and on which conditions", Rank.DETAIL, promise)
    failed = bullets([plain(one, 300) for one in choice.failed[:_MOST_ROWS]])
    yield Section("failed", "Trainings that failed", Rank.DETAIL, failed) if failed else None
    origin = f"Data: {plain(choice.data)}, sha256 {choice.sha256[:16]}…; fairaudit {choice.tool.version}."
    yield Section("reproduce", "Reproduce", Rank.DETAIL, (Listing(choice.reproduce), Text(origin)))


def _of_method(choice: Choice, found: OfMethod) -> tuple[Cell, ...]:
    smallest = UNKNOWN if found.target_epsilon is None else f"{found.target_epsilon:g}"
    return plain(found.method), smallest, *_figures(choice.ended_at(found)), plain(found.ended, 400)


def _of_arm(test: Tested) -> tuple[Cell, ...]:
    outcome = words.OUTCOMES[test.outcome]
    return plain(test.method), f"{test.target_epsilon:g}", str(test.seeds), *_figures(test), outcome


def _figures(test: Tested) -> tuple[Cell, ...]:
    of = f" ({plain(test.cost_group)})" if test.cost_group else ""
    return (
        Quantity(test.gap, POINTS, UNKNOWN),
        written(test.cost, POINTS, unknown=UNKNOWN) + of,
        Quantity(test.accuracy, POINTS, UNKNOWN),
    )


def _tests(choice: Choice) -> Iterator[tuple[Cell, ...]]:
    for number, test in enumerate(choice.tests, start=1):
        for one in test.numbers:
            value, bound = (UNKNOWN if x is None else words.shown(one, x) for x in (one.value, one.bound))
            what = f"{one.metric}{f' ({one.group})' if one.group else ''}"
            outcome = words.OUTCOMES[one.outcome] + (f": {one.reason}" if one.reason else "")
            yield (
                str(number), plain(test.method), f"{test.target_epsilon:g}", str(test.seeds),
                plain(what, 200), value, bound, words.shown(one, one.limit), plain(outcome, 300),
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
        "rule. Whiskers are 95 % intervals; a test's own limit stands in the table of tests.",
        alt=f"Gap between groups and largest cost of a group at each epsilon tested. {choice.answer}.",
        panels=epsilon_panels(drawn, shown),
        table=data_table(head, rows),
    )


def _cells(number: Interval) -> tuple[float | None, float | None, float | None]:
    shown = number.scaled(_HUNDRED)
    return shown.value, shown.low, shown.high


FILES = {"json": "choice.json", "md": "choice.md", "html": "choice.html"}


def put_choice_aside(out: Path) -> None:
    """Rename an earlier choice to ``choice.previous.*``, so that nobody takes it for the one to come.

    Raises:
        OutputError: The directory is not writable.
    """
    for kind, name in FILES.items():
        old = out / name
        try:
            if old.is_file():
                old.replace(out / f"choice.previous.{kind}")
        except OSError as error:
            raise output_error(old, error) from error


def choice_paths(out: Path, formats: Sequence[str]) -> list[Path]:
    """Where :func:`write_choice` puts its files; the JSON is always written."""
    return [out / name for kind, name in FILES.items() if kind == "json" or kind in formats]


def write_choice(choice: Choice, out: Path, formats: Sequence[str]) -> None:
    """Write ``choice.*`` into ``out``.

    Raises:
        OutputError: The directory is not writable, or the disk is full; old files stay whole.
    """
    stored = Choice.model_validate_json(part_json(choice))  # all files show the numbers of the JSON
    kinds = [kind for kind in PICTURES if kind in formats]
    if kinds:
        from fairaudit.report.render.html import picture  # charts' runtime takes a second

        for kind in kinds:
            drawn = chart(stored)
            write_figure(out, f"{drawn.name}.{kind}", picture(drawn, kind))
    if "md" in formats:
        pictures = (FIGURES, kinds[0]) if kinds else None
        write_atomically(out / FILES["md"], to_text(document(stored), pictures=pictures).encode())
    if "html" in formats:
        from fairaudit.report.render.html import page  # as above

        write_atomically(out / FILES["html"], page(document(stored)).encode())
    write_atomically(out / FILES["json"], part_json(choice).encode())
