"""How often each model selects each group, and the ratio to the most selected group."""

from fairaudit.report.document import (
    Block,
    Cell,
    Code,
    Section,
    Strong,
    Text,
    bare,
    table,
)
from fairaudit.report.model import Report
from fairaudit.report.safe_names import plain

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
    else:
        selected = f"{plain(label.column)} = {plain(label.favourable)}"
        blocks.append(Text(f"Selected: {selected}. Impact ratios are to the most selected group."))
        if label.is_assumed:
            blocks.append(Text(_ASSUMED))
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
