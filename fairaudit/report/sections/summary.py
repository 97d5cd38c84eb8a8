"""The first screen: of every method its verdict, its table of groups, and what was found."""

import math
from collections.abc import Iterator, Sequence
from typing import get_args

from fairaudit.errors import numbered
from fairaudit.methods.catalog import REFERENCE
from fairaudit.privacy.events import shown_up
from fairaudit.report.cost_charts import cost_chart
from fairaudit.report.document import (
    Badge,
    Block,
    ByGroup,
    Cell,
    Figures,
    Folded,
    Heading,
    Inline,
    Section,
    Strong,
    Table,
    Text,
    Words,
    bullets,
    table,
)
from fairaudit.report.group_rows import group_tables
from fairaudit.report.group_table import GroupTable
from fairaudit.report.measures import cost_title, left_out_costs
from fairaudit.report.messages.base import SERIES
from fairaudit.report.model import Report
from fairaudit.report.numbers import UNKNOWN
from fairaudit.report.safe_names import group_text, plain
from fairaudit.report.table_words import between_words, cell_number, cell_value, percent, row_title
from fairaudit.report.types.facts import ArmFacts
from fairaudit.report.types.findings import Finding, Knob, Question
from fairaudit.report.types.verdicts import verdicts

SUMMARY = "summary"  # the section's id
OPEN = 3  # methods that are read at once; a page folds the others
# At most so many rules are shown of a method, and so many findings after the first of a series.
_MOST_RULES, _MOST_ITEMS = 3, 6
_LONGEST = 1000  # characters of a sentence
_BY_ESTIMATE = (
    "Methods stand by what their worst group pays, by its estimate: neighbours may differ by "
    "chance alone."
)


def section(report: Report) -> Section | None:
    """The first section: of every method a heading with its verdict, its tables, what was found.

    Where there are more than ``OPEN`` methods, a table that ranks them stands first, and all after
    the first ``OPEN`` are folded. A terminal shows what is not folded. The chart of the same
    numbers is for files and notebooks. None where no method has a table or a finding.
    """
    tables = group_tables(report)
    axes = _axes(tables)
    by_arm: list[tuple[Words, tuple[Block, ...]]] = []
    for arm in report.arms:
        findings = [finding for finding in report.findings if finding.arm == arm.key]
        shown = [ByGroup(t, axes[t.grouping]) for t in tables if t.arm == arm.key]
        if findings or shown:
            # A method that meets all rules needs no advice; one without rules may need some.
            may_advise = verdicts(report.gates).get(arm.key) != "pass"
            blocks = tuple(_around_tables(findings, shown, may_advise=may_advise))
            by_arm.append((_heading(report, arm, findings), blocks))
    if not by_arm:
        return None
    shown_first: list[Block] = []
    if len(by_arm) > OPEN:
        shown_first += [_ranking(report, tables), Text(_BY_ESTIMATE)]
    for words, blocks in by_arm[:OPEN]:
        shown_first += [Heading(words), *blocks]
    folded = [Folded(words, blocks) for words, blocks in by_arm[OPEN:]]
    brief = [*shown_first]  # a copy: the line below is for a terminal alone
    if folded:
        more = numbered(len(folded), "more method is", "more methods are")
        brief.append(Text(f"{more} in the report's page and text."))
    left_out = _left_out_line(report)
    brief += left_out
    drawn: tuple[Block, ...] = ()
    chart = cost_chart(report)
    if chart is not None:
        drawn = (Figures((chart,), is_drawn_by_table=True),)
    return Section(SUMMARY, "Summary", (*shown_first, *folded, *left_out, *drawn), tuple(brief))


def _left_out_line(report: Report) -> tuple[Text, ...]:
    """The line on the costs that tables and charts have no room for; () where they show all."""
    names = left_out_costs(report)
    if not names:
        return ()
    costs = numbered(len(names), "cost")
    titles = [cost_title(name, report.data.label) for name in names[:_MOST_ITEMS]]
    shown = ", ".join(titles)
    if len(names) > _MOST_ITEMS:
        shown += f" and {len(names) - _MOST_ITEMS} more"
    return (Text(f"No room here for {costs}, in report.json: {shown}."),)


