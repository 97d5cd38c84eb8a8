"""Markdown sections on the data, on the training's readings, and on repeating the audit."""

from collections.abc import Iterable, Iterator, Mapping

from fairaudit.data.naming import spoken_shape
from fairaudit.errors import numbered
from fairaudit.privacy.events import shown_up
from fairaudit.report.arm_names import listed
from fairaudit.report.decomposition import Curve
from fairaudit.report.facts import DataFacts
from fairaudit.report.measured import Reading
from fairaudit.report.model import Report
from fairaudit.report.names import markdown, plain
from fairaudit.report.tables import Row, count, number, short, table
from fairaudit.report.written import READINGS, written
from fairaudit.results.estimates import Interval

_MOST_READINGS = 8
_MOST_LISTED = 5
_IN_JSON_ALONE = {  # of our own methods; those of a plugin are shown
    *(
        "hessian_trace",
        "excess_risk_drawn_se",
        "xi_drawn_se",
        "input_norm",
        "excess_risk",
        "gradient_norm",
        "beta_largest",
        "beta_mean",
        "deviation_square",
        "deviation_square_bound",
        "deviation_square_sharp",
        "xi_bound",
        "spearman_closeness_flip",
        "spearman_norm_excess",
        "spearman_flip_excess",
    ),
}
_ORDER = (
    *("loss", "gradient_norm", "clipped", "scale", "cos_group_batch", "cos_group_clipped", "norm_group"),
    *("cos_batch_clipped", "norm_batch", "norm_clipped", "threshold"),
)


def data_section(report: Report) -> Iterator[str]:
    """What was dropped, missing, merged, repeated, and how rows were split."""
    data = report.data
    yield "## Data and exclusions"
    yield ""
    yield _read(data)
    if data.images is not None:
        yield f"- Pixels become inputs by {markdown(data.images.scaling, 120)}."
    yield from _some(
        f"- Rows dropped, {markdown(reason, 80)}: {_counts(by_group)}"
        for reason, by_group in data.dropped_rows.items()
    )
    lacking = {
        c.grouping: {g.group: g.unpredicted for g in c.by_group if g.unpredicted != 0}
        for c in report.comparisons
        if c.overall.unpredicted != 0
    }
    yield from _some(
        f"- No prediction, by {markdown(grouping)}: {_counts(by_group)}; no gate about them passes"
        for grouping, by_group in lacking.items()
    )
    yield from _some(
        f"- Column {markdown(column)} not used: {markdown(reason, 120)}"
        for column, reason in data.dropped_columns.items()
    )
    if data.missing:
        told = [f"{markdown(column)} ({_counts(by_group)})" for column, by_group in data.missing.items()]
        more = f"; {len(told) - _MOST_LISTED} more" if len(told) > _MOST_LISTED else ""
        yield f"- Missing values: {'; '.join(told[:_MOST_LISTED])}{more}"
    for grouping in data.groupings[:6]:
        for group in grouping.groups:
            if group.is_missing:
                rows_without = count(group.rows)
                yield f"- No group in {markdown(grouping.name)}: {rows_without} rows; kept, never in a gap"
    if data.duplicate_rows is None:
        yield f"- Every row ({data.rows:,}) is a test row of every model."
        return
    split = data.split
    how = "given by a column" if split.given else "drawn per seed, stratified by group and class"
    extra = ", groups balanced before the split" if split.balanced else ""
    train, test = count(split.train_rows), count(split.test_rows)
    yield f"- Split {how}{extra}: {train} training and {test} test rows at the first seed."
    across = count(data.duplicates_across_split)
    yield f"- Duplicate rows: {data.duplicate_rows:,}; on both sides of the first split: {across}."
    merged = sum(data.merged_levels.values())
    fitted = f"quantities fitted without privacy: {len(data.fitted):,}"
    yield f"- Model inputs: {count(data.inputs)}; rare levels merged: {merged:,}; {fitted}."


def _some(lines: Iterable[str]) -> Iterator[str]:
    """The first of a list, and how many more there are."""
    found = list(lines)
    yield from found[:_MOST_LISTED]
    if len(found) > _MOST_LISTED:
        yield f"- {len(found) - _MOST_LISTED} more like this one are in report.json"


def _read(data: DataFacts) -> str:
    images = data.images
    if images is None:
        size = f"{numbered(data.rows_read, 'row')} and {numbered(data.columns_read, 'column')}"
        return f"- Read {size}; {numbered(data.rows, 'row is', 'rows are')} used."
    shape = spoken_shape((images.height, images.width, images.channels))
    scaled = ", scaled to that size" if images.resized else ""
    size = f"{numbered(data.rows_read, 'image')} of {shape}{scaled}"
    return f"- Read {size}; {data.rows:,} are used, a row being an image."


