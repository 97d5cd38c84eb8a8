"""How often each model selects each group, and the ratio to the most selected group."""

from collections.abc import Iterator

from fairaudit.errors import numbered
from fairaudit.methods.catalog import REFERENCE
from fairaudit.report.charts_costs import bar, by_grouping, cells
from fairaudit.report.document import (
    Block,
    Bullets,
    Cell,
    Chart,
    Code,
    Rank,
    Section,
    Strong,
    Text,
    bare,
    data_table,
    figures,
    table,
)
from fairaudit.report.measured import SelectionRates
from fairaudit.report.model import Report
from fairaudit.report.panels import Intervals, labels
from fairaudit.report.safe_names import plain
from fairaudit.results.estimates import Comparison

_RATES = ("reference.selection_rate", "selection_rate", "impact_ratio")
_HEAD = ("model", "grouping", "group", "#test rows", "#selection rate", "#impact ratio", "note")
_ASSUMED = (
    Strong("Nobody said that this is the outcome that people want; it is assumed."),
    " If it is not, every ratio is of the wrong outcome. Gates on ratios are inconclusive until ",
    Code("--favourable VALUE"),
    " says which it is.",
)


def section(report: Report) -> Section | None:
    """Rates and ratios, or what is missing for them."""
    label = report.data.label
    title = "Selection rates and impact ratios"
    if label.favourable is None:
        told = "The favourable class is not known, so there are no rates: set it with --favourable."
        return Section("selection", title, Rank.DETAIL, (Text(told), *figures(selection_chart(report))))
    is_once = max(arm.seeds_planned for arm in report.arms) == 1
    mean = "" if is_once else "; shown is the mean over seeds of the per-seed ratio"
    blocks: list[Block] = [
        Text(
            f"Selected means that the model gives {plain(label.column)} = {plain(label.favourable)}. The "
            "impact ratio is a group's selection rate divided by that of the most selected group with "
            f"enough test rows, by the same model{mean}. Intervals are in report.json."
        )
    ]
    if label.is_assumed:
        blocks.append(Text(_ASSUMED))
    rows = [row for selection in report.selection for row in _of_model(report, selection)]
    unknown = Bullets(tuple(_unknown(report)))
    blocks += [*figures(selection_chart(report)), table(_HEAD, rows, most=24), unknown]
    return Section("selection", title, Rank.DETAIL, tuple(blocks))


def _of_model(report: Report, selection: SelectionRates) -> Iterator[tuple[Cell, ...]]:
    compared = [
        comparison
        for comparison in report.comparisons
        if comparison.grouping == selection.grouping
        and selection.arm in (comparison.arm, comparison.reference)
    ]
    compared.sort(key=lambda comparison: comparison.arm == selection.arm)  # its own seeds have the last word
    sizes = {group.group: group.n_test for comparison in compared for group in comparison.by_group}
    notes = {
        group.group: comparison.note_on(group) for comparison in compared for group in comparison.by_group
    }
    for group, rate in selection.rate.items():
        note = "most selected" if group == selection.reference else notes.get(group, "")
        if group in selection.excluded:
            note = f"no ratio{': ' + selection.reason if selection.reason else ''}"
        yield (
            plain(selection.arm),
            plain(selection.grouping),
            plain(group),
            sizes.get(group),
            bare(rate),
            bare(selection.impact_ratio.get(group)),
            plain(note, 80),
        )


def _unknown(report: Report) -> Iterator[str]:
    """Rows of unknown group, and what was not asked for."""
    for grouping in report.data.groupings:
        unknown = [group for group in grouping.groups if group.is_missing]
        told = "0 rows"
        if unknown:
            rows = unknown[0].rows
            told = f"{'– rows' if rows is None else numbered(rows, 'row')}; shown, in no gap and no ratio"
        yield f"{plain(grouping.name)} not known: {told}"
    setting = report.config.get("intersect")
    if len(report.data.groupings) > 1 and not (setting is not None and setting.value):
        yield "Intersections of the groupings were not asked for: add --intersect."


def selection_chart(report: Report) -> Chart | None:
    """How often each private model selects each group."""
    panels = []
    own: dict[tuple[str, str], Comparison] = {}  # whatever it is compared with, an arm selects the same
    for comparison in report.costs:
        place = comparison.arm, comparison.grouping
        if comparison.reference == REFERENCE or place not in own:
            own[place] = comparison
    measured = list(own.values())
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
