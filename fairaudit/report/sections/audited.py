"""What was audited: data, label, groups, methods, how well the reference learned."""

from collections.abc import Iterator, Mapping
from datetime import datetime

from fairaudit.data.naming import shape_text
from fairaudit.errors import numbered
from fairaudit.messages.names import arms_text
from fairaudit.report.document import Bullets, Section, Strong, Words
from fairaudit.report.model import Report
from fairaudit.report.numbers import count
from fairaudit.report.safe_names import group_text, plain
from fairaudit.report.types.facts import DataFacts, LabelFacts

# At most so many groupings, groups of one grouping, and lines or columns of one kind are named.
_MOST_GROUPINGS, _MOST_GROUPS, _MOST_LISTED = 50, 100, 50
_LONGEST_NOTE = 1000  # characters


def title(report: Report) -> str:
    """What the report is about, in a line."""
    about = "predictions by group"
    if report.training is not None:
        about = "what private training costs each group"
    elif report.costs:  # predictions of several models were given, one as the baseline
        about = "what predictions cost each group beside the baseline"
    return f"{plain(report.data.name)}: {about}"


def about(report: Report) -> tuple[Words, ...]:
    """What was audited, when and by which version, in a line; then the reader's own note."""
    data, label = report.data, report.data.label
    outcome = f"{len(label.classes)} classes"
    if label.favourable is not None:
        outcome = f"{plain(label.favourable)} is favourable"
        if label.is_assumed:
            outcome = f"{plain(label.favourable)} is assumed to be favourable"
    groupings = ", ".join(plain(grouping.name) for grouping in data.groupings[:_MOST_GROUPINGS])
    size = numbered(data.rows, "row" if data.images is None else "image")
    if report.training is not None:
        size += f", {numbered(report.training.seeds, 'seed')}"
    made = f"{day_text(report.created_utc)}, fairaudit {plain(report.tool.version)}"
    items = [f"Label {plain(label.column)} ({outcome})", f"groups by {groupings}", size, made]
    if report.status != "complete":
        items.append("PARTIAL: some trainings have no result")
    note = report.config.get("note")
    lines: tuple[Words, ...] = (" · ".join(items),)
    if note is not None and note.value:
        lines += (f"Note: {plain(str(note.value), _LONGEST_NOTE)}",)
    return lines


def day_text(moment: str) -> str:
    """The day of a moment in ISO 8601, as ``2 January 2026``; the text itself if it is none."""
    try:
        day = datetime.fromisoformat(moment)
    except ValueError:
        return plain(moment)
    return f"{day.day} {day:%B %Y}"


def section(report: Report) -> Section | None:
    """The section on data, groups and methods, and on rows dropped, missing and repeated."""
    data = report.data
    rows = f"{data.rows:,} of {numbered(data.rows_read, 'row')}"
    if data.images is None:
        rows += f", {numbered(data.columns_read, 'column')}"
    items: list[Words] = [
        f"Data: {plain(data.name)}, {rows}, sha256 {plain(data.sha256[:16])}…",
        _label_line(data.label),
        _groups_line(data),
        f"Methods: {plain(arms_text(arm.key for arm in report.arms), 600)}; {_training(report)}",
    ]
    if report.status != "complete":
        items.append("Status: PARTIAL: some trainings have no result, see warnings")
    if report.comparisons:
        first = (report.costs or report.comparisons)[0]  # which stands for all here
        items.append(f"Intervals: 95 %; {plain(first.estimand, 300)}")
    items += _reference_check(report)
    items += _row_lines(report)
    return Section("data", "What was audited", (Bullets(tuple(items)),))


def _label_line(label: LabelFacts) -> str:
    """One line on the label: its column, how it was found, positive and favourable class."""
    positive, favourable = "not known", "not known"
    if label.positive is not None:
        positive = plain(label.positive)
    if label.favourable is not None:
        favourable = f"{plain(label.favourable)} ({plain(label.favourable_origin)})"
    outcomes = f"positive = {positive}, favourable = {favourable}"
    return f"Label: {plain(label.column)} ({plain(label.origin)}), {outcomes}"


def _groups_line(data: DataFacts) -> str:
    """One line on the groups of every grouping with their rows; a dash for a suppressed count."""
    groupings = []
    for grouping in data.groupings[:_MOST_GROUPINGS]:
        groups = []
        for group in grouping.groups[:_MOST_GROUPS]:
            groups.append(f"{group_text(grouping.name, group.name)} {count(group.rows)}")
        if len(grouping.groups) > _MOST_GROUPS:
            groups.append("…")
        groupings.append(f"{plain(grouping.name)} ({', '.join(groups)})")
    return f"Groups: {'; '.join(groupings)}"


def _training(report: Report) -> str:
    """The clause on what was trained: model, seeds, private runs or tried settings, and epochs.

    Where code of the user's own trains some arms, the clause begins with these arms and that code,
    and model, seeds and epochs are those of the other arms.
    """
    training = report.training
    if training is None:
        return "predictions were given, nothing was trained"
    model = f"model {plain(training.model)}"
    if training.parameters is not None:
        parameters = numbered(training.parameters, "parameter")
        model += f" ({parameters}, per-sample gradients by {plain(training.gradients)})"
    tried = f"{numbered(training.repeats, 'private run')} per seed,"
    if report.settings_tried is not None:
        tried = f"{numbered(report.settings_tried, 'setting')} tried per seed and arm, by default"
    epochs = numbered(training.epochs, "epoch")
    text = f"{model}, {numbered(training.seeds, 'seed')}, {tried} {epochs}"
    own_code = {arm.key: arm.trainer for arm in report.arms if arm.capability and arm.trainer}
    if own_code:
        trainers = plain(", ".join(dict.fromkeys(own_code.values())), 300)
        text = f"{plain(arms_text(own_code), 600)} by {trainers}; others: {text}"
    return text


