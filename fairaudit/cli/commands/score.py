"""``fairaudit score``."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from fairaudit.cli.run_options import (
    AsJson,
    Baseline,
    CountsAs,
    Favourable,
    Formats,
    Groups,
    Positive,
    Quiet,
    Rules,
)
from fairaudit.config.options import data_name
from fairaudit.config.value_sources import parse_pairs, resolve_config

HOME = "fairaudit-score"


def score(
    data: Annotated[str, typer.Argument(help="Table of predictions.", metavar="PREDICTIONS")],
    y_true: Annotated[str, typer.Option(help="Column of what was true.", metavar="COL")],
    y_pred: Annotated[str, typer.Option(help="Predicted class or probability.", metavar="COL")],
    group: Groups,
    baseline_pred: Annotated[
        str | None, typer.Option(help="The same of what to compare with.", metavar="COL")
    ] = None,
    positive: Positive = None,
    favourable: Favourable = None,
    intersect: Annotated[
        bool, typer.Option("--intersect", help="Also compare intersections.")
    ] = False,
    bins: Annotated[
        list[str] | None,
        typer.Option("--bin", help="Cut a numeric group; repeat.", metavar="COL=EDGES|qN"),
    ] = None,
    seed_column: Annotated[
        str | None, typer.Option(help="Column of seeds (default: seed).", metavar="COL")
    ] = None,
    row_column: Annotated[
        str | None, typer.Option(help="Column that identifies a row in all seeds.", metavar="COL")
    ] = None,
    suppress_below: Annotated[
        str, typer.Option(help="Hide groups of fewer rows.", metavar="N")
    ] = "0",
    out: Annotated[
        str | None,
        typer.Option(
            help=f"Folder of the report (default: {HOME}/NAME, after the data).", metavar="DIR"
        ),
    ] = None,
    form: Formats = None,
    fail_on: Annotated[list[str] | None, Rules] = None,
    baseline: Annotated[str | None, Baseline] = None,
    inconclusive: CountsAs = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Measure predictions of your own by group; nothing is trained."""
    given = {
        "data": data,
        "label": y_true,
        "group": group,
        "positive": positive,
        "favourable": favourable,
        "intersect": intersect,
        "bin": parse_pairs(bins or [], "bin"),
        "suppress_below": suppress_below,
        "out": Path(HOME, data_name(Path(data))) if out is None else out,
        "format": form,
        "fail_on": fail_on,
        "baseline": baseline,
        "inconclusive": inconclusive,
    }
    shared = resolve_config(given).config
    # Imported here: `--help` must not wait for numpy and pyarrow.
    from fairaudit.cli.console import Screen
    from fairaudit.cli.lines import score_lines
    from fairaudit.cli.lines_gate import tell_github, verdict_lines
    from fairaudit.cli.printing import print_stdout
    from fairaudit.gate.check import exit_code
    from fairaudit.report.to_json import to_json
    from fairaudit.score import ScoreConfig
    from fairaudit.score import score as measure_and_write

    scored = ScoreConfig(shared, y_pred, baseline_pred, seed_column, row_column)
    report = measure_and_write(scored, command=["fairaudit", *sys.argv[1:]])
    screen = Screen(quiet=quiet)
    screen.lines(score_lines(report, shared))
    if as_json:
        print_stdout([to_json(report).rstrip("\n")])
    screen.lines(verdict_lines(report, shared.inconclusive))
    tell_github(report, shared.inconclusive)
    raise typer.Exit(exit_code(report, shared.inconclusive))
