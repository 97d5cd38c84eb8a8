"""Report -> its tables by group: of every method, one for each grouping."""

from collections.abc import Iterable, Iterator, Sequence

from fairaudit.methods.catalog import REFERENCE
from fairaudit.metrics.registry import METRICS, MISALIGNMENT, spec_of
from fairaudit.report.group_table import Bound, GroupTable, MeasureColumn, TableCell, TableRow
from fairaudit.report.measures import (
    COST,
    compared_pairs,
    cost_names,
    detected_gap,
    is_detected,
    is_known,
    main_gap,
    measure_text,
    measure_title,
    named_gaps,
    names_in_rules,
    shown_costs,
)
from fairaudit.report.model import Report
from fairaudit.report.types.facts import ArmFacts
from fairaudit.report.types.verdicts import GateRecord, severity
from fairaudit.results.estimates import (
    NOTHING,
    Comparison,
    Estimate,
    Gap,
    GroupMeasure,
    Interval,
    Reading,
    interval_of,
)


def group_tables(report: Report) -> tuple[GroupTable, ...]:
    """The tables of a report: for each method, one for each grouping.

    A table compares a method with the model that would be shipped without privacy. Where no model
    is compared with another, as where one model's predictions are scored, a table is about one
    model by itself.
    """
    columns = table_columns(report)
    tables = []
    for arm in report.arms:
        for grouping in report.data.groupings:
            comparison = comparison_of(report, arm, grouping.name)
            if comparison is not None and comparison.overall.n_test:
                tables.append(_table(report, comparison, columns))
    return tuple(tables)


def comparison_of(report: Report, arm: ArmFacts, grouping: str) -> Comparison | None:
    """The comparison of an arm that a reader is shown, by one grouping.

    It is the one with ``sgd``, the model that would be shipped without privacy; of an arm that was
    not compared with ``sgd``, the one with the arm's own reference, else any. None for a reference
    with which other arms are compared.
    """
    by_reference: dict[str, Comparison] = {}  # a report has one for each reference
    for comparison in report.comparisons:
        if (comparison.arm, comparison.grouping) == (arm.key, grouping):
            by_reference[comparison.reference] = comparison
    # An arm by itself ("") is shown only in a report that compares no arm with another.
    if report.costs:
        by_reference.pop("", None)
    for reference in (REFERENCE, arm.reference, *by_reference):
        if reference in by_reference:
            return by_reference[reference]
    return None


def table_columns(report: Report) -> tuple[MeasureColumn, ...]:
    """The measures of a report's tables, a column for each: costs and misalignment.

    Where no model is compared with another, the columns are metrics of the models themselves: those
    of the summary, and those that a rule names. A measure is left out where no group has a number.
    """
    label = report.data.label
    if not report.costs:
        return _columns_without_costs(report)
    columns = [MeasureColumn(name, *measure_title(name, label)) for name in shown_costs(report)]
    if is_known(report.costs, MISALIGNMENT):
        columns.append(MeasureColumn(MISALIGNMENT, METRICS[MISALIGNMENT].title, "degrees"))
    return tuple(columns)


def _columns_without_costs(report: Report) -> tuple[MeasureColumn, ...]:
    """The columns of models by themselves; those of single classes, as ``npv[2]``, stand last."""
    in_rules = names_in_rules(report)
    names = [name for name, spec in METRICS.items() if spec.is_in_summary or name in in_rules]
    of_a_class = [n for n in in_rules if "[" in n and n.partition("[")[0] in METRICS]
    names += sorted(of_a_class, key=lambda name: (len(name), name))  # class 10 after class 2
    columns = []
    for name in names:
        if is_known(report.comparisons, name):
            spec = spec_of(name)
            title = measure_text(name, report.data.label) if "[" in name else spec.words
            # A model's own number: a fraction is shown in per cent.
            columns.append(
                MeasureColumn(name, title, "%" if spec.unit == "fraction" else spec.counted)
            )
    return tuple(columns)


