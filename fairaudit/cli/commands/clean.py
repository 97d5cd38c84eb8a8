"""``fairaudit clean``."""

from pathlib import Path
from typing import Annotated

import typer

from fairaudit.config import AuditConfig


def clean(
    out: Annotated[
        Path, typer.Argument(help="The --out of a run.", metavar="DIR", show_default=False)
    ] = AuditConfig.model_fields["out"].default,
) -> None:
    """Remove the finished trainings of a run; its reports stay."""
    # Imported here: `--help` must not wait for numpy and pyarrow.
    from fairaudit import rundir
    from fairaudit.cli.lines import spoken_trainings
    from fairaudit.cli.streams import answer

    answer([f"Removed {spoken_trainings(*rundir.clean(out))} from {out / 'jobs'}"])
