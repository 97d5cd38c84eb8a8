"""What training did to each group's gradients: the last reading of each."""

from fairaudit.report.document import Cell, Section, Text, bare, table
from fairaudit.report.model import Report
from fairaudit.report.safe_names import plain

_HEADS = {
    "loss": "#loss (nats)",
    "gradient_norm": "#mean gradient norm of a record",
    "clipped": "#clipped (share)",
    "scale": "#mean scaling factor",
    "cos_group_clipped": "#cosine(group gradient, clipped batch gradient)",
    "angle": "#angle that clipping turns it (degrees)",
}


def section(report: Report) -> Section | None:
    """None where nothing was read, or where another section says why a group pays."""
    if report.diagnostics.decomposition is not None:
        return None
    readings: dict[tuple[str, str], dict[str, float | None]] = {}
    for arm in report.arms:  # in the plan's order
        for curve in report.diagnostics.arms.get(arm.key, ()):
            if len(curve.columns) > 1 and curve.values:
                for group, value in zip(curve.columns, curve.values[-1], strict=True):
                    readings.setdefault((arm.key, group), {})[curve.name] = value
        for group, angle in report.diagnostics.misalignment.get(arm.key, {}).items():
            readings.setdefault((arm.key, group), {})["angle"] = angle.value
    names = [name for name in _HEADS if any(name in read for read in readings.values())]
    if not names:
        return None
    rows: list[tuple[Cell, ...]] = []
    for (key, group), read in readings.items():
        rows.append((plain(key), plain(group), *(bare(read.get(name)) for name in names)))
    head = ("method", "group", *(_HEADS[name] for name in names))
    blocks = Text("Last readings, means over seeds."), table(head, rows, most=12)
    return Section("training", "Appendix: training, group by group", blocks)