def _axes(tables: Sequence[GroupTable]) -> dict[str, tuple[tuple[float, float], ...]]:
    """Name of a grouping -> (low, high) of each column's axis, in the column's own unit.

    All tables by one grouping share the axes: each reaches as far as any of these tables needs.
    """
    axes: dict[str, list[tuple[float, float]]] = {}
    for one in tables:
        ends = [one.axis(place) for place in range(len(one.columns))]
        known = axes.get(one.grouping, ends)
        axes[one.grouping] = [
            (min(low, known_low), max(high, known_high))
            for (low, high), (known_low, known_high) in zip(ends, known, strict=True)
        ]
    return {grouping: tuple(ends) for grouping, ends in axes.items()}


def _ranking(report: Report, tables: Sequence[GroupTable]) -> Table:
    """A table with a row for each method: epsilon, verdict, worst group, largest gap, accuracy.

    The worst group and the largest gap are looked for in all groupings, by the first column of the
    tables. The method whose worst group pays least stands first. Without rules there is no column
    of verdicts.
    """
    outcomes = verdicts(report.gates)
    rows: list[tuple[float, list[Cell]]] = []  # (what the worst group pays, the cells)
    for key in dict.fromkeys(one.arm for one in tables):
        of_arm = [one for one in tables if one.arm == key]
        worst, paid = _worst_group(of_arm)
        facts = report.privacy[key].epsilon
        epsilon = UNKNOWN
        if facts is not None and facts.headline is not None:
            epsilon = shown_up(facts.headline)
        verdict: list[Cell] = []
        if outcomes:
            outcome = outcomes.get(key)
            verdict.append("" if outcome is None else (Badge(outcome, outcome.upper()),))
        _, right = of_arm[0].rows[-1].accuracy  # the last row is that of all test rows
        results: list[Cell] = [worst, _largest_gap(of_arm), percent(right)]
        rows.append((paid, [plain(key), epsilon, *verdict, *results]))
    rows.sort(key=lambda row: row[0])
    worst_title, gap_title = "worst group", "#largest gap"
    if tables and tables[0].columns:  # any table's: all have the same columns
        worst_title += f", {tables[0].columns[0].title}"
        gap_title += f" of {tables[0].columns[0].title}"
    verdict_title = ["verdict"] if outcomes else []
    head = ("method", "#epsilon", *verdict_title, worst_title, gap_title, "#right (%)")
    return table(head, [cells for _, cells in rows])


def _worst_group(of_arm: Sequence[GroupTable]) -> tuple[str, float]:
    """The group that pays most by the tables' first column: words with its number, and the number.

    A dash and infinity where no group can be judged, so that the method is ranked last.

    Args:
        of_arm: The tables of one method, one for each grouping.
    """
    words, most = UNKNOWN, -math.inf
    for one in of_arm:
        row = one.worst
        # ``or 0.0`` is for the type checker: the worst row has a number.
        if row is not None and (row.cells[0].number.value or 0.0) > most:
            most = row.cells[0].number.value or 0.0
            words = f"{row_title(row)} {cell_value(one.columns[0], row.cells[0])}"
    return words, math.inf if words == UNKNOWN else most


def _largest_gap(of_arm: Sequence[GroupTable]) -> str:
    """The largest gap of the tables' first column, with interval and groups; a dash without any.

    Args:
        of_arm: The tables of one method, one for each grouping.
    """
    words, largest = UNKNOWN, -math.inf
    for one in of_arm:
        for row in one.rows:
            if row.kind != "gap" or row.cells[0].number.value is None:
                continue
            size = abs(row.cells[0].number.value)
            if size > largest:
                largest = size
                # In the row of largest gaps each cell names its groups; a pair's row names them.
                pair = " ".join(between_words(row.cells[0]))
                if not pair:
                    pair = " less ".join(group_text(one.grouping, group) for group in row.groups)
                words = f"{cell_number(one.columns[0], row.cells[0])} ({pair})"
    return words


