"""One method against another as console lines."""

from collections.abc import Iterator

from fairaudit.against import Pairing, Pairings
from fairaudit.metrics.registry import costs_of_constant, spec_of
from fairaudit.report.group_rows import group_tables
from fairaudit.report.measures import scale_of
from fairaudit.report.model import Report
from fairaudit.report.numbers import written
from fairaudit.report.render.terminal import group_lines
from fairaudit.report.safe_names import plain
from fairaudit.results.estimates import interval_of


def pairing_lines(pairings: Pairings, report: Report) -> Iterator[str]:
    """Of each pair of methods what is detected over all rows, then costs and gaps by group.

    Args:
        pairings: What was measured.
        report: The audit's, for the names of groups.
    """
    for pair in pairings.pairs:
        yield f"{plain(pair.arm)} against {plain(pair.against)}"
        yield from _sentences(pair)
        alone = report.model_copy(update={"comparisons": pair.comparisons, "gates": ()})
        for table in group_tables(alone):
            yield from group_lines(table)
    yield (
        "Above 0 the first method loses more than the second, below 0 less; both at the same "
        "seeds. Each pair of methods has a 5 % of error of its own."
    )


def _sentences(pair: Pairing) -> Iterator[str]:
    """Which of the two costs more over all rows, of accuracy and of loss."""
    for metric in costs_of_constant():
        # Every comparison of the pair, one for each grouping, has the same numbers over all rows.
        number = interval_of(pair.comparisons[0].overall.estimates.get(metric))
        spec = spec_of(metric)
        if number.value is None:
            continue
        size = f"{written(number, scale_of(metric))} {spec.counted}"
        said = f"cannot tell whether {plain(pair.arm)} costs more or less than"
        if metric in pair.more:
            said = f"{plain(pair.arm)} costs more than"
        elif metric in pair.less:
            said = f"{plain(pair.arm)} costs less than"
        yield f" {spec.title.capitalize()} of all rows: {said} {plain(pair.against)}, {size}."
