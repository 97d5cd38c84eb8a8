"""``fairaudit score``."""

import csv
from collections.abc import Mapping
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
    table = _table_to_score(
        data,
        real,
        synthetic,
        {
            "PREDICTIONS": data,
            "--y-pred": y_pred,
            "--baseline-pred": baseline_pred,
            "--classes": classes,
            "--seed-column": seed_column,
            "--row-column": row_column,
        },
    )
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
    from fairaudit.cli.lines_gate import tell_github, verdict_lines
    from fairaudit.cli.printing import print_stdout
    from fairaudit.cli.scored import measured, trained_on_synthetic
    from fairaudit.gate.check import exit_code
    from fairaudit.report.to_json import to_json

    screen = Screen(quiet=quiet)
    if synthetic is not None:
        report = trained_on_synthetic(resolved, screen)
    else:
        from fairaudit.score import ScoreConfig

        scored = ScoreConfig(
            shared, y_pred or "", baseline_pred, seed_column, row_column, _class_names(classes)
        )
        report = measured(scored, screen)
    if as_json:
        print_stdout([to_json(report).rstrip("\n")])
    screen.lines(verdict_lines(report, shared.inconclusive))
    tell_github(report, shared.inconclusive)
    raise typer.Exit(exit_code(report, shared.inconclusive))


def _table_to_score(
    predictions: str | None,
    real: str | None,
    synthetic: str | None,
    of_predictions: Mapping[str, str | None],
) -> str:
    """The table that is measured: of predictions, or the real one of a synthetic table.

    Args:
        predictions, real, synthetic: As they were given.
        of_predictions: What is about a table of predictions, by its name, as it was given.

    Raises:
        ConfigError: Neither or both are named, or one that does not go with the other.
    """
    table = real if synthetic else predictions
    if table is None or (synthetic is None) != (real is None):
        raise ConfigError(
            "nothing to score", "name a table of predictions, or --synthetic FILE --data FILE"
        )
    given = [name for name, value in of_predictions.items() if value is not None]
    if synthetic is not None and given:
        raise ConfigError(f"--synthetic does not read {given[0]}", "leave it out")
    return table


def _class_names(classes: str | None) -> tuple[str, ...]:
    """The names of ``--classes``, of which one that holds a comma stands in double quotes."""
    if not classes:
        return ()
    return tuple(name.strip() for name in next(csv.reader([classes], skipinitialspace=True)))
