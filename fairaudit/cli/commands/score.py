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

HOME = "fairaudit-score"  # the folder of all scorings, each in one that is named after its data

Predictions = Annotated[
    str | None, typer.Argument(help="Table of predictions.", metavar="PREDICTIONS")
]
YTrue = Annotated[str | None, typer.Option(help="Column of what was true.", metavar="COL")]
YPred = Annotated[str | None, typer.Option(help="Predicted class or probability.", metavar="COL")]
Synthetic = Annotated[
    str | None,
    typer.Option(help="A synthetic table, to be measured against --data.", metavar="FILE"),
]
Real = Annotated[
    str | None, typer.Option("--data", help="The real table of --synthetic.", metavar="FILE")
]
BaselinePred = Annotated[
    str | None, typer.Option(help="The same of what to compare with.", metavar="COL")
]
Classes = Annotated[
    str | None,
    typer.Option(
        help="Classes in the order of several columns of probabilities, where their names do not "
        "say them.",
        metavar="A,B,..",
    ),
]
Intersect = Annotated[bool, typer.Option("--intersect", help="Also compare intersections.")]
Bins = Annotated[
    list[str] | None,
    typer.Option("--bin", help="Cut a numeric group; repeat.", metavar="COL=EDGES|qN"),
]
SeedColumn = Annotated[
    str | None, typer.Option(help="Column of seeds (default: seed).", metavar="COL")
]
RowColumn = Annotated[
    str | None, typer.Option(help="Column that identifies a row in all seeds.", metavar="COL")
]
SuppressBelow = Annotated[str, typer.Option(help="Hide groups of fewer rows.", metavar="N")]
Out = Annotated[
    str | None,
    typer.Option(
        help=f"Folder of the report (default: {HOME}/NAME, after the data).", metavar="DIR"
    ),
]
Note = Annotated[
    str | None, typer.Option(help="Words of your own for its readers.", metavar="TEXT")
]


def score(
    group: Groups,
    data: Predictions = None,
    y_true: YTrue = None,
    y_pred: YPred = None,
    synthetic: Synthetic = None,
    real: Real = None,
    baseline_pred: BaselinePred = None,
    classes: Classes = None,
    positive: Positive = None,
    favourable: Favourable = None,
    intersect: Intersect = False,
    bins: Bins = None,
    missing_values: MissingValues = None,
    number_format: NumberFormats = None,
    seed_column: SeedColumn = None,
    row_column: RowColumn = None,
    suppress_below: SuppressBelow = "0",
    out: Out = None,
    form: Formats = None,
    fail_on: Annotated[list[str] | None, Rules] = None,
    baseline: Annotated[str | None, Baseline] = None,
    inconclusive: CountsAs = None,
    note: Note = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Measure predictions of your own, or a synthetic table, by group."""
    about_predictions = {
        "PREDICTIONS": data,
        "--y-pred": y_pred,
        "--baseline-pred": baseline_pred,
        "--classes": classes,
        "--seed-column": seed_column,
        "--row-column": row_column,
    }
    table = _table_to_score(data, real, synthetic, about_predictions)
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
    # Imported here: `--help` must not wait for numpy and pyarrow.
    from fairaudit.cli.console import Screen
    from fairaudit.cli.scored import measured, show_verdict, trained_on_synthetic

    screen = Screen(quiet=quiet)
    if synthetic is not None:
        report = trained_on_synthetic(resolved, screen)
    else:
        from fairaudit.score import ScoreConfig

        scored = ScoreConfig(
            resolved.config,
            y_pred or "",  # "", not given, is refused when the table is scored
            baseline_pred,
            seed_column,
            row_column,
            _class_names(classes),
        )
        report = measured(scored, screen)
    raise typer.Exit(show_verdict(report, resolved.config, screen, as_json=as_json))


def _table_to_score(
    predictions: str | None,
    real: str | None,
    synthetic: str | None,
    of_predictions: Mapping[str, str | None],
) -> str:
    """The table whose rows are measured: of predictions, or the real one beside a synthetic table.

    Args:
        predictions, real, synthetic: Names of files; None: not given.
        of_predictions: Options that only a table of predictions has: name -> value, None where it
            is not given.

    Raises:
        ConfigError: Not one table of predictions, or not both tables; or ``--synthetic`` with an
            option of ``of_predictions``.
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
    """The names in ``--classes``, read as a line of CSV: a name that holds a comma is quoted."""
    if not classes:
        return ()
    return tuple(name.strip() for name in next(csv.reader([classes], skipinitialspace=True)))
