"""The section on who is decided by chance: a chart, the share of each group, the gaps."""

from collections.abc import Iterator, Sequence

from fairaudit.errors import numbered
from fairaudit.metrics.registry import DISAGREEMENT, DISAGREEMENT_COST
from fairaudit.report.cost_charts import MOST_ROWS
from fairaudit.report.document import Block, Cell, Quantity, Section, Text, bullets, figures, table
from fairaudit.report.measures import main_gap
from fairaudit.report.model import Report
from fairaudit.report.numbers import PERCENT_DIGITS, POINTS, UNKNOWN, versus
from fairaudit.report.panels import MOST_SERIES, Bar, Chart, Panel, labels
from fairaudit.report.safe_names import group_text, plain
from fairaudit.report.sections.gaps import gap_table
from fairaudit.results.estimates import Comparison, Gap, GroupMeasure, interval_of

TITLE = "Decided by chance"
_MEANING = (
    "The share of a group that another training would decide differently: two trainings on the "
    "same rows with the same settings differ in nothing but their draws, and give one person two "
    "answers. It is no error rate: which of the two answers is right is not asked."
)
_LOWERS = (
    "A larger epsilon and more training rows lower it. So does the mean of several private models, "
    "but each of them is a release: the epsilon of all together is larger."
)
_BEFORE = f"reference.{DISAGREEMENT}"
_WITHOUT = "without privacy"
_METHOD_LIMIT = 60  # characters of a name in a legend


def section(report: Report, source: str) -> Section | None:
    """The section; None where no number is known.

    Args:
        report: The report.
        source: From which trainings the numbers are, in a sentence.
    """
    # Where no arm has a reference there are no costs, and each model is measured by itself.
    compared = report.costs or report.comparisons
    rows = list(_rows(report, compared))
    if not rows:
        return None
    blocks: list[Block] = [
        Text(_MEANING),
        *figures(chance_chart(report)),
        table(("method", "group", "#people", *_titles(report), "note"), rows, most=24),
    ]
    gaps = list(_gaps(report, compared))
    if gaps:
        blocks.append(gap_table(report, gaps))
    blocks += bullets([source, _LOWERS])
    return Section(DISAGREEMENT, TITLE, tuple(blocks))


def unmeasured(reason: str, advice: str) -> Section:
    """The section where nothing was measured: why, and what measures it (``advice``; or "")."""
    text = f"Not measured: {plain(reason, 300)}."
    if advice:
        text += f" {plain(advice[:1].upper() + advice[1:], 300)}."
    return Section(DISAGREEMENT, TITLE, (Text(text),))


def _titles(report: Report) -> tuple[str, ...]:
    """Titles of the columns of numbers: three where models are compared, else one."""
    if report.costs:
        return ("#private (%)", f"#{_WITHOUT} (%)", "#added (points)")
    return ("#decided by chance (%)",)


def _rows(report: Report, compared: Sequence[Comparison]) -> Iterator[tuple[Cell, ...]]:
    """A row for each group of each comparison that has numbers, and for all rows."""
    for comparison in compared:
        groups = (*comparison.by_group, comparison.overall)
        if all(group.value(DISAGREEMENT) is None for group in groups):
            continue
        for group in groups:
            if group.estimates:
                yield _row(report, comparison, group)


def _row(report: Report, comparison: Comparison, group: GroupMeasure) -> tuple[Cell, ...]:
    """The numbers of one group, or of all rows."""
    own = group.estimates.get(DISAGREEMENT)
    # A dash for what is missing, not words: the note says why.
    percent, points = (scale._replace(is_spoken=False) for scale in (PERCENT_DIGITS, POINTS))
    cells: list[Cell] = [Quantity(own, percent)]
    if report.costs:
        cells.append(Quantity(group.estimates.get(_BEFORE), percent))
        cells.append(Quantity(group.estimates.get(DISAGREEMENT_COST), points))
    name = report.name_of(comparison.grouping, group.group) or "all rows"
    people: Cell = UNKNOWN if own is None or own.n_test is None else own.n_test
    note = "" if own is None else own.reason
    return (versus(comparison), name, people, *cells, plain(note, 90))


def _gaps(report: Report, compared: Sequence[Comparison]) -> Iterator[tuple[Comparison, Gap, str]]:
    """The gap of each comparison, in what is decided by chance and in what privacy adds to it."""
    for comparison in compared:
        gap = main_gap(comparison, DISAGREEMENT)
        if gap is not None:
            yield comparison, gap, "decided by chance (points)"
        gap = main_gap(comparison, DISAGREEMENT_COST)
        if gap is not None:
            # The tests of a report's gaps leave this one out, so no result of a test may be shown;
            # "cannot tell" is none, so it stays.
            if gap.reading != "cannot tell":
                gap = gap.model_copy(update={"reading": ""})
            yield comparison, gap, "added by privacy (points)"


def chance_chart(report: Report) -> Chart | None:
    """What is decided by chance, by group and method, beside the model without privacy.

    A panel for each grouping; None where nothing is known.
    """
    known = [one for one in report.comparisons if one.overall.value(DISAGREEMENT) is not None]
    methods = labels([one.arm for one in known], _METHOD_LIMIT)
    series = tuple(methods.values())[:MOST_SERIES]
    panels = []
    for grouping in report.data.groupings:
        bars, shown = [], set[tuple[str, str]]()
        for comparison in known:
            method = methods[comparison.arm]
            if comparison.grouping != grouping.name or method not in series:
                continue
            for group in comparison.by_group[:MOST_ROWS]:
                number = interval_of(group.estimates.get(DISAGREEMENT)).scaled(100.0)
                row = group_text(grouping.name, group.group)
                # An arm may stand in several comparisons, with one share of its own.
                if number.value is not None and (row, method) not in shown:
                    shown.add((row, method))
                    bars.append(Bar(row, method, number))
        if bars:
            title = f"by {plain(grouping.name)} (% of the group)"
            panels.append(Panel(title, "points", tuple(bars)))
    if not panels:
        return None
    return Chart(
        name="decided-by-chance",
        title="Decided by chance, by group",
        reading="How many of a group another training on the same rows would decide differently. "
        "Whiskers are 95 % intervals over trainings and people.",
        alt="Share of each group that another training would decide differently, with intervals.",
        series=series,
        panels=tuple(panels),
    )


def said_source(source: str, trainings: int) -> str:
    """From which trainings the numbers are, in a sentence.

    Args:
        source: As of ``Disagreement.source``: "again", "given", or "seeds" for the audit's own.
        trainings: How many of each method.
    """
    count = numbered(trainings, "training")
    match source:
        case "again":
            return (
                f"From {count} of each method on the first seed's training rows, beside the audit; "
                "pairs are among these alone, and a larger --again narrows the intervals."
            )
        case "given":
            return (
                f"From given predictions of {count}, which are taken to be of one training set: "
                "where each had rows of its own, the luck of the rows is in the number, too."
            )
    return (
        f"From {count} of each method, the audit's own seeds: the split is given, so all of them "
        "train on the same rows; more --seeds narrow the intervals."
    )
