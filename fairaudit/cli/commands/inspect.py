"""``fairaudit inspect``."""

import json
from dataclasses import asdict
from typing import Annotated

import typer

from fairaudit.layers import resolve_config


def inspect(
    data: Annotated[str, typer.Argument(help="Table to look at: csv, parquet or feather.")],
    group: Annotated[
        list[str] | None, typer.Option(help="Column whose groups would be compared; repeat.")
    ] = None,
    label: Annotated[str | None, typer.Option(help="Column to predict.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the answer as JSON.", show_default=False)
    ] = False,
) -> None:
    """Show what is in a table and what `run` would do."""
    resolved = resolve_config({"data": data, "group": group, "label": label})
    # Imported here: `--help` must not wait for pandas and pyarrow.
    from fairaudit.cli.console import Screen, answer
    from fairaudit.cli.lines import notice_lines
    from fairaudit.cli.lines_inspect import inspection_lines
    from fairaudit.data.inspect import describe

    inspection = describe(resolved.config)
    if as_json:
        answer(
            [json.dumps(asdict(inspection), sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False)]
        )
        return
    answer(inspection_lines(inspection))
    Screen().lines(notice_lines(inspection.notices))
