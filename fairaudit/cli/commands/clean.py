"""``fairaudit clean``."""

from pathlib import Path
from typing import Annotated

import typer

from fairaudit.config.options import OUT

Folder = Annotated[
    Path, typer.Argument(help="The --out of a run, or a folder with one in it.", metavar="DIR")
]


def clean(out: Folder = Path(OUT)) -> None:
    """Remove the finished trainings of a run; its reports stay."""
    # Imported here: `--help` must not wait for numpy and pyarrow.
    from fairaudit.cli.lines import trainings_text
    from fairaudit.cli.printing import print_stdout
    from fairaudit.execution import run_directory as rundir
    from fairaudit.report.safe_names import plain

    found = rundir.only_rundir(out)
    print_stdout(
        [f"Removed {trainings_text(*rundir.clean(found))} from {plain(str(found / 'jobs'), 1000)}"]
    )
