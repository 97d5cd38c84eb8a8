"""``fairaudit train``."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from fairaudit.cli.run_options import folder


def _flag(name: str, text: str) -> Any:  # noqa: ANN401 (typer's own type)
    return typer.Option(name, help=text, show_default=False)


def train(
    report: Annotated[
        Path, typer.Option("--from", help="report.json of the audit.", metavar="REPORT", show_default=False)
    ],
    method: Annotated[str, typer.Option(help="Audited method to train.", metavar="NAME", show_default=False)],
    out: Annotated[
        str, typer.Option(help="Folder to write; it must not be there.", metavar="DIR", show_default=False)
    ],
    epsilon: Annotated[float | None, typer.Option(help="Which epsilon of a sweep.", metavar="E")] = None,
    variant: Annotated[str | None, typer.Option(help="Which audited form of it.", metavar="NAME")] = None,
    data: Annotated[Path | None, typer.Option(help="Where the data lie now.", metavar="PATH")] = None,
    device: Annotated[
        Literal["auto", "cpu", "cuda"], typer.Option(help="Where to train; auto: a GPU if there is one.")
    ] = "auto",
    despite_change: Annotated[
        bool, _flag("--despite-change", "Train on other data than were audited.")
    ] = False,
    despite_gates: Annotated[bool, _flag("--despite-gates", "Train though a rule does not pass.")] = False,
    accept_fitted_preprocessing: Annotated[
        bool,
        _flag(
            "--accept-fitted-preprocessing",
            "Release scales and levels of undeclared columns, which no epsilon covers.",
        ),
    ] = False,
    with_figures: Annotated[bool, _flag("--with-figures", "Put the audit's figures into the card.")] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Say nothing but errors.", show_default=False)
    ] = False,
) -> None:
    """Train the audited model once for release, with its evidence."""
    # Imported here: `--help` must not wait for pandas and pyarrow.
    from fairaudit.cli.console import Screen
    from fairaudit.cli.lines_release import choice_lines, held_out_lines
    from fairaudit.release.choice import Wish, choose
    from fairaudit.release.model_folder import refuse_taken
    from fairaudit.report.safe_names import plain

    screen, target = Screen(quiet=quiet), folder(out)
    refuse_taken(target)
    wish = Wish(
        report,
        method,
        variant,
        epsilon,
        data,
        despite_change=despite_change,
        despite_gates=despite_gates,
        fitted=accept_fitted_preprocessing,
        figures=with_figures,
        out=target,
        device=device,
    )
    choice = choose(wish)
    screen.lines(choice_lines(choice))  # before torch, which takes a second and is not needed to refuse
    from fairaudit.release.train import keep_beside, release

    found = release(choice, target)
    kept = keep_beside(report, target, found)
    wrote = f"Wrote {plain(str(target), 1000)}; `fairaudit predict` reads it"
    screen.lines([*held_out_lines(found, plain(str(kept), 1000)), wrote])
