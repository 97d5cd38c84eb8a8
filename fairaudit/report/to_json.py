"""Report -> JSON text and back; JSON schema."""

import hashlib
import json
from collections.abc import Mapping

from pydantic import JsonValue, ValidationError

from fairaudit.errors import DataError
from fairaudit.report.model import SCHEMA_VERSION, VOLATILE, Report
from fairaudit.report.older import upgraded
from fairaudit.report.safe_names import plain
from fairaudit.results.numbers import Part

SEAL = "content_sha256"


def to_json(report: Report) -> str:
    """The report as text: sorted keys, six digits, bounds rounded outward, no NaN literals."""
    content = report.model_dump(mode="json")
    return _text({**content, SEAL: content_sha256(content)})


def content_sha256(content: Mapping[str, JsonValue]) -> str:
    """The SHA-256 of a report's content; of two runs of one command it is the same.

    Args:
        content: As it stands in the file, in whatever order and layout.
    """
    kept = {name: value for name, value in content.items() if name not in (*VOLATILE, SEAL)}
    return hashlib.sha256(json.dumps(kept, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def schema_json(of: type[Part] = Report) -> str:
    """The JSON schema of :func:`to_json`'s output, or of :func:`part_json`'s for another kind of file."""
    return _text(of.model_json_schema(mode="serialization"))


def gates_json(report: Report) -> str:
    """The verdict and the gates alone, as they stand in the report's JSON."""
    return _text(report.model_dump(mode="json", include={"gates", "verdict"}))


def part_json(part: Part) -> str:
    """Anything made of a report's parts, written as :func:`to_json` writes a report."""
    return _text(part.model_dump(mode="json"))


def read_report(text: str, *, name: str) -> Report:
    """The report that :func:`to_json` wrote.

    Args:
        text: The file's content.
        name: What to call the file in an error.

    Raises:
        DataError: Not a report, or of another schema version.
    """
    try:
        return Report.model_validate_json(text, strict=True)
    except ValidationError as error:
        content = _parsed(text, name)
        try:
            older = upgraded(content, SCHEMA_VERSION)
            if older is not None:
                return Report.model_validate_json(json.dumps(older), strict=True)
        except (KeyError, TypeError, ValidationError):
            pass  # nor is it a report of an earlier version
        raise _refused(content, error, name) from None


def _parsed(text: str, name: str) -> JsonValue:
    try:
        content: JsonValue = json.loads(text)
    except json.JSONDecodeError as broken:
        raise DataError(f"{name} is not JSON (line {broken.lineno})") from None
    except (RecursionError, ValueError):  # nested, or a number, beyond what Python reads
        raise DataError(f"{name} is not a fairaudit report") from None
    return content


def _refused(content: JsonValue, error: ValidationError, name: str) -> DataError:
    """Why a JSON text is not a report of this version."""
    version = content.get("schema_version") if isinstance(content, dict) else None
    if isinstance(version, int) and version not in range(1, SCHEMA_VERSION + 1):
        age, fix = (
            ("newer", "update fairaudit") if version > SCHEMA_VERSION else ("older", "run the audit again")
        )
        return DataError(
            f"{name} has report schema {version}, {age} than this tool's {SCHEMA_VERSION}", hint=fix
        )
    where = ".".join(str(part) for part in error.errors(include_url=False)[0]["loc"])
    return DataError(f"{name} is not a fairaudit report (field {plain(where, 80)})")


def _text(content: JsonValue) -> str:
    return json.dumps(content, sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
