"""A verdict as console lines, and as GitHub Actions reads it.

A *workflow command* is a line ``::error title=..::text`` of a job's output, by which GitHub's
runner marks the job (an annotation). A rule is *inconclusive* where the data cannot decide it;
``--inconclusive`` says whether that counts as a failure or a pass (None: neither).
"""

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
from fairaudit.report.types.verdicts import GateRecord, verdicts

_MOST_TARGETS = 6
_LONGEST = 4000  # characters of an annotation


def rule_lines(rules: tuple[GateRule, ...]) -> Iterator[str]:
    """Every rule in words, a line each, as it is shown before anything is trained."""
    for rule in rules:
        yield f"  gate    {plain(rule.text, 200)}: {plain(rule.words(), 400)}"


def verdict_lines(report: Report, inconclusive: InconclusiveIs | None) -> Iterator[str]:
    """Every rule with its outcome, the numbers of a rule that does not pass, and the verdict.

    ``inconclusive``: what an inconclusive verdict counts as; None: as neither pass nor fail.
    """
    for gate in report.gates:
        yield f"Gate {gate.outcome:<12} {plain(gate.rule, 200)}  ({plain(gate.words, 400)})"
        yield from (f"    {line}" for line in _reasons(gate))
        yield from (f"    {line}" for line in _advice(report, gate))
    if report.verdict is not None:
        line = f"Verdict {report.verdict}"
        if report.verdict == "inconclusive" and inconclusive is not None:
            line += f", counted as {inconclusive}"
        by_arm = verdicts(report.gates)
        if len(by_arm) > 1:
            line += f" ({', '.join(f'{plain(arm)} {outcome}' for arm, outcome in by_arm.items())})"
        yield line


def workflow_commands(report: Report, inconclusive: InconclusiveIs | None) -> Iterator[str]:
    """One ``::error`` line for every rule that does not pass.

    The line is a ``::warning`` where the rule is inconclusive and that counts as a pass.
    Source: GitHub, workflow commands for GitHub Actions.
    """
    for gate in report.gates:
        if gate.outcome == "pass":
            continue
        is_accepted = gate.outcome == "inconclusive" and inconclusive == "pass"
        level = "warning" if is_accepted else "error"
        yield annotation(
            level, f"fairaudit gate {gate.outcome}", "; ".join((gate.words, *_reasons(gate)))
        )


def annotation(level: str, title: str, text: str) -> str:
    """The line of one workflow command; ``level`` is ``error``, ``warning`` or ``notice``."""
    # In a title ":" and "," would end the value.
    head = _escaped(title).replace(":", "%3A").replace(",", "%2C")
    return f"::{level} title={head}::{_escaped(plain(text, _LONGEST))}"


def _reasons(gate: GateRecord) -> Iterator[str]:
    """Why a rule does not pass: the numbers that it fails on, and what was not judged."""
    targets = []
    if gate.outcome != "pass":
        targets = [target for target in gate.targets if target.outcome == gate.outcome]
    for target in targets[:_MOST_TARGETS]:
        yield described(target, gate.unit) + (
            f" ({plain(target.reason, 200)})" if target.reason else ""
        )
    if len(targets) > _MOST_TARGETS:
        yield f"{len(targets) - _MOST_TARGETS} more are in the report"
    if not gate.targets and gate.reason:  # the rule could not be judged at all
        yield plain(gate.reason, 200)
    if gate.left_out:
        yield f"not judged: {plain('; '.join(gate.left_out), 300)}"


def _advice(report: Report, gate: GateRecord) -> Iterator[str]:
    """What would decide an open rule, for each method of which a finding says it."""
    open_arms = {target.arm for target in gate.targets if target.outcome == "inconclusive"}
    for finding in report.findings:
        # The reason of such a finding is the rule, or the promise, that it is about. Rules on
        # several methods may promise the same.
        is_open = finding.code == "rule_open" and finding.reason == (gate.promise or gate.rule)
        if is_open and finding.arm in open_arms and finding.advice is not None:
            yield f"{plain(finding.arm)}: {plain(finding.advice.text, 200)}"


def _escaped(text: str) -> str:
    """The text as a workflow command carries it, in one line."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def tell_github(report: Report, inconclusive: InconclusiveIs | None) -> None:
    """In a job of GitHub Actions, annotate it and append the Markdown report to its summary.

    Elsewhere nothing is done. Annotations go to stderr, which the runner reads as well: stdout may
    hold the report as JSON, and nothing else then.
    """
    tell_job(lambda: workflow_commands(report, inconclusive), lambda: to_markdown(report))


def tell_job(annotations: Callable[[], Iterable[str]], summary: Callable[[], str]) -> None:
    """In a job of GitHub Actions, print annotations and append a text to the job's summary.

    Args:
        annotations: Makes workflow commands; called in such a job alone.
        summary: Makes the text, in Markdown; called where the job has a summary.
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
