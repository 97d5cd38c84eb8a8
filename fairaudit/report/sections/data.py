"""What was dropped, missing, merged, repeated, and how rows were split."""

from collections.abc import Iterator, Mapping

from fairaudit.data.naming import shape_text
from fairaudit.report.document import (
    Bullets,
    Section,
)
from fairaudit.report.facts import DataFacts
from fairaudit.report.model import Report
from fairaudit.report.numbers import count
from fairaudit.report.safe_names import plain

_MOST_LISTED = 5
_TRAINING, _TEST = "training rows (mean over seeds)", "distinct test rows"


def section(report: Report) -> Section | None:
    """The data as they were read."""
    data = report.data
    items = []
    if images := data.images:
        shape = shape_text((images.height, images.width, images.channels))
        if images.resized:
            shape += ", scaled to that size"
        items = [f"Images of {shape}; pixels become inputs by {plain(images.scaling, 120)}."]
    items += _first(
        [f"Rows dropped, {plain(why, 80)}: {_counts(n)}" for why, n in data.dropped_rows.items()]
    )
    items += _first(_lacking(report))
    if data.missing:
        told = [f"{plain(column)} ({_counts(n)})" for column, n in data.missing.items()]
        if len(told) > _MOST_LISTED:
            told[_MOST_LISTED:] = [f"{len(told) - _MOST_LISTED} more"]
        items.append(f"Missing values: {'; '.join(told)}")
    for grouping in data.groupings[:6]:
        for group in grouping.groups:
            if group.is_missing:
                rows = f"{count(group.rows)} rows; kept, never in a gap"
                items.append(f"No group in {plain(grouping.name)}: {rows}")
    items += _split(data)
    trained: dict[str, str] = {}
    for comparison in report.comparisons:  # sizes are alike in all of a grouping
        sizes = {group.group: group.n_train for group in comparison.by_group}
        trained.setdefault(comparison.grouping, _counts(sizes))
    if report.training is not None:
        counts = "; ".join(f"{plain(grouping)} ({told})" for grouping, told in trained.items())
        items.append(f"Training rows, mean over seeds: {counts}")
    return Section("data", "Data and exclusions", (Bullets(tuple(items)),))


def _lacking(report: Report) -> list[str]:
    """Rows without a prediction, by grouping."""
    lacking = {}
    for comparison in report.comparisons:
        if comparison.overall.unpredicted != 0:
            rows = {g.group: g.unpredicted for g in comparison.by_group if g.unpredicted != 0}
            told = f"No prediction, by {plain(comparison.grouping)}: {_counts(rows)}"
            lacking[comparison.grouping] = f"{told}; no gate about them passes"
    return list(lacking.values())


def _split(data: DataFacts) -> Iterator[str]:
    if data.duplicate_rows is None:
        yield f"Every row ({data.rows:,}) is a test row of every model."
        return
    split = data.split
    how = "drawn per seed, stratified by group and class"
    if split.given:
        how = "given by a column"
    if split.balanced:
        how += ", groups balanced before the split"
    train, test = count(split.train_rows), count(split.test_rows)
    yield f"Split {how}: {train} training and {test} test rows at the first seed."
    across = count(data.duplicates_across_split)
    if data.duplicate_rows:
        rows = f"{data.duplicate_rows:,}"
        yield f"Duplicate rows: {rows}; on both sides of the first split: {across}."
    inputs = f"Model inputs: {count(data.inputs)}"
    if merged := sum(data.merged_levels.values()):
        inputs += f"; rare levels merged: {merged:,}"
    yield f"{inputs}; quantities fitted without privacy: {len(data.fitted):,}."


def _first(items: list[str]) -> list[str]:
    """The first of a list, and how many more there are."""
    if len(items) <= _MOST_LISTED:
        return items
    more = f"{len(items) - _MOST_LISTED} more like this one are in report.json"
    return [*items[:_MOST_LISTED], more]


def _counts(by_group: Mapping[str, float | None]) -> str:
    counts = []
    for group, rows in by_group.items():
        counts.append(f"{plain(group)} {count(None if rows is None else round(rows))}")
    if len(counts) > 8:
        counts[8:] = ["…"]
    return ", ".join(counts)
