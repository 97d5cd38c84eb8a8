"""Rows that no rule judges, and that therefore keep a rule from passing."""

from collections.abc import Iterable

from fairaudit.errors import numbered
from fairaudit.gate.grammar import GateRule
from fairaudit.report.model import Report
from fairaudit.results.estimates import Comparison

LABEL_MISSING = "label missing"  # a report's name for rows without the truth


def unjudged(rule: GateRule, report: Report, comparison: Comparison) -> str:
    """Why the rule cannot pass by a comparison: rows that it does not judge; "" if there are none.

    The model may be wrong on just these rows. Rows without a group always count, unless the rule is
    about all rows. Where predictions were given, whoever gave them also chose the table: so rows
    without the true label count, and rows in groups that are too small to be judged. An audit that
    trains drops rows without the label before it splits, and names small groups in its report.
    """
    is_given = report.training is None
    counts: dict[str, Iterable[int | None]] = {}  # kind of rows -> counts; None is suppressed
    if is_given:
        counts["without the true label"] = report.data.dropped_rows.get(LABEL_MISSING, {}).values()
    if not rule.is_overall:
        facts = next(g for g in report.data.groupings if g.name == comparison.grouping)
        ungrouped = {group.name: group.rows for group in facts.groups if group.is_missing}
        counts["without a group"] = ungrouped.values()
        if is_given and not rule.groups:
            small = [m for m in comparison.by_group if comparison.note_on(m)]
            of_small = [m.n_test for m in small if m.group not in ungrouped]
            counts["in groups too small to be judged"] = of_small
    words = []
    for kind, rows in counts.items():
        known = list(rows)
        if None in known:  # a count that is suppressed because it is small
            words.append(f"some rows {kind}")
            continue
        total = sum(number or 0 for number in known)
        if total:
            words.append(f"{numbered(total, 'row')} {kind}")
    if not words:
        return ""
    return f"not judged: {' and '.join(words)}"
