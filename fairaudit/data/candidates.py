"""Which columns could be the label or a group, the likeliest first, and when one may be suggested.

A name is the only evidence that decides anything. The rest orders a list: the other columns predict it,
it has two values, it stands last.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fairaudit.config.options import AuditConfig
from fairaudit.data.columns import Codes, encode_codes, kind_of, numeric_values
from fairaudit.data.dataset import Int64
from fairaudit.data.naming import (
    LabelName,
    is_group_name,
    is_id_name,
    is_prediction_name,
    label_name,
    protected,
)

Numbers = NDArray[np.int64] | NDArray[np.float64]

_ID_SHARE = 0.95
_NAMED_ID_SHARE = 0.5
_ID_MIN_VALUES = 20
_ID_MANY_VALUES = 1_000
_ID_MAX_SPREAD = 1.1
_PIECE = 65_536
MAX_INFERRED_CLASSES = 20
GROUP_CANDIDATE_LEVELS = 20
GROUP_CANDIDATE_NUMBERS = 5
_LOOKED_AT = 2_000  # rows on which it is tried how well columns predict each other
_MOST_COLUMNS = 60
_BINS = 8


class LabelCandidates(NamedTuple):
    """Columns that could be the label.

    Args:
        named: Those whose name says so, the likeliest first.
        possible: All of two to twenty values that are no group, id or score, likewise.
        inferred: The one that is taken without being asked for, or None.
        suggested: The one that may be named in a command, or None where that is not sure.
    """

    named: tuple[str, ...]
    possible: tuple[str, ...]
    inferred: str | None
    suggested: str | None


def label_candidates(table: pa.Table, config: AuditConfig) -> LabelCandidates:
    """What could be the label.

    It is inferred where one name of the known ones stands alone. It is suggested where a name that says no
    more than an outcome stands alone. Two likely names are never weighed.
    """
    possible = [name for name in table.column_names if _may_be_label(table, name, config)]
    strength = {name: label_name(name) for name in possible}
    named = [name for name in possible if strength[name] > LabelName.NONE]
    known = [name for name in named if strength[name] >= LabelName.KNOWN]
    roles = [name for name in named if strength[name] == LabelName.ROLE]
    alone = known[0] if len(known) == 1 and (len(named) == 1 or known == roles) else None
    if alone is not None or len(possible) < 2:  # then the order tells nobody anything
        order = named + [name for name in possible if name not in named]
    else:
        gain = _predictability(table, possible)
        last = table.column_names[-1]
        order = sorted(
            possible,
            key=lambda name: (
                -strength[name],
                is_group_name(name),
                -round(gain[name], 1),
                _distinct(table, name) != 2,
                strength[name] == LabelName.NONE and name != last,
            ),
        )
    sure = named[0] if len(named) == 1 and strength[named[0]] >= LabelName.OUTCOME else None
    return LabelCandidates(
        tuple(name for name in order if name in named), tuple(order), alone, alone if alone else sure
    )


def group_candidates(table: pa.Table, excluded: Sequence[str] = ()) -> tuple[str, ...]:
    """Columns named like a protected attribute, then text of 2 to 20 values, then small numbers."""
    possible = {
        n: _distinct(table, n)
        for n in table.column_names
        if n not in excluded and not is_prediction_name(n) and not _holds_images(table, n)
    }
    possible = {n: distinct for n, distinct in possible.items() if distinct >= 2}
    text = {n for n in possible if kind_of(table.column(n).type) == "category"}
    # A measured attribute such as age has many values and is cut into quartiles.
    named = [n for n in protected(possible) if n not in text or possible[n] <= GROUP_CANDIDATE_LEVELS]
    texts = [n for n in possible if n in text and possible[n] <= GROUP_CANDIDATE_LEVELS]
    numbers = [n for n in possible if n not in text and possible[n] <= GROUP_CANDIDATE_NUMBERS]
    return tuple(dict.fromkeys((*named, *texts, *numbers)))


def suggested_group(candidates: Sequence[str]) -> str | None:
    """The first of :func:`group_candidates` that is named like a protected attribute, or None."""
    return next((name for name in candidates if is_group_name(name)), None)


def _may_be_label(table: pa.Table, name: str, config: AuditConfig) -> bool:
    if name in config.drop or name == config.split_column:
        return False
    if name in config.group and not config.group_by_label:
        return False
    if _holds_images(table, name):
        return False
    if is_prediction_name(name) or not 2 <= _distinct(table, name) <= MAX_INFERRED_CLASSES:
        return False
    return not looks_like_id(name, encode_codes(table.column(name)), table.num_rows)


def _holds_images(table: pa.Table, name: str) -> bool:
    return kind_of(table.column(name).type) == "image"


def _distinct(table: pa.Table, name: str) -> int:
    return len(encode_codes(table.column(name)).values)


def _predictability(table: pa.Table, wanted: Sequence[str]) -> dict[str, float]:
    """Share of the commonest class's errors that naive Bayes on the other columns takes away, 0 to 1.

    It counts on every second of some rows and guesses the others.
    """
    rows = np.arange(0, table.num_rows, -(-table.num_rows // _LOOKED_AT))
    names = [*wanted, *(n for n in table.column_names if n not in wanted)][:_MOST_COLUMNS]
    some = table.select(names).take(pa.array(rows))
    levels = {n: _few_levels(some.column(n)) for n in names if not _holds_images(table, n)}
    return {name: _gain(name, levels) for name in wanted}


def _gain(target: str, levels: dict[str, Int64]) -> float:
    classes = levels[target]
    learn, guess = classes[::2], classes[1::2]
    n_classes = int(classes.max(initial=0)) + 1
    counts = np.bincount(learn, minlength=n_classes)
    score = np.tile(np.log(counts + 1.0), (len(guess), 1))
    for name, column in levels.items():
        if name != target:
            width = int(column.max(initial=0)) + 1
            table = np.bincount(learn * width + column[::2], minlength=n_classes * width) + 1.0
            shares = table.reshape(n_classes, width) / table.reshape(n_classes, width).sum(1, keepdims=True)
            score += np.log(shares[:, column[1::2]]).T
    missed = float(np.mean(score.argmax(1) != guess)) if len(guess) else 0.0
    blind = float(np.mean(guess != counts.argmax())) if len(guess) else 0.0
    return max(0.0, 1.0 - missed / blind) if blind else 0.0


def _few_levels(column: pa.ChunkedArray) -> Int64:
    """Codes 0, 1, ... of a column; numbers of many values in eight bins, texts of many as one."""
    codes = encode_codes(column)
    if codes.width <= MAX_INFERRED_CLASSES + 1:
        return codes.codes.astype(np.int64)
    if codes.kind not in ("number", "time"):
        return np.zeros(len(column), np.int64)
    values = numeric_values(column)
    edges = np.nanquantile(values, np.arange(1, _BINS) / _BINS)
    return np.where(np.isnan(values), _BINS, np.searchsorted(edges, values, side="right")).astype(np.int64)


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
    ordered = np.sort(present)
    distinct: Numbers = ordered[np.append(True, ordered[1:] != ordered[:-1])]
    return _numbers_look_like_ids(name, distinct, len(present), rows)


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


def _all_whole(values: Numbers) -> bool:
    """Whether every number is an integer; found out early where one is not."""
    pieces = range(0, len(values), _PIECE)
    return all(np.array_equal(v, np.floor(v)) for v in (values[start : start + _PIECE] for start in pieces))
