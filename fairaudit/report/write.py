"""Report -> files, each whole or not there; the JSON last, because it names the others."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from fairaudit.atomic import write_atomically
from fairaudit.report.facts import Artifact
from fairaudit.report.model import Report
from fairaudit.report.to_json import to_json
from fairaudit.report.to_markdown import to_markdown

_JSON = "json"
_RENDERINGS: Mapping[str, Callable[[Report], str]] = {"md": to_markdown}


def write_report(report: Report, out: Path, formats: Sequence[str]) -> Report:
    """Write ``report.*`` into ``out``.

    Args:
        report: What to write. out: An existing directory.
        formats: Of ``json`` and the renderings.

    Returns:
        The report with the other files as its artifacts.

    Raises:
        OutputError: The directory is not writable, or the disk is full; old files stay whole.
    """
    artifacts = []
    for name in sorted(set(formats) - {_JSON}):
        path = out / f"report.{name}"
        content = _RENDERINGS[name](report).encode()
        write_atomically(path, content)
        artifacts.append(Artifact(path=path.name, sha256=hashlib.sha256(content).hexdigest()))
    written = report.model_copy(update={"artifacts": tuple(artifacts)})
    if _JSON in formats:
        write_atomically(out / f"report.{_JSON}", to_json(written).encode())
    return written


def report_paths(out: Path, formats: Sequence[str]) -> list[Path]:
    """Where :func:`write_report` puts its files, the JSON first."""
    return [out / f"report.{name}" for name in sorted(set(formats), key=lambda n: (n != _JSON, n))]
