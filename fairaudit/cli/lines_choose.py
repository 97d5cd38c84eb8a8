"""A choice as console lines: what will be tested, every look, the answer."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from fairaudit.choosing import words
from fairaudit.choosing.choose import Candidates
from fairaudit.choosing.page import choice_paths
from fairaudit.choosing.result import Choice, Tested
from fairaudit.cli.estimate import estimated_seconds
from fairaudit.cli.lines import duration_text, report_line
from fairaudit.cli.lines_gate import annotation
from fairaudit.errors import numbered
from fairaudit.planning.plan import narrowed
from fairaudit.report.render.terminal import Row, aligned
from fairaudit.report.safe_names import plain
from fairaudit.report.written import POINTS, written


def course_lines(found: Candidates, cores: int) -> Iterator[str]:
    """The methods with their epsilons in the order of the tests, the looks, and how long it may take."""
    plan = found.prepared.plan
    for name, arms in found.families.items():
        targets = " then ".join(f"{arm.privacy.target_epsilon:g}" for arm in arms)
        yield f"  choose  {plain(name)}: epsilon {targets}, δ = {plan.delta:g}"
    first = narrowed(plan, [arms[0].key for arms in found.families.values()], found.looks[0])
    least, most = (duration_text(estimated_seconds(each, cores)) for each in (first, plan))
    sizes = ", then ".join(map(str, found.looks))
    yield (
        f"  looks   {sizes} seeds, each test at {100 * found.course.level:.3g} % · first look about {least}, "
        f"all at most about {most} on {numbered(cores, 'core')}"
    )


def look_line(test: Tested) -> str:
    """What one look at one arm has shown."""
    first = next(number for number in test.numbers if number.outcome == test.outcome)
    outcome = words.OUTCOMES[test.outcome]
    return plain(
        f"Look {test.look}  {test.arm}, {test.seeds} seeds: {outcome}; {words.number_text(first)}", 600
    )


def answer_lines(choice: Choice, out: Path, formats: Sequence[str]) -> Iterator[str]:
    """The answer, a row for each method, the promise, and where the files lie."""
    rows = [Row(("method", "smallest ε that passes", "gap (points)", "largest cost (points)", "accuracy"))]
    for method in choice.methods:
        test = choice.ended_at(method)
        smallest = "–" if method.target_epsilon is None else f"{method.target_epsilon:g}"
        figures = (written(test.gap, POINTS), written(test.cost, POINTS), words.percent(test.accuracy))
        rows.append(Row((plain(method.method), smallest, *figures), plain(method.ended, 300)))
    yield from aligned(rows, left=frozenset({0}))
    label = "Recommended" if choice.status == "recommended" else "No recommendation"
    yield f"{label}: {plain(choice.answer, 1000)}"
    yield f" {plain(words.attack(choice), 600)}"
    yield f" {choice.promise}"
    if choice.train:
        yield f" {words.training(choice)}:"
        yield f"  {plain(choice.train, 1000)}"
    for failed in choice.failed[:6]:
        yield f"Warning {plain(failed, 400)}"
    first, *others = choice_paths(out, formats)
    yield f"Choice {' · '.join(plain(name, 1000) for name in (str(first), *(path.name for path in others)))}"
    yield report_line(out, formats)


def choice_command(choice: Choice) -> str:
    """The answer as a workflow command: a notice of a recommendation, an error where there is none.

    Source: GitHub, workflow commands for GitHub Actions.
    """
    return annotation("notice" if choice.arm else "error", f"fairaudit choose {choice.status}", choice.answer)
