"""``fairaudit report``."""

from pathlib import Path
from typing import Annotated

import typer

from fairaudit.cli.run_options import Formats, Quiet, StoredReports
from fairaudit.errors import ConfigError, did_you_mean

STDOUT = Path("-")


def report(
    stored: StoredReports,
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
    """Write a stored report in other formats, or several as one table; nothing is trained.

    Without --format it is Markdown. A table of several goes to stdout, as Markdown or as JSON.
    """
    # Imported here: `--help` must not wait for the report's models.
    from fairaudit.cli.console import Screen
    from fairaudit.cli.printing import print_stdout
    from fairaudit.io.atomic import refuse_unusable
    from fairaudit.report.load import STDIN, load_report, report_file
    from fairaudit.report.safe_names import plain
    from fairaudit.report.write import FORMATS, TEXTS, rendered, report_paths, write_report

    if len(stored) > 1:
        _print_table(stored, form or ["md"], out)
        return
    kinds = TEXTS if out == STDOUT else FORMATS
    names = list(dict.fromkeys(",".join(form or ["md"]).replace(" ", "").split(",")))
    for name in names:
        if name not in kinds:
            raise ConfigError(f"unknown format {name!r}", hint=did_you_mean(name, kinds))
    if out is not None and out != STDOUT:
        refuse_unusable(out)
    (path,) = stored
    loaded = load_report(path)
    if out == STDOUT:
        print_stdout(rendered(loaded, name).rstrip("\n") for name in names)
        return
    place = out or (Path() if path == STDIN else report_file(path).parent)
    write_report(loaded, place, names)
    Screen(quiet=quiet).lines(
        f"Wrote {plain(str(path), 1000)}" for path in report_paths(place, names)
    )


def _print_table(paths: list[Path], forms: list[str], out: Path | None) -> None:
    """Print one table of several reports.

    Args:
        paths: The reports, or their folders.
        forms: The formats asked for: one of ``md`` and ``json``.
        out: None or ``-``, for the table goes to stdout.

    Raises:
        ConfigError: Another format or a folder to write to is asked for, or a report stands twice.
    """
    from fairaudit.cli.printing import print_json, print_stdout
    from fairaudit.report.batch import batch_rows, batch_table
    from fairaudit.report.load import load_report
    from fairaudit.report.render.markdown import lines_of

    if out not in (None, STDOUT):
        raise ConfigError(
            "a table of several reports goes to stdout", hint="leave --out away and write > FILE"
        )
    if len(forms) > 1 or forms[0] not in ("md", "json"):
        raise ConfigError("a table of several reports is md or json", hint="--format md")
    named = {_name(path): path for path in paths}
    if len(named) < len(paths):
        raise ConfigError("a report is given twice")
    reports = {name: load_report(path) for name, path in named.items()}
    if forms == ["json"]:
        print_json(list(batch_rows(reports)))
    else:
        print_stdout(lines_of([batch_table(reports)]))


def _name(path: Path) -> str:
    """What a report is called: its folder, where it has the name that `run` gives it."""
    from fairaudit.report.load import report_file

    path = report_file(path)
    return str(path.parent) if path.name == "report.json" else str(path)
