"""Lists of numbers of one length, as embeddings are stored, as columns of numbers.

A column ``emb`` of lists of 32 numbers becomes ``emb[0]`` to ``emb[31]``.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fairaudit.data.dataset import columns_of

SHORTEST: Final = 8  # numbers; shorter lists are pairs, boxes or histories rather than embeddings
_NUMBERED: Final = re.compile(r"(.*)\[([0-9]{1,6})\]", re.DOTALL)


def names_of(name: str, length: int) -> list[str]:
    """The columns that a column of lists becomes.

    Example:
        >>> names_of("emb", 2)
        ['emb[0]', 'emb[1]']
    """
    return [f"{name}[{place}]" for place in range(length)]


def lengths_named(columns: Iterable[str], schema: pa.Schema) -> dict[str, int]:
    """Column of lists -> its length, told by the names of the columns of numbers that it became.

    ``emb[0]`` to ``emb[31]`` among the columns say that ``emb`` has 32 numbers.

    Args:
        columns: Names, of which some may be as :func:`names_of` gives them.
        schema: Of the file. A name that it has itself, or whose ``emb`` is no column of lists
            there, tells nothing.
    """
    lengths: dict[str, int] = {}
    for column in columns:
        numbered = _NUMBERED.fullmatch(column)
        if not numbered or column in schema.names or numbered[1] not in schema.names:
            continue
        if holds_numbers(schema.field(numbered[1]).type):
            lengths[numbered[1]] = max(lengths.get(numbered[1], 0), int(numbered[2]) + 1)
    return lengths


def holds_numbers(arrow_type: pa.DataType) -> bool:
    """Whether a type is of lists of numbers."""
    t = pa.types
    if isinstance(arrow_type, pa.FixedShapeTensorType):
        return len(arrow_type.shape) == 1 and holds_numbers(arrow_type.storage_type)
    is_list = t.is_list(arrow_type) or t.is_large_list(arrow_type)
    if not is_list and not t.is_fixed_size_list(arrow_type):
        return False
    of = arrow_type.value_type
    return bool(t.is_integer(of) or t.is_floating(of))


def fixed_length(arrow_type: pa.DataType) -> int | None:
    """How long all lists of a type are; None where the type does not say."""
    if isinstance(arrow_type, pa.FixedShapeTensorType):
        arrow_type = arrow_type.storage_type
    return arrow_type.list_size if pa.types.is_fixed_size_list(arrow_type) else None


def lengths_in(column: pa.ChunkedArray) -> set[int]:
    """The different lengths of the lists of a column, missing ones left out."""
    return set(pc.unique(pc.list_value_length(column)).drop_null().to_pylist())


def number_fields(field: pa.Field, length: int) -> list[pa.Field]:
    """The fields that a field of lists becomes: one for each of the ``length`` numbers."""
    arrow_type = field.type
    if isinstance(arrow_type, pa.FixedShapeTensorType):
        arrow_type = arrow_type.storage_type
    return [pa.field(name, arrow_type.value_type) for name in names_of(field.name, length)]


def with_numbers(table: pa.Table, lengths: Mapping[str, int]) -> pa.Table:
    """The table with columns of numbers in the place of its columns of lists.

    A list of another length is a missing one, and so are all of its numbers.

    Args:
        table: N rows.
        lengths: Column of lists -> how many numbers each holds, and so how many columns it becomes.
    """
    columns: dict[str, pa.ChunkedArray | pa.Array] = {}
    for name, column in columns_of(table).items():
        if name not in lengths:
            columns[name] = column
            continue
        lists = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        if isinstance(lists, pa.ChunkedArray):  # Arrow combines pieces of no rows into no array
            lists = pa.array([], lists.type)
        if isinstance(lists.type, pa.BaseExtensionType):
            lists = lists.storage
        fits = pc.fill_null(pc.equal(pc.list_value_length(lists), lengths[name]), False)
        is_whole = np.asarray(fits.to_numpy(zero_copy_only=False), np.bool_)
        numbers = lists.filter(fits).flatten()
        # Where each row's list begins in `numbers`, which has the numbers of lists of that length
        # alone; rows with other lists are masked below.
        first = (np.cumsum(is_whole) - 1) * lengths[name]
        for place, number in enumerate(names_of(name, lengths[name])):
            columns[number] = numbers.take(pa.array(first + place, mask=~is_whole))
    return pa.table(columns)
