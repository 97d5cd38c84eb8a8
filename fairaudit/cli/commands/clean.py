"""``fairaudit clean``."""

from pathlib import Path
from typing import Annotated

import typer

from fairaudit.cli.choices import folder
from fairaudit.config.options import OUT


def clean(
    out: Annotated[
        Path,
        typer.Argument(
            help=f"The --out of a run, or a folder with one in it (default: {OUT}).",
            metavar="DIR",
            show_default=False,
            parser=folder,
        ),
    ] = Path(OUT),
) -> None:
    """Remove the finished trainings of a run; its reports stay."""
    # Imported here: `--help` must not wait for numpy and pyarrow.
    from fairaudit.cli.lines import spoken_trainings
    from fairaudit.cli.streams import answer
    from fairaudit.execution import run_directory as rundir
    from fairaudit.report.names import plain

    found = rundir.only_rundir(out)
    answer([f"Removed {spoken_trainings(*rundir.clean(found))} from {plain(str(found / 'jobs'), 1000)}"])