def _heading(report: Report, arm: ArmFacts, findings: list[Finding]) -> Words:
    """The first line of a method: its title, a badge if it is unhealthy, verdict and its rules.

    ``findings``: Those of the method.
    """
    words: list[Inline] = [Strong(_title(report, arm))]
    # The findings of this question all say that the model does not work.
    if any(finding.question == "works" for finding in findings):
        words += [" ", Badge("inconclusive", "UNHEALTHY")]
    outcome = verdicts(report.gates).get(arm.key)
    if outcome is not None:
        rules = [finding for finding in findings if finding.question == "verdict"]
        texts = [plain(finding.text.removesuffix("."), _LONGEST) for finding in rules[:_MOST_RULES]]
        if len(rules) > _MOST_RULES:
            texts.append(f"{len(rules) - _MOST_RULES} more")
        words += [" ", Badge(outcome, outcome.upper()), f" {'; '.join(texts)}"]
    return tuple(words)


def _title(report: Report, arm: ArmFacts) -> str:
    """The method with its epsilon, and its reference where that is not ``sgd``."""
    facts = report.privacy[arm.key]
    title = arm.key
    if facts.claim is not None:
        title += ", no epsilon claimed"
        if facts.claim.epsilon is not None:
            title = f"{arm.key}, claimed epsilon {shown_up(facts.claim.epsilon)}, not checked"
    elif facts.epsilon is not None and facts.epsilon.headline is not None:
        title += f", epsilon {shown_up(facts.epsilon.headline)}"
        if facts.delta is not None:
            title += f" (delta {facts.delta:g}, one record)"
    if arm.reference not in (REFERENCE, None):
        title += f", against {arm.reference}"
    return plain(title, 300)


def _around_tables(
    findings: Sequence[Finding], tables: Sequence[ByGroup], *, may_advise: bool
) -> Iterator[Block]:
    """A method's tables, with the sentences of its findings around them.

    Before the tables stands whether the method works at all; below each table who pays in its
    grouping, and from what; at the end what is about no grouping, and what to try next.

    Args:
        findings: Those of the method.
        tables: One for each grouping.
        may_advise: Whether advice is shown: not to a method that meets all rules.
    """
    health = [f for f in findings if f.question in ("works", "unsure")]
    yield from (Text(line) for line in _sentences(health))
    on_costs = [f for f in findings if f.question in ("pays", "from", "beside")]
    last_lines: list[str] = []  # all that stands below the last table is one list of bullets
    for block in tables:
        yield block
        here = [f for f in on_costs if f.grouping == block.table.grouping]
        lines = [*_answers(here, ("pays",)), *_answers(here, ("from", "beside"))]
        if block is tables[-1]:
            last_lines += lines
        else:
            yield from bullets(lines)
    groupings = {block.table.grouping for block in tables}
    # As findings on no grouping, whose ``grouping`` is "".
    of_no_table = [f for f in on_costs if f.grouping not in groupings]
    last_lines += _answers(of_no_table, ("pays", "from", "beside"))
    if may_advise:
        last_lines += _advice_line(findings)
    yield from bullets(last_lines)


def _advice_line(findings: Sequence[Finding]) -> list[str]:
    """What to try next, each knob once, in the order of :data:`Knob`; [] without any advice.

    Of several advices on one knob the last one's text stands.
    """
    advice = {finding.advice.knob: finding.advice.text for finding in findings if finding.advice}
    steps = [plain(advice[knob], 300) for knob in get_args(Knob) if knob in advice]
    return [f"Next: {'; then '.join(steps)}."] if steps else []


def _answers(findings: Sequence[Finding], questions: Sequence[Question]) -> list[str]:
    """The answers to some questions as one line; [] where there are none."""
    sentences = list(_sentences([f for f in findings if f.question in questions]))
    return [" ".join(sentences)] if sentences else []


def _sentences(findings: Sequence[Finding]) -> Iterator[str]:
    """The sentences of findings, those of one series joined to one sentence, as ``SERIES`` says.

    Of a series the first finding has its whole sentence, the others their short form.
    """
    by_series: dict[str, list[Finding]] = {}
    for finding in findings:
        # A finding that stands alone is a series of its own, under its text.
        by_series.setdefault(finding.series or finding.text, []).append(finding)
    for series, (first, *others) in by_series.items():
        text = first.text.removesuffix(".")
        joint = SERIES.get(series)  # None: the first finding stands for all of its series
        items = [finding.short for finding in others if finding.short]
        if joint is not None and items:
            if len(items) > _MOST_ITEMS:
                items[_MOST_ITEMS:] = [f"{len(items) - _MOST_ITEMS} more"]
            text += joint + "; ".join(items)
        yield plain(f"{text}.", _LONGEST)
