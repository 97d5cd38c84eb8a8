"""Ids: columns that only tell rows apart, as keys, running numbers and unique text do.

A model could learn rows by heart from them, and groups by them would hold a row each.
"""

import re

import pyarrow as pa
import pyarrow.compute as pc

from fairaudit.data.column_types import Codes
from fairaudit.data.naming import words

_ID_WORDS = frozenset({"id", "ids", "uuid", "guid", "idx", "index", "rowid", "key"})
_ROW_NAME = re.compile(r"__index_level_\d+__")  # pandas' number or name of each row
_ID_SHARE = 0.95  # of rows with a value: a text column with so many distinct ones is a key
_NAMED_ID_SHARE = 0.5  # the same where the column is named like a key
_ID_MIN_VALUES = 20  # fewer distinct values may be groups
_ID_MANY_VALUES = 1_000  # so many distinct integers, none twice, are a key
_ID_MAX_SPREAD = 1.1  # range over number of values: running numbers have few holes


def is_id_name(name: str) -> bool:
    """Whether a column is named like a key: ``id``, ``customerId``, ``row_idx``, ``Unnamed: 0``.

    A name that is blank counts, too: writers leave the column of row numbers without one.
    """
    parts = words(name)
    if not parts:
        return not name.strip()
    return parts[-1] in _ID_WORDS or parts[0] in {"id", "uuid", "unnamed"}


def is_row_number(name: str) -> bool:
    """Whether a column is named like the number of a row, which says nothing of who it is about."""
    if _ROW_NAME.fullmatch(name) or not name.strip():
        return True
    return words(name)[:1] == ["unnamed"] or words(name)[-1:] in (["index"], ["idx"], ["rowid"])


def looks_like_id(name: str, codes: Codes, rows: int) -> bool:
    """Whether a column only tells rows apart.

    Numbers with fractions are measurements, never ids. Whole numbers are an id if they number the
    rows, or are a thousand or more and all different; text is one if nearly every row has another.
    A column that is named like a key is one if half of its values differ, or over a thousand do;
    another needs at least 20 distinct values.

    Args:
        name: The column's name.
        codes: Its values.
        rows: How many rows there are.
    """
    if _ROW_NAME.fullmatch(name):
        return True
    counts = codes.counts()
    present, distinct = int(counts.sum()), int((counts > 0).sum())
    if distinct < 2 or pa.types.is_boolean(codes.values.type):
        return False
    is_text = codes.kind == "category"
    # Integers are not asked for fractions: Arrow's floor() refuses those beyond 2^53.
    if not is_text and not pa.types.is_integer(codes.values.type):
        is_number = codes.kind == "number"
        if not is_number or pc.any(pc.not_equal(codes.values, pc.floor(codes.values))).as_py():
            return False
    share = distinct / present
    if is_id_name(name) and (share >= _NAMED_ID_SHARE or distinct > _ID_MANY_VALUES):
        return True
    if distinct < _ID_MIN_VALUES:
        return False
    if is_text:
        return share >= _ID_SHARE
    if not distinct == present == rows:
        return False
    # A small table may hold every age once; running numbers start at 0 or 1.
    limits = pc.min_max(codes.values).as_py()
    are_running = limits["min"] in (0, 1) and limits["max"] <= _ID_MAX_SPREAD * distinct
    return distinct >= _ID_MANY_VALUES or are_running
