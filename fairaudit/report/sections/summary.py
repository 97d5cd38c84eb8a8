"""The answer: what was found of each method, and what to try."""

from collections.abc import Iterator
from typing import get_args

from fairaudit.methods.catalog import REFERENCE
from fairaudit.privacy.events import shown_up
from fairaudit.report.document import Badge, Block, Inline, Section, Strong, Text, Words, bullets
from fairaudit.report.facts import ArmFacts
from fairaudit.report.findings import Finding, Knob, Question
from fairaudit.report.model import Report
from fairaudit.report.safe_names import plain
from fairaudit.report.verdicts import verdicts

_MOST_RULES, _MOST_PARTS = 3, 6
_LONGEST = 1000


def section(report: Report) -> Section | None:
    """A block for every method that something was found of; None where there is none."""
    blocks: list[Block] = []
    for arm in report.arms:
        findings = [finding for finding in report.findings if finding.arm == arm.key]
        if findings:
            blocks.append(Text(_heading(report, arm, findings)))
            blocks += bullets(list(_lines(report, findings)))
    if not blocks:
        return None
    return Section("summary", "Summary", tuple(blocks), (Text("Summary"), *blocks))


def _heading(report: Report, arm: ArmFacts, findings: list[Finding]) -> Words:
    """The first line of a method: its title, a badge if it is unhealthy, verdict and its rules."""
    words: list[Inline] = [Strong(_title(report, arm))]
    if any(finding.question == "works" for finding in findings):  # all of them say that it does not
        words += [" ", Badge("inconclusive", "UNHEALTHY")]
    outcome = verdicts(report.gates).get(arm.key)
    if outcome is not None:
        rules = [finding for finding in findings if finding.question == "verdict"]
        texts = [plain(finding.text.removesuffix("."), _LONGEST) for finding in rules[:_MOST_RULES]]
        if len(rules) > _MOST_RULES:
            texts.append(f"{len(rules) - _MOST_RULES} more")
        words += [" ", Badge(outcome, outcome.upper()), f" {'; '.join(texts)}"]
    return tuple(words)


def _title(report: Report, arm: ArmFacts) -> str:
    """The method with its epsilon, and its reference where that is not ``sgd``."""
    facts = report.privacy[arm.key]
    title = arm.key
    if facts.claim is not None:
        title += ", no epsilon claimed"
        if facts.claim.epsilon is not None:
            title = f"{arm.key}, claimed epsilon {shown_up(facts.claim.epsilon)}"
    elif facts.epsilon is not None and facts.epsilon.headline is not None:
        title += f", epsilon {shown_up(facts.epsilon.headline)}"
    if arm.reference not in (REFERENCE, None):
        title += f", against {arm.reference}"
    return plain(title, 300)


def _lines(report: Report, findings: list[Finding]) -> Iterator[str]:
    """One line for every question that findings answer, then one on what to try.

    The verdict has its place in the heading.
    """
    for question in get_args(Question):
        answers = [finding for finding in findings if finding.question == question]
        if answers and question != "verdict":
            yield " ".join(_sentences(report, answers))
    advice = {finding.advice.knob: finding.advice.text for finding in findings if finding.advice}
    tried = [plain(advice[knob], 300) for knob in get_args(Knob) if knob in advice]
    if tried:
        yield f"Try {'; then '.join(tried)}."


def _sentences(report: Report, findings: list[Finding]) -> Iterator[str]:
    """The sentences of findings; those with one opening become one sentence, "A pays: x; y."."""
    sentences: dict[str, list[str]] = {}
    for finding in findings:
        where = ""
        if finding.grouping and len(report.data.groupings) > 1:
            where = f"By {plain(finding.grouping)}: "
        remainder = finding.text.removeprefix(finding.opening).removesuffix(".")
        if finding.opening:
            sentences.setdefault(where + finding.opening, []).append(remainder)
        else:
            sentences[where + remainder] = []
    for beginning, parts in sentences.items():
        if len(parts) > _MOST_PARTS:
            parts[_MOST_PARTS:] = [f"{len(parts) - _MOST_PARTS} more"]
        yield plain(f"{beginning}{'; '.join(parts)}.", _LONGEST)
