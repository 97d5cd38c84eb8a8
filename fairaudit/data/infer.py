"""Which column is the label, which of its values is the positive one, and which outcome people want.

The order is fixed: given, declared, then exactly one column of a known name. Never a guess by position.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fairaudit.config import ASSUMED, AuditConfig
from fairaudit.data.columns import Codes, encode_codes, encode_levels, kind_of
from fairaudit.data.dataset import Int64, Notice
from fairaudit.data.naming import (
    is_adverse_label,
    is_group_name,
    is_id_name,
    is_label_name,
    is_prediction_name,
    listed,
    near_miss,
    nearest,
    protected,
    quoted,
    typed,
)
from fairaudit.errors import ConfigError, DataError

Numbers = NDArray[np.int64] | NDArray[np.float64]

MAX_INFERRED_CLASSES = 20
MAX_NUMERIC_CLASSES = 20
MAX_CLASSES = 100
GROUP_CANDIDATE_LEVELS = 20
GROUP_CANDIDATE_NUMBERS = 5
_POSITIVE = frozenset({"1", "true", "yes", "approved", ">50k", "good"})
# Outcomes whose own name says that people want them. A 1, a yes or a true does not: see ``default``.
_WANTED = frozenset({"accepted", "admitted", "approved", "good", "granted", "hired", ">50k", ">50k."})
SAID_BY_NAME = "its name says so"
_ID_SHARE = 0.95
_NAMED_ID_SHARE = 0.5
_ID_MIN_VALUES = 20
_ID_MANY_VALUES = 1_000
_ID_MAX_SPREAD = 1.1
_PIECE = 65_536


@dataclass(frozen=True, slots=True)
class LabelChoice:
    """The label column and how it was found.

    Args:
        column: Its name.
        origin: ``given``, ``declared in the file``, ``declared beside the file`` or
            ``inferred from the name``.
        positive, favourable: The values that the data declare to be so, or None.
        declared_by: Where they do, or "".
    """

    column: str
    origin: str
    positive: str | None = None
    favourable: str | None = None
    declared_by: str = ""


@dataclass(frozen=True, slots=True)
class LabelColumn:
    """The label made classes.

    Args:
        codes: Class of each row, ``[N]``, -1 where missing.
        classes: Class names, at least two.
        positive: Index of the class that rates are about, or None.
        favourable: Index of the outcome that people want, or None. Where nobody said, the positive
            class is assumed to be it.
        favourable_origin: ``given``, where it is declared, :data:`SAID_BY_NAME`, ``assumed`` or "".
        notices: What to say about it.
    """

    codes: Int64
    classes: tuple[str, ...]
    positive: int | None
    favourable: int | None
    favourable_origin: str
    notices: tuple[Notice, ...]


def choose_label(
    table: pa.Table, declared: Mapping[str, str], declared_by: str, config: AuditConfig
) -> LabelChoice:
    """The label column by the rules of the module.

    Raises:
        DataError: No such column, none or several candidates, or it is also a group.
    """
    choice = _find_label(table, declared, declared_by, config)
    if choice.column in config.group and not config.group_by_label:
        raise DataError(
            f"column {quoted(choice.column)} is both the label and a group",
            "choose another column with --group or --label, or take the classes as groups: --group-by-label",
        )
    return choice


def given_label(column: str, declared: Mapping[str, str], declared_by: str) -> LabelChoice:
    """A label that was named, with what the data declare of it; not what they declare of another."""
    if declared.get("label", column) != column:
        return LabelChoice(column, "given")
    return LabelChoice(column, "given", declared.get("positive"), declared.get("favourable"), declared_by)


def label_candidates(table: pa.Table, config: AuditConfig) -> tuple[str, ...]:
    """Columns that the name rule accepts: a known name, 2 to 20 values, no group, id or score."""
    return tuple(n for n in table.column_names if is_label_name(n) and _may_be_label(table, n, config))


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


def read_label(table: pa.Table, choice: LabelChoice, config: AuditConfig) -> LabelColumn:
    """The label as classes, with the positive and the favourable one where they are known.

    Raises:
        DataError: Continuous, one-valued, all missing, or too many classes.
        ConfigError: ``--positive`` or ``--favourable`` names no class.
    """
    name = quoted(choice.column)
    column = table.column(choice.column)
    levels = encode_levels(column)
    n_classes = len(levels.names)
    if n_classes < 2:
        what = "has one value in all rows" if n_classes else "is missing in all rows"
        raise DataError(f"label {name} {what}", "choose a label with two or more values")
    numeric = kind_of(column.type) != "category"
    if numeric and n_classes > MAX_NUMERIC_CLASSES:
        raise DataError(
            f"label {name} looks continuous ({n_classes:,} distinct numbers)",
            "choose a threshold, write it as a column of 0 and 1, and give that with --label",
        )
    if n_classes > MAX_CLASSES:
        raise DataError(
            f"label {name} has {n_classes:,} values, more than {MAX_CLASSES}", "merge its classes first"
        )
    favourable, origin = _favourable(levels.names, choice, config)
    positive, notices = _positive(levels.names, choice, config, favourable)
    if favourable is None and positive is not None:
        favourable, origin = positive, ASSUMED
        notices = (*notices, _assumption(choice.column, levels.names[positive]))
    return LabelColumn(levels.codes, levels.names, positive, favourable, origin, notices)


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
        name: Column. present: Its values, repeats included, without gaps. rows: Of the table.
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


def _find_label(
    table: pa.Table, declared: Mapping[str, str], declared_by: str, config: AuditConfig
) -> LabelChoice:
    names = table.column_names
    if config.label is not None:
        if config.label not in names:
            raise DataError(
                f"label column {quoted(config.label)} is not in {config.data.name} ({listed(names)})",
                near_miss(config.label, names),
            )
        return given_label(config.label, declared, declared_by)
    candidates = label_candidates(table, config)
    if not config.infer:
        raise DataError("no label given, and --no-infer forbids finding one", _command(config, candidates))
    if "label" in declared:
        if declared["label"] not in names:
            raise DataError(
                f"label {quoted(declared['label'])}, {declared_by}, is not a readable column of it",
                "correct the declaration, or give --label COLUMN",
            )
        return replace(given_label(declared["label"], declared, declared_by), origin=declared_by)
    if len(candidates) == 1:
        return LabelChoice(candidates[0], "inferred from the name")
    if candidates:
        raise DataError(
            f"several columns may be the label: {listed(candidates)}", _command(config, candidates)
        )
    taken = [n for n in config.group if is_label_name(n)]
    if taken:
        raise DataError(
            f"column {quoted(taken[0])} is the only one named like a label and is also a group",
            "name the label with --label, choose another --group, or take its classes: --group-by-label",
        )
    possible = [n for n in names if _may_be_label(table, n, config)]
    possible.sort(key=lambda n: (is_group_name(n), _distinct(table, n)))
    found = f"; columns with 2 to {MAX_INFERRED_CLASSES} values: {listed(possible)}" if possible else ""
    raise DataError(
        f"no column of {config.data.name} is named like a label{found}", _command(config, possible)
    )


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


def _command(config: AuditConfig, candidates: Sequence[str]) -> str:
    """The command that would work, with the first candidate."""
    groups = "".join(f" --group {typed(g)}" for g in config.group)
    label = typed(candidates[0]) if candidates else "COLUMN"
    return f"type: fairaudit run --data {typed(str(config.data))}{groups} --label {label}"


def _favourable(classes: tuple[str, ...], choice: LabelChoice, config: AuditConfig) -> tuple[int | None, str]:
    """The outcome that people want and who said so, or None where nobody did."""
    if config.favourable is not None:
        return _class_of(config.favourable, "--favourable", classes, choice), "given"
    if choice.favourable is not None:
        return _class_of(choice.favourable, "favourable", classes, choice), choice.declared_by
    named = [i for i, c in enumerate(classes) if _spelling(c) in _WANTED]
    if config.infer and len(classes) == 2 and len(named) == 1 and not is_adverse_label(choice.column):
        return named[0], SAID_BY_NAME
    return None, ""


def _positive(
    classes: tuple[str, ...], choice: LabelChoice, config: AuditConfig, favourable: int | None
) -> tuple[int | None, tuple[Notice, ...]]:
    """The class that rates are about: named, else of a usual spelling, else the favourable one."""
    wanted = config.positive if config.positive is not None else choice.positive
    if wanted is not None:
        return _class_of(wanted, "--positive", classes, choice), ()
    known = [i for i, c in enumerate(classes) if _spelling(c) in _POSITIVE]
    # Among ten digits a 1 is not positive; only two classes are one decision.
    if config.infer and len(classes) == 2 and len(known) == 1:
        return known[0], ()
    if favourable is not None:
        return favourable, ()
    message = f"no value of label {quoted(choice.column)} is known to be the positive or favourable one"
    notice = Notice("positive_unknown", message, "name it with --favourable VALUE", "notice")
    return None, (notice,)


def _class_of(wanted: str, option: str, classes: tuple[str, ...], choice: LabelChoice) -> int:
    """The class that a value names, by its spelling."""
    if wanted in classes:
        return classes.index(wanted)
    spelled = {_spelling(c): i for i, c in reversed(list(enumerate(classes)))}
    if _spelling(wanted) not in spelled:
        raise ConfigError(
            f"{option}: {quoted(wanted)} is not a value of label {quoted(choice.column)}",
            nearest(wanted, classes),
        )
    return spelled[_spelling(wanted)]


def _assumption(column: str, value: str) -> Notice:
    message = (
        f"{quoted(column)} = {quoted(value)} is assumed to be the favourable outcome; impact ratios turn on "
        "that, so gates on them are inconclusive"
    )
    is_doubtful = is_adverse_label(column) and _spelling(value) in _POSITIVE
    if is_doubtful:
        message += "; the name of the label says otherwise"
    fix = "say which value people want with --favourable VALUE"
    return Notice("favourable_assumed", message, fix, "warning" if is_doubtful else "notice")


def _spelling(value: str) -> str:
    """What two spellings of one class have in common: case, blanks, ``1.0`` for ``1``."""
    plain = value.strip().casefold()
    return plain.removesuffix(".0") if plain.removesuffix(".0").lstrip("-").isdigit() else plain


def same_class(value: str, classes: Sequence[str]) -> int | None:
    """The class that a value spells, or None: ``1.0`` is ``1``, ``True`` is ``true``."""
    if value in classes:
        return classes.index(value)
    spelled = [_spelling(name) for name in classes]
    return spelled.index(_spelling(value)) if spelled.count(_spelling(value)) == 1 else None
