"""What an audit of a table nobody knows yet could be: its label, its groups, and the options.

Names and numbers of values say what is likely; nothing of it is decided for anybody. What an audit
would decide by itself is written out as options, so that a command says all of it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from fairaudit.config.option_words import words_of
from fairaudit.config.options import AuditConfig
from fairaudit.data.column_types import FEW_VALUES, Codes, level_names, numeric_values
from fairaudit.data.dataset import Dataset
from fairaudit.data.infer import LABEL_NAMES
from fairaudit.data.naming import words
from fairaudit.data.tabular import BY_OPTION, CheckedTable, make_dataset, read_checked
from fairaudit.data.usable import UnusableColumns
from fairaudit.errors import FairauditError, numbered
from fairaudit.messages.names import quoted, typed

_SHOWN = 3  # likely labels and groups
_OUTCOMES = frozenset(
    {
        *LABEL_NAMES,
        *("outcome", "decision", "result", "default", "approved", "approval", "granted", "denied"),
        *(
            "income",
            "risk",
            "churn",
            "exited",
            "attrition",
            "recid",
            "recidivism",
            "hired",
            "fraud",
        ),
        *("admitted", "accepted", "survived", "died", "readmitted", "diagnosis", "response"),
        *("deposit", "subscribed", "graduated", "passed", "status", "action", "repaid", "paid"),
        *("high", "bad", "good", "creditability", "two"),
    }
)
# Words of columns of people's traits, the ones that law protects first.
_TRAITS = (
    frozenset({"sex", "gender"}),
    frozenset({"race", "ethnicity", "ethnic", "ancestry", "skin"}),
    frozenset({"age", "birth", "generation"}),
    frozenset({"nationality", "country", "foreign", "immigrant", "citizen", "citizenship"}),
    frozenset({"disability", "disabled", "handicap", "religion"}),
    frozenset({"marital", "marriage", "married", "civil"}),
    frozenset({"region", "district", "language", "education", "class"}),
)
# Texts that often stand for a missing value, and numbers that do.
_SUSPECTS = frozenset(
    {
        *("?", "-", "--", ".", "unknown", "missing", "none", "not available", "not applicable"),
        *("undefined", "unspecified", "not stated", "refused", "no answer", "n.a.", "#n/a"),
    }
)
_CODES = (-9, -99, -999, -9999, 99, 999, 9999, 99999, 999999, -1)
_LEAST_ROWS = 3  # with such a number, for it to be suspected
_ROUNDS = 4  # of options that mend what was refused


@dataclass(frozen=True, slots=True)
class Proposal:
    """What could be run.

    Args:
        config: The options, with a likely label and groups where none were given, and with those
            that mend what would be refused.
        labels: Columns that are likely the label, the likeliest first.
        groups: Columns that are likely groups, likewise.
        dataset: What would be trained on; None where even this would be refused.
        suspects: What may be a missing value and is read as a value, a line each.
        refused: Why the table would be refused without the options of ``config``.
    """

    config: AuditConfig
    labels: tuple[str, ...]
    groups: tuple[str, ...]
    dataset: Dataset | None
    suspects: tuple[str, ...]
    refused: tuple[str, ...] = ()

    def command(self) -> tuple[str, ...]:
        """The words of the command that would run it, with all that it would decide."""
        config = self.config
        given: dict[str, object] = {}
        for name in type(config).model_fields:
            value = getattr(config, name)
            if name != "out" and value != type(config).model_fields[name].get_default():
                given[name] = value
        dataset = self.dataset
        if dataset is not None:
            given["label"] = dataset.label
            if dataset.positive_class is not None:
                given["positive"] = dataset.positive_class
            left_out = [n for n, why in dataset.dropped_columns.items() if why != BY_OPTION]
            if dataset.image_shape is None:
                given["drop"] = (*config.drop, *left_out)
            cut = {g.name: "q4" for g in dataset.groupings if g.fitted}
            if cut or config.bin:
                given["bin"] = {**cut, **config.bin}
        first = ("data", "label", "positive", "favourable", "group")
        order = [name for name in first if name in given]
        order += [name for name in given if name not in first]
        words = ["fairaudit", "run"]
        for name in order:
            if name == "drop" and not given[name]:
                continue
            words += words_of(name, given[name])
        return tuple(words)


def propose(
    config: AuditConfig,
    checked: CheckedTable,
    columns: Mapping[str, Codes],
    dataset: Dataset | None = None,
) -> Proposal:
    """What could be run on a table that was read.

    Args:
        config: The options that were given.
        checked: The table.
        columns: Its columns as codes.
        dataset: What these options make of it; None where they are refused.
    """
    codes = {}
    for name, of in columns.items():
        if name != checked.source.sides and of.kind not in ("image", "empty"):
            codes[name] = of
    groups = tuple(_likely_groups(codes, config))
    labels = tuple(_likely_labels(codes, config, checked.source.declared))
    changed: dict[str, object] = {}
    if config.label is None and "label" not in checked.source.declared and labels:
        changed["label"] = labels[0]
    if config.split_column is None and checked.source.sides is not None:
        changed["split_column"] = checked.source.sides
    chosen = changed.get("label", config.label)
    groups = tuple(name for name in groups if name != chosen)
    if not config.group and not config.group_by_label and groups:
        changed["group"] = groups[:2] if _trait(groups[0]) < 2 else groups[:1]
    proposed = config.model_copy(update=changed)
    made, refused = None if changed else dataset, []
    for _ in range(_ROUNDS):
        if made is not None:
            break
        try:
            made = make_dataset(read_checked(proposed) if changed else checked, proposed)
        except UnusableColumns as error:
            refused.append(error.message)
            changed = _mended(proposed, error)
            proposed = proposed.model_copy(update=changed)
        except FairauditError:
            break
    suspects = tuple(_suspects(codes, config))
    return Proposal(proposed, labels[:_SHOWN], groups[: 2 * _SHOWN], made, suspects, tuple(refused))


def _mended(config: AuditConfig, error: UnusableColumns) -> dict[str, object]:
    """The options that an error names, beside those that are given."""
    fields = {"--missing-values": "missing_values", "--number-format": "number_format"}
    changed: dict[str, tuple[str, ...]] = {}
    for flag, value in error.options:
        name = fields.get(flag, "drop")
        changed[name] = (*changed.get(name, getattr(config, name)), value)
    return dict(changed)


def _trait(name: str) -> int:
    """Place of the trait that a column is named after; their number where it is none."""
    parts = set(words(name))
    for place, trait in enumerate(_TRAITS):
        if parts & trait:
            return place
    return len(_TRAITS)


def _likely_groups(codes: dict[str, Codes], config: AuditConfig) -> Iterator[str]:
    """Columns that are named after a trait of people and cut the rows into few groups."""
    likely = []
    for place, (name, column) in enumerate(codes.items()):
        n = len(column.values)
        is_few = 2 <= n <= FEW_VALUES or (column.kind == "number" and n > FEW_VALUES)
        if is_few and _trait(name) < len(_TRAITS) and name not in (config.label, *config.drop):
            # One of several columns of a trait: the first of texts, else the first.
            likely.append((_trait(name), column.kind == "number", place, name))
    seen: set[int] = set()
    later = []
    for trait, _, _, name in sorted(likely):
        if trait in seen:
            later.append(name)
            continue
        seen.add(trait)
        yield name
    yield from later


def _likely_labels(codes: dict[str, Codes], config: AuditConfig, declared: object) -> Sequence[str]:
    """Columns of few values that are named like an outcome, or stand last."""
    names = list(codes)
    likely = []
    for place, name in enumerate(names):
        n = len(codes[name].values)
        if not 2 <= n <= FEW_VALUES or name in (*config.group, *config.drop, config.split_column):
            continue
        if _trait(name) < len(_TRAITS) - 1:
            continue
        is_exact = name.strip().lower() in LABEL_NAMES
        outcome = len(set(words(name)) & _OUTCOMES)
        is_last = place == len(names) - 1
        score = 6 * is_exact + 3 * min(outcome, 2) + 3 * (n == 2) + is_last
        if outcome or is_last or n == 2:
            likely.append((-score, -place, name))
    return [name for _, _, name in sorted(likely)]


def _suspects(codes: dict[str, Codes], config: AuditConfig) -> Iterator[str]:
    """Values that often stand for a missing one, with the option that says so."""
    for name, column in codes.items():
        counts = column.counts()
        if column.kind == "category" and pa.types.is_large_string(column.values.type):
            for text, rows in zip(column.values.to_pylist(), counts.tolist(), strict=True):
                if text.strip().lower() in _SUSPECTS and rows:
                    yield _suspect(name, text.strip(), rows)
        elif column.kind == "number" and len(column.values) > FEW_VALUES:
            values = numeric_values(pa.chunked_array([column.values]))
            order = np.sort(values)
            for end, neighbour, other in ((0, 1, -1), (-1, -2, 0)):
                gap, rest = abs(order[end] - order[neighbour]), abs(order[neighbour] - order[other])
                rows = int(counts[values == order[end]].sum())
                if order[end] in _CODES and gap > rest / 2 and rows >= _LEAST_ROWS:
                    (text,) = level_names(pa.array([float(order[end])]))
                    yield _suspect(name, text, rows)


def _suspect(name: str, text: str, rows: int) -> str:
    """The line on a value that may be a missing one."""
    return (
        f"{quoted(text)} in {quoted(name)} ({numbered(rows, 'row')}) is read as a value; if it "
        f"means a missing one: --missing-values {typed(f'{name}={text}')}"
    )
