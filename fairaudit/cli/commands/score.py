"""``fairaudit score``."""

import csv
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
    MissingValues,
    NumberFormats,
    Positive,
    Quiet,
    Rules,
)
from fairaudit.config.options import data_name
from fairaudit.config.value_sources import parse_pairs, resolve_config
from fairaudit.errors import ConfigError

HOME = "fairaudit-score"


def score(
    group: Groups,
    data: Annotated[
        str | None, typer.Argument(help="Table of predictions.", metavar="PREDICTIONS")
    ] = None,
    y_true: Annotated[
        str | None, typer.Option(help="Column of what was true.", metavar="COL")
    ] = None,
    y_pred: Annotated[
        str | None, typer.Option(help="Predicted class or probability.", metavar="COL")
    ] = None,
    synthetic: Annotated[
        str | None,
        typer.Option(help="A synthetic table, to be measured against --data.", metavar="FILE"),
    ] = None,
    real: Annotated[
        str | None, typer.Option("--data", help="The real table of --synthetic.", metavar="FILE")
    ] = None,
    baseline_pred: Annotated[
        str | None, typer.Option(help="The same of what to compare with.", metavar="COL")
    ] = None,
    classes: Annotated[
        str | None,
        typer.Option(
            help="Classes in the order of several columns of probabilities, where their names do "
            "not say them.",
            metavar="A,B,..",
        ),
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
    missing_values: MissingValues = None,
    number_format: NumberFormats = None,
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
    note: Annotated[
        str | None, typer.Option(help="Words of your own for its readers.", metavar="TEXT")
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Measure predictions of your own, or a synthetic table, by group."""
    # Either a table of predictions is named, or --synthetic and --data together.
    table = real if synthetic else data
    if table is None or (synthetic is None) != (real is None):
        raise ConfigError(
            "nothing to score", "name a table of predictions, or --synthetic FILE --data FILE"
        )
    unread = {
        "PREDICTIONS": data,
        "--y-pred": y_pred,
        "--baseline-pred": baseline_pred,
        "--classes": classes,
        "--seed-column": seed_column,
        "--row-column": row_column,
    }
    given = [name for name, value in unread.items() if value is not None]
    if synthetic is not None and given:
        raise ConfigError(f"--synthetic does not read {given[0]}", "leave it out")
    options = {
        "data": table,
        "label": y_true,
        "group": group,
        "positive": positive,
        "favourable": favourable,
        "intersect": intersect,
        "bin": parse_pairs(bins or [], "bin"),
        "missing_values": missing_values,
        "number_format": number_format,
        "suppress_below": suppress_below,
        "out": Path(HOME, data_name(Path(table))) if out is None else out,
        "format": form,
        "fail_on": fail_on,
        "baseline": baseline,
        "inconclusive": inconclusive,
        "note": note,
    }
    if synthetic is not None:
        options["synthetic"] = synthetic
    resolved = resolve_config(options)
    shared = resolved.config
    # Imported here: `--help` must not wait for numpy and pyarrow.
    from fairaudit.cli.console import Screen
    from fairaudit.cli.lines import report_line, result_lines, score_lines, warning_lines
    from fairaudit.cli.lines_gate import tell_github, verdict_lines
    from fairaudit.cli.printing import print_stdout
    from fairaudit.gate.check import exit_code
    from fairaudit.report.to_json import to_json

    screen = Screen(quiet=quiet)
    if synthetic is not None:
        from fairaudit.audit import audit

        report = audit(resolved)
        screen.lines(result_lines(report, screen.width), is_result=True)
        screen.lines(warning_lines(report, verbose=False))
        screen.lines([report_line(shared.out, shared.format)])
    else:
        from fairaudit.score import ScoreConfig
        from fairaudit.score import score as measure_and_write

        scored = ScoreConfig(
            shared, y_pred or "", baseline_pred, seed_column, row_column, _listed(classes)
        )
        report = measure_and_write(scored, command=["fairaudit", *sys.argv[1:]])
        screen.lines(score_lines(report, shared, screen.width), is_result=True)
    if as_json:
        print_stdout([to_json(report).rstrip("\n")])
    screen.lines(verdict_lines(report, shared.inconclusive))
    tell_github(report, shared.inconclusive)
    raise typer.Exit(exit_code(report, shared.inconclusive))


def _listed(classes: str | None) -> tuple[str, ...]:
    """The names of ``--classes``, of which one that holds a comma stands in double quotes."""
    if not classes:
        return ()
    return tuple(name.strip() for name in next(csv.reader([classes], skipinitialspace=True)))
