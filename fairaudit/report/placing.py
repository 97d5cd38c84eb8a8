"""Where charts stand in the report's text: each under the heading whose numbers it shows."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from fairaudit.report.panels import Chart

_COSTS = ("Cost of privacy by group",)
_TRAINING = ("Training, group by group", "Why")  # the first is not written where Why says more

# chart -> headings of Markdown sections; it stands in the first that the text has
HOMES: Mapping[str, Sequence[str]] = {
    "privacy-cost": _COSTS,
    "accuracy": _COSTS,
    "excess-risk": _COSTS,
    "epsilon-sweep": ("Gaps between groups",),
    "selection-rate": ("Selection rates and impact ratios",),
    "risk-parts": ("Why", *_TRAINING),
    "angle": _TRAINING,
    "training-loss": _TRAINING,
    "gradient-norm": _TRAINING,
    "group-sizes": ("Data and exclusions",),
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

    A chart none of whose headings is in the text stands in the first section, so that none is lost.
    """
    parts = [part.partition("\n") for part in text.split("\n## ")[1:]]
    titles = [title for title, _, _ in parts]
    homes = {
        chart.name: next((home for home in HOMES.get(chart.name, ()) if home in titles), titles[0])
        for chart in (charts if titles else ())
    }
    for title, _, body in parts:
        lead, is_table, rest = body.strip("\n").partition("\n\n| ")
        inside = tuple(chart for chart in charts if homes[chart.name] == title)
        yield Passage(title, lead, inside, "| " + rest if is_table else "")