def diagnostics_section(report: Report) -> Iterator[str]:
    """The last reading of every curve: what training did to each group's gradients."""
    if report.training is None:
        return
    yield "## Training, group by group"
    yield ""
    arms = {arm.key: report.diagnostics.arms.get(arm.key, ()) for arm in report.arms}  # in the plan's order
    arms = {key: curves for key, curves in arms.items() if curves}
    if not arms:
        yield "No diagnostics were recorded."
        return
    yield (
        "Last reading of each, mean over seeds. `cos group batch` is the cosine between a group's "
        "gradient and the whole batch's, `cos group clipped` between it and what clipping left: "
        "where it falls, clipping turns training away from the group."
    )
    yield ""
    grouped = _names(arms, by_group=True)
    rows: list[Row] = []
    for arm, curves in arms.items():
        last = {
            c.name: dict(zip(c.columns, c.values[-1], strict=True))
            for c in curves
            if c.values and len(c.columns) > 1
        }
        groups = next(iter(last.values()), {})
        rows += [
            (markdown(arm), markdown(group), *(number(last.get(name, {}).get(group)) for name in grouped))
            for group in groups
        ]
    yield from table(("arm", "group", *(f"#{markdown(n)}" for n in _spoken(grouped))), rows, most=12)
    whole = _names(arms, by_group=False)
    if whole:
        yield ""
        by_arm: list[Row] = []
        for arm, curves in arms.items():
            single = {c.name: c.values[-1][0] for c in curves if c.values and len(c.columns) == 1}
            by_arm.append((markdown(arm), *(number(single.get(name)) for name in whole)))
        yield from table(("arm", *(f"#{markdown(n)}" for n in _spoken(whole))), by_arm, most=8)


def readings_section(report: Report) -> Iterator[str]:
    """What the methods' own diagnostics found, and whether the papers' claims held here."""
    diagnostics = report.diagnostics
    if not diagnostics.readings:
        return
    yield "## What noise does to each group"
    yield ""
    yield "Means over seeds; group readings in the order of the groups. None of it is private."
    yield ""
    rows = [
        (markdown(arm), markdown(reading.meaning, 120), _listed(reading))
        for arm in (facts.key for facts in report.arms)
        for reading in diagnostics.readings.get(arm, ())
        if reading.name not in _IN_JSON_ALONE
    ]
    yield from table(("arm", "reading", "values"), rows, most=24)
    yield ""
    told: dict[tuple[str, str], list[str]] = {}
    for claim in diagnostics.claims:
        share = f"{100 * claim.share:.0f} % of {numbered(claim.n_seeds, 'seed')} ({listed(claim.arms)})"
        told.setdefault((claim.source, claim.statement), []).append(share)
    for (source, statement), shares in told.items():
        held = markdown("; ".join(shares), 600)
        yield f"- {markdown(source, 80)}: {markdown(statement, 200)}: held in {held}."


def _listed(reading: Reading) -> str:
    if reading.columns == ("value", "low", "high"):
        value, low, high = reading.values
        return written(Interval(value=value, low=low, high=high), READINGS)
    if reading.columns == ("mean", "standard error"):
        return " ± ".join(short(v) for v in reading.values)
    named = zip(reading.columns, reading.values, strict=True)
    write = _bound if reading.name == "individual_epsilon" else short
    return ", ".join(f"{markdown(name)} {write(v)}".strip() for name, v in named)


def _bound(value: float | None) -> str:
    return "–" if value is None else shown_up(value)


def reproduce_section(report: Report) -> Iterator[str]:
    """The command that gives this report again."""
    command = plain(report.reproduce, 3000)
    fence = "```"
    while fence in command:
        fence += "`"
    yield "## Reproduce"
    yield ""
    yield fence
    yield command
    yield fence
    yield ""
    versions = f"numerics {markdown(report.numerics_version)}, report schema {report.schema_version}"
    yield f"fairaudit {markdown(report.tool.version)}, {versions}."


def _names(arms: Mapping[str, tuple[Curve, ...]], *, by_group: bool) -> list[str]:
    found: dict[str, None] = {}
    for curves in arms.values():
        found.update({c.name: None for c in curves if (len(c.columns) > 1) == by_group})
    known = [name for name in _ORDER if name in found]
    return [*known, *(name for name in found if name not in _ORDER)][:_MOST_READINGS]


def _spoken(names: list[str]) -> list[str]:
    return [name.replace("_", " ") for name in names]


def _counts(by_group: Mapping[str, int | None]) -> str:
    shown = ", ".join(f"{markdown(group)} {count(n)}" for group, n in list(by_group.items())[:8])
    return shown + (", …" if len(by_group) > 8 else "")
