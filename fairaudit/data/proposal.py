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

_SHOWN = 3  # likely labels that are shown; of likely groups twice as many
_PAIRED_TRAITS = 2  # the first ones of _TRAITS, sex and race: another trait is proposed beside them
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
        given: dict[str, object] = {}  # option -> value, of those that differ from the default
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
            if dataset.image_shape is None:  # columns beside images need no option to be left out
                given["drop"] = (*config.drop, *left_out)
            quartiles = {g.name: "q4" for g in dataset.groupings if g.fitted}
            if quartiles or config.bin:
                given["bin"] = {**quartiles, **config.bin}
        first = ("data", "label", "positive", "favourable", "group")
        order = [name for name in first if name in given]
        order += [name for name in given if name not in first]
        command_words = ["fairaudit", "run"]
        for name in order:
            if name == "drop" and not given[name]:
                continue
            command_words += words_of(name, given[name])
        return tuple(command_words)


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
    for name, column in columns.items():
        if name != checked.source.sides and column.kind not in ("image", "empty"):
            codes[name] = column
    labels = tuple(_likely_labels(codes, config))
    changed: dict[str, object] = {}  # options that are proposed -> their values
    if config.label is None and "label" not in checked.source.declared and labels:
        changed["label"] = labels[0]
    if config.split_column is None and checked.source.sides is not None:
        changed["split_column"] = checked.source.sides
    label = changed.get("label", config.label)
    groups = tuple(name for name in _likely_groups(codes, config) if name != label)
    if not config.group and not config.group_by_label and groups:
        is_first_trait = _trait(groups[0]) < _PAIRED_TRAITS
        changed["group"] = groups[:2] if is_first_trait else groups[:1]
    proposed = config.model_copy(update=changed)
    # Without changes `dataset` is what the options make; None: its refusal is met in the loop.
    made, refused = None if changed else dataset, []
    # Each round adds the options that the last refusal names. Only then may a refusal of other
    # columns show.
    for _ in range(_ROUNDS):
        if made is not None:
            break
        try:
            # Changed options may read the file in another way.
            made = make_dataset(read_checked(proposed) if changed else checked, proposed)
        except UnusableColumns as error:
            refused.append(error.message)
            changed = _mended(proposed, error)  # earlier changes are in `proposed` already
            proposed = proposed.model_copy(update=changed)
        except FairauditError:  # no option is known to mend it, so `made` stays None
            break
    return Proposal(
        config=proposed,
        labels=labels[:_SHOWN],
        groups=groups[: 2 * _SHOWN],
        dataset=made,
        suspects=tuple(_suspects(codes)),
        refused=tuple(refused),
    )


def _mended(config: AuditConfig, error: UnusableColumns) -> dict[str, object]:
    """Field of the options -> its values and those that the error names to mend what it refuses."""
    fields = {"--missing-values": "missing_values", "--number-format": "number_format"}
    changed: dict[str, tuple[str, ...]] = {}
    for flag, value in error.options:
        name = fields.get(flag, "drop")  # no other flag than `--drop` is left
        changed[name] = (*changed.get(name, getattr(config, name)), value)
    return dict(changed)


def _trait(name: str) -> int:
    """Index in ``_TRAITS`` of the trait that a column is named after; their number if of none."""
    parts = set(words(name))
    for place, trait in enumerate(_TRAITS):
        if parts & trait:
            return place
    return len(_TRAITS)


def _likely_groups(codes: dict[str, Codes], config: AuditConfig) -> Iterator[str]:
    """Columns that are named after a trait of people and cut the rows into few groups.

    First one column of each trait, in the order of ``_TRAITS``, then the others. Of several columns
    of a trait the first that holds texts is taken, or the first of all where none does.
    """
    likely = []  # to be sorted: trait, whether it is a number, place in the table, name
    for place, (name, column) in enumerate(codes.items()):
        n_values = len(column.values)
        # A number of many values is cut into quartiles.
        is_few = n_values >= 2 and (n_values <= FEW_VALUES or column.kind == "number")
        if is_few and _trait(name) < len(_TRAITS) and name not in (config.label, *config.drop):
            likely.append((_trait(name), column.kind == "number", place, name))
    seen: set[int] = set()
    others = []
    for trait, _, _, name in sorted(likely):
        if trait in seen:
            others.append(name)
        else:
            seen.add(trait)
            yield name
    yield from others


def _likely_labels(codes: dict[str, Codes], config: AuditConfig) -> Sequence[str]:
    """Columns of 2 to 20 values that may be the label, the likeliest first.

    A name that labels usually have counts most, then words of an outcome, then two values, then the
    last place in the table; at equal scores the later column comes first.
    """
    names = list(codes)
    likely = []
    for place, name in enumerate(names):
        n_values = len(codes[name].values)
        used = (*config.group, *config.drop, config.split_column)
        if not 2 <= n_values <= FEW_VALUES or name in used:
            continue
        # Words of the last trait, as "class", may name an outcome, too.
        if _trait(name) < len(_TRAITS) - 1:
            continue
        is_exact = name.strip().lower() in LABEL_NAMES
        n_outcome_words = len(set(words(name)) & _OUTCOMES)
        is_binary, is_last = n_values == 2, place == len(names) - 1
        score = 6 * is_exact + 3 * min(n_outcome_words, 2) + 3 * is_binary + is_last
        if n_outcome_words or is_last or is_binary:
            likely.append((-score, -place, name))
    return [name for _, _, name in sorted(likely)]


def _suspects(codes: dict[str, Codes]) -> Iterator[str]:
    """A line on each value that often stands for a missing one, with the option that says so."""
    for name, column in codes.items():
        if column.kind == "category" and pa.types.is_large_string(column.values.type):
            row_counts = column.counts().tolist()
            for text, rows in zip(column.values.to_pylist(), row_counts, strict=True):
                if text.strip().lower() in _SUSPECTS and rows:
                    yield _suspect(name, text.strip(), rows)
        elif column.kind == "number" and len(column.values) > FEW_VALUES:
            for text, rows in _suspected_numbers(column):
                yield _suspect(name, text, rows)


def _suspected_numbers(column: Codes) -> Iterator[tuple[str, int]]:
    """The lowest and the highest number where it may be a code of a missing value; and its rows.

    Such a number is one of ``_CODES``, stands in ``_LEAST_ROWS`` rows or more, and is further from
    the next number than half of the range of all other numbers. The column has more than
    ``FEW_VALUES`` distinct numbers.
    """
    values = numeric_values(pa.chunked_array([column.values]))
    ascending = np.sort(values)
    for value, neighbour, other_end in (
        (ascending[0], ascending[1], ascending[-1]),
        (ascending[-1], ascending[-2], ascending[0]),
    ):
        gap, range_of_others = abs(value - neighbour), abs(neighbour - other_end)
        if value not in _CODES or gap <= range_of_others / 2:
            continue
        rows = int(column.counts()[values == value].sum())
        if rows >= _LEAST_ROWS:
            (text,) = level_names(pa.array([float(value)]))
            yield text, rows


def _suspect(name: str, text: str, rows: int) -> str:
    """The line on a value that may be a missing one."""
    return (
        f"{quoted(text)} in {quoted(name)} ({numbered(rows, 'row')}) is read as a value; if it "
        f"means a missing one: --missing-values {typed(f'{name}={text}')}"
    )
