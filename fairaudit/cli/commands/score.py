"""``fairaudit score``: long by its options alone."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from fairaudit.config.options import data_name
from fairaudit.config.value_sources import parse_pairs, resolve_config

HOME = "fairaudit-score"

Columns = Annotated[
    list[str],
    typer.Option(help="Predicted class, or its probability; repeat for seeds.", metavar="COL"),
]
Baselines = Annotated[
    list[str] | None, typer.Option(help="The same of models to compare with; repeat.", metavar="COL")
]
Groups = Annotated[list[str], typer.Option(help="Column of groups; repeat.", metavar="COL")]
Bins = Annotated[
    list[str] | None, typer.Option("--bin", help="Cut a numeric group; repeat.", metavar="COL=EDGES|qN")
]
Formats = Annotated[
    list[str] | None, typer.Option("--format", help="Kinds of report file, as for `run`.", metavar="KIND,...")
]
Rules = Annotated[
    list[str] | None, typer.Option(help="Failing condition, as 'tpr_gap > 0.1'; repeat.", metavar="RULE")
]
CountsAs = Annotated[
    str | None, typer.Option(help="What an inconclusive rule counts as; else exit 3.", metavar="fail|pass")
]


Table = Annotated[
    str,
    typer.Argument(
        help="Table of predictions, or a folder of one per seed.", metavar="PREDICTIONS", show_default=False
    ),
]
SeedColumn = Annotated[
    str | None, typer.Option(help="Column of seeds (default: seed; of a folder, its files).", metavar="COL")
]
RowColumn = Annotated[
    str | None, typer.Option(help="Column that identifies a row in all seeds.", metavar="COL")
]
Out = Annotated[
    str | None,
    typer.Option(help=f"Folder of the report (default: {HOME}/NAME, after the data).", metavar="DIR"),
]
PositiveLabel = Annotated[
    str | None, typer.Option(help="The label that rates and probabilities are about.", metavar="VALUE")
]
FavourableLabel = Annotated[str | None, typer.Option(help="The label that people want.", metavar="VALUE")]


def score(
    data: Table,
    y_true: Annotated[str, typer.Option(help="Column of what was true.", metavar="COL")],
    y_pred: Columns,
    group: Groups,
    baseline_pred: Baselines = None,
    positive: PositiveLabel = None,
    favourable: FavourableLabel = None,
    intersect: Annotated[bool, typer.Option("--intersect", help="Also compare intersections.")] = False,
    bins: Bins = None,
    seed_column: SeedColumn = None,
    row_column: RowColumn = None,
    suppress_below: Annotated[str, typer.Option(help="Hide groups of fewer rows.", metavar="N")] = "0",
    out: Out = None,
    form: Formats = None,
    fail_on: Rules = None,
    baseline: Annotated[str | None, typer.Option(help="Earlier report.", metavar="REPORT")] = None,
    inconclusive: CountsAs = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON on stdout.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")] = False,
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

    scored = ScoreConfig(shared, tuple(y_pred), tuple(baseline_pred or ()), seed_column, row_column)
    report = measure_and_write(scored, command=["fairaudit", *sys.argv[1:]])
    screen = Screen(quiet=quiet)
    screen.lines(score_lines(report, shared))
    if as_json:
        print_stdout([to_json(report).rstrip("\n")])
    screen.lines(verdict_lines(report, shared.inconclusive))
    tell_github(report, shared.inconclusive)
    raise typer.Exit(exit_code(report, shared.inconclusive))
