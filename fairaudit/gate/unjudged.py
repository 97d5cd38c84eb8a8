"""Rows of given predictions that no rule judges, and what they could do to it."""

import math
from collections.abc import Iterable

from fairaudit.errors import numbered
from fairaudit.gate.grammar import GateRule
from fairaudit.metrics.registry import METRICS
from fairaudit.report.model import Report
from fairaudit.results.estimates import Comparison, GroupMeasure

LABEL_MISSING = "label missing"  # a report's name for rows without the truth
_UNTOLD = 10**12  # rows, where their number is suppressed


def unjudged(
    rule: GateRule, group: str, report: Report, comparison: Comparison
) -> tuple[float, str]:
    """How far rows that are not in it could move a rule's number, and why in words.

    "" where there are none.

    Args:
        rule, report, comparison: Where the number stands.
        group: Of the number; "" for all or several.

    Whoever gives predictions also gives the table: rows without truth or group, or in groups too
    small to be judged, may be those on which the model is wrong.
    """
    rows = {
        "without the true label": _sum(report.data.dropped_rows.get(LABEL_MISSING, {}).values())
    }
    is_gap = rule.metric.kind != "group"
    small: list[GroupMeasure] = []
    if not rule.is_overall:
        facts = next(g for g in report.data.groupings if g.name == comparison.grouping)
        ungrouped = {group.name: group.rows for group in facts.groups if group.is_missing}
        rows["without a group"] = _sum(ungrouped.values())
        if not rule.groups:
            noted = [measure for measure in comparison.by_group if comparison.note_on(measure)]
            small = [measure for measure in noted if measure.group not in ungrouped]
        rows["in groups too small to be judged"] = _sum(measure.n_test for measure in small)
    if not any(rows.values()):
        return 0.0, ""
    if small and is_gap:
        why = f"{comparison.note_on(small[0])}, so its gaps could make it fail"
        return math.inf, f"{why}: name two groups, as @COLUMN=A,B"
    counts = []
    for kind, number in rows.items():
        if number == _UNTOLD:
            counts.append(f"some rows {kind}")
        elif number:
            counts.append(f"{numbered(number, 'row')} {kind}")
    slack = _slack(rule, group, comparison, sum(rows.values()))
    return slack, f"{' and '.join(counts)} could make it fail"


def _slack(
    rule: GateRule,
    group: str,
    comparison: Comparison,
    rows: int,
) -> float:
    """How far so many more rows could move a number.

    Of a mean over n rows the share rows / (n + rows).

    A gap is moved by both its groups, at most by the two that move most. What is no mean over a
    fixed set of rows (precision, AUC, calibration, ratios) or has no bound (losses) may move to
    anywhere.
    """
    metric = rule.metric
    spec = METRICS[metric.base]
    if not spec.is_mean:
        return math.inf
    measures = list(comparison.by_group)
    if metric.kind == "group":
        measures = [m for m in (*measures, comparison.overall) if m.group == group]
    elif rule.groups:
        measures = [m for m in measures if m.group in rule.groups]
    else:  # the largest gap may rest on any two
        measures = [m for m in measures if not comparison.note_on(m)]
    if metric.kind != "group" and len(measures) == 1:  # against all rows
        measures.append(comparison.overall)
    plain = metric.key.rpartition(".")[2]
    shares = []
    for measure in measures:
        counts = []
        for name in (plain, f"reference.{plain}"):
            estimate = measure.estimates.get(name)
            if estimate is not None and estimate.value is not None:
                counts.append(estimate.n_test or 0)
        shares.append(rows / (min(counts, default=0) + rows))
    moved = 1 if metric.kind == "group" else 2
    width = spec.width
    if metric.key.startswith("change."):
        width *= 2
    return width * sum(sorted(shares)[-moved:])


def _sum(counts: Iterable[int | None]) -> int:
    """The sum, where one that is suppressed could be any."""
    values = list(counts)
    if None in values:
        return _UNTOLD
    return sum(n for n in values if n)
