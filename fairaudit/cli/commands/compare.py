"""``fairaudit compare``."""

from pathlib import Path
from typing import Annotated

import typer

from fairaudit.cli.run_options import AsJson


def compare(
    before: Annotated[
        Path, typer.Argument(help="Report JSON of the earlier audit.", metavar="BEFORE")
    ],
    after: Annotated[Path, typer.Argument(help="Report JSON of the later audit.", metavar="AFTER")],
    other_data: Annotated[
        bool, typer.Option("--other-data", help="Compare reports of different data.")
    ] = False,
    every: Annotated[
        bool, typer.Option("--all", help="Show every number, changed or not.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show what differs between two reports, and which changes exceed their intervals."""
    # Imported here: `--help` must not wait for the report's models.
    from fairaudit.cli.lines_compare import change_lines
    from fairaudit.cli.printing import print_stdout
    from fairaudit.gate.comparison import compare_reports
    from fairaudit.report.load import load_report
    from fairaudit.report.to_json import part_json

    changes = compare_reports(load_report(before), load_report(after), other_data=other_data)
    print_stdout(
        [part_json(changes).rstrip("\n")] if as_json else change_lines(changes, every=every)
    )
