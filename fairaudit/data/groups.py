"""Group columns to groupings: levels, bins for numbers, intersections, a level for the missing.

A grouping cuts the rows into groups. Rows without a value form a last group, the missing level,
which is shown and never judged; the other groups are the named ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, permutations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fairaudit.config.options import AuditConfig
from fairaudit.data.column_types import (
    Levels,
    coded,
    encode_codes,
    few_valued,
    kind_of,
    levels_in_use,
    numeric_values,
    sorted_levels,
)
from fairaudit.data.dataset import MISSING, Dataset, Grouping, Int64
from fairaudit.data.ids import looks_like_id
from fairaudit.data.infer import LabelColumn
from fairaudit.data.naming import near_equal
from fairaudit.errors import ConfigError, DataError
from fairaudit.messages.base import Message
from fairaudit.messages.data import GroupBinned, GroupMissing, NearEqualNames
from fairaudit.messages.names import listed, nearest, quoted

MAX_GROUPS = 200
NUMERIC_LEVELS = 20  # a number with more distinct values is cut into quartiles
MAX_QUANTILES = 50


@dataclass(frozen=True, slots=True)
class NamedPair:
    """Two groups of one grouping that a user wants compared."""

    grouping: str
    a: str
    b: str


def require_groups(dataset: Dataset) -> None:
    """Refuse to go on without a group column.

    Raises:
        ConfigError: The dataset has no grouping.
    """
    if dataset.groupings:
        return
    few = few_valued(coded(dataset.features))
    columns = f"; columns with 2 to 20 values: {listed(few)}" if few else ""
    raise ConfigError(
        f"no group column given for {dataset.name}{columns}",
        "name the column of groups with --group",
    )


def make_groupings(
    table: pa.Table, config: AuditConfig, by_label: Grouping | None = None
) -> tuple[tuple[Grouping, ...], tuple[Message, ...]]:
    """Make the groupings that the options ask for, over all rows of the table.

    Args:
        table: All rows; of its columns those of groups are read.
        config: Names the group columns and how numbers are cut into bins.
        by_label: The grouping by the classes of the label, which comes after the others; None where
            it is not asked for.

    Returns:
        The groupings, the intersection of all last where asked for; and notices about them.

    Raises:
        ConfigError: ``bin`` on a column that is no group, a bad bin, ``intersect`` of one group.
        DataError: A group with one value, over 200 values, or an id.
    """
    # The label's column may be named as a group, too: it makes one grouping, `by_label`.
    label = by_label.name if by_label else None
    columns = tuple(name for name in dict.fromkeys(config.group) if name != label)
    stray = [name for name in config.bin if name not in columns]
    if stray:
        raise ConfigError(f"--bin: {quoted(stray[0])} is not a group column")
    if config.intersect and len(columns) + (by_label is not None) < 2:
        raise ConfigError("--intersect needs two or more group columns")
    groupings, notices = [], []
    for name in columns:
        grouping, notes = _grouping_of_column(name, table.column(name), config.bin.get(name))
        groupings.append(grouping)
        notices += notes
    if by_label is not None:
        groupings.append(by_label)
    if config.intersect:
        levels = crossed(groupings)
        # Without combinations that have no rows, as those of a missing level.
        levels = levels_in_use(levels, np.arange(len(levels.codes)))
        groupings.append(_grouping_of_levels(" x ".join(g.name for g in groupings), levels))
    for grouping in groupings:
        _check_size(grouping)
    return tuple(groupings), tuple(notices)


def crossed(groupings: Sequence[Grouping]) -> Levels:
    """The intersections of groupings as levels: every combination that some row has.

    A row that lacks a group of some grouping (it has the missing level there, or no group, below 0)
    lacks the intersection: its code is -1. The names of combinations with a missing level stay in
    the list, without rows.
    """
    lacks_group = np.zeros(len(groupings[0].groups), np.bool_)
    for grouping in groupings:
        lacks_group |= grouping.groups < 0
        if grouping.missing is not None:
            lacks_group |= grouping.groups == grouping.missing
    groups_of_rows = np.stack([grouping.groups for grouping in groupings])  # [groupings, N]
    combinations, codes = np.unique(groups_of_rows, axis=1, return_inverse=True)
    codes[lacks_group] = -1
    names = []
    for combination in combinations.T.tolist():
        # Where k is -1, of no group, any name will do: no row keeps this combination.
        parts = [grouping.names[k] for grouping, k in zip(groupings, combination, strict=True)]
        # A name that holds " x " is quoted, so that no two intersections read alike.
        names.append(" x ".join(repr(name) if " x " in name else name for name in parts))
    return Levels(codes, tuple(names))


def label_grouping(name: str, label: LabelColumn) -> Grouping:
    """The classes of the label as groups.

    Rows without a label get the missing level; an audit leaves them out later.

    Args:
        name: The label's column.
        label: Its classes.
    """
    return _grouping_of_levels(name, Levels(label.codes, label.classes))


def named_pairs(texts: Sequence[str], groupings: Sequence[Grouping]) -> tuple[NamedPair, ...]:
    """The pairs of groups that the texts of ``--compare`` name, such as ``2,8``.

    A pair is taken from the first grouping that has both groups.

    Raises:
        ConfigError: Not two names, or no grouping has both.
    """
    pairs = []
    group_names = [name for grouping in groupings for name in grouping.names]
    for text in texts:
        named = _divided_pair(text, groupings)
        holders = [g.name for g in groupings if set(named) <= set(g.names)]
        if len(set(named)) != 2 or not holders:
            unknown = next((name for name in named if name not in group_names), None)
            hint = nearest(unknown, group_names) if unknown else "write two groups of one grouping"
            raise ConfigError(f"--compare {quoted(text)} does not name two groups", hint)
        pairs.append(NamedPair(holders[0], *named))
    return tuple(pairs)


def _divided_pair(text: str, groupings: Sequence[Grouping]) -> Sequence[str]:
    """The names in a text of ``--compare``: two groups of one grouping with a comma between them.

    Names may hold commas. If no two groups make the text, its parts between commas, however many.
    """
    for grouping in groupings:
        for pair in permutations(grouping.names, 2):
            if ",".join(pair) == text:
                return pair
    return [part.strip() for part in text.split(",")]


def restrict(grouping: Grouping, rows: Int64) -> Grouping:
    """The grouping on the rows that are used, without groups that have none of them.

    Args:
        grouping: Groups of all rows.
        rows: Indices of the used rows, ``[n]``.

    Raises:
        DataError: Fewer than two named groups are left.
    """
    used = levels_in_use(Levels(grouping.groups, grouping.names), rows)
    missing = None  # the missing level may have lost all of its rows
    if grouping.missing is not None and MISSING in used.names:
        missing = used.names.index(MISSING)
    restricted = Grouping(grouping.name, used.codes, used.names, missing, grouping.fitted)
    _check_size(restricted)
    return restricted


def _grouping_of_column(
    name: str, column: pa.ChunkedArray, spec: str | None
) -> tuple[Grouping, list[Message]]:
    """The grouping by one column, and notices about it.

    Args:
        name: The column's name.
        column: Its values.
        spec: How its numbers are cut into bins, as in :func:`binned`; None: at the quartiles if
            there are more than 20 distinct numbers, else not at all.

    Raises:
        ConfigError: ``spec`` for a column that holds no numbers, or one that is no bins.
        DataError: The column looks like an id, or cannot be cut at quantiles: it has one value.
    """
    kind = kind_of(column.type)
    if spec is not None and kind != "number":
        raise ConfigError(f"--bin: group column {quoted(name)} does not hold numbers")
    codes = encode_codes(column)
    if spec is None and looks_like_id(name, codes, len(column)):
        raise DataError(
            f"group column {quoted(name)} looks like an id ({len(codes.values):,} values)",
            "choose a column that puts many rows into few groups",
        )
    notices: list[Message] = []
    if spec is None and kind == "number" and len(codes.values) > NUMERIC_LEVELS:
        spec = "q4"  # quartiles
        notices.append(GroupBinned(name))
    if spec is None:
        levels = sorted_levels(codes)
    else:
        levels = binned(name, numeric_values(column), spec)
        levels = levels_in_use(levels, np.arange(len(levels.codes)))  # without empty bins
    grouping = _grouping_of_levels(name, levels)
    # Quantiles depend on the rows: the edges are fitted to them.
    grouping = replace(grouping, fitted=spec is not None and spec.startswith("q"))
    for names in near_equal(levels.names):
        notices.append(NearEqualNames("groups of", name, tuple(names)))
    if grouping.missing is not None:
        count = int((grouping.groups == grouping.missing).sum())
        notices.append(GroupMissing(name, count, shown_as=MISSING))
    return grouping, notices


def _grouping_of_levels(name: str, levels: Levels) -> Grouping:
    """Make a grouping of levels, with the missing level last if some row lacks a value.

    A value that is itself spelled ``(missing)`` counts as missing.
    """
    named = [i for i, level in enumerate(levels.names) if level != MISSING]
    # The group of each code. Code -1 reads the last entry: it and ``(missing)`` are the last group.
    place = np.full(len(levels.names) + 1, len(named), np.int64)
    place[named] = np.arange(len(named))
    groups = place[levels.codes]
    names = tuple(levels.names[i] for i in named)
    if np.any(groups == len(named)):
        return Grouping(name, groups, (*names, MISSING), len(named))
    return Grouping(name, groups, names)


def _check_size(grouping: Grouping) -> None:
    """Refuse a grouping of fewer than two named groups or of more than ``MAX_GROUPS``.

    Raises:
        DataError: It is one of these.
    """
    named = len(grouping.names) - (grouping.missing is not None)
    if named < 2:
        problem = "has one value in all rows" if named else "is missing in all rows"
        raise DataError(f"group column {quoted(grouping.name)} {problem}")
    if named > MAX_GROUPS:
        raise DataError(
            f"group column {quoted(grouping.name)} has {named:,} values, more than {MAX_GROUPS}"
        )


def binned(name: str, values: NDArray[np.float64], spec: str) -> Levels:
    """Cut numbers ``[N]`` into bins, each of which holds its lower edge; NaN has level -1.

    Args:
        name: The column, for messages.
        values: The numbers.
        spec: The inner edges, such as ``18,30,60``, or a count of quantile bins, as ``q4``.

    Returns:
        The bins as levels, also those that hold no row.

    Raises:
        ConfigError: ``spec`` is neither.
        DataError: Quantile bins of a column with fewer than two distinct numbers.
    """
    if spec[:1] == "q":
        count = int(spec[1:]) if spec[1:].isdecimal() else 0
        if not 2 <= count <= MAX_QUANTILES:
            raise ConfigError(f"--bin {quoted(name)}: {quoted(spec)} is not q2 to q{MAX_QUANTILES}")
        present = values[~np.isnan(values)]
        distinct = np.unique(present)
        if len(distinct) < 2:
            raise DataError(f"group column {quoted(name)} has one value, or none, in all rows")
        edges = np.unique(np.quantile(present, np.arange(1, count) / count))
        edges = edges[edges > distinct[0]]  # so that no bin is empty by ties
        if not len(edges):  # so many rows have the smallest value that every quantile equals it
            edges = distinct[1:2]
    else:
        try:
            edges = np.array([float(part) for part in spec.split(",")])
        except ValueError:
            edges = np.array([np.nan])  # no list of numbers: refused below, as infinite edges are
        if not np.isfinite(edges).all() or np.any(np.diff(edges) <= 0):
            raise ConfigError(
                f"--bin {quoted(name)}: {quoted(spec)} is not a rising list of numbers",
                "write for example 18,30,60 or q4",
            )
    texts = _texts_of(edges.tolist())
    # Names without any sign for which a gate expression would need quotes.
    names = [f"{low} to under {high}" for low, high in pairwise(texts)]
    names = [f"under {texts[0]}", *names, f"{texts[-1]} and over"]
    cut = np.searchsorted(edges, values, side="right").astype(np.int64)
    cut[np.isnan(values)] = -1
    return Levels(cut, tuple(names))


def _texts_of(edges: Sequence[float]) -> list[str]:
    """Distinct edges as texts of which no two are alike: six digits, or as many as that takes."""
    texts: list[str] = []
    for digits in range(6, 18):  # 17 digits tell any two numbers apart
        texts = [str(int(x)) if x.is_integer() else f"{x:.{digits}g}" for x in edges]
        if len(set(texts)) == len(edges):
            break
    return texts
