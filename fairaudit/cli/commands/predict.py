"""``fairaudit predict``."""

from pathlib import Path
from typing import Annotated

import typer

from fairaudit.cli.run_options import Quiet


def predict(
    folder: Annotated[
        Path, typer.Argument(help="Folder that `fairaudit train` wrote.", metavar="MODEL")
    ],
    data: Annotated[Path, typer.Option(help="Table or images to predict.", metavar="PATH")],
    out: Annotated[Path, typer.Option(help="File to write: .parquet or .csv.", metavar="FILE")],
    model: Annotated[
        str | None,
        typer.Option(
            help="module:factory of a model of your own, whose code is run.", metavar="NAME"
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Predict rows with a model that `train` wrote."""
    # Imported here: `--help` must not wait for torch.
    from fairaudit.cli.console import Screen
    from fairaudit.cli.lines_release import prediction_lines
    from fairaudit.errors import ConfigError
    from fairaudit.release.loaded import load_model, write_predictions
    from fairaudit.report.safe_names import plain

    if out.suffix.lower() not in (".parquet", ".csv"):
        raise ConfigError(
            f"--out {out.name} names no kind of table", hint="end it in .parquet or .csv"
        )
    if out.exists() and data.exists() and out.samefile(data):
        raise ConfigError("--out is the file that is read", hint="name another file")
    rows, found = write_predictions(load_model(folder, model=model), data, out)
    screen = Screen(quiet=quiet)
    screen.lines(prediction_lines(rows, found.outside, found.missing))
    screen.lines([f"Wrote {plain(str(out), 1000)}"])
