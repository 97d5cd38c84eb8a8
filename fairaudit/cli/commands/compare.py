"""``fairaudit compare``."""

from pathlib import Path
from typing import Annotated

import typer

from fairaudit.cli.run_options import AsJson
from fairaudit.errors import ConfigError


def compare(
    before: Annotated[
        Path, typer.Argument(help="Report or folder of the earlier audit.", metavar="REPORT")
    ],
    after: Annotated[
        Path | None, typer.Argument(help="Report or folder of the later audit.", metavar="[AFTER]")
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="METHOD",
            help="Hold every other method of the one report against this one, seed by seed, from "
            "the trainings beside the report.",
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="With --against: where the audited data lie now."),
    ] = None,
    other_data: Annotated[
        bool, typer.Option("--other-data", help="Compare reports of different data.")
    ] = False,
    every: Annotated[
        bool, typer.Option("--all", help="Show every number, changed or not.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show what differs between two reports, or between the methods of one."""
    # Imported here: `--help` must not wait for the report's models.
    if (after is None) == (against is None):
        raise ConfigError(
            "one report is compared by --against METHOD, two without it",
            hint="fairaudit compare REPORT --against dpsgd, or fairaudit compare REPORT AFTER",
        )
    if after is None:
        # `str` for the type checker alone: `against` is given where `after` is not.
        _compare_methods(before, str(against), data, as_json=as_json)
        return
    from fairaudit.cli.lines_compare import change_lines
    from fairaudit.cli.printing import print_stdout
    from fairaudit.gate.comparison import compare_reports
    from fairaudit.report.load import load_report
    from fairaudit.report.to_json import part_json

    changes = compare_reports(load_report(before), load_report(after), other_data=other_data)
    print_stdout(
        [part_json(changes).rstrip("\n")] if as_json else change_lines(changes, every=every)
    )


def _compare_methods(path: Path, against: str, data: Path | None, *, as_json: bool) -> None:
    """Print every other method of a report against one of its methods.

    Args:
        path: The report or its folder.
        against: The one method.
        data: Where the audited data lie now; None: where the report says.
        as_json: Whether to print JSON.
    """
    from fairaudit.against import compare_methods
    from fairaudit.cli.lines_against import pairing_lines
    from fairaudit.cli.printing import print_stdout
    from fairaudit.report.load import load_report, report_file
    from fairaudit.report.to_json import part_json

    report = load_report(path)
    pairings = compare_methods(report, report_file(path).parent, against, data=data)
    print_stdout([part_json(pairings).rstrip("\n")] if as_json else pairing_lines(pairings, report))
