"""What the methods' own diagnostics found: readings, numbers that one method alone has."""

from fairaudit.report.document import Block, Section, Text, table
from fairaudit.report.model import Report
from fairaudit.report.numbers import short
from fairaudit.report.safe_names import plain

# Readings of built-in methods that the section leaves out; it shows all of other methods.
_IN_JSON_ALONE = {"hessian_trace", "excess_risk_drawn_se", "excess_risk"}


def section(report: Report) -> Section | None:
    """The section of readings of single methods; None where no method has any."""
    rows = []
    for arm in report.arms:
        for reading in report.diagnostics.readings.get(arm.key, ()):
            if reading.name in _IN_JSON_ALONE:
                continue
            values = " ± ".join(map(short, reading.values))
            # Only a mean and its standard error are written as 1 ± 2; else each value has its name.
            if reading.columns != ("mean", "standard error"):
                named = zip(reading.columns, map(short, reading.values), strict=True)
                values = ", ".join(f"{plain(name)} {value}".strip() for name, value in named)
            rows.append((plain(arm.key), plain(reading.meaning, 120), values))
    if not rows:
        return None
    blocks: tuple[Block, ...] = (
        Text("Means over seeds; group readings in the order of the groups. None of it is private."),
        table(("method", "reading", "values"), rows, most=12),
    )
    return Section("readings", "What noise does to each group", blocks)
