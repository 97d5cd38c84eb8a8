"""What is in a table and what an audit would make of it.

Answers even where an audit would refuse.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from fairaudit.config.options import AuditConfig
from fairaudit.data.column_types import Codes, coded, encode_codes, few_valued, kind_of
from fairaudit.data.dataset import Dataset, columns_of, shape_of
from fairaudit.data.groups import make_groupings
from fairaudit.data.inputs.encode import encode
from fairaudit.data.inputs.split import draw_split
from fairaudit.data.naming import shape_text
from fairaudit.data.proposal import Proposal, propose
from fairaudit.data.tabular import CheckedTable, make_dataset, read_checked
from fairaudit.errors import FairauditError
from fairaudit.messages.base import Message


@dataclass(frozen=True, slots=True)
class ColumnSummary:
    """One column.

    Args:
        name: Its name.
        type: Arrow type as read.
        role: ``label``, ``group``, ``feature``, ``dropped`` or ``unused``.
        missing: Fraction of rows without a value, None where the column is not read.
        distinct: Number of distinct values, None where the column is not read.
        note: Why it is dropped, or "".
        becomes: What it would be in an audit, as "category of 8 levels", or "".
    """

    name: str
    type: str
    role: str
    missing: float | None
    distinct: int | None
    note: str
    becomes: str = ""


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
        inputs: How many inputs a model has at the first seed.
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
        rows, columns: Numbers of rows and of columns.
        schema: Its columns, in order.
        label, label_origin, positive: The label chosen and why, None and "" where there is none.
        favourable, favourable_origin: The outcome that people want, and who said so.
        few_valued: Columns of 2 to 20 values, which could be the label or groups.
        groupings: Sizes and rates of the groups asked for, over usable rows.
        would_run: What ``run`` would do, or None where it would refuse.
        problem, hint: Why it would refuse and what to do, or "".
        notices: What the data show.
        likely_labels, likely_groups: Columns that are likely the label or groups, likeliest first.
        suspects: What a run would refuse, and what may be a missing value and is read as a value, a
            line each.
        command: Words of a command that would run, with all that it decides; () where none is
            found.
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
    few_valued: tuple[str, ...]
    groupings: tuple[GroupingSummary, ...]
    would_run: RunSummary | None
    problem: str
    hint: str
    notices: tuple[Message, ...]
    likely_labels: tuple[str, ...] = ()
    likely_groups: tuple[str, ...] = ()
    suspects: tuple[str, ...] = ()
    command: tuple[str, ...] = ()


def describe(
    config: AuditConfig, judge: Callable[[AuditConfig, Dataset], object] | None = None
) -> Inspection:
    """Inspect the table of an audit.

    Args:
        config: The options.
        judge: Is called with the options and the dataset and raises what would keep an audit from
            starting, as planning it does; None: only the data are looked at.

    Raises:
        DataError, ConfigError: Only where the file itself cannot be read or a named column is
            not in it; every later problem is part of the answer.
    """
    checked = read_checked(config)
    dataset, would_run, problem, hint = None, None, "", ""
    try:
        dataset = make_dataset(checked, config)
        would_run = _run_summary(dataset, config)
        if judge is not None and dataset.groupings:  # planning needs a group, looking needs none
            judge(config, dataset)
    except FairauditError as error:
        problem, hint, would_run = error.message, error.hint, None
    except ModuleNotFoundError as error:  # an install that only reads reports may lack some
        problem, would_run = f"{error.name} is not installed", None
    codes = dict(coded(checked.table))
    proposal = propose(config, checked, codes, dataset)
    label, label_origin = config.label, "given" if config.label else ""
    if dataset is not None:
        label, label_origin = dataset.label, dataset.label_origin
    return Inspection(
        name=config.data.name,
        format=checked.source.format,
        digest=checked.digest,
        rows=checked.table.num_rows,
        columns=len(checked.source.schema.names),
        schema=_column_summaries(checked, codes, dataset, config, proposal),
        label=label,
        label_origin=label_origin,
        positive=dataset.positive_class if dataset else None,
        favourable=dataset.favourable_class if dataset else None,
        favourable_origin=dataset.favourable_origin if dataset else "",
        few_valued=few_valued(codes.items()),
        groupings=_grouping_summaries(checked, dataset, config),
        would_run=would_run,
        problem=problem,
        hint=hint,
        notices=_notices(checked, dataset, proposal),
        likely_labels=proposal.labels,
        likely_groups=proposal.groups,
        # Why it would refuse the data, unless that is told as the problem already.
        suspects=(*(why for why in proposal.refused if why != problem), *proposal.suspects),
        command=proposal.command() if proposal.dataset and proposal.dataset.groupings else (),
    )


def _run_summary(dataset: Dataset, config: AuditConfig) -> RunSummary:
    """What an audit would train on at its first seed; raises what splitting or encoding refuses."""
    split = draw_split(dataset, config.split, config.seed)
    inputs = dataset.n_raw_inputs
    if not dataset.image_shape:
        inputs = len(encode(dataset, split, config.encoding).names)
    counts = np.bincount(dataset.labels, minlength=len(dataset.classes)).tolist()
    return RunSummary(
        rows=dataset.n_rows,
        train=len(split.train),
        test=len(split.test),
        features=dataset.features.num_columns,
        inputs=inputs,
        classes=dict(zip(dataset.classes, counts, strict=True)),
        duplicate_rows=dataset.duplicate_rows,
    )


def _notices(
    checked: CheckedTable, dataset: Dataset | None, proposal: Proposal
) -> tuple[Message, ...]:
    """What the data show: of the audit that was asked for, else of the one that is proposed."""
    if dataset is not None:
        return dataset.notices
    if proposal.dataset is not None:
        # Both have the notices of reading the table: each once.
        return tuple(dict.fromkeys((*checked.notices, *proposal.dataset.notices)))
    return checked.notices


def _column_summaries(
    checked: CheckedTable,
    codes: Mapping[str, Codes],
    dataset: Dataset | None,
    config: AuditConfig,
    proposal: Proposal,
) -> tuple[ColumnSummary, ...]:
    """One summary per column of the file, in its order.

    Args:
        checked: The table.
        codes: Its columns as codes.
        dataset: What an audit would use; None where it would refuse the data. Then roles are only
            those that options give, and what columns become is said of the proposed audit.
        config: The options.
        proposal: The audit that is proposed.
    """
    # Of the audit that was asked for, else of the proposed one.
    audited = dataset or proposal.dataset
    reasons = dataset.dropped_columns if dataset else checked.dropped
    # Column -> role; the later of two counts. None as a column: no label is given.
    roles: dict[str | None, str] = dict.fromkeys(reasons, "dropped")
    if dataset:
        roles |= dict.fromkeys(dataset.features.column_names, "feature")
    roles |= dict.fromkeys(config.group, "group")
    roles[dataset.label if dataset else config.label] = "label"
    summaries = []
    read = columns_of(checked.table)
    features = {} if audited is None else columns_of(audited.features)
    for field in checked.source.schema:
        missing = distinct = None  # share of rows, and count; None: the column was not read
        type_text = str(field.type)
        column = read.get(field.name)
        if column is not None:
            missing = column.null_count / len(column)
            distinct = len(codes[field.name].values)
            if checked.source.format == "csv":  # its types are known only once all of it is read
                type_text = str(column.type)
            shape = shape_of(column.type)
            if shape:
                type_text = f"image {shape_text(shape)}"
        role, note = roles.get(field.name, "unused"), reasons.get(field.name, "")
        becomes = ""
        if audited is not None:
            becomes = _becomes(field.name, audited, features.get(field.name))
        summaries.append(
            ColumnSummary(field.name, type_text, role, missing, distinct, note, becomes)
        )
    return tuple(summaries)


def _becomes(name: str, dataset: Dataset, feature: pa.ChunkedArray | None) -> str:
    """What a column becomes in an audit, as "4 groups, category of 8 levels"; "" if nothing.

    Args:
        name: The column.
        dataset: The data of the audit.
        feature: Its values as a feature; None where it is none.
    """
    if name == dataset.label:
        return f"label of {len(dataset.classes)} classes"
    parts = [f"{len(g.names):,} groups" for g in dataset.groupings if g.name == name]
    if feature is not None:
        if kind_of(feature.type) == "category":
            parts.append(f"category of {len(encode_codes(feature).values):,} levels")
        elif kind_of(feature.type) == "number":
            parts.append("number" + (", gaps filled and flagged" if feature.null_count else ""))
    if parts:
        return ", ".join(parts)
    if name in dataset.dropped_columns:
        return f"left out: {dataset.dropped_columns[name]}"
    return ""


def _grouping_summaries(
    checked: CheckedTable, dataset: Dataset | None, config: AuditConfig
) -> tuple[GroupingSummary, ...]:
    """Sizes and positive rates of the groups asked for, over usable rows.

    Without a dataset they are over all rows and have no rates; () where no grouping can be made.
    """
    try:
        groupings = dataset.groupings if dataset else make_groupings(checked.table, config)[0]
    except FairauditError:
        return ()  # the problem of the inspection says it
    summaries = []
    for grouping in groupings:
        groups = []
        for k, name in enumerate(grouping.names):
            members = grouping.groups == k
            rate = None
            if dataset is not None and dataset.positive is not None:
                rate = float((dataset.labels[members] == dataset.positive).mean())
            groups.append(GroupSummary(name, int(members.sum()), float(members.mean()), rate))
        summaries.append(GroupingSummary(grouping.name, tuple(groups)))
    return tuple(summaries)
