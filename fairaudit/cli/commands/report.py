"""``fairaudit report``."""

from pathlib import Path
from typing import Annotated

import typer

from fairaudit.cli.run_options import Formats, Quiet, StoredReport
from fairaudit.errors import ConfigError, did_you_mean

STDOUT = Path("-")


def report(
    stored: StoredReport,
    form: Formats = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder to write to (default: that of the report); - prints one text.",
            metavar="DIR",
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Write a stored report in other formats; nothing is trained.

    Without --format it is Markdown.
    """
    # Imported here: `--help` must not wait for the report's models.
    from fairaudit.cli.console import Screen
    from fairaudit.cli.printing import print_stdout
    from fairaudit.io.atomic import refuse_unusable
    from fairaudit.report.load import STDIN, load_report
    from fairaudit.report.safe_names import plain
    from fairaudit.report.write import FORMATS, TEXTS, rendered, report_paths, write_report

    kinds = TEXTS if out == STDOUT else FORMATS
    names = list(dict.fromkeys(",".join(form or ["md"]).replace(" ", "").split(",")))
    for name in names:
        if name not in kinds:
            raise ConfigError(f"unknown format {name!r}", hint=did_you_mean(name, kinds))
    if out is not None and out != STDOUT:
        refuse_unusable(out)
    loaded = load_report(stored)
    if out == STDOUT:
        print_stdout(rendered(loaded, name).rstrip("\n") for name in names)
        return
    place = out or (Path() if stored == STDIN else stored.parent)
    write_report(loaded, place, names)
    Screen(quiet=quiet).lines(
        f"Wrote {plain(str(path), 1000)}" for path in report_paths(place, names)
    )
