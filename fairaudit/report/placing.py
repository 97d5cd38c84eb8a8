"""Where charts stand in the report's text: each under the heading whose numbers it shows."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from fairaudit.report.panels import Chart

# chart -> heading of the Markdown section that it stands in
HOMES: Mapping[str, str] = {
    "privacy-cost": "Cost of privacy by group",
    "accuracy": "Cost of privacy by group",
    "excess-risk": "Cost of privacy by group",
    "epsilon-sweep": "Gaps between groups",
    "selection-rate": "Selection rates and impact ratios",
    "risk-parts": "Training, group by group",
    "angle": "Training, group by group",
    "training-loss": "Training, group by group",
    "gradient-norm": "Training, group by group",
    "group-sizes": "Data and exclusions",
}


@dataclass(frozen=True, slots=True)
class Passage:
    """A section of the Markdown text: what stands above its first table, its charts, and the rest."""

    title: str
    lead: str
    charts: tuple[Chart, ...]
    rest: str


def opening(text: str) -> str:
    """What the Markdown says between its title and its first section: the verdict, if there is one."""
    return text.partition("\n## ")[0].partition("\n")[2].strip("\n")


def passages(text: str, charts: Sequence[Chart]) -> Iterator[Passage]:
    """The sections of ``text`` in their order, with the charts that belong to them.

    A chart whose heading is not in the text stands in the first section, so that none is lost.
    """
    parts = [part.partition("\n") for part in text.split("\n## ")[1:]]
    titles = [title for title, _, _ in parts]
    homes = {chart.name: HOMES.get(chart.name, "") for chart in charts}
    for number, (title, _, body) in enumerate(parts):
        lead, is_table, rest = body.strip("\n").partition("\n\n| ")
        inside = tuple(
            chart
            for chart in charts
            if homes[chart.name] == title or (number == 0 and homes[chart.name] not in titles)
        )
        yield Passage(title, lead, inside, "| " + rest if is_table else "")
