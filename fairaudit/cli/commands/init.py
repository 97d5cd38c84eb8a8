"""``fairaudit init``."""

from pathlib import Path
from typing import Annotated

import typer

from fairaudit.config.value_sources import PROJECT_FILE, resolve_config

COLUMNS_FILE = "columns.toml"


def init(
    data: Annotated[
        str, typer.Argument(help="Table or folder of images to audit.", metavar="DATA", show_default=False)
    ],
    group: Annotated[
        list[str] | None, typer.Option(help="Column whose groups are compared; repeat.", metavar="COL")
    ] = None,
    label: Annotated[str | None, typer.Option(help="Column to predict.", metavar="COL")] = None,
    positive: Annotated[
        str | None, typer.Option(help="The label that rates are about.", metavar="VALUE")
    ] = None,
    favourable: Annotated[
        str | None, typer.Option(help="The label that people want.", metavar="VALUE")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help=f"File to write (default: {PROJECT_FILE}, {COLUMNS_FILE}).",
            metavar="FILE",
            show_default=False,
        ),
    ] = None,
    columns: Annotated[
        bool,
        typer.Option(
            "--columns",
            help="Write what `run --columns` reads: the features and their values.",
            show_default=False,
        ),
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Write over an existing file.", show_default=False)
    ] = False,
) -> None:
    """Write a commented fairaudit.toml, or columns.toml, from what is in the data."""
    outcomes = {"positive": positive, "favourable": favourable}
    resolved = resolve_config({"data": data, "group": group, "label": label, **outcomes})
    # Imported here: `--help` must not wait for pandas and pyarrow.
    from fairaudit.cli.config_template import columns_file, template_file, write_template
    from fairaudit.cli.console import Screen
    from fairaudit.cli.lines import problem_lines
    from fairaudit.data.inspection import describe
    from fairaudit.data.tabular import load_dataset
    from fairaudit.errors import ConfigError
    from fairaudit.report.safe_names import plain

    screen = Screen()
    if columns:
        dataset = load_dataset(resolved.config)
        if dataset.image_shape is not None:
            raise ConfigError("nothing is learned of images: there are no columns to declare")
        out = out or Path(COLUMNS_FILE)
        write_template(out, columns_file(dataset), force=force)
        shown = plain(str(out), 1000)
        screen.lines([f"Wrote {shown}; replace its values, then `fairaudit run --columns {shown}`"])
        return
    inspection = describe(resolved.config)
    out = out or Path(PROJECT_FILE)
    write_template(out, template_file(inspection, resolved.config), force=force)
    screen.lines([f"Wrote {plain(str(out), 1000)}; `fairaudit plan` shows what it would train"])
    screen.lines(problem_lines(inspection))
