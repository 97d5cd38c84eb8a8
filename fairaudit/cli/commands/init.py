"""``fairaudit init``."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from fairaudit.cli.run_options import Groups, Label
from fairaudit.config.option_words import words_of
from fairaudit.config.value_sources import resolve_config


def init(
    data: Annotated[str, typer.Argument(help="Table to audit.", metavar="DATA")],
    columns: Annotated[  # the only kind of file so far
        bool,
        typer.Option(
            "--columns", help="Write what `run --columns` reads: the features and their values."
        ),
    ],
    group: Groups = None,
    label: Label = None,
    out: Annotated[Path, typer.Option(help="File to write.", metavar="FILE")] = Path(
        "columns.toml"
    ),
    force: Annotated[bool, typer.Option("--force", help="Write over an existing file.")] = False,
) -> None:
    """Write a columns.toml to start from, with what is in the data."""
    resolved = resolve_config({"data": data, "group": group, "label": label})
    # Imported here: `--help` must not wait for pandas and pyarrow.
    from fairaudit.cli.config_template import columns_file, write_template
    from fairaudit.cli.console import Screen
    from fairaudit.data.tabular import load_dataset
    from fairaudit.errors import ConfigError
    from fairaudit.report.safe_names import plain

    dataset = load_dataset(resolved.config)
    if dataset.image_shape is not None:
        raise ConfigError("nothing is learned of images: there are no columns to declare")
    write_template(out, columns_file(dataset), force=force)
    words = ["fairaudit", "run", *words_of("data", data), *words_of("group", group or ["COL"])]
    if label is not None:
        words += words_of("label", label)
    command = plain(shlex.join([*words, *words_of("columns", out)]), 1000)
    wrote = f"Wrote {plain(str(out), 1000)}; replace its placeholders"
    Screen().lines([f"{wrote}, then `{command}`"])