def _table(
    report: Report, comparison: Comparison, columns: tuple[MeasureColumn, ...]
) -> GroupTable:
    """The table of one comparison: rows of groups, of gaps, and of all test rows."""
    metrics = [column.metric for column in columns]
    rows = [_group_row(report, comparison, group, metrics) for group in comparison.by_group]
    rows += _gap_rows(report, comparison, metrics)
    rows.append(_group_row(report, comparison, comparison.overall, metrics))
    return GroupTable(
        comparison.arm,
        comparison.reference,
        comparison.grouping,
        columns,
        tuple(rows),
        compared_pairs(report, comparison.arm, metrics),
    )


def _group_row(
    report: Report, comparison: Comparison, group: GroupMeasure, metrics: Sequence[str]
) -> TableRow:
    """The row of a group, or of all test rows, which are the group "".

    ``metrics``: Those of the columns, in order; the row has a cell for each.
    """
    names = (group.group,) if group.group else ()
    cells = []
    for metric in metrics:
        # A reading of the steps, misalignment, compares groups with each other: all rows have none.
        if not group.group and "steps" in spec_of(metric).needs:
            cells.append(TableCell(NOTHING))
            continue
        estimate = group.estimates.get(metric)
        reading: Reading = "" if group.group else _overall_reading(comparison, metric)
        # A suppressed group has no estimates: the reason is that of the group.
        reason = group.reason if estimate is None else _why_incomplete(estimate)
        bound = _bound_on(report, comparison, metric, "group", set(names))
        cells.append(TableCell(interval_of(estimate), reading, reason, (), bound))
    return TableRow(
        kind="group" if group.group else "all",
        groups=names,
        cells=tuple(cells),
        n_test=group.n_test,
        accuracy=(group.value("reference.accuracy"), group.value("accuracy")),
        note=comparison.note_on(group),
    )


def _overall_reading(comparison: Comparison, metric: str) -> Reading:
    """What the test of a cost over all rows says: ``detected``, ``not certain``, or "".

    ``not certain``: The cost's own interval lies above zero, while the test, which allows for all
    comparisons of the method, does not detect the cost. "": Neither, or no test was made.
    """
    if metric in comparison.paid:
        return "detected"
    number = interval_of(comparison.overall.estimates.get(metric))
    is_above = number.excludes_zero and (number.value or 0.0) > 0
    is_tested = metric in cost_names(comparison) and metric not in comparison.overall.ungated
    return "not certain" if is_above and is_tested else ""


def _why_incomplete(number: Estimate) -> str:
    """Why a number has no value or no interval; "" where it has both."""
    return "" if number.ends else number.reason


def _gap_rows(report: Report, comparison: Comparison, metrics: Sequence[str]) -> Iterator[TableRow]:
    """The rows of gaps, a cell for each metric.

    Two groups have one row, that of their gap. More groups have a row with the largest gap of each
    metric; for a metric whose largest gap is not detected but another pair's is, a row for that
    pair follows. Last come rows for the pairs that were named before training.
    """
    main = [(metric, main_gap(comparison, metric)) for metric in metrics]
    pairs: list[tuple[str, str]] = []
    if any(gap is not None and gap.kind == "max" for _, gap in main):
        cells = [_gap_cell(report, comparison, metric, gap) for metric, gap in main]
        yield TableRow("gap", (), tuple(cells))
        for metric, gap in main:
            detected = detected_gap(comparison, metric)
            if gap is not None and detected is not None and not is_detected(gap):
                pairs.append(_ordered_groups(comparison, detected))
    else:
        pairs += [_ordered_groups(comparison, gap) for _, gap in main if gap is not None]
    for metric in metrics:
        pairs += [(gap.a, gap.b) for gap in named_gaps(comparison, metric)]
    for a, b in _each_pair_once(pairs):
        of_pair = [(metric, _pair_gap(comparison, metric, a, b)) for metric in metrics]
        cells = [_gap_cell(report, comparison, metric, gap, (a, b)) for metric, gap in of_pair]
        yield TableRow("gap", (a, b), tuple(cells))