def _reference_check(report: Report) -> Iterator[Words]:
    """One line: the reference's accuracy beside scikit-learn's baseline, or why that is not known.

    No line where nothing was trained.
    """
    check = report.sklearn_baseline
    reference = ""
    if check.reference_accuracy is not None:
        reference = f"{plain(check.arm)} {100 * check.reference_accuracy:.1f} % on test rows"
    if reference and check.baseline_accuracy is not None:
        baseline = f"{plain(check.baseline, 80)} {100 * check.baseline_accuracy:.1f} %"
        beginning = f"Reference check: {reference}, {baseline}: "
        if check.undertrained:
            yield beginning, Strong("reference undertrained"), ", costs cannot be read"
        else:
            yield beginning, check.reading
    elif report.training is not None:
        known = f" ({reference})" if reference else ""
        yield f"Reference check: none, {plain(check.reason, 200)}{known}"


def _row_lines(report: Report) -> Iterator[str]:
    """Lines on what became of the rows that were read.

    In order: images, rows dropped, rows without prediction, missing values, rows without a group,
    and how the others were split and used.
    """
    data = report.data
    if images := data.images:
        shape = shape_text((images.height, images.width, images.channels))
        if images.resized:
            shape += ", scaled to that size"
        yield f"Images of {shape}; pixels become inputs by {plain(images.scaling, 120)}"
    dropped = [
        f"Rows dropped, {plain(why, 80)}: {_counts(n)}" for why, n in data.dropped_rows.items()
    ]
    yield from _shortened(dropped)
    unpredicted = {}  # grouping -> line on the rows that given predictions lack
    for comparison in report.comparisons:
        if comparison.overall.unpredicted != 0:  # None is a suppressed count, which is not 0
            rows = {g.group: g.unpredicted for g in comparison.by_group if g.unpredicted != 0}
            where = f"No prediction, by {plain(comparison.grouping)}: {_counts(rows)}"
            # All comparisons by one grouping have the same counts, so none replaces another.
            unpredicted[comparison.grouping] = f"{where}; no gate about them passes"
    yield from _shortened(list(unpredicted.values()))
    if data.missing:
        missing = [f"{plain(column)} ({_counts(n)})" for column, n in data.missing.items()]
        if len(missing) > _MOST_LISTED:
            missing[_MOST_LISTED:] = [f"{len(missing) - _MOST_LISTED} more"]
        yield f"Missing values: {'; '.join(missing)}"
    for grouping in data.groupings[:_MOST_GROUPINGS]:
        for group in grouping.groups:
            if group.is_missing:
                kept = f"{count(group.rows)} rows; kept, never in a gap"
                yield f"No group in {plain(grouping.name)}: {kept}"
    yield from _use_lines(data)


def _use_lines(data: DataFacts) -> Iterator[str]:
    """Lines on how the rows were used: the split, duplicate rows, inputs of the model."""
    if data.duplicate_rows is None:  # predictions were given, so there are no features
        yield f"Every one of {data.rows:,} rows is a test row of each model that predicts it"
        return
    split = data.split
    origin = "drawn per seed, stratified by group and class"
    if split.given:
        origin = "given by a column"
    if split.balanced:
        origin += ", groups balanced before the split"
    train, test = count(split.train_rows), count(split.test_rows)
    yield f"Split {origin}: {train} training and {test} test rows at the first seed"
    if data.duplicate_rows:
        across = count(data.duplicates_across_split)
        yield f"Duplicate rows: {data.duplicate_rows:,}; on both sides of the first split: {across}"
    inputs = f"Model inputs: {count(data.inputs)}"
    columns = [one.name for one in data.groupings if one.name in data.features]
    if columns:  # group columns that the model is given
        inputs += f", of {', '.join(plain(name) for name in columns)}, too"
    elif data.features:
        inputs += ", none of a group column"
    if merged := sum(data.merged_levels.values()):
        inputs += f"; rare levels merged: {merged:,}"
    yield f"{inputs}; quantities fitted without privacy: {len(data.fitted):,}"


def _shortened(items: list[str]) -> list[str]:
    """The lines; of more than fifty the first fifty and a line on how many more there are."""
    if len(items) <= _MOST_LISTED:
        return items
    more = f"{len(items) - _MOST_LISTED} more like this one are in report.json"
    return [*items[:_MOST_LISTED], more]


def _counts(by_group: Mapping[str, int | None]) -> str:
    """Counts by group as one text, ``F 3, M –``; a suppressed count is a dash."""
    counts = [f"{plain(group)} {count(rows)}" for group, rows in by_group.items()]
    if len(counts) > _MOST_GROUPS:
        counts[_MOST_GROUPS:] = ["…"]
    return ", ".join(counts)
