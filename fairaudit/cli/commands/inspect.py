"""``fairaudit inspect``."""

from dataclasses import asdict
from typing import Annotated

import typer

from fairaudit.cli.run_options import AsJson, Favourable, Groups, Label, Positive
from fairaudit.config.value_sources import resolve_config


def inspect(
    data: Annotated[
        str, typer.Argument(help="Table or images to look at; a file or a folder.", metavar="DATA")
    ],
    group: Groups = None,
    label: Label = None,
    positive: Positive = None,
    favourable: Favourable = None,
    resize: Annotated[
        str | None, typer.Option(help="Scale all images to one size.", metavar="HxW")
    ] = None,
    pixels: Annotated[
        str | None,
        typer.Option(help="Take a table's pixels as images of that shape.", metavar="HxW[xC]"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what is in a table or a folder of images and what `run` would do."""
    outcomes = {"positive": positive, "favourable": favourable}
    resolved = resolve_config(
        {
            "data": data,
            "group": group,
            "label": label,
            **outcomes,
            "resize": resize,
            "pixels": pixels,
        }
    )
    # Imported here: `--help` must not wait for pandas and pyarrow.
    from fairaudit.cli.console import Screen
    from fairaudit.cli.lines import inspection_lines, notice_lines
    from fairaudit.cli.printing import print_json, print_stdout
    from fairaudit.data.inspection import describe
    from fairaudit.planning.plan import make_plan

    inspection = describe(resolved.config, make_plan)
    if as_json:
        print_json(asdict(inspection))
        return
    print_stdout(inspection_lines(inspection))
    Screen().lines(notice_lines(inspection.notices))
