"""``fairaudit clean``."""

from pathlib import Path
from typing import Annotated

import typer


def clean(out: Annotated[Path, typer.Argument(help="The --out of a run.", metavar="DIR")]) -> None:
    """Remove the finished trainings of a run; its reports stay."""
    # Imported here: `--help` must not wait for numpy and pyarrow.
    from fairaudit.cli.lines import trainings_text
    from fairaudit.cli.printing import print_stdout
    from fairaudit.execution import run_directory as rundir
    from fairaudit.report.safe_names import plain

    removed = trainings_text(*rundir.clean(out))
    print_stdout([f"Removed {removed} from {plain(str(out / 'jobs'), 1000)}"])
