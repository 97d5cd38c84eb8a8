"""Inspection -> commented files to start from: what is known is set, what must be chosen is offered."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from fairaudit.config.declared import MOST_CATEGORIES
from fairaudit.config.options import ASSUMED, AuditConfig
from fairaudit.data.candidates import suggested_group
from fairaudit.data.columns import encode_levels, kind_of, numeric_values
from fairaudit.data.dataset import Dataset
from fairaudit.data.inspection import Inspection
from fairaudit.errors import OutputError, numbered
from fairaudit.io.atomic import write_atomically
from fairaudit.report.safe_names import plain

_MOST_CANDIDATES = 8
_REPLACE = "  # from your data: replace by what is publicly known"


def template_file(found: Inspection, config: AuditConfig) -> str:
    """The file's text; it can be used as it is where the inspection found no problem.

    Args:
        found: What is in the data.
        config: The options that it was inspected with.
    """
    return "\n".join([*_data(found, config), *_audit(found, config)]) + "\n"


def columns_file(dataset: Dataset) -> str:
    """The text of a ``columns.toml``: every feature as the rows show it, for somebody to replace."""
    return "\n".join(_columns(dataset)) + "\n"


def write_template(path: Path, text: str, *, force: bool) -> None:
    """Write the file; an existing one only by force.

    Raises:
        OutputError: There is a file already, or it cannot be written.
    """
    if path.exists() and not force:
        raise OutputError(f"{path} exists", hint="--force writes over it, --out names another file")
    write_atomically(path, text.encode())


def _columns(dataset: Dataset) -> Iterator[str]:
    yield f"# Columns of {plain(dataset.name, 80)}, for `fairaudit run --columns`."
    yield "# What stands here is taken as publicly known, and nothing about these columns is learned of rows:"
    yield "# replace every value that was read from your data, by a code book's, a form's, a sensor's range."
    yield '# A number beyond its range counts as its nearer end; with outside = "missing" it is missing.'
    yield "# missing = VALUE stands in for a missing value. A text that is not listed counts as missing."
    for name in dataset.features.column_names:
        column = dataset.features.column(name)
        kind = kind_of(column.type)
        yield ""
        if kind == "time":
            yield f"# {_text(name)} holds times, which cannot be declared: --drop it, or write numbers."
            continue
        yield f"[{_text(name)}]"
        if kind == "number":
            values = numeric_values(column)
            low, high = float(np.nanmin(values)), float(np.nanmax(values))
            yield 'kind = "number"'
            yield f"range = [{low!r}, {high if high > low else low + 1.0!r}]{_REPLACE}"
            yield "# centre = and spread = say where most values lie; by default the whole range counts alike"
            gaps = column.null_count > 0
            yield f"missing = {low!r}{_REPLACE}" if gaps else f"# missing = {low!r}"
        else:
            levels = encode_levels(column).names[:MOST_CATEGORIES]
            yield 'kind = "category"'
            yield f"categories = [{', '.join(map(_text, levels))}]{_REPLACE}"
            yield f"# missing = {_text(levels[0])}"


def _data(found: Inspection, config: AuditConfig) -> Iterator[str]:
    size = f"{numbered(found.rows, 'row')} x {numbered(found.columns, 'column')}"
    yield f"# Options of `fairaudit run` for {plain(found.name, 80)}: {size}."
    yield "# A flag or a variable such as FAIRAUDIT_EPSILON wins over what stands here."
    yield ""
    yield f"data = {_text(str(config.data))}"
    yield ""
    if found.label is not None:
        yield f"label = {_text(found.label)}  # {found.label_origin or 'given'}"
    else:
        yield f"# The column to predict. Candidates: {_named(found.label_candidates)}"
        yield '# label = "COLUMN"'
    if found.positive is not None:
        yield f"positive = {_text(found.positive)}  # what rates are about"
    else:
        yield "# What rates are about; without it, they are given per class and there is no impact ratio."
        yield '# positive = "VALUE"'
    if found.favourable is not None and found.favourable_origin != ASSUMED:
        yield f"favourable = {_text(found.favourable)}  # what people want ({found.favourable_origin})"
    else:
        yield "# What people want: 1 for a loan that is granted, 0 for one that defaults. Without it, impact"
        yield "# ratios are shown with the positive outcome assumed, and gates on them are inconclusive."
        yield f"# favourable = {_text(found.positive or 'VALUE')}"
    yield ""
    yield "# The first group steers the splits and the methods that read groups; further ones are reported."
    if config.group:
        yield f"group = [{', '.join(map(_text, config.group))}]"
        for grouping in found.groupings:
            sizes = ", ".join(f"{plain(g.name)} {g.rows:,}" for g in grouping.groups[:_MOST_CANDIDATES])
            yield f"# {plain(grouping.name)}: {sizes}"
    else:
        yield f"# Candidates: {_named(found.group_candidates)}"
        yield f"# group = [{_text(suggested_group(found.group_candidates) or 'COLUMN')}]"
    dropped = [column for column in found.schema if column.role == "dropped"]
    if dropped:
        yield "# Left out without being asked: " + ", ".join(
            f"{plain(column.name)} ({plain(column.note, 60)})" for column in dropped[:_MOST_CANDIDATES]
        )
    yield "# drop = []"
    yield ""


def _audit(found: Inspection, config: AuditConfig) -> Iterator[str]:
    yield "# `fairaudit methods` lists them all. The control, dpsgd-matched, tells whether a threshold method"
    yield "# does more than clip less."
    yield f"method = [{', '.join(map(_text, (*config.method, 'dpsgd-matched')))}]"
    yield f"epsilon = {list(config.epsilon)}  # several make a sweep"
    yield "# delta = 1e-5  # by rule: the largest power of ten up to 1/(10 N)"
    yield f"seeds = {config.seeds}  # gates need 5; 10 are better for three groups or more"
    yield "# model, epochs, batch_size and learning_rate are set by rules that the report shows"
    yield ""
    yield "# Conditions that fail the run (exit code 1; 3 where the numbers do not settle them)."
    yield "fail_on = ["
    yield '  # "privacy_cost_gap > 2pt",  # two points more accuracy lost by one group than by another'
    yield '  # "epsilon > 3",'
    if found.favourable is not None:
        needs = "  # inconclusive until favourable is set" if found.favourable_origin == ASSUMED else ""
        yield '  # "impact_ratio < 0.8",' + needs
    yield "]"


def _named(names: Sequence[str]) -> str:
    shown = ", ".join(plain(name) for name in names[:_MOST_CANDIDATES])
    more = len(names) - _MOST_CANDIDATES
    return (shown or "none found") + (f" and {more} more" if more > 0 else "")


def _text(value: str) -> str:
    """A TOML basic string: JSON's escapes are TOML's, but for the delete character."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
