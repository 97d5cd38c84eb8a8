"""Report files, with what is wrong with them said in one line."""

import json
import sys
from collections.abc import Sequence
from glob import escape
from pathlib import Path

from pydantic import JsonValue

from fairaudit.errors import DataError, did_you_mean
from fairaudit.report.coherent import incoherence
from fairaudit.report.model import Report
from fairaudit.report.safe_names import plain
from fairaudit.report.to_json import SEAL, content_sha256, read_report

STDIN = Path("-")
_SHOWN = 4  # reports to choose from in a hint
_DAMAGED = "restore the file that the program wrote, or run it again"


def load_report(path: str | Path) -> Report:
    """The report in a file; ``-`` reads stdin.

    Raises:
        DataError: There is no such file, it cannot be read, it is no report of this version, or not
            as it was written.
    """
    path = Path(path)
    name = "stdin" if path == STDIN else path.name
    if path != STDIN and path.is_dir():
        meant = [path / "report.json"] if (path / "report.json").exists() else _below(path, "report.json")
        hint = _one_of(meant) if meant else "give the report.json of a run"
        raise DataError(f"{path} is a folder", hint=hint)
    try:
        content = sys.stdin.buffer.read() if path == STDIN else path.read_bytes()
    except FileNotFoundError:
        raise _missing(path) from None
    except OSError as error:
        raise DataError(f"{name} cannot be read: {(error.strerror or str(error)).lower()}") from None
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        raise DataError(f"{name} is not UTF-8 text", hint="give the report.json of a run") from None
    return vetted(text, name=name)


def vetted(text: str, *, name: str) -> Report:
    """The report in a text, as a program wrote it: no key twice, no contradiction, nothing changed.

    Args:
        text: The file's content.
        name: What to call the file in an error.

    Raises:
        DataError: It is none, or damaged.
    """

    def each_once(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
        keys = [key for key, _ in pairs]
        if len(set(keys)) < len(keys):  # which of its values counts would be anybody's guess
            key = plain(next(key for key in keys if keys.count(key) > 1), 80)
            raise DataError(f"{name} is damaged: key {key} stands there twice", _DAMAGED)
        return dict(pairs)

    report = read_report(text, name=name)
    content = json.loads(text, object_pairs_hook=each_once)
    complaint = incoherence(report)
    if complaint:
        raise DataError(f"{name} is damaged: {plain(complaint, 300)}", _DAMAGED)
    is_sealed = content.get("schema_version") != 1  # which wrote no digest
    if is_sealed and content_sha256(content) != report.content_sha256:
        raise DataError(f"{name} is not as it was written: its {SEAL} is of another content", _DAMAGED)
    return report


def _missing(path: Path) -> DataError:
    folder = path.parent
    if not folder.is_dir():
        return DataError(f"there is no folder {str(folder)!r}", hint="`fairaudit run` writes report.json")
    if below := _below(folder, path.name):
        return DataError(f"there is no report {str(path)!r}", hint=_one_of(below))
    beside = sorted(p.name for p in folder.glob("*.json"))
    aside = f"{path.stem}.previous{path.suffix}"
    if aside in beside:
        return DataError(
            f"there is no report {str(path)!r}", hint=f"the last run wrote none; {aside} is of an earlier one"
        )
    hint = did_you_mean(path.name, beside) if beside else "`fairaudit run` writes report.json"
    return DataError(f"there is no report {str(path)!r}", hint=hint)


def _below(folder: Path, name: str) -> list[Path]:
    """Files of that name in the folders of a folder: each data set's report has one of its own."""
    return sorted(found for found in folder.glob(f"*/{escape(name)}") if found.is_file())


def _one_of(paths: Sequence[Path]) -> str:
    shown = " or ".join(repr(str(path)) for path in paths[:_SHOWN])
    more = f" ({len(paths) - _SHOWN:,} more)" if len(paths) > _SHOWN else ""
    return f"did you mean {shown}{more}?"
