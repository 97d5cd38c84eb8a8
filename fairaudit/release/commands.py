"""``fairaudit train`` and ``fairaudit predict``."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from fairaudit.cli.run_options import Quiet


def train(
    report: Annotated[
        Path,
        typer.Option("--from", help="report.json of the audit, or its folder.", metavar="REPORT"),
    ],
    method: Annotated[str, typer.Option(help="Audited method to train.", metavar="NAME")],
    out: Annotated[
        Path, typer.Option(help="Folder to write; it must not be there.", metavar="DIR")
    ],
    epsilon: Annotated[
        float | None, typer.Option(help="Which epsilon of a sweep.", metavar="E")
    ] = None,
    variant: Annotated[
        str | None, typer.Option(help="Which audited form of it.", metavar="NAME")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Where the data lie now.", metavar="PATH")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="module:factory of the audited model of your own, whose code is run.",
            metavar="NAME",
        ),
    ] = None,
    device: Annotated[
        Literal["auto", "cpu", "cuda"],
        typer.Option(help="Where to train; auto: a GPU if there is one."),
    ] = "auto",
    despite_change: Annotated[
        bool, typer.Option("--despite-change", help="Train on other data than were audited.")
    ] = False,
    despite_gates: Annotated[
        bool, typer.Option("--despite-gates", help="Train though a rule does not pass.")
    ] = False,
    accept_fitted_preprocessing: Annotated[
        bool,
        typer.Option(
            "--accept-fitted-preprocessing",
            help="Release scales and levels of undeclared columns, which no epsilon covers.",
        ),
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Train the audited model once for release, with its evidence."""
    # Imported here: `--help` must not wait for pandas and pyarrow.
    from fairaudit.cli.console import Screen
    from fairaudit.release.lines import held_out_lines, plan_lines
    from fairaudit.release.model_folder import refuse_taken
    from fairaudit.release.planned import FITTED, OTHER_DATA, ReleaseRequest, plan_release
    from fairaudit.report.load import report_file
    from fairaudit.report.safe_names import plain

    screen = Screen(quiet=quiet)
    refuse_taken(out)
    given = {
        OTHER_DATA: despite_change,
        "--despite-gates": despite_gates,
        FITTED: accept_fitted_preprocessing,
    }
    request = ReleaseRequest(
        report,
        method,
        variant,
        epsilon,
        data,
        model,
        set_aside=tuple(option for option, is_given in given.items() if is_given),
        out=out,
        device=device,
    )
    plan = plan_release(request)
    screen.lines(plan_lines(plan))
    # After what is refused: torch takes a second to import.
    from fairaudit.release.train import release, write_held_out

    checks = release(plan, out)
    kept = write_held_out(report_file(report), out, checks)
    wrote = f"Wrote {plain(str(out), 1000)}; `fairaudit predict` reads it"
    screen.lines([*held_out_lines(checks, plain(str(kept), 1000)), wrote])


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
    from fairaudit.errors import ConfigError
    from fairaudit.release.lines import prediction_lines
    from fairaudit.release.loaded import load_model, write_predictions
    from fairaudit.report.safe_names import plain

    if out.suffix.lower() not in (".parquet", ".csv"):
        raise ConfigError(
            f"--out {out.name} names no kind of table", hint="end it in .parquet or .csv"
        )
    if out.exists() and data.exists() and out.samefile(data):
        raise ConfigError("--out is the file that is read", hint="name another file")
    predictions = write_predictions(load_model(folder, model=model), data, out)
    screen = Screen(quiet=quiet)
    screen.lines(prediction_lines(len(predictions.probabilities), predictions.inputs))
    screen.lines([f"Wrote {plain(str(out), 1000)}"])


COMMANDS = (train, predict)
