"""What a job of GitHub Actions is told: annotations and the step summary."""

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from fairaudit.cli.lines_gate import workflow_commands
from fairaudit.cli.printing import command
from fairaudit.gate.check import InconclusiveIs
from fairaudit.report.model import Report
from fairaudit.report.render.markdown import to_markdown


def tell_github(report: Report, inconclusive: InconclusiveIs | None) -> None:
    """Annotate the job and append the Markdown report to its summary, if this is such a job.

    The annotations go to stderr, which the runner reads too: stdout may hold the report alone.
    """
    tell_job(lambda: workflow_commands(report, inconclusive), lambda: to_markdown(report))


def tell_job(annotations: Callable[[], Iterable[str]], summary: Callable[[], str]) -> None:
    """The same of anything that has annotations and a text; neither is made where nobody reads it."""
    if os.environ.get("GITHUB_ACTIONS") != "true":
        return
    command(annotations())
    path = os.environ.get("GITHUB_STEP_SUMMARY")
    if path:
        try:
            with Path(path).open("a", encoding="utf-8") as file:
                file.write(summary() + "\n")
        except OSError as error:  # a summary that cannot be written is no reason to block a release
            command([f"::warning title=fairaudit::no step summary: {error.strerror}"])
