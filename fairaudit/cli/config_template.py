"""A ``columns.toml`` to start from: what ``run --columns`` reads, with placeholders to fill in."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from fairaudit.config.declared import MOST_CATEGORIES, PLACEHOLDER
from fairaudit.data.column_types import encode_levels, kind_of, numeric_values
from fairaudit.data.dataset import Dataset
from fairaudit.errors import OutputError, numbered
from fairaudit.io.atomic import write_atomically
from fairaudit.report.safe_names import plain


def columns_file(dataset: Dataset) -> str:
    """The text of a ``columns.toml``: a placeholder for all that has to be said of each feature.

    What the rows hold stands beside it as a comment. The file is refused until every placeholder
    is replaced.
    """
    lines = [
        f"# Columns of {plain(dataset.name, 80)}, for `fairaudit run --columns`.",
        "# What stands here is taken as publicly known, and nothing about these columns is "
        "learned of rows:",
        f'# write each "{PLACEHOLDER}" yourself, by a code book, a form, a sensor\'s range. What '
        "your rows hold",
        "# stands beside it as a comment; it is not public.",
        '# A number beyond its range counts as its nearer end; with outside = "missing" it is '
        "missing.",
        "# missing = VALUE stands in for a missing value. A text that is not listed counts as "
        "missing.",
    ]
    for name in dataset.features.column_names:
        lines += ["", *_column(name, dataset.features.column(name))]
    return "\n".join(lines) + "\n"


def write_template(path: Path, text: str, *, force: bool) -> None:
    """Write the text to a file; ``force``: also where a file of that name exists.

    Raises:
        OutputError: There is a file already, or it cannot be written.
    """
    if path.exists() and not force:
        raise OutputError(f"{path} exists", hint="--force writes over it, --out names another file")
    write_atomically(path, text.encode())


def _column(name: str, column: pa.ChunkedArray) -> Iterator[str]:
    """The TOML table of one column, as lines.

    What the rows hold stands in comments alone, so that nothing about them is declared public.
    """
    kind = kind_of(column.type)
    yield f"[{_toml_string(name)}]"
    blank = _toml_string(PLACEHOLDER)  # for the user to replace
    if kind == "number":
        values = numeric_values(column)
        low, high = float(np.nanmin(values)), float(np.nanmax(values))
        yield 'kind = "number"'
        yield f"range = [{blank}, {blank}]  # your rows: {low!r} to {high!r}"
        yield (
            "# centre = and spread = say where most values lie; by default the whole range "
            "counts alike"
        )
    else:
        levels = encode_levels(column).names[:MOST_CATEGORIES]
        yield 'kind = "category"'
        yield f"categories = [{blank}]  # your rows: {', '.join(map(_toml_string, levels))}"
    if kind == "number" and column.null_count:
        yield f"missing = {blank}  # {numbered(column.null_count, 'row lacks', 'rows lack')} it"
    else:
        yield "# missing ="


def _toml_string(value: str) -> str:
    """The text as a quoted TOML string: JSON's escapes are TOML's, but for the delete character."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
