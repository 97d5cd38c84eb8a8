"""Report -> files, each whole or not there; the JSON last, because it names the others."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from fairaudit.atomic import output_error, write_atomically
from fairaudit.report.facts import Artifact
from fairaudit.report.model import Report
from fairaudit.report.to_json import to_json
from fairaudit.report.to_junit import to_junit
from fairaudit.report.to_markdown import to_markdown


class Rendering(NamedTuple):
    """A format of ``--format``: the file it is written to, and its text."""

    file: str
    render: Callable[[Report], str]


JSON = "json"
RENDERINGS: Mapping[str, Rendering] = {
    "md": Rendering("report.md", to_markdown),
    "junit": Rendering("report.junit.xml", to_junit),
}


FORMATS = (JSON, *RENDERINGS)


def rendered(report: Report, name: str) -> str:
    """The report's text in one of :data:`FORMATS`."""
    return to_json(report) if name == JSON else RENDERINGS[name].render(report)


def write_report(report: Report, out: Path, formats: Sequence[str]) -> Report:
    """Write ``report.*`` into ``out``.

    Args:
        report: What to write. out: The directory, made where there is none.
        formats: Of ``json`` and the renderings.

    Returns:
        The report with the other files as its artifacts.

    Raises:
        OutputError: The directory is not writable, or the disk is full; old files stay whole.
    """
    try:
        out.mkdir(mode=0o700, parents=True, exist_ok=True)  # reports are not private
    except OSError as error:
        raise output_error(out, error) from error
    artifacts = []
    for name in sorted(set(formats) - {JSON}):
        file, render = RENDERINGS[name]
        content = render(report).encode()
        write_atomically(out / file, content)
        artifacts.append(Artifact(path=file, sha256=hashlib.sha256(content).hexdigest()))
    written = report.model_copy(update={"artifacts": tuple(artifacts)})
    if JSON in formats:
        write_atomically(out / f"report.{JSON}", to_json(written).encode())
    return written


def report_paths(out: Path, formats: Sequence[str]) -> list[Path]:
    """Where :func:`write_report` puts its files, the JSON first."""
    others = [RENDERINGS[name].file for name in sorted(set(formats) - {JSON})]
    return [out / file for file in ([f"report.{JSON}"] if JSON in formats else []) + others]
