"""Charts of the groups themselves: how many rows they have, and how often each model selects them."""

from collections.abc import Iterator, Sequence

from fairaudit.methods.catalog import REFERENCE
from fairaudit.report.charts_costs import MOST_ROWS, bar, by_grouping, cells
from fairaudit.report.document import Chart, data_table
from fairaudit.report.model import Report
from fairaudit.report.panels import Amounts, Bar, Intervals, alone, labels
from fairaudit.results.estimates import Comparison, GroupMeasure

_RATES = ("reference.selection_rate", "selection_rate", "impact_ratio")
_TRAINING, _TEST = "training rows (mean over seeds)", "distinct test rows"


def size_chart(report: Report) -> Chart | None:
    """Rows of each group in training and in tests."""
    chosen = list(_first_by_grouping(report))
    panels = tuple(
        Amounts(labels([c.grouping])[c.grouping], "rows", tuple(_bars(c.by_group))) for c in chosen
    )
    panels = tuple(panel for panel in panels if panel.bars)
    if not panels:
        return None
    sizes = {(g.name, k.name): k.rows for g in report.data.groupings for k in g.groups}
    return Chart(
        name="group-sizes",
        title="Group sizes",
        reading="Few test rows make wide intervals; DP noise often hurts small groups most.",
        alt="Training and test rows of each group.",
        panels=panels,
        table=data_table(
            ("grouping", "group", "rows", _TRAINING, _TEST, "note"),
            tuple(
                (c.grouping, g.group, sizes.get((c.grouping, g.group)), g.n_train, g.n_test, g.reason)
                for c in chosen
                for g in c.by_group
            ),
        ),
    )


def selection_chart(report: Report) -> Chart | None:
    """How often each private model selects each group."""
    panels = []
    measured = list(_once(report.costs))
    for title, placed in by_grouping(measured):
        bars = [bar(p, "selection_rate", 1.0) for p in placed]
        known = tuple(b for b in bars if b is not None)
        if known:
            panels.append(Intervals(title, "selection rate", known, origin=None))
    if not panels:
        return None
    label = report.data.label
    names = labels([label.column, label.favourable or ""])
    outcome = names[label.favourable] if label.favourable is not None else "the favourable class"
    assumed = ", which is assumed to be the favourable outcome" if label.is_assumed else ""
    return Chart(
        name="selection-rate",
        title="Selection rate with privacy",
        reading=f"Share of test rows that the private model gives {names[label.column]} = {outcome}"
        f"{assumed}, with 95 % intervals.",
        alt="Selection rate of each group under each private model.",
        panels=tuple(panels),
        table=data_table(
            (
                *("method", "grouping", "group", "without privacy", "low", "high"),
                *("with privacy", "low", "high", "impact ratio", "low", "high"),
            ),
            tuple(
                (c.arm, c.grouping, g.group, *(cell for metric in _RATES for cell in cells(g, metric)))
                for c in measured
                for g in c.by_group
            ),
        ),
    )


def _once(comparisons: Sequence[Comparison]) -> Iterator[Comparison]:
    """One comparison of each arm and grouping: whatever it is compared with, an arm selects the same."""
    found: dict[tuple[str, str], Comparison] = {}
    for comparison in comparisons:
        if comparison.reference == REFERENCE:
            found[comparison.arm, comparison.grouping] = comparison
        else:
            found.setdefault((comparison.arm, comparison.grouping), comparison)
    yield from found.values()


def _first_by_grouping(report: Report) -> Iterator[Comparison]:
    """One comparison of each grouping: sizes are the same in all of them."""
    seen: set[str] = set()
    for comparison in report.comparisons:
        if comparison.grouping not in seen:
            seen.add(comparison.grouping)
            yield comparison


def _bars(groups: tuple[GroupMeasure, ...]) -> Iterator[Bar]:
    names = labels([g.group for g in groups])
    for group in groups[:MOST_ROWS]:
        for series, rows in ((_TRAINING, group.n_train), (_TEST, group.n_test)):
            if rows is not None:
                yield Bar(names[group.group], series, alone(float(rows)))
