"""Rows of given predictions that no rule judges, and what they could do to it."""

import math
from collections.abc import Iterable, Sequence

from fairaudit.gate.grammar import ALL_ROWS, GateRule, GroupSelector
from fairaudit.gate.vocabulary import Metric
from fairaudit.metrics.registry import METRICS
from fairaudit.report.model import Report
from fairaudit.results.estimates import Comparison, GroupMeasure

LABEL_MISSING = "label missing"  # a report's name for rows without the truth
_UNTOLD = 10**12  # rows, where their number is suppressed


def named(selector: GroupSelector | None, comparison: Comparison) -> Sequence[str] | None:
    """The groups that the rule names, or None where it is about all."""
    if selector is None:
        return None
    if selector.bare:
        return None if selector.bare == comparison.grouping else (selector.bare,)
    return selector.names or None


def unjudged(rule: GateRule, group: str, report: Report, comparison: Comparison) -> tuple[float, str]:
    """How far rows that are not in it could move a rule's number, and why in words; "" where there are none.

    Args:
        rule, report, comparison: Where the number stands.
        group: Of the number; "" for all or several.

    Whoever gives predictions also gives the table: rows without truth or group, or in groups too small to
    be judged, may be those on which the model is wrong.
    """
    rows = {"without the true label": _sum(report.data.dropped_rows.get(LABEL_MISSING, {}).values())}
    is_overall = rule.group is not None and rule.group.bare == ALL_ROWS
    small: list[str] = []
    if not is_overall:
        facts = next(g for g in report.data.groupings if g.name == comparison.grouping)
        ungrouped = {g.name: g.rows for g in facts.groups if g.is_missing}
        rows["without a group"] = _sum(ungrouped.values())
        if named(rule.group, comparison) is None:
            tiny = [g for g in comparison.by_group if comparison.note_on(g) and g.group not in ungrouped]
            small = [comparison.note_on(g) for g in tiny]
            rows["in groups too small to be judged"] = _sum(g.n_test for g in tiny)
    if not any(rows.values()):
        return 0.0, ""
    is_gap = rule.metric.kind != "group"
    judged = _judged(rule, group, comparison)
    slack = math.inf if small and is_gap else _slack(rule.metric, judged, sum(rows.values()))
    counts = (
        f"{'some' if n == _UNTOLD else f'{n:,}'} row{'s' * (n != 1)} {what}" for what, n in rows.items() if n
    )
    said = f"{' and '.join(counts)} could make it fail"
    if small and is_gap:
        said = f"{small[0]}, so its gaps could make it fail: name two groups, as @COLUMN=A,B"
    return slack, said


def _judged(rule: GateRule, group: str, comparison: Comparison) -> list[GroupMeasure]:
    """The groups that a number may rest on; the largest gap may rest on any two."""
    if rule.metric.kind == "group":
        return [g for g in (*comparison.by_group, comparison.overall) if g.group == group]
    names = named(rule.group, comparison)
    among = [g for g in comparison.by_group if (g.group in names if names else not comparison.note_on(g))]
    return [*among, comparison.overall] if len(among) == 1 else among


def _slack(metric: Metric, groups: Sequence[GroupMeasure], rows: int) -> float:
    """How far so many more rows could move a number; of a mean over n rows the share rows / (n + rows).

    A gap is moved by both its groups, at most by the two that move most. What is no mean over a fixed set
    of rows (precision, AUC, calibration, ratios) or has no bound (losses) may move to anywhere.
    """
    spec = METRICS[metric.base]
    width = (spec.width if spec.is_mean else math.inf) * (2 if metric.key.startswith("change.") else 1)
    plain = metric.key.rpartition(".")[2]
    shares = []
    for group in groups:
        found = [group.estimates.get(name) for name in (plain, f"reference.{plain}")]
        counts = [estimate.n_test or 0 for estimate in found if estimate and estimate.value is not None]
        shares.append(rows / (min(counts, default=0) + rows))
    return width * sum(sorted(shares)[-(1 if metric.kind == "group" else 2) :])


def _sum(counts: Iterable[int | None]) -> int:
    """The sum, where one that is suppressed could be any."""
    known = list(counts)
    return _UNTOLD if None in known else sum(n for n in known if n)
