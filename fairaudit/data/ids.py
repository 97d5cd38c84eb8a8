"""Whether a column only tells rows apart."""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fairaudit.data.columns import Codes
from fairaudit.data.naming import is_id_name

Numbers = NDArray[np.int64] | NDArray[np.float64]

_ID_SHARE = 0.95
_NAMED_ID_SHARE = 0.5
_ID_MIN_VALUES = 20
_ID_MANY_VALUES = 1_000
_ID_MAX_SPREAD = 1.1
_PIECE = 65_536


def looks_like_id(name: str, codes: Codes, rows: int) -> bool:
    """Whether a column only tells rows apart: keys, running numbers, unique text.

    Floats are measurements, never ids; an integer must be named like a key or number the rows.
    """
    if codes.kind != "number" and codes.kind != "category":
        return False
    counts = codes.counts()
    present, distinct = int(counts.sum()), int((counts > 0).sum())
    if distinct < 2 or pa.types.is_boolean(codes.values.type):
        return False
    if codes.kind == "category":
        share = distinct / present
        unique = share >= _ID_SHARE and distinct >= _ID_MIN_VALUES
        return unique or (is_id_name(name) and (share >= _NAMED_ID_SHARE or distinct > _ID_MANY_VALUES))
    values = np.asarray(codes.values.to_numpy(zero_copy_only=False), dtype=np.float64)[counts > 0]
    return _numbers_look_like_ids(name, values, present, rows)


def numbers_look_like_ids(name: str, present: Numbers, rows: int) -> bool:
    """:func:`looks_like_id` of numbers as they are, of which most columns need not be sorted.

    Args:
        name: Column.
        present: Its values, repeats included, without gaps.
        rows: Of the table.
    """
    if len(present) < 2 or not _all_whole(present):
        return False
    numbering = len(present) == rows and int(present.max()) - int(present.min()) + 1 >= rows
    if not numbering and not is_id_name(name):
        return False  # fewer places than rows: some number occurs twice
    return _numbers_look_like_ids(name, _distinct_numbers(present), len(present), rows)


def _numbers_look_like_ids(name: str, distinct: Numbers, present: int, rows: int) -> bool:
    n = len(distinct)
    if n < 2 or not _all_whole(distinct):
        return False
    if is_id_name(name) and (n / present >= _NAMED_ID_SHARE or n > _ID_MANY_VALUES):
        return True
    low = distinct.min()
    spread = int(distinct.max()) - int(low) + 1
    numbered = n == present == rows and spread <= _ID_MAX_SPREAD * n
    # A small table may hold every age once; running numbers start at 0 or 1, or are many.
    return numbered and n >= (_ID_MIN_VALUES if low in (0, 1) else _ID_MANY_VALUES)


def _distinct_numbers(values: Numbers) -> Numbers:
    ordered = np.sort(values)
    found: Numbers = ordered[np.append(True, ordered[1:] != ordered[:-1])]
    return found


def _all_whole(values: Numbers) -> bool:
    """Whether every number is an integer; found out early where one is not."""
    pieces = range(0, len(values), _PIECE)
    return all(np.array_equal(v, np.floor(v)) for v in (values[start : start + _PIECE] for start in pieces))
