"""What was dropped, missing, merged, repeated, and how rows were split."""

from collections.abc import Iterable, Iterator, Mapping

from fairaudit.data.naming import shape_text
from fairaudit.errors import numbered
from fairaudit.report.charts_costs import MOST_ROWS
from fairaudit.report.document import Block, Bullets, Chart, Rank, Section, data_table, figures
from fairaudit.report.facts import DataFacts
from fairaudit.report.model import Report
from fairaudit.report.panels import Amounts, Bar, alone, labels
from fairaudit.report.safe_names import plain
from fairaudit.report.written import count
from fairaudit.results.estimates import Comparison

_MOST_LISTED = 5
_TRAINING, _TEST = "training rows (mean over seeds)", "distinct test rows"


def section(report: Report) -> Section | None:
    """The data as they were read."""
    blocks: tuple[Block, ...] = (*figures(size_chart(report)), Bullets(tuple(_items(report))))
    return Section("data", "Data and exclusions", Rank.DETAIL, blocks)


def _items(report: Report) -> Iterator[str]:
    data = report.data
    yield _read(data)
    if data.images is not None:
        yield f"Pixels become inputs by {plain(data.images.scaling, 120)}."
    yield from _some(
        f"Rows dropped, {plain(reason, 80)}: {_counts(by_group)}"
        for reason, by_group in data.dropped_rows.items()
    )
    lacking = {
        c.grouping: {g.group: g.unpredicted for g in c.by_group if g.unpredicted != 0}
        for c in report.comparisons
        if c.overall.unpredicted != 0
    }
    yield from _some(
        f"No prediction, by {plain(grouping)}: {_counts(by_group)}; no gate about them passes"
        for grouping, by_group in lacking.items()
    )
    yield from _some(
        f"Column {plain(column)} not used: {plain(reason, 120)}"
        for column, reason in data.dropped_columns.items()
    )
    if data.missing:
        told = [f"{plain(column)} ({_counts(by_group)})" for column, by_group in data.missing.items()]
        more = f"; {len(told) - _MOST_LISTED} more" if len(told) > _MOST_LISTED else ""
        yield f"Missing values: {'; '.join(told[:_MOST_LISTED])}{more}"
    for grouping in data.groupings[:6]:
        for group in grouping.groups:
            if group.is_missing:
                rows_without = count(group.rows)
                yield f"No group in {plain(grouping.name)}: {rows_without} rows; kept, never in a gap"
    yield from _split(data)


def _split(data: DataFacts) -> Iterator[str]:
    if data.duplicate_rows is None:
        yield f"Every row ({data.rows:,}) is a test row of every model."
        return
    split = data.split
    how = "given by a column" if split.given else "drawn per seed, stratified by group and class"
    extra = ", groups balanced before the split" if split.balanced else ""
    train, test = count(split.train_rows), count(split.test_rows)
    yield f"Split {how}{extra}: {train} training and {test} test rows at the first seed."
    across = count(data.duplicates_across_split)
    yield f"Duplicate rows: {data.duplicate_rows:,}; on both sides of the first split: {across}."
    merged = sum(data.merged_levels.values())
    fitted = f"quantities fitted without privacy: {len(data.fitted):,}"
    yield f"Model inputs: {count(data.inputs)}; rare levels merged: {merged:,}; {fitted}."


def _some(lines: Iterable[str]) -> Iterator[str]:
    """The first of a list, and how many more there are."""
    found = list(lines)
    yield from found[:_MOST_LISTED]
    if len(found) > _MOST_LISTED:
        yield f"{len(found) - _MOST_LISTED} more like this one are in report.json"


def _read(data: DataFacts) -> str:
    images = data.images
    if images is None:
        size = f"{numbered(data.rows_read, 'row')} and {numbered(data.columns_read, 'column')}"
        return f"Read {size}; {numbered(data.rows, 'row is', 'rows are')} used."
    shape = shape_text((images.height, images.width, images.channels))
    scaled = ", scaled to that size" if images.resized else ""
    size = f"{numbered(data.rows_read, 'image')} of {shape}{scaled}"
    return f"Read {size}; {data.rows:,} are used, a row being an image."


def _counts(by_group: Mapping[str, int | None]) -> str:
    shown = ", ".join(f"{plain(group)} {count(n)}" for group, n in list(by_group.items())[:8])
    return shown + (", …" if len(by_group) > 8 else "")


def size_chart(report: Report) -> Chart | None:
    """Rows of each group in training and in tests."""
    chosen: dict[str, Comparison] = {}
    for comparison in report.comparisons:
        chosen.setdefault(comparison.grouping, comparison)  # sizes are the same in all of them
    panels = []
    for grouping, comparison in chosen.items():
        names = labels([group.group for group in comparison.by_group])
        bars = tuple(
            Bar(names[group.group], series, alone(float(rows)))
            for group in comparison.by_group[:MOST_ROWS]
            for series, rows in ((_TRAINING, group.n_train), (_TEST, group.n_test))
            if rows is not None
        )
        if bars:
            panels.append(Amounts(labels([grouping])[grouping], "rows", bars))
    if not panels:
        return None
    sizes = {(g.name, k.name): k.rows for g in report.data.groupings for k in g.groups}
    return Chart(
        name="group-sizes",
        title="Group sizes",
        reading="Few test rows make wide intervals; DP noise often hurts small groups most.",
        alt="Training and test rows of each group.",
        panels=tuple(panels),
        table=data_table(
            ("grouping", "group", "rows", _TRAINING, _TEST, "note"),
            tuple(
                (c.grouping, g.group, sizes.get((c.grouping, g.group)), g.n_train, g.n_test, g.reason)
                for c in chosen.values()
                for g in c.by_group
            ),
        ),
    )
