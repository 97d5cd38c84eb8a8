"""Columns that only tell rows apart: keys, running numbers, unique text."""

import numpy as np
import pyarrow as pa

from fairaudit.data.columns import Codes
from fairaudit.data.naming import words

_ID_WORDS = frozenset({"id", "ids", "uuid", "guid", "idx", "index", "rowid", "key"})
_ID_SHARE = 0.95
_NAMED_ID_SHARE = 0.5
_ID_MIN_VALUES = 20
_ID_MANY_VALUES = 1_000
_ID_MAX_SPREAD = 1.1


def is_id_name(name: str) -> bool:
    """Whether the name is that of a key: ``id``, ``customerId``, ``row_idx``, ``Unnamed: 0``."""
    parts = words(name)
    if not parts:
        return not name.strip()
    return parts[-1] in _ID_WORDS or parts[0] in {"id", "uuid", "unnamed"}


def looks_like_id(name: str, codes: Codes, rows: int) -> bool:
    """Whether a column only tells rows apart.

    Floats are measurements, never ids. Integers must be named like a key, number the rows, or be a
    thousand and all different.
    """
    if codes.kind not in ("number", "category"):
        return False
    counts = codes.counts()
    present, distinct = int(counts.sum()), int((counts > 0).sum())
    if distinct < 2 or pa.types.is_boolean(codes.values.type):
        return False
    if codes.kind == "number":
        numbers = codes.values.to_numpy(zero_copy_only=False)
        values = np.asarray(numbers, dtype=np.float64)[counts > 0]
        if not np.array_equal(values, np.floor(values)):
            return False
    share = distinct / present
    if is_id_name(name) and (share >= _NAMED_ID_SHARE or distinct > _ID_MANY_VALUES):
        return True
    if codes.kind == "category":
        return share >= _ID_SHARE and distinct >= _ID_MIN_VALUES
    if not distinct == present == rows:
        return False
    if distinct >= _ID_MANY_VALUES:
        return True
    # A small table may hold every age once; running numbers start at 0 or 1.
    low = values.min()
    spread = values.max() - low + 1
    return bool(
        low in (0, 1) and distinct >= _ID_MIN_VALUES and spread <= _ID_MAX_SPREAD * distinct
    )
