"""``fairaudit predict``."""

from pathlib import Path
from typing import Annotated

import typer


def predict(
    folder: Annotated[
        Path, typer.Argument(help="Folder that `fairaudit train` wrote.", metavar="MODEL", show_default=False)
    ],
    data: Annotated[
        Path, typer.Option(help="Table or images to predict.", metavar="PATH", show_default=False)
    ],
    out: Annotated[
        Path,
        typer.Option(help="File to write: .parquet or .csv.", metavar="FILE", show_default=False),
    ],
    model: Annotated[
        str | None,
        typer.Option(help="module:factory of a model of your own, whose code is run.", metavar="NAME"),
    ] = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Say nothing but errors.", show_default=False)
    ] = False,
) -> None:
    """Predict rows with a model that `train` wrote."""
    # Imported here: `--help` must not wait for torch.
    from fairaudit.cli.console import Screen
    from fairaudit.cli.lines_release import prediction_lines
    from fairaudit.errors import ConfigError
    from fairaudit.release.loaded import load_model, write_predictions
    from fairaudit.report.safe_names import plain

    if out.suffix.lower() not in (".parquet", ".csv"):
        raise ConfigError(f"--out {out.name} names no kind of table", hint="end it in .parquet or .csv")
    if out.absolute().parent.resolve() == folder.resolve():
        raise ConfigError("--out lies in the model's folder", hint="write predictions elsewhere")
    if out.exists() and data.exists() and out.samefile(data):
        raise ConfigError("--out is the file that is read", hint="name another file")
    rows, found = write_predictions(load_model(folder, model=model), data, out)
    screen = Screen(quiet=quiet)
    screen.lines(prediction_lines(rows, found.outside, found.missing))
    screen.lines([f"Wrote {plain(str(out), 1000)}"])
