"""Where charts stand in the report's text: each under the heading whose numbers it shows."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from fairaudit.report.panels import Chart

_TRAINING = ("Training, group by group", "Why")  # a report that says why has no section on training alone
# chart -> headings of the Markdown sections that it may stand in; the first that there is has it
HOMES: Mapping[str, tuple[str, ...]] = {
    "privacy-cost": ("Cost by group",),
    "accuracy": ("Cost by group",),
    "excess-risk": ("Cost by group",),
    "epsilon-sweep": ("Cost over epsilon",),
    "choice-epsilon": ("Gap and cost over epsilon",),
    "selection-rate": ("Selection rates and impact ratios",),
    "risk-parts": ("Why",),
    "angle": _TRAINING,
    "training-loss": _TRAINING,
    "gradient-norm": _TRAINING,
    "group-sizes": ("Data and exclusions",),
}


@dataclass(frozen=True, slots=True)
class Passage:
    """A section of the Markdown text: what comes before its charts, the charts, and the rest."""

    title: str
    lead: str
    charts: tuple[Chart, ...]
    rest: str


def opening(text: str) -> str:
    """What the Markdown says between its title and its first section: the verdict, if there is one."""
    return text.partition("\n## ")[0].partition("\n")[2].strip("\n")


def passages(text: str, charts: Sequence[Chart]) -> Iterator[Passage]:
    """The sections of ``text`` in their order, with the charts that belong to them.

    A chart that has no heading in the text stands in the first section, so that none is lost.
    """
    parts = [part.partition("\n") for part in text.split("\n## ")[1:]]
    titles = [title for title, _, _ in parts]
    homes = {chart.name: _home(chart.name, titles) for chart in charts}
    for number, (title, _, body) in enumerate(parts):
        lead, is_table, rest = body.strip("\n").partition("\n\n| ")
        inside = tuple(chart for chart in charts if homes[chart.name] == number)
        above, _, introduction = lead.rpartition("\n\n")
        if is_table and above:  # what introduces a table stays with it
            lead, rest = above, f"{introduction}\n\n| {rest}"
        elif is_table:
            rest = f"| {rest}"
        yield Passage(title, lead, inside, rest)


def _home(chart: str, titles: Sequence[str]) -> int:
    """Number of the section that a chart stands in."""
    return next((titles.index(title) for title in HOMES.get(chart, ()) if title in titles), 0)
