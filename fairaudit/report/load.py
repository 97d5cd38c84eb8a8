"""Report files, with what is wrong with them said in one line."""

import sys
from glob import escape
from pathlib import Path

from fairaudit.errors import DataError, did_you_mean
from fairaudit.io.reading import LARGEST_REPORT, read_file
from fairaudit.report.model import Report
from fairaudit.report.to_json import read_report

STDIN = Path("-")
_SHOWN = 4  # reports to choose from in a hint


def load_report(path: str | Path) -> Report:
    """The report in a file, or in the folder that a run wrote; ``-`` reads stdin.

    Raises:
        DataError: There is no such file, it cannot be read, it is no report of this version, or not
            as it was written.
    """
    path = Path(path)
    content = report_bytes(path)
    return parsed(content, name="stdin" if path == STDIN else report_file(path).name)


def report_file(path: Path) -> Path:
    """The file of a report that is named by itself or by its folder."""
    if path != STDIN and path.is_dir():
        return path / "report.json"
    return path


def report_bytes(path: Path) -> bytes:
    """The bytes of a report's file, at most 128 MiB; of stdin where the path is ``-``.

    Args:
        path: The file, or the folder that a run wrote.

    Raises:
        DataError: There is no such file, it cannot be read or is larger; or stdin is closed.
    """
    if path == STDIN and sys.stdin is None:
        raise DataError("stdin is closed", hint="give the report's path, or pipe it in")
    try:
        path = report_file(path)
        if path != STDIN:
            return read_file(path, LARGEST_REPORT)
        # One byte more than allowed, to see that there is more.
        content = sys.stdin.buffer.read(LARGEST_REPORT + 1)
    except FileNotFoundError:
        raise DataError(
            f"there is no report {str(path)!r}", _hint(path.parent, path.name)
        ) from None
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise DataError(f"{path.name} cannot be read: {reason}") from None
    if len(content) > LARGEST_REPORT:
        raise DataError(f"stdin holds more than {LARGEST_REPORT:,} bytes")
    return content


def parsed(content: bytes, *, name: str) -> Report:
    """The report in the bytes of a file, which an error calls ``name``.

    Raises:
        DataError: It is no report of this version, or not as it was written.
    """
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        raise DataError(f"{name} is not UTF-8 text", hint="give the report.json of a run") from None
    return read_report(text, name=name)


def _hint(folder: Path, name: str) -> str:
    """The hint of an error: which report may have been meant, else how to make one.

    Suggested are the files called ``name`` in the folder and in its own folders, as where each data
    set has a folder with a report; without any, the JSON file in the folder whose name is nearest.
    """
    # Escaped: a name may hold characters that glob reads, as [.
    reports = sorted([*folder.glob(escape(name)), *folder.glob(f"*/{escape(name)}")])
    if reports:
        return f"did you mean {' or '.join(repr(str(path)) for path in reports[:_SHOWN])}?"
    neighbours = sorted(file.name for file in folder.glob("*.json"))
    if neighbours:
        return did_you_mean(name, neighbours)
    return "`fairaudit run` writes report.json"
