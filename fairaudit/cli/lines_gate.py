"""A verdict as console lines, and as GitHub Actions reads it."""

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from fairaudit.cli.printing import command
from fairaudit.gate.check import InconclusiveIs
from fairaudit.gate.grammar import GateRule
from fairaudit.report.model import Report
from fairaudit.report.render.junit import described
from fairaudit.report.render.markdown import to_markdown
from fairaudit.report.safe_names import plain
from fairaudit.report.verdicts import GateRecord, verdicts

_MOST_TARGETS = 6
_LONGEST = 4000  # characters of an annotation


def rule_lines(rules: tuple[GateRule, ...]) -> Iterator[str]:
    """Every rule in words, before anything is trained."""
    for rule in rules:
        yield f"  gate    {plain(rule.text, 200)}: {plain(rule.words(), 400)}"


def verdict_lines(report: Report, inconclusive: InconclusiveIs | None) -> Iterator[str]:
    """Every rule with its outcome, the numbers behind what does not pass, and the verdict."""
    for gate in report.gates:
        yield f"Gate {gate.outcome:<12} {plain(gate.rule, 200)}  ({plain(gate.words, 400)})"
        yield from (f"    {line}" for line in _open(gate))
    if report.verdict is not None:
        is_mapped = report.verdict == "inconclusive" and inconclusive is not None
        arms = verdicts(report.gates)
        numbers = ""
        if len(arms) > 1:
            numbers = ", ".join(f"{plain(arm)} {outcome}" for arm, outcome in arms.items())
        mapped = f", counted as {inconclusive}" if is_mapped else ""
        yield f"Verdict {report.verdict}{mapped}" + (f" ({numbers})" if numbers else "")


def workflow_commands(report: Report, inconclusive: InconclusiveIs | None) -> Iterator[str]:
    """One ``::error`` line for every rule that does not pass; a warning where that is accepted.

    Source: GitHub, workflow commands for GitHub Actions.
    """
    for gate in report.gates:
        if gate.outcome == "pass":
            continue
        is_accepted = gate.outcome == "inconclusive" and inconclusive == "pass"
        command = "warning" if is_accepted else "error"
        yield annotation(
            command, f"fairaudit gate {gate.outcome}", "; ".join((gate.words, *_open(gate)))
        )


def annotation(command: str, title: str, text: str) -> str:
    """One workflow command: ``error``, ``warning`` or ``notice``."""
    head = _data(title).replace(":", "%3A").replace(",", "%2C")
    return f"::{command} title={head}::{_data(plain(text, _LONGEST))}"


def _open(gate: GateRecord) -> Iterator[str]:
    """Lines on the numbers for which a rule does not pass."""
    targets = [target for target in gate.targets if target.outcome == gate.outcome != "pass"]
    for target in targets[:_MOST_TARGETS]:
        yield described(target, gate.unit) + (
            f" ({plain(target.reason, 200)})" if target.reason else ""
        )
    if len(targets) > _MOST_TARGETS:
        yield f"{len(targets) - _MOST_TARGETS} more are in the report"
    if not gate.targets and gate.reason:
        yield plain(gate.reason, 200)
    if gate.left_out:
        yield f"not judged: {plain('; '.join(gate.left_out), 300)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def tell_github(report: Report, inconclusive: InconclusiveIs | None) -> None:
    """Annotate the job and append the Markdown report to its summary, if this is such a job.

    The annotations go to stderr, which the runner reads too: stdout may hold the report alone.
    """
    tell_job(lambda: workflow_commands(report, inconclusive), lambda: to_markdown(report))


def tell_job(annotations: Callable[[], Iterable[str]], summary: Callable[[], str]) -> None:
    """The same of anything that has annotations and a text.

    Neither is made where nobody reads it.
    """
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
