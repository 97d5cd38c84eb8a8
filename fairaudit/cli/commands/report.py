"""``fairaudit report``."""

from pathlib import Path
from typing import Annotated

import typer

from fairaudit.cli.run_options import STDOUT, folder, formats


def report(
    stored: Annotated[
        Path, typer.Argument(help="Report JSON written by `fairaudit run`; - reads stdin.", metavar="REPORT")
    ],
    form: Annotated[
        list[str] | None,
        typer.Option(
            "--format", help="Kind of file; repeat, or separate by commas (default: md).", metavar="NAME"
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder to write to (default: that of the report); - prints one text.",
            metavar="DIR",
            parser=folder,
        ),
    ] = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Say nothing but errors.", show_default=False)
    ] = False,
) -> None:
    """Write a stored report in other formats; nothing is trained."""
    # Imported here: `--help` must not wait for the report's models.
    from fairaudit.cli.console import Screen
    from fairaudit.cli.printing import print_stdout
    from fairaudit.io.atomic import refuse_unusable
    from fairaudit.report.load import STDIN, load_report
    from fairaudit.report.safe_names import plain
    from fairaudit.report.write import FORMATS, TEXTS, rendered, report_paths, write_report

    names = formats(form or ["md"], TEXTS if out == STDOUT else FORMATS)
    if out is not None and out != STDOUT:
        refuse_unusable(out)
    found = load_report(stored)
    if out == STDOUT:
        print_stdout(rendered(found, name).rstrip("\n") for name in names)
        return
    place = out or (Path() if stored == STDIN else stored.parent)
    write_report(found, place, names)
    Screen(quiet=quiet).lines(f"Wrote {plain(str(path), 1000)}" for path in report_paths(place, names))
