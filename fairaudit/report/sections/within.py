"""Metrics within each model, before and after privacy, and the gaps that privacy is shown to change."""

from fairaudit.metrics.registry import METRICS, within_model
from fairaudit.report.arm_names import before_and_after, versus
from fairaudit.report.document import Block, Quantity, Rank, Section, Text, table
from fairaudit.report.main_gap import metric_text
from fairaudit.report.model import Report
from fairaudit.report.safe_names import plain
from fairaudit.report.written import number
from fairaudit.results.estimates import Estimate


def section(report: Report) -> Section | None:
    """None where there is no pair of models."""
    if not report.costs:
        return None
    shown = [spec.name for spec in within_model() if not spec.has_own_section]
    metrics = [m for m in shown if any(m in g.estimates for c in report.costs for g in c.by_group)]
    rows = [
        (versus(c), plain(g.group), *(_pair(g.estimates, metric) for metric in metrics))
        for c in report.costs
        for g in c.by_group
        if g.estimates
    ]
    classes = [each.name for each in report.data.label.classes]
    changes = [
        (
            plain(gap.arm),
            plain(metric_text(gap.metric, classes)),
            f"{plain(gap.a)}, {plain(gap.b)}",
            Quantity(gap.change),
        )
        for gap in report.changed or ()
    ]
    before, after = before_and_after(is_trained=report.training is not None)
    blocks: list[Block] = [
        Text(f"{before.capitalize()} → {after}, on test rows. A dash is undefined, not zero."),
        table(("method", "group", *(f"#{METRICS[m].title}" for m in metrics)), rows, most=14),
    ]
    if changes:
        told = (
            "Gaps within the model that are detected to change with privacy (first group minus second; the "
            "intervals hold for all gaps that could stand here together):"
        )
        blocks += [Text(told), table(("method", "metric", "between", "#change of the gap"), changes, most=8)]
    elif report.changed is not None:
        blocks.append(Text("No gap within a model is detected to change with privacy."))
    return Section("within", "Within each model", Rank.DETAIL, tuple(blocks))


def _pair(estimates: dict[str, Estimate], metric: str) -> str:
    found = (estimates.get(side + metric) for side in ("reference.", ""))
    return " → ".join(number(None if estimate is None else estimate.value) for estimate in found)
