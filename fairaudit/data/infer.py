"""Which column is the label, which of its values is the positive one, and which outcome people want.

The order is fixed: given, declared, then the one column whose name says so. Never a guess by position.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from fairaudit.config.option_words import option_words
from fairaudit.config.options import ASSUMED, AuditConfig
from fairaudit.data.candidates import (
    MAX_INFERRED_CLASSES,
    LabelCandidates,
    group_candidates,
    label_candidates,
    suggested_group,
)
from fairaudit.data.columns import encode_levels, kind_of
from fairaudit.data.dataset import Int64, Notice
from fairaudit.data.naming import (
    LabelName,
    is_adverse_label,
    label_name,
    listed,
    near_miss,
    nearest,
    quoted,
    typed,
)
from fairaudit.errors import ConfigError, DataError

_SHOWN = 4  # labels to choose from in a hint
MAX_NUMERIC_CLASSES = 20
MAX_CLASSES = 100
_POSITIVE = frozenset({"1", "true", "yes", "approved", ">50k", "good"})
# Outcomes whose own name says that people want them. A 1, a yes or a true does not: see ``default``.
_WANTED = frozenset({"accepted", "admitted", "approved", "good", "granted", "hired", ">50k", ">50k."})
SAID_BY_NAME = "its name says so"


class NoLabel(DataError):
    """No label was given and none is sure; ``suggested`` is the column that may be named, or None."""

    def __init__(self, message: str, hint: str = "", suggested: str | None = None) -> None:
        super().__init__(message, hint)
        self.suggested = suggested


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
    if not config.infer:
        raise DataError("no label given, and --no-infer forbids finding one", _NAME_IT)
    if "label" in declared:
        if declared["label"] not in names:
            raise DataError(
                f"label {quoted(declared['label'])}, {declared_by}, is not a readable column of it",
                "correct the declaration, or give --label COLUMN",
            )
        return replace(given_label(declared["label"], declared, declared_by), origin=declared_by)
    found = label_candidates(table, config)
    if found.inferred is not None:
        return LabelChoice(found.inferred, "inferred from the name")
    raise NoLabel(_no_label(found, config), _what_to_do(found, table, config), found.suggested)


_NAME_IT = "name the column to predict with --label"


def _no_label(found: LabelCandidates, config: AuditConfig) -> str:
    if len(found.named) > 1:
        return f"several columns may be the label: {listed(found.named)}"
    if found.suggested:
        return f"no label given; by its name column {quoted(found.suggested)} of {config.data.name} may be it"
    taken = [name for name in config.group if label_name(name) >= LabelName.KNOWN]
    if taken:
        return f"column {quoted(taken[0])} is the only one named like a label and is also a group"
    few = (
        f"; columns with 2 to {MAX_INFERRED_CLASSES} values: {listed(found.possible)}"
        if found.possible
        else ""
    )
    return f"no column of {config.data.name} is named like a label{few}"


def _what_to_do(found: LabelCandidates, table: pa.Table, config: AuditConfig) -> str:
    """The command that would go on, where the label and a group are sure; else what is to be named."""
    if any(label_name(name) >= LabelName.KNOWN for name in config.group) and not found.named:
        return "name the label with --label, choose another --group, or take its classes: --group-by-label"
    if found.suggested is not None:
        sure = suggestion(table, config, found.suggested)
        return f"type: {run_command(sure)}" if sure else f"add --label {typed(found.suggested)}"
    if len(found.named) > 1:
        return f"{_NAME_IT}: " + " or ".join(f"--label {typed(name)}" for name in found.named[:_SHOWN])
    return _NAME_IT


def suggestion(table: pa.Table, config: AuditConfig, label: str) -> AuditConfig | None:
    """Everything that was asked, with this label and a group: the one given, else a sure one, else None."""
    group = config.group
    if not group and not config.group_by_label:
        sure = suggested_group(group_candidates(table, (label, *config.drop)))
        if sure is None:
            return None
        group = (sure,)
    return config.model_copy(update={"label": label, "group": group})


def run_command(config: AuditConfig) -> str:
    """The command with these options."""
    return f"fairaudit run {option_words(config)}"


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
