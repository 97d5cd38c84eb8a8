"""Which column is the label, which of its values is positive, and which outcome people want.

The label is given, or declared, or the one column that is called label, target, y or class (or
labels, targets).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import pyarrow as pa

from fairaudit.config.options import ASSUMED, AuditConfig
from fairaudit.data.column_types import coded, encode_levels, few_valued, kind_of
from fairaudit.data.dataset import Int64
from fairaudit.data.naming import near_equal
from fairaudit.errors import ConfigError, DataError
from fairaudit.messages.base import Message
from fairaudit.messages.data import FavourableAssumed, LabelByName, NearEqualNames, PositiveUnknown
from fairaudit.messages.names import listed, nearest, quoted

BY_NAME = "by its name"
LABEL_NAMES = ("label", "labels", "target", "targets", "y", "class")
MAX_NUMERIC_CLASSES = 20  # more numbers are taken for a measurement, not for classes
MAX_CLASSES = 100
_TRUTH = {"true": "1", "false": "0"}
_NAME_IT = "name the column to predict with --label"


@dataclass(frozen=True, slots=True)
class LabelChoice:
    """The label column and how it was found.

    Args:
        column: Its name.
        origin: ``given``, :data:`BY_NAME`, or ``declared_by`` where the data declare the label.
        declared: The values ``positive`` and ``favourable``, as the data declare them of this
            column.
        declared_by: Where the data declare them, in words for a report; "" if they do not.
    """

    column: str
    origin: str
    declared: Mapping[str, str] = field(default_factory=dict)
    declared_by: str = ""


@dataclass(frozen=True, slots=True)
class LabelColumn:
    """The label made classes.

    Args:
        codes: Class of each row, ``[N]``, -1 where missing.
        classes: Class names, at least two.
        positive: Index of the positive class, whose rates are reported. Where nobody said, the
            later of two; of three or more the favourable one, or None.
        favourable: Index of the outcome that people want. Where nobody said, the positive class is
            assumed to be it.
        favourable_origin: Who said so: ``given`` (an option), where the data declare it,
            ``assumed``, or "" where no outcome is favourable.
        notices: What the reader of a report is told about the label.
    """

    codes: Int64
    classes: tuple[str, ...]
    positive: int | None
    favourable: int | None
    favourable_origin: str
    notices: tuple[Message, ...]


def choose_label(
    table: pa.Table, declared: Mapping[str, str], declared_by: str, config: AuditConfig
) -> LabelChoice:
    """Find the label column: given, else declared by the data, else by its name.

    Args:
        table: All readable columns.
        declared: What the data declare: ``label`` -> the column, ``positive`` and ``favourable`` ->
            its values.
        declared_by: Where the data declare that, in words; "" if they do not.
        config: The options.

    Raises:
        DataError: No such column, no column or several are named like a label, or the label is also
            a group.
    """
    names = table.column_names
    if config.label is not None:
        if config.label not in names:
            raise DataError(
                f"label column {quoted(config.label)} is not in {config.data.name}",
                nearest(config.label, names),
            )
        choice = given_label(config.label, declared, declared_by)
    elif "label" in declared:
        if declared["label"] not in names:
            raise DataError(
                f"label {quoted(declared['label'])}, {declared_by}, is not a readable column of it",
                "correct the declaration, or give --label COLUMN",
            )
        choice = replace(given_label(declared["label"], declared, declared_by), origin=declared_by)
    else:
        used = (*config.drop, *config.group, config.split_column)
        named = [n for n in names if n.strip().lower() in LABEL_NAMES and n not in used]
        if len(named) > 1:
            raise DataError(f"several columns may be the label: {listed(named)}", _NAME_IT)
        if not named:
            few = few_valued(coded(table))
            columns = f"; columns with 2 to 20 values: {listed(few)}" if few else ""
            raise DataError(f"no label given for {config.data.name}{columns}", _NAME_IT)
        choice = LabelChoice(named[0], BY_NAME)
    if choice.column in config.group and not config.group_by_label:
        raise DataError(
            f"column {quoted(choice.column)} is both the label and a group",
            "choose another column with --group or --label, or take the classes as groups: "
            "--group-by-label",
        )
    return choice


def given_label(column: str, declared: Mapping[str, str], declared_by: str) -> LabelChoice:
    """The choice of a column that is named as the label, with what the data declare of its values.

    Where the data declare another column to be the label, their declaration is left out.
    """
    if declared.get("label", column) != column:
        return LabelChoice(column, "given")
    return LabelChoice(column, "given", declared, declared_by)


def read_label(table: pa.Table, choice: LabelChoice, config: AuditConfig) -> LabelColumn:
    """The label as classes, with the positive and the favourable one where they are known.

    Raises:
        DataError: Continuous, one-valued, all missing, or too many classes.
        ConfigError: ``--positive`` or ``--favourable`` names no class.
    """
    column = table.column(choice.column)
    levels = encode_levels(column)
    _refuse_unusable_label(choice.column, column, len(levels.names))
    classes = levels.names
    favourable, origin = _named_class("favourable", config.favourable, classes, choice)
    positive, _ = _named_class("positive", config.positive, classes, choice)
    if positive is None:  # where nobody says, the later of two; of more, the favourable or None
        positive = 1 if len(classes) == 2 else favourable
    notices: list[Message] = []
    for names in near_equal(classes):
        notices.append(NearEqualNames("classes of label", choice.column, tuple(names)))
    if choice.origin == BY_NAME:
        notices.append(LabelByName(choice.column))
    if positive is None:
        notices.append(PositiveUnknown(choice.column))
    elif favourable is None:
        favourable, origin = positive, ASSUMED
        notices.append(FavourableAssumed(choice.column, favourable=classes[positive]))
    return LabelColumn(levels.codes, classes, positive, favourable, origin, tuple(notices))


def _refuse_unusable_label(name: str, column: pa.ChunkedArray, n_classes: int) -> None:
    """Refuse a label that is constant, missing, continuous or of too many classes.

    Args:
        name: The label's column.
        column: Its values.
        n_classes: How many distinct ones there are.

    Raises:
        DataError: It is one of these.
    """
    name = quoted(name)
    if n_classes < 2:
        problem = "has one value in all rows" if n_classes else "is missing in all rows"
        raise DataError(f"label {name} {problem}")
    if kind_of(column.type) != "category" and n_classes > MAX_NUMERIC_CLASSES:
        raise DataError(
            f"label {name} looks continuous ({n_classes:,} distinct numbers)",
            "choose a threshold, write it as a column of 0 and 1, and give that with --label",
        )
    if n_classes > MAX_CLASSES:
        raise DataError(f"label {name} has {n_classes:,} values, more than {MAX_CLASSES}")


def _named_class(
    role: Literal["favourable", "positive"],
    given: str | None,
    classes: tuple[str, ...],
    choice: LabelChoice,
) -> tuple[int | None, str]:
    """Index of the class that an option, else the data, name for a role; and who named it.

    Args:
        role: What the class is to be.
        given: The option's value; None: not given.
        classes: Names of the classes.
        choice: Has what the data declare.

    Returns:
        The index and ``given`` or the words of ``choice.declared_by``; None and "" where nobody
        names a class.

    Raises:
        ConfigError: What is named is no class.
    """
    if given is not None:
        return _class_of(given, f"--{role}", classes, choice), "given"
    if role in choice.declared:
        return _class_of(choice.declared[role], role, classes, choice), choice.declared_by
    return None, ""


def _class_of(wanted: str, option: str, classes: tuple[str, ...], choice: LabelChoice) -> int:
    """Index of the class that an option's value spells; ConfigError where it spells none."""
    index = same_class(wanted, classes)
    if index is None:
        raise ConfigError(
            f"{option}: {quoted(wanted)} is not a value of label {quoted(choice.column)}",
            nearest(wanted, classes),
        )
    return index


def _normalised(value: str) -> str:
    """The common form of one class's spellings: no case, no outer blanks, ``1`` for ``1.0``.

    Truth values are the numbers that they are written as: ``1`` for ``true``.
    """
    plain = _TRUTH.get(value.strip().casefold(), value.strip().casefold())
    if plain.removesuffix(".0").lstrip("-").isdigit():
        return plain.removesuffix(".0")
    return plain


def same_class(value: str, classes: Sequence[str]) -> int | None:
    """Index of the class that a value spells; ``1.0`` is ``1``, ``True`` is ``true``.

    None where no class has that spelling, or several do and none exactly.
    """
    if value in classes:
        return classes.index(value)
    spelled = [_normalised(name) for name in classes]
    if spelled.count(_normalised(value)) == 1:
        return spelled.index(_normalised(value))
    return None
