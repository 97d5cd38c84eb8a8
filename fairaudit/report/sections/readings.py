"""What the methods' own diagnostics found: readings, numbers that one method alone has."""

from collections.abc import Callable

from fairaudit.report.document import Block, Section, Table, Text, table
from fairaudit.report.model import Report
from fairaudit.report.numbers import short
from fairaudit.report.safe_names import plain


def section(report: Report) -> Section | None:
    """The section of readings of single methods; None where no method has any.

    Readings that say why groups pay under a method without clipping are left out: they stand in the
    section on misalignment.
    """
    in_misalignment = {
        (entry.arm, name) for entry in report.diagnostics.steps for name in entry.method_readings
    }
    readings = readings_table(report, lambda arm, name: (arm, name) not in in_misalignment)
    if readings is None:
        return None
    blocks: tuple[Block, ...] = (
        Text("Means over seeds; group readings in the order of the groups. None of it is private."),
        readings,
    )
    return Section("readings", "What noise does to each group", blocks)


def readings_table(report: Report, is_shown: Callable[[str, str], bool]) -> Table | None:
    """A table of the methods' own readings; None where there are none.

    Args:
        report: Holds them.
        is_shown: Key of an arm and name of a reading -> whether it is shown.
    """
    rows = []
    for arm in report.arms:
        for reading in report.diagnostics.readings.get(arm.key, ()):
            if not is_shown(arm.key, reading.name):
                continue
            values = " ± ".join(map(short, reading.values))
            # Only a mean and its standard error are written as 1 ± 2; else each value has its name.
            if reading.columns != ("mean", "standard error"):
                named = zip(reading.columns, map(short, reading.values), strict=True)
                # Stripped: a single number has the empty name.
                values = ", ".join(f"{plain(name)} {value}".strip() for name, value in named)
            rows.append((plain(arm.key), plain(reading.meaning, 120), values))
    return table(("method", "reading", "values"), rows, most=24) if rows else None