def _each_pair_once(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """The pairs in their order, without those of the same two groups as an earlier pair."""
    first: dict[frozenset[str], tuple[str, str]] = {}
    for pair in pairs:
        first.setdefault(frozenset(pair), pair)
    return list(first.values())


def _ordered_groups(comparison: Comparison, gap: Gap) -> tuple[str, str]:
    """The two groups of a gap, the one that pays more in accuracy first.

    So a row of the table has one order of its groups for all measures. Where the pair has no gap in
    accuracy, the group with the larger value of this gap's own metric stands first.
    """
    in_accuracy = _pair_gap(comparison, COST, gap.a, gap.b)
    leading = (gap if in_accuracy is None else in_accuracy).larger_first
    return leading.a, leading.b


def _pair_gap(comparison: Comparison, metric: str, a: str, b: str) -> Gap | None:
    """The gap of kind ``pair`` between two groups in a metric, as a less b or as b less a.

    None where there is none.
    """
    for gap in comparison.gaps:
        if gap.kind == "pair" and gap.metric == metric and {gap.a, gap.b} == {a, b}:
            return gap
    return None


def _gap_cell(
    report: Report,
    comparison: Comparison,
    metric: str,
    gap: Gap | None,
    order: tuple[str, ...] | None = None,
) -> TableCell:
    """The cell of a gap: its size with sign and interval, its reading, and what rules say of it.

    Args:
        report, comparison, metric: Where the gap stands.
        gap: None where the metric has no gap.
        order: The two groups of a pair's row: the cell is the first less the second. None in the
            row of largest gaps, where each cell names its own groups.
    """
    if gap is None:
        return TableCell(NOTHING)
    if gap.signed.value is None:  # first why it has no value, else why gates may not read it
        return TableCell(NOTHING, "cannot tell", gap.signed.reason or gap.reason)
    between: tuple[str, ...] = (gap.a, gap.b) if order is None else ()
    if order == (gap.b, gap.a):  # the row has one order for all measures
        gap = gap.reversed
    shown = interval_of(gap.signed)
    bound = _bound_on(report, comparison, metric, "gap", {gap.a, gap.b})
    reason = (gap.reason or gap.signed.reason) if gap.reading == "cannot tell" else ""
    return TableCell(shown, gap.reading, reason, between, bound)


def gap_between(comparison: Comparison, metric: str, groups: Sequence[str]) -> Gap | None:
    """The gap of a metric between two groups: the main gap if it is theirs, else that of the pair.

    None where there is none, as for ``groups`` that are not two.
    """
    gap = main_gap(comparison, metric)
    if gap is not None and {gap.a, gap.b} == set(groups):
        return gap
    return _pair_gap(comparison, metric, *groups) if len(groups) == 2 else None


def rule_number(
    comparison: Comparison, metric: str, groups: Sequence[str], table: Comparison | None = None
) -> Interval | None:
    """The number of a gap that a rule was held against, as the table shows it; None without one.

    Args:
        comparison, metric: Where the gap stands.
        groups: Both of its groups, in whichever order.
        table: Whose table has the order of the groups, and so the sign; None: that of
            ``comparison``.
    """
    gap = gap_between(comparison, metric, groups)
    if gap is None or gap.signed.value is None:
        return None
    # The table's row of a pair has one order for all measures, which may be the other one.
    if gap.kind == "pair" and _ordered_groups(table or comparison, gap) == (gap.b, gap.a):
        gap = gap.reversed
    return interval_of(gap.signed)


def _bound_on(
    report: Report, comparison: Comparison, metric: str, kind: str, groups: set[str]
) -> Bound | None:
    """What the rules say of a number: the worst outcome of any, with that rule's limit.

    Args:
        report: Holds the rules.
        comparison, metric: Where the number stands.
        kind: ``group`` or ``gap``, as of :class:`GateRecord`.
        groups: Whose number it is; empty for all rows.
    """
    bounds: list[Bound] = []
    for gate in report.gates:
        if (gate.metric, gate.kind) == (metric, kind):
            bounds += _bounds_of(gate, comparison, groups)
    return max(bounds, key=lambda bound: severity(bound.outcome), default=None)


def _bounds_of(gate: GateRecord, comparison: Comparison, groups: set[str]) -> Iterator[Bound]:
    """What one rule says of the number of these groups in this comparison."""
    for target in gate.targets:
        if target.stands_in(comparison) and set(target.groups) == groups:
            yield Bound(gate.limit, target.outcome)
