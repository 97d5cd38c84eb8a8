"""Chart of why a group pays: what clipping's direction, its magnitude and noise add to its loss at a step."""

from collections.abc import Mapping

from fairaudit.report.decomposition import ArmCauses
from fairaudit.report.document import Cell, Chart, data_table
from fairaudit.report.model import Report
from fairaudit.report.panels import Bar, Intervals, labels

# part -> what it is called
_LABELS: Mapping[str, str] = {
    "direction": "direction (clipping turns)",
    "magnitude_effective": "magnitude (clipping shortens)",
    "noise": "noise",
}
_MOST_PANELS, _MOST_GROUPS = 8, 20


def parts_chart(report: Report) -> Chart | None:
    """Parts of each group's excess risk under each arm; None where they were not read."""
    found = report.diagnostics.decomposition
    if found is None:
        return None
    causes = {arm.key: found.arms[arm.key] for arm in report.arms if arm.key in found.arms}
    titles = labels(list(causes))
    panels = tuple(
        Intervals(titles[key], "excess risk of one step (nats)", bars)
        for key, arm in list(causes.items())[:_MOST_PANELS]
        if (bars := tuple(_bars(arm)))
    )
    if not panels:
        return None
    return Chart(
        name="risk-parts",
        title="Parts of the excess risk",
        reading="What a private step adds to the group's training loss, beside a plain step: because "
        "clipping turns the gradient, because it shortens it, and because of noise. Whiskers are 95 % "
        "intervals over seeds.",
        alt="The parts of each group's excess risk, by method: from direction, magnitude and noise.",
        panels=panels,
        table=data_table(
            ("method", "group", "part", "nats a step", "low", "high", "share"),
            tuple(row for key, arm in causes.items() for row in _rows(key, arm)),
        ),
    )


def _bars(arm: ArmCauses) -> list[Bar]:
    names = labels([group.group for group in arm.groups])
    return [
        Bar(names[group.group], label, read)
        for group in arm.groups[:_MOST_GROUPS]
        for part, label in _LABELS.items()
        if (read := group.parts.get(part)) is not None and read.value is not None
    ]


def _rows(key: str, arm: ArmCauses) -> list[tuple[Cell, ...]]:
    rows: list[tuple[Cell, ...]] = []
    for group in arm.groups:
        for part, read in group.parts.items():
            share = group.shares.get(part)
            rows.append(
                (key, group.group, part, read.value, read.low, read.high, share.value if share else None)
            )
    return rows
