"""What the methods' own diagnostics found."""

from fairaudit.report.document import Block, Section, Text, table
from fairaudit.report.measured import Reading
from fairaudit.report.model import Report
from fairaudit.report.numbers import short
from fairaudit.report.safe_names import plain

_IN_JSON_ALONE = {  # of our own methods; those of a plugin are shown
    "hessian_trace",
    "excess_risk_drawn_se",
    "input_norm",
    "excess_risk",
    "gradient_norm",
    "beta_largest",
    "deviation_square",
    "deviation_square_bound",
    "xi_bound",
}


def section(report: Report) -> Section | None:
    """None where no method has diagnostics of its own."""
    diagnostics = report.diagnostics
    if not diagnostics.readings:
        return None
    rows = [
        (plain(arm), plain(reading.meaning, 120), _listed(reading))
        for arm in (facts.key for facts in report.arms)
        for reading in diagnostics.readings.get(arm, ())
        if reading.name not in _IN_JSON_ALONE
    ]
    blocks: tuple[Block, ...] = (
        Text("Means over seeds; group readings in the order of the groups. None of it is private."),
        table(("method", "reading", "values"), rows, most=12),
    )
    return Section("readings", "What noise does to each group", blocks)


def _listed(reading: Reading) -> str:
    if reading.columns == ("mean", "standard error"):
        return " ± ".join(short(v) for v in reading.values)
    named = zip(reading.columns, reading.values, strict=True)
    return ", ".join(f"{plain(name)} {short(value)}".strip() for name, value in named)
