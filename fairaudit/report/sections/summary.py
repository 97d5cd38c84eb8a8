"""The answer: what was found of each method, and what to try."""

from fairaudit.methods.catalog import REFERENCE
from fairaudit.privacy.events import shown_up
from fairaudit.report.document import Badge, Block, Inline, Section, Strong, Text, bullets
from fairaudit.report.facts import ArmFacts
from fairaudit.report.findings import Finding
from fairaudit.report.model import Report
from fairaudit.report.safe_names import plain
from fairaudit.report.verdicts import verdicts


def section(report: Report) -> Section | None:
    """Every finding below its method; None where there is none."""
    outcomes = verdicts(report.gates)
    blocks: list[Block] = []
    for arm in report.arms:
        found = [finding for finding in report.findings if finding.arm == arm.key]
        if not found:
            continue
        end: tuple[Inline, ...] = ()
        if arm.key in outcomes:
            end = (": ", Badge(outcomes[arm.key], outcomes[arm.key].upper()))
        blocks.append(Text((Strong(_title(report, arm)), *end)))
        blocks += bullets(_sentences(report, found))
    if not blocks:
        return None
    return Section("summary", "Summary", tuple(blocks), (Text("Summary"), *blocks))


def _title(report: Report, arm: ArmFacts) -> str:
    """The method with its epsilon, and its reference where that is not the usual one."""
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


def _sentences(report: Report, found: list[Finding]) -> list[str]:
    """What was found, and each advice once."""
    sentences = []
    advised = set()
    for finding in found:
        text = plain(finding.text, 1000)
        if finding.grouping and len(report.data.groupings) > 1:
            text = f"By {plain(finding.grouping)}: {text}"
        if finding.advice is not None and finding.advice.text not in advised:
            advised.add(finding.advice.text)
            text += f" Try {plain(finding.advice.text, 300)}."
        sentences.append(text)
    return sentences
