"""An inspection as console lines."""

from collections.abc import Iterator

from fairaudit.cli.lines import outcomes_text
from fairaudit.data.inspection import Inspection
from fairaudit.errors import numbered
from fairaudit.report.render.console_rows import Row, aligned
from fairaudit.report.safe_names import plain

_MOST_COLUMNS = 60


def inspection_lines(found: Inspection) -> Iterator[str]:
    """Columns, candidates, group sizes, and what `run` would do with them."""
    size = f"{numbered(found.rows, 'row')} x {numbered(found.columns, 'column')}"
    yield f"{plain(found.name)}  {size} · sha256 {found.digest[:16]}…"
    yield from _columns(found)
    if found.label is not None:
        outcomes = outcomes_text(found.positive, found.favourable, found.favourable_origin)
        yield f"label    {plain(found.label)}   ({found.label_origin or 'given'}; {outcomes})"
    if found.label is None or found.problem:
        yield f"labels?  {_names(found.label_candidates)}"
    if not found.groupings:
        yield f"groups?  {_names(found.group_candidates)}"
    for grouping in found.groupings:
        yield f"group    {plain(grouping.name)}"
        rows = [Row(("", "rows", "share", "positive"))]
        for group in grouping.groups:
            rate = "–" if group.positive_rate is None else f"{100 * group.positive_rate:.1f} %"
            rows.append(
                Row((f"  {plain(group.name)}", f"{group.rows:,}", f"{100 * group.share:.1f} %", rate))
            )
        yield from aligned(rows, left=frozenset({0}))
    yield from _would_run(found)
    if found.command is not None:
        yield f"next     {found.command}"


def _columns(found: Inspection) -> Iterator[str]:
    rows = [Row(("column", "type", "role", "missing", "distinct"))]
    for column in found.schema[:_MOST_COLUMNS]:
        missing = "–" if column.missing is None else f"{100 * column.missing:.1f} %"
        distinct = "–" if column.distinct is None else f"{column.distinct:,}"
        cells = (plain(column.name), plain(column.type, 24), column.role, missing, distinct)
        rows.append(Row(cells, plain(column.note, 80)))
    yield from aligned(rows, left=frozenset({0, 1, 2}))
    if len(found.schema) > _MOST_COLUMNS:
        yield f" {numbered(len(found.schema) - _MOST_COLUMNS, 'more column')}: --json shows all"


def _would_run(found: Inspection) -> Iterator[str]:
    if found.would_run is None:
        # What a hint has for a command was not tried; the one that was stands below.
        hint = "" if found.hint.startswith("type: ") else f" ({plain(found.hint, 400)})" if found.hint else ""
        yield f"run      would stop: {plain(found.problem, 400)}{hint}"
        return
    run = found.would_run
    yield (
        f"run      {numbered(run.rows, 'usable row')}: {run.train:,} train, {run.test:,} test per seed · "
        f"{numbered(run.features, 'column')} as {numbered(run.inputs, 'input')} · "
        f"{numbered(run.duplicate_rows, 'duplicate row')}"
    )


def problem_lines(found: Inspection) -> Iterator[str]:
    """Why `run` would stop; nothing where it would not."""
    if found.would_run is None:
        yield from _would_run(found)


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(plain(name) for name in names[:20]) if names else "no candidate"
