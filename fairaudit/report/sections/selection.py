"""How often each model selects each group, and the ratio to the most selected group."""

from fairaudit.methods.catalog import REFERENCE
from fairaudit.report.charts_costs import cells, every_group, panels_by_grouping
from fairaudit.report.document import (
    Block,
    Cell,
    Chart,
    Code,
    Section,
    Strong,
    Text,
    bare,
    data_table,
    figures,
    table,
)
from fairaudit.report.model import Report
from fairaudit.report.panels import labels
from fairaudit.report.safe_names import plain
from fairaudit.results.estimates import Comparison

_RATES = ("reference.selection_rate", "selection_rate", "impact_ratio")
_ASSUMED = (
    Strong("Nobody said that this is the outcome that people want; it is assumed."),
    " Gates on ratios are inconclusive until ",
    Code("--favourable VALUE"),
    " says which it is.",
)


def section(report: Report) -> Section | None:
    """Rates and ratios, or what is missing for them."""
    label = report.data.label
    blocks: list[Block] = []
    if label.favourable is None:
        blocks.append(
            Text("The favourable class is not known, so there are no rates: set --favourable.")
        )
        blocks += figures(_chart(report))
    else:
        selected = f"{plain(label.column)} = {plain(label.favourable)}"
        blocks.append(Text(f"Selected: {selected}. Impact ratios are to the most selected group."))
        if label.is_assumed:
            blocks.append(Text(_ASSUMED))
        blocks += figures(_chart(report))
        rows: list[tuple[Cell, ...]] = []
        for selection in report.selection:
            arm = plain(selection.arm)
            for name, rate in selection.rate.items():
                note = ""
                if name == selection.reference:
                    note = "most selected"
                if name in selection.excluded:
                    note = f"no ratio: {selection.reason}".removesuffix(": ")
                group = report.name_of(selection.grouping, name)
                ratio = selection.impact_ratio.get(name)
                rows.append((arm, group, bare(rate), bare(ratio), plain(note, 80)))
        head = ("model", "group", "#selection rate", "#impact ratio", "note")
        blocks.append(table(head, rows, most=12))
    title = "Selection rates and impact ratios"
    return Section("selection", title, tuple(blocks))


def _chart(report: Report) -> Chart | None:
    """How often each private model selects each group."""
    models: dict[tuple[str, str], Comparison] = {}  # an arm selects the same beside any reference
    for comparison in report.costs:
        place = comparison.arm, comparison.grouping
        if comparison.reference == REFERENCE or place not in models:
            models[place] = comparison
    comparisons = list(models.values())
    panels = panels_by_grouping(comparisons, "selection_rate", "selection rate", origin=None)
    if not panels:
        return None
    label = report.data.label
    names = labels([label.column, label.favourable or ""])
    outcome, assumed = "the favourable class", ""
    if label.favourable is not None:
        outcome = names[label.favourable]
    if label.is_assumed:
        assumed = ", which is assumed to be the favourable outcome"
    rows: list[tuple[Cell, ...]] = []
    for comparison, group in every_group(comparisons):
        rates: list[Cell] = []
        for metric in _RATES:
            rates += cells(group.estimates.get(metric))
        rows.append((comparison.arm, comparison.grouping, group.group, *rates))
    ends = ("low", "high")
    head = ("without privacy", *ends, "with privacy", *ends, "impact ratio", *ends)
    return Chart(
        name="selection-rate",
        title="Selection rate with privacy",
        reading=f"Share of test rows that the private model gives {names[label.column]} = {outcome}"
        f"{assumed}, with 95 % intervals.",
        alt="Selection rate of each group under each private model.",
        panels=panels,
        table=data_table(("method", "grouping", "group", *head), rows),
    )
