"""Report files, with what is wrong with them said in one line."""

import sys
from pathlib import Path

from fairaudit.errors import DataError, did_you_mean
from fairaudit.report.model import Report
from fairaudit.report.to_json import read_report

STDIN = Path("-")


def load_report(path: Path) -> Report:
    """The report in a file; ``-`` reads stdin.

    Raises:
        DataError: There is no such file, it cannot be read, or it is no report of this version.
    """
    name = "stdin" if path == STDIN else path.name
    if path != STDIN and path.is_dir():
        raise DataError(f"{path} is a folder", hint=f"did you mean {str(path / 'report.json')!r}?")
    try:
        content = sys.stdin.buffer.read() if path == STDIN else path.read_bytes()
    except FileNotFoundError:
        raise _missing(path) from None
    except OSError as error:
        raise DataError(f"{name} cannot be read: {(error.strerror or str(error)).lower()}") from None
    return read_report(_decoded(content, name), name=name)


def _missing(path: Path) -> DataError:
    folder = path.parent
    if not folder.is_dir():
        return DataError(f"there is no folder {str(folder)!r}", hint="`fairaudit run` writes report.json")
    beside = sorted(p.name for p in folder.glob("*.json"))
    hint = did_you_mean(path.name, beside) if beside else "`fairaudit run` writes report.json"
    return DataError(f"there is no report {str(path)!r}", hint=hint)


def _decoded(content: bytes, name: str) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise DataError(f"{name} is not UTF-8 text", hint="give the report.json of a run") from None
