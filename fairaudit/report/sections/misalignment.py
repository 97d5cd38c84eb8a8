"""Gradient misalignment: what clipping and noise do to each group's share of a step."""

from collections.abc import Iterator

from fairaudit.metrics.registry import MetricSpec, of_steps
from fairaudit.report.document import (
    Block,
    Cell,
    Folded,
    Quantity,
    Section,
    Table,
    Text,
    figures,
    table,
)
from fairaudit.report.misalignment import StepReadings
from fairaudit.report.model import Report
from fairaudit.report.numbers import DEGREES, HUNDREDTHS, PERCENT_DIGITS, THOUSANDTHS, Scale, count
from fairaudit.report.safe_names import plain
from fairaudit.report.sections.readings import readings_table
from fairaudit.report.step_charts import curve_charts, misalignment_chart, misalignment_trends
from fairaudit.results.estimates import Comparison

_MEANING = (
    "Misalignment is the angle by which clipping turns a step away from a group's own gradient; a "
    "group that it is large for is trained less than its share. It is a reading of steps, on this "
    "file's training rows: it does not say how well the trained model does, and it is not private."
)
_ALL_ROWS = (
    "The angle of all rows is that of everybody's mean gradient, not a mean over groups: where "
    "groups ask for opposite steps this mean is short and easily turned far. "
    "Intervals of degrees are about new people of a group at these steps; for a group that is most "
    "of the file they can be too narrow (in simulations they held in 87 to 98 %, not 95 %)."
)
_COLUMNS = (
    "Direction and magnitude are what clipping adds to the group's loss at a step, by turning it "
    "and by shortening it; noise is what the noise adds."
)
# Unit of a reading -> how it is written, and what its column says of it.
_SCALES: dict[str, tuple[Scale, str]] = {
    "degrees": (DEGREES, " (degrees)"),
    "fraction": (PERCENT_DIGITS, " (%)"),
    "nats a step": (THOUSANDTHS, " (thousandths of a nat)"),
    "ratio": (HUNDREDTHS, ""),
}


def section(report: Report) -> Section | None:
    """The section on misalignment; None where no arm was trained and compared with a reference.

    A method whose steps were not read stands there with the reason.
    """
    read = [readings for readings in report.diagnostics.steps if not readings.reason]
    not_read = [readings for readings in report.diagnostics.steps if readings.reason]
    if not read and not not_read:
        return None
    blocks: list[Block] = []
    if read:
        blocks += [
            Text(_MEANING),
            *figures(misalignment_chart(report), *misalignment_trends(report)),
            *_tables(report, read),
        ]
    blocks += _not_read(report, not_read)
    curves = figures(*curve_charts(report))
    if curves:
        blocks.append(Folded("Curves over training, by group", curves))
    return Section("misalignment", "Gradient misalignment", tuple(blocks))


def _tables(report: Report, read: list[StepReadings]) -> Iterator[Block]:
    """How the steps were read; for each grouping a table of angles, then one of loss terms."""
    yield Text(_how_read(read))
    specs = list(of_steps())
    terms = [spec for spec in specs if spec.unit == "nats a step"]  # direction, magnitude, noise
    yield from _by_grouping(report, read, [spec for spec in specs if spec not in terms])
    yield Text(_ALL_ROWS)
    yield Text(_COLUMNS)
    yield from _by_grouping(report, read, terms)


def _by_grouping(
    report: Report, read: list[StepReadings], specs: list[MetricSpec]
) -> Iterator[Block]:
    """A table of the readings ``specs`` for each grouping, of the arms whose steps were read."""
    for grouping in report.data.groupings:
        arms = [readings.arm for readings in read if readings.grouping == grouping.name]
        # A reading is of the arm alone, so any of its comparisons has it.
        compared: dict[str, Comparison] = {}
        for comparison in report.costs:
            if comparison.grouping == grouping.name and comparison.arm in arms:
                compared.setdefault(comparison.arm, comparison)
        if compared:
            yield _table(report, list(compared.values()), specs)


def _table(report: Report, compared: list[Comparison], specs: list[MetricSpec]) -> Table:
    """The readings ``specs`` of each method's groups by one grouping, and of all training rows.

    The note of a row says why a reading has no value.
    """
    rows: list[tuple[Cell, ...]] = []
    for comparison in compared:
        for group in (*comparison.by_group, comparison.overall):
            cells: list[Cell] = []
            reasons: dict[str, None] = {}
            for spec in specs:
                estimate = group.estimates.get(spec.name)
                # Not spoken: a missing value is a dash, for the note says why it is missing.
                cells.append(Quantity(estimate, _SCALES[spec.unit][0]._replace(is_spoken=False)))
                if estimate is not None and estimate.value is None:
                    reasons[estimate.reason] = None
            name = report.name_of(comparison.grouping, group.group) or "all rows"
            note = plain("; ".join(filter(None, reasons)), 200)
            rows.append((plain(comparison.arm), name, *cells, note))
    titles = [f"#{spec.title}{_SCALES[spec.unit][1]}" for spec in specs]
    return table(("method", "group", *titles, "note"), rows, most=24)


def _how_read(read: list[StepReadings]) -> str:
    """From what the numbers were read, in a sentence: steps, seeds, rows and batches.

    These counts are those of the first arm and stand for all arms. At the end the angles that are
    left out are counted over all arms.
    """
    first = read[0]
    rows = f"{count(round(first.rows or 0))} of {count(round(first.train_rows or 0))} training rows"
    if first.is_sample:
        rows = f"a stratified sample of {rows}"
    text = (
        f"Read at {len(first.steps)} of {first.total_steps:,} steps of {first.seeds} seeds, from "
        f"{rows} and {first.batches} batches a step"
    )
    if first.term_steps and len(first.term_steps) < len(first.steps):
        text += f"; direction, magnitude and noise at {len(first.term_steps)} of these steps"
    # Only angles of groups: the last of ``groups``, whose name is "", is all rows.
    undefined = sum(
        group.undefined for readings in read for group in readings.groups if group.group
    )
    if undefined:
        text += (
            f"; {undefined:,} angles are left out because the group's gradient was no different "
            "from zero there"
        )
    return f"{text}."


def _not_read(report: Report, not_read: list[StepReadings]) -> Iterator[Block]:
    """The methods whose steps were not read, a line for each reason.

    Then a table of these methods' own readings (``StepReadings.method_readings``), which say in
    place of misalignment why groups pay. ``not_read`` has an entry for each arm and grouping.
    """
    arms_of: dict[str, list[str]] = {}  # reason -> keys of the arms, each once
    own_readings: set[tuple[str, str]] = set()  # (arm, name of a reading of its method)
    for entry in not_read:
        keys = arms_of.setdefault(entry.reason, [])
        if entry.arm not in keys:
            keys.append(entry.arm)
        own_readings |= {(entry.arm, name) for name in entry.method_readings}
    for reason, keys in arms_of.items():
        yield Text(f"{plain(', '.join(keys), 600)}: none, for {plain(reason, 300)}.")
    own_table = readings_table(report, lambda arm, name: (arm, name) in own_readings)
    if own_table is not None:
        yield Text("Why groups pay under these methods, in the methods' own readings:")
        yield own_table
