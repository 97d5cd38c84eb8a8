"""Report -> files, each whole or not there; the JSON last, because it names the others."""

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from fairaudit.errors import OutputError
from fairaudit.io.atomic import output_error, write_atomically
from fairaudit.report.load import report_file
from fairaudit.report.model import Report
from fairaudit.report.render.junit import to_junit
from fairaudit.report.render.markdown import to_markdown
from fairaudit.report.sections.order import document
from fairaudit.report.to_json import to_json
from fairaudit.report.types.facts import Artifact


class Rendering(NamedTuple):
    """A format of ``--format``: the file it is written to, and its text."""

    file: str
    render: Callable[[Report], str]


def _html(report: Report) -> str:
    """The report as one web page."""
    # The module draws charts and takes a second to import: only who asks for a page waits.
    from fairaudit.report.render.html import to_html

    return to_html(report)


JSON, MARKDOWN = "json", "md"
RENDERINGS: Mapping[str, Rendering] = {
    MARKDOWN: Rendering("report.md", to_markdown),
    "html": Rendering("report.html", _html),
    "junit": Rendering("report.junit.xml", to_junit),
}
# One file per chart; the Markdown shows them, SVG where both are asked for.
PICTURES = ("svg", "png")
FIGURES = "figures"  # their folder
DRAWN = frozenset({"html", *PICTURES})  # what charts are drawn for
TEXTS = (JSON, *RENDERINGS)
FORMATS = (*TEXTS, *PICTURES)


def rendered(report: Report, name: str) -> str:
    """The text of a report in the format ``name``, one of :data:`TEXTS`."""
    if name == JSON:
        return to_json(report)
    return RENDERINGS[name].render(report)


def write_report(report: Report, out: Path, formats: Sequence[str]) -> Report:
    """Write ``report.*`` into ``out``.

    Args:
        report: What to write.
        out: The directory, made where there is none.
        formats: Of :data:`FORMATS`.

    Returns:
        The report at full precision, with the other files as its artifacts.

    Raises:
        OutputError: The directory is not writable, the disk is full, or the folder of figures is a
            link; old files stay whole.
    """
    try:
        out.mkdir(mode=0o700, parents=True, exist_ok=True)  # a report is not private
    except OSError as error:
        raise output_error(out, error) from error
    artifacts = []
    shown = report
    if JSON in formats:  # then all files show the numbers as report.json has them, rounded
        shown = Report.model_validate(report.model_dump(mode="json"))
    for file, content in sorted(_files(shown, formats)):  # so that artifacts have one order
        folder = (out / file).parent
        # Through a link pictures would be written outside the output directory.
        if folder.name == FIGURES and folder.is_symlink():
            raise OutputError(f"{folder} is a link", hint="remove it, or choose another --out")
        try:
            folder.mkdir(exist_ok=True)
        except OSError as error:
            raise output_error(folder, error) from error
        write_atomically(out / file, content)
        artifacts.append(Artifact(path=file, sha256=hashlib.sha256(content).hexdigest()))
    written = report.model_copy(update={"artifacts": tuple(artifacts)})
    if JSON in formats:
        write_atomically(out / f"report.{JSON}", to_json(written).encode())
    return written


def put_aside(out: Path) -> None:
    """Rename what an earlier run wrote to ``*.previous.*``, so that no gate judges it by mistake.

    Renaming needs no room, so a full disk loses no report. Figures stay: no program judges them.

    Raises:
        OutputError: The directory is not writable.
    """
    for old in earlier_reports(out):
        try:
            old.replace(_aside(old))
        except OSError as error:
            raise output_error(old, error) from error


def earlier_reports(out: Path) -> list[Path]:
    """The report files that an earlier run left in a directory, the JSON first."""
    names = (f"report.{JSON}", *(rendering.file for rendering in RENDERINGS.values()))
    return [out / name for name in names if os.path.isfile(out / name)]


def earlier_audit(out: Path) -> str:
    """The command of the audit whose report lies in a directory; "" where none can be read."""
    try:
        content = json.loads((out / f"report.{JSON}").read_text("utf-8"))
    except (OSError, ValueError):
        return ""
    command = content.get("reproduce") if isinstance(content, dict) else None
    return command if isinstance(command, str) else ""


def where_put(path: Path, out: Path) -> Path:
    """Where a baseline report lies after a run into ``out``, which puts an earlier report aside.

    Args:
        path: The report before the run, or its folder.
        out: The directory of the run.

    Returns:
        ``report.previous.json``, if ``path`` was ``report.json`` of ``out`` and is there no more;
        else the file itself.
    """
    path = report_file(path)
    ours = out / f"report.{JSON}"
    if not path.exists() and path.resolve() == ours.resolve():
        return _aside(ours)
    return path


def _aside(path: Path) -> Path:
    """The path that a report file is renamed to: ``report.previous.json`` of ``report.json``."""
    stem, _, ending = path.name.partition(".")
    return path.with_name(f"{stem}.previous.{ending}")


def report_paths(out: Path, formats: Sequence[str]) -> list[Path]:
    """Where :func:`write_report` puts its files, the JSON first, the pictures as their folder."""
    files = []
    if JSON in formats:
        files.append(f"report.{JSON}")
    files += [RENDERINGS[name].file for name in sorted(RENDERINGS) if name in formats]
    if set(formats) & set(PICTURES):
        files.append(FIGURES)
    return [out / file for file in files]


def _files(report: Report, formats: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """Every file but the JSON, in any order: its path below the output directory, and content."""
    pictures = [name for name in PICTURES if name in formats]
    for name in set(formats) & set(RENDERINGS):
        text = RENDERINGS[name].render(report)
        if name == MARKDOWN and pictures:
            # The first is SVG where both kinds are asked for.
            text = to_markdown(report, pictures=(FIGURES, pictures[0]))
        yield RENDERINGS[name].file, text.encode()
    if pictures:
        from fairaudit.report.render.html import picture  # takes a second

        for chart in document(report).charts:
            for kind in pictures:
                yield f"{FIGURES}/{chart.name}.{kind}", picture(chart, kind)
