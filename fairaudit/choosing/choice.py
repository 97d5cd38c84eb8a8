"""What `choose` found: the part of a report that only a choice has, and its section."""

from collections.abc import Iterator

from fairaudit.choosing.tested import OfMethod, Status, Tested, shown
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
from fairaudit.report.model import Report, Study
from fairaudit.report.numbers import POINTS, UNKNOWN, written
from fairaudit.report.safe_names import plain
from fairaudit.results.estimates import Comparison, Figure

OUTCOMES = {"passes": "passes", "breaks": "breaks", "undecided": "cannot tell"}
_TITLES = {
    "recommended": "Recommended: {method} at epsilon {epsilon:g}",
    "none passes": "No method passes",
    "undecided": "Undecided: no method is shown to pass",
}
_METHODS = (
    "method",
    "#smallest ε that passes",
    "#gap in cost (points)",
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


class Choice(Study):
    """The answer of `fairaudit choose`; its trainings are the report's own.

    Args:
        rules: The rules as they were given -> in words.
        level: One-sided level of each test.
        looks: Seeds at each look.
        status: ``recommended``; ``none passes``: every method breaks a rule at its largest epsilon;
            ``undecided``: no method passes, and at least one might.
        arm: Key of the arm that is recommended, or None.
        nearest: Key of the arm that came nearest to passing, where none does; else None.
        answer: In one sentence.
        methods: In the order of the command.
        tests: In the order in which they were made.
        promise, conditions: What is promised, and on which conditions.
        failed: Trainings that ended without a model: arm, seed and message of each.
    """

    name: str = "choosing"
    comparisons: tuple[Comparison, ...] = ()
    rules: dict[str, str]
    level: Figure
    looks: tuple[int, ...]
    status: Status
    arm: str | None
    nearest: str | None
    answer: str
    methods: tuple[OfMethod, ...]
    tests: tuple[Tested, ...]
    promise: str
    conditions: tuple[str, ...]
    failed: tuple[str, ...]

    @property
    def decisive(self) -> "Tested":
        """The last look at the arm that the answer is about: recommended, else the nearest."""
        return self.last(self.arm or self.nearest or "")

    def last(self, arm: str) -> Tested:
        """The last look at the arm of that key, which was tested."""
        return next(test for test in reversed(self.tests) if test.arm == arm)

    def ended_at(self, method: OfMethod) -> Tested:
        """The last look at a method's smallest epsilon that passes; if none, at its last epsilon.

        Where none passes, its last epsilon is the one that ended the method.
        """
        of_method = [test for test in self.tests if test.method == method.method]
        return self.last(method.arm or of_method[-1].arm)

    def sections(self, report: Report) -> dict[str, Section]:
        """The answer, every test, and what the promise rests on; before the summary."""
        return {"summary": self.section}

    @property
    def section(self) -> Section:
        """The section on the chosen epsilon."""
        facts = self.decisive
        title = _TITLES[self.status].format(method=facts.method, epsilon=facts.target_epsilon)
        answer: list[Block] = [
            Text((Strong(f"{plain(self.answer, _LONGEST)}."),)),
            Text(self.promise),
        ]
        rows = [_method_row(method, self.ended_at(method)) for method in self.methods]
        methods = table(_METHODS, rows, most=_MOST_ROWS)
        rules = "; ".join(plain(f"{rule} ({words})", 400) for rule, words in self.rules.items())
        level = (
            f"Each limit is one-sided at {100 * self.level:.3g} %; to pass, it must keep the "
            "rule. Intervals elsewhere are 95 %, over seeds and test rows."
        )
        tests = table(_TESTS, list(_tests(self)), most=_MOST_ROWS)
        blocks: tuple[Block, ...] = (
            *answer,
            methods,
            Text(f"Rules: {rules}."),
            Heading("What was tested, in this order"),
            tests,
            Text(level),
            *bullets([plain(condition, _LONGEST) for condition in self.conditions]),
            *bullets([f"Failed: {plain(failure, 300)}" for failure in self.failed[:_MOST_ROWS]]),
        )
        brief: tuple[Block, ...] = (methods, *answer)
        return Section("choice", plain(title, 200), blocks, brief)


def _method_row(method: OfMethod, test: Tested) -> tuple[Cell, ...]:
    """A method's row: its smallest epsilon that passes, the figures of ``test``, why it ended."""
    smallest = UNKNOWN
    if method.target_epsilon is not None:
        smallest = f"{method.target_epsilon:g}"
    cost = written(test.cost, POINTS, unknown=UNKNOWN)
    if test.cost_group:
        cost += f" ({plain(test.cost_group)})"
    return (
        plain(method.method),
        smallest,
        Quantity(test.gap, POINTS, UNKNOWN),
        cost,
        Quantity(test.accuracy, POINTS, UNKNOWN),
        plain(method.ended, 400),
    )


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
