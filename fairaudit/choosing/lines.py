"""A choice as console lines: what will be tested, every look, the answer."""

from collections.abc import Iterator

from fairaudit.choosing.choice import OUTCOMES, Choice
from fairaudit.choosing.choose import Candidates
from fairaudit.choosing.tested import Tested, number_text
from fairaudit.cli.durations import duration_text
from fairaudit.cli.estimate import estimated_seconds, twin_seconds
from fairaudit.cli.lines_gate import annotation
from fairaudit.errors import numbered
from fairaudit.planning.plan import narrowed
from fairaudit.report.model import Report
from fairaudit.report.render.terminal import lines_of
from fairaudit.report.safe_names import plain


def course_lines(pool: Candidates, cores: int) -> Iterator[str]:
    """Lines before the first look: each method's epsilons in the order of the tests, and the looks.

    With the looks stands how long the first one and all of them may take on so many cores.
    """
    plan = pool.prepared.plan
    for name, arms in pool.families.items():
        targets = " then ".join(f"{arm.privacy.target_epsilon:g}" for arm in arms)
        yield f"  choose  {plain(name)}: epsilon {targets}, δ = {plan.training.delta:g}"
    # The first look is at the largest epsilon of every method.
    largest = [arms[0].key for arms in pool.families.values()]
    first = narrowed(plan, dict.fromkeys(largest, pool.looks[0]))
    least = duration_text(estimated_seconds(first, cores))
    most_seconds = estimated_seconds(plan, cores)
    # Unless all twins are in the plan, those of the arm that the report shows come at the end.
    if plan.config.twins != "always":
        most_seconds += max(
            twin_seconds(narrowed(plan, {arm.key: pool.looks[-1]}), cores)
            for arms in pool.families.values()
            for arm in arms
        )
    most = duration_text(most_seconds)
    sizes = ", then ".join(map(str, pool.looks))
    yield (
        f"  looks   {sizes} seeds, each test at {100 * pool.course.level:.3g} % · first look "
        f"about {least}, all at most about {most} on {numbered(cores, 'core')}"
    )


def look_line(test: Tested) -> str:
    """One line for the terminal: the outcome of one look at one arm, with a number that decided."""
    # There is such a number: the outcome of a test is that of its worst number.
    first = next(number for number in test.numbers if number.outcome == test.outcome)
    outcome = OUTCOMES[test.outcome]
    return plain(
        f"Look {test.look}  {test.arm}, {test.seeds} seeds: {outcome}; {number_text(first)}", 600
    )


def answer_lines(report: Report) -> Iterator[str]:
    """The answer as lines: the short form of the report's section, then trainings that failed."""
    choice = Choice.of(report)
    assert choice is not None
    answer = choice.section
    assert answer.brief is not None
    yield answer.title
    yield from lines_of(answer.brief)
    for failed in choice.failed[:6]:
        yield f"Warning {plain(failed, 400)}"


def choice_command(choice: Choice) -> str:
    """The answer as a line that GitHub shows beside a job: a notice, or an error for no arm.

    Source: GitHub, workflow commands for GitHub Actions.
    """
    return annotation(
        "notice" if choice.arm else "error", f"fairaudit choose {choice.status}", choice.answer
    )
