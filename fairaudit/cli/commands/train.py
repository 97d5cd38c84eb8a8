"""``fairaudit train``."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from fairaudit.cli.run_options import Quiet


def train(
    report: Annotated[
        Path, typer.Option("--from", help="report.json of the audit.", metavar="REPORT")
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
    with_figures: Annotated[
        bool, typer.Option("--with-figures", help="Put the audit's figures into the card.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Train the audited model once for release, with its evidence."""
    # Imported here: `--help` must not wait for pandas and pyarrow.
    from fairaudit.cli.console import Screen
    from fairaudit.cli.lines_release import choice_lines, held_out_lines
    from fairaudit.release.choice import Wish, choose
    from fairaudit.release.model_folder import refuse_taken
    from fairaudit.report.safe_names import plain

    screen = Screen(quiet=quiet)
    refuse_taken(out)
    wish = Wish(
        report,
        method,
        variant,
        epsilon,
        data,
        model,
        despite_change=despite_change,
        despite_gates=despite_gates,
        fitted=accept_fitted_preprocessing,
        figures=with_figures,
        out=out,
        device=device,
    )
    choice = choose(wish)
    screen.lines(
        choice_lines(choice)
    )  # before torch, which takes a second and is not needed to refuse
    from fairaudit.release.train import keep_beside, release

    found = release(choice, out)
    kept = keep_beside(report, out, found)
    wrote = f"Wrote {plain(str(out), 1000)}; `fairaudit predict` reads it"
    screen.lines([*held_out_lines(found, plain(str(kept), 1000)), wrote])
