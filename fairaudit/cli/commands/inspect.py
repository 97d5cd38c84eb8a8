"""``fairaudit inspect``."""

import json
from dataclasses import asdict
from typing import Annotated

import typer

from fairaudit.config.value_sources import resolve_config


def inspect(
    data: Annotated[
        str, typer.Argument(help="Table or images to look at; a file, folder or glob.", metavar="DATA")
    ],
    group: Annotated[
        list[str] | None, typer.Option(help="Column whose groups would be compared; repeat.", metavar="COL")
    ] = None,
    label: Annotated[str | None, typer.Option(help="Column to predict.", metavar="COL")] = None,
    positive: Annotated[
        str | None, typer.Option(help="The label that rates are about.", metavar="VALUE")
    ] = None,
    favourable: Annotated[
        str | None, typer.Option(help="The label that people want.", metavar="VALUE")
    ] = None,
    resize: Annotated[
        str | None, typer.Option(help="Scale all images to one size.", metavar="HxW", show_default=False)
    ] = None,
    skip_bad_images: Annotated[
        bool, typer.Option("--skip-bad-images", help="Leave out unreadable images.", show_default=False)
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the answer as JSON.", show_default=False)
    ] = False,
) -> None:
    """Show what is in a table or a folder of images and what `run` would do."""
    outcomes = {"positive": positive, "favourable": favourable}
    images = {"resize": resize, "skip_bad_images": skip_bad_images}
    resolved = resolve_config({"data": data, "group": group, "label": label, **outcomes, **images})
    # Imported here: `--help` must not wait for pandas and pyarrow.
    from fairaudit.cli.console import Screen
    from fairaudit.cli.lines import inspection_lines, notice_lines
    from fairaudit.cli.printing import print_stdout
    from fairaudit.data.inspection import describe
    from fairaudit.planning.plan import make_plan

    inspection = describe(resolved.config, make_plan)
    if as_json:
        print_stdout(
            [json.dumps(asdict(inspection), sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False)]
        )
        return
    print_stdout(inspection_lines(inspection))
    Screen().lines(notice_lines(inspection.notices))
