"""What is in a table and what an audit would make of it; answers even where an audit would refuse."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fairaudit.config.options import AuditConfig
from fairaudit.data.candidates import group_candidates, label_candidates
from fairaudit.data.columns import encode_codes
from fairaudit.data.dataset import Dataset, Grouping, Notice, shape_of
from fairaudit.data.encode import encode
from fairaudit.data.groups import make_groupings
from fairaudit.data.infer import NoLabel, run_command, suggestion
from fairaudit.data.naming import shape_text
from fairaudit.data.split import draw_split
from fairaudit.data.tabular import CheckedTable, make_dataset, read_checked
from fairaudit.errors import FairauditError


@dataclass(frozen=True, slots=True)
class ColumnSummary:
    """One column.

    Args:
        name: Its name.
        type: Arrow type as read.
        role: ``label``, ``group``, ``feature``, ``dropped``, ``split`` or ``unused``.
        missing: Fraction of rows without a value, None where the column is not read.
        distinct: Number of distinct values, None likewise.
        note: Why it is dropped, or "".
    """

    name: str
    type: str
    role: str
    missing: float | None
    distinct: int | None
    note: str


@dataclass(frozen=True, slots=True)
class GroupSummary:
    """One group: its rows, their fraction of all, its positive rate (None where not known)."""

    name: str
    rows: int
    share: float
    positive_rate: float | None


@dataclass(frozen=True, slots=True)
class GroupingSummary:
    """One grouping with its groups."""

    name: str
    groups: tuple[GroupSummary, ...]


@dataclass(frozen=True, slots=True)
class RunSummary:
    """What ``run`` would train on.

    Args:
        rows: Usable rows.
        train, test: Rows per seed.
        features: Raw columns used.
        inputs: Model inputs of the first seed.
        classes: class -> rows.
        duplicate_rows: Rows that repeat an earlier one.
    """

    rows: int
    train: int
    test: int
    features: int
    inputs: int
    classes: dict[str, int]
    duplicate_rows: int


@dataclass(frozen=True, slots=True)
class Inspection:
    """Everything `fairaudit inspect` shows; plain values, ready for JSON through ``asdict``.

    Args:
        name, format, digest: The file.
        rows, columns: Its size.
        schema: Its columns, in order.
        label, label_origin, positive: The label chosen and why, None and "" where there is none.
        favourable, favourable_origin: The outcome that people want, and who said so.
        label_candidates: Columns that are named like a label.
        group_candidates: That could be groups.
        groupings: Sizes and rates of the groups asked for, over usable rows.
        would_run: What ``run`` would do, or None where it would refuse.
        problem, hint: Why it would refuse and what to do, or "".
        command: A command that goes through, or None where label or groups are not sure.
        notices: What the data show.
    """

    name: str
    format: str
    digest: str
    rows: int
    columns: int
    schema: tuple[ColumnSummary, ...]
    label: str | None
    label_origin: str
    positive: str | None
    favourable: str | None
    favourable_origin: str
    label_candidates: tuple[str, ...]
    group_candidates: tuple[str, ...]
    groupings: tuple[GroupingSummary, ...]
    would_run: RunSummary | None
    problem: str
    hint: str
    command: str | None
    notices: tuple[Notice, ...]


def describe(
    config: AuditConfig, judge: Callable[[AuditConfig, Dataset], object] | None = None
) -> Inspection:
    """Inspect the table of an audit.

    Args:
        config: The options.
        judge: Raises what a plan would; None where nobody plans, and then no command is suggested.

    Raises:
        DataError, ConfigError: Only where the file itself cannot be read or a named column is
            not in it; every later problem is part of the answer.
    """
    checked = read_checked(config)
    dataset, would_run, problem, hint, found_label = None, None, "", "", config.label
    try:
        dataset = make_dataset(checked, config)
        found_label = dataset.label
        would_run = _would_run(dataset, config)
        if judge is not None and dataset.groupings:
            judge(config, dataset)
    except NoLabel as error:
        problem, hint, found_label = error.message, error.hint, error.suggested
    except FairauditError as error:
        problem, hint, would_run = error.message, error.hint, None
    label = dataset.label if dataset else config.label
    candidates = label_candidates(checked.table, config).named
    positive = dataset.classes[dataset.positive] if dataset and dataset.positive is not None else None
    favourable = dataset.classes[dataset.favourable] if dataset and dataset.favourable is not None else None
    return Inspection(
        name=config.data.name,
        format=checked.source.format,
        digest=checked.digest,
        rows=checked.table.num_rows,
        columns=len(checked.source.schema.names),
        schema=_schema(checked, dataset, config),
        label=label,
        label_origin=dataset.label_origin if dataset else "given" if label else "",
        positive=positive,
        favourable=favourable,
        favourable_origin=dataset.favourable_origin if dataset else "",
        label_candidates=candidates,
        group_candidates=group_candidates(checked.table, candidates if label is None else (label,)),
        groupings=_groupings(checked, dataset, config),
        would_run=would_run,
        problem=problem,
        hint=hint,
        command=_command(checked, config, found_label, judge) if judge and found_label else None,
        notices=dataset.notices if dataset else checked.notices,
    )


def _command(
    checked: CheckedTable, config: AuditConfig, label: str, judge: Callable[[AuditConfig, Dataset], object]
) -> str | None:
    """A command for this label that was tried as far as training, or None."""
    sure = suggestion(checked.table, config, label)
    try:
        if sure is None:
            return None
        judge(sure, make_dataset(checked, sure))
    except FairauditError:
        return None
    return run_command(sure)


def _would_run(dataset: Dataset, config: AuditConfig) -> RunSummary:
    split = draw_split(dataset, config, config.seed)
    counts = np.bincount(dataset.labels, minlength=len(dataset.classes))
    return RunSummary(
        rows=dataset.n_rows,
        train=len(split.train),
        test=len(split.test),
        features=dataset.features.num_columns,
        inputs=dataset.n_raw_inputs if dataset.image_shape else len(encode(dataset, split, config).names),
        classes={name: int(count) for name, count in zip(dataset.classes, counts, strict=True)},
        duplicate_rows=dataset.duplicate_rows,
    )


def _schema(checked: CheckedTable, dataset: Dataset | None, config: AuditConfig) -> tuple[ColumnSummary, ...]:
    reasons = dataset.dropped_columns if dataset else checked.dropped
    label = dataset.label if dataset else config.label
    roles = dict.fromkeys(reasons, "dropped")
    roles |= dict.fromkeys(dataset.features.column_names if dataset else (), "feature")
    roles |= dict.fromkeys(config.group, "group")
    roles |= {label: "label"} if label is not None else {}
    roles |= {config.split_column: "split"} if config.split_column is not None else {}
    read = dict(zip(checked.table.column_names, checked.table.columns, strict=True))
    summaries = []
    for field in checked.source.schema:
        missing = distinct = None
        shown = field.type
        if field.name in read:
            column = read[field.name]
            missing = column.null_count / len(column)
            distinct = len(encode_codes(column).values)
            # A CSV's types are known only once all of it is read.
            shown = column.type if checked.source.format == "csv" else field.type
            shape = shape_of(column.type)
            shown = f"image {shape_text(shape)}" if shape else shown
        role = roles.get(field.name, "unused")
        note = reasons.get(field.name, "")
        summaries.append(ColumnSummary(field.name, str(shown), role, missing, distinct, note))
    return tuple(summaries)


def _groupings(
    checked: CheckedTable, dataset: Dataset | None, config: AuditConfig
) -> tuple[GroupingSummary, ...]:
    """Groups over usable rows; over all rows and without rates where there is no label."""
    if dataset is not None:
        return tuple(_summary(g, dataset) for g in dataset.groupings)
    try:
        groupings = make_groupings(checked.table, config)[0]
    except FairauditError:
        return ()  # the problem of the inspection says it
    return tuple(_summary(g, None) for g in groupings)


def _summary(grouping: Grouping, dataset: Dataset | None) -> GroupingSummary:
    counts = np.bincount(grouping.groups, minlength=len(grouping.names))
    rates: list[float | None] = [None] * len(counts)
    if dataset is not None and dataset.positive is not None:
        hits = np.bincount(grouping.groups[dataset.labels == dataset.positive], minlength=len(counts))
        rates = [float(h / c) for h, c in zip(hits, counts, strict=True)]
    groups = [
        GroupSummary(name, int(count), float(count / len(grouping.groups)), rate)
        for name, count, rate in zip(grouping.names, counts, rates, strict=True)
    ]
    return GroupingSummary(grouping.name, tuple(groups))
