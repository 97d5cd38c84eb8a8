"""How often each model selects each group, and the ratio to the most selected group."""

from collections.abc import Iterator

from fairaudit.errors import numbered
from fairaudit.report.charts_groups import selection_chart
from fairaudit.report.document import (
    Block,
    Bullets,
    Cell,
    Code,
    Rank,
    Section,
    Strong,
    Text,
    bare,
    figures,
    table,
)
from fairaudit.report.measured import SelectionRates
from fairaudit.report.model import Report
from fairaudit.report.safe_names import plain

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
    blocks: list[Block] = [
        Text(
            f"Selected means that the model gives {plain(label.column)} = {plain(label.favourable)}. The "
            "impact ratio is a group's selection rate divided by that of the most selected group with "
            f"enough test rows, by the same model{_over_seeds(report)}. Intervals are in report.json."
        )
    ]
    if label.is_assumed:
        blocks.append(Text(_ASSUMED))
    rows = [row for selection in report.selection for row in _of_model(report, selection)]
    unknown = Bullets(tuple(_unknown(report)))
    blocks += [*figures(selection_chart(report)), table(_HEAD, rows, most=24), unknown]
    return Section("selection", title, Rank.DETAIL, tuple(blocks))


def _over_seeds(report: Report) -> str:
    """What is averaged where a model was trained several times."""
    if max(arm.seeds_planned for arm in report.arms) == 1:
        return ""
    return "; shown is the mean over seeds of the per-seed ratio"


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
        told = f"{_rows(unknown[0].rows)}; shown, in no gap and no ratio" if unknown else "0 rows"
        yield f"{plain(grouping.name)} not known: {told}"
    setting = report.config.get("intersect")
    if len(report.data.groupings) > 1 and not (setting is not None and setting.value):
        yield "Intersections of the groupings were not asked for: add --intersect."


def _rows(rows: int | None) -> str:
    return "– rows" if rows is None else numbered(rows, "row")
