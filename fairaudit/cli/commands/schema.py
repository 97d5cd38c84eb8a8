"""``fairaudit schema``."""

from enum import StrEnum
from typing import Annotated

import typer


class Of(StrEnum):
    """Files that have a schema."""

    REPORT = "report"
    CHOICE = "choice"


def schema(of: Annotated[Of, typer.Argument(help="Of report.json or of choice.json.")] = Of.REPORT) -> None:
    """Print the JSON schema of a report, or of a choice."""
    # Imported here: `--help` must not wait for pandas.
    from fairaudit.choosing.result import Choice
    from fairaudit.cli.printing import print_stdout
    from fairaudit.report.model import Report
    from fairaudit.report.to_json import schema_json

    print_stdout([schema_json(Choice if of is Of.CHOICE else Report).rstrip("\n")])
