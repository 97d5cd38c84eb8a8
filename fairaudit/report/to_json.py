"""Report -> JSON text and back; JSON schema."""

import hashlib
import json
from collections.abc import Mapping

from pydantic import JsonValue, ValidationError

from fairaudit.errors import DataError
from fairaudit.report.model import SCHEMA_VERSION, VOLATILE, Report
from fairaudit.report.safe_names import plain
from fairaudit.results.estimates import Part

SEAL = "content_sha256"
_DAMAGED = "restore the file that the program wrote, or run it again"


def to_json(report: Report) -> str:
    """The report as text: sorted keys, six digits, bounds rounded outward, no NaN literals."""
    content = report.model_dump(mode="json")
    return _text({**content, SEAL: content_sha256(content)})


def content_sha256(content: Mapping[str, JsonValue]) -> str:
    """The SHA-256 of a report's content; of two runs of one command it is the same.

    Args:
        content: As it stands in the file, in whatever order and layout.
    """
    sealed = {name: value for name, value in content.items() if name not in (*VOLATILE, SEAL)}
    return hashlib.sha256(
        json.dumps(sealed, sort_keys=True, separators=(",", ":")).encode()
    ).hexdigest()


def schema_json(of: type[Part] = Report) -> str:
    """The JSON schema of what :func:`to_json` writes, or of another part by :func:`part_json`."""
    return _text(of.model_json_schema(mode="serialization"))


def gates_json(report: Report) -> str:
    """The verdict and the gates alone, as they stand in the report's JSON."""
    return _text(report.model_dump(mode="json", include={"gates", "verdict"}))


def part_json(part: Part) -> str:
    """Anything made of a report's parts, written as :func:`to_json` writes a report."""
    return _text(part.model_dump(mode="json"))


def read_report(text: str, *, name: str) -> Report:
    """Read a report, and refuse one that was changed after :func:`to_json` wrote it.

    Args:
        text: The file's content.
        name: What to call the file in an error.

    Raises:
        DataError: Not a report of this schema, or its digest is that of another content.
    """

    def each_key_once(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
        """A JSON object's pairs as a dict; a repeated key is refused, where json would keep one."""
        content: dict[str, JsonValue] = {}
        for key, value in pairs:
            if key in content:
                where = f"key {plain(key, 80)} stands there twice"
                raise DataError(f"{name} is damaged: {where}", _DAMAGED)
            content[key] = value
        return content

    try:
        content = json.loads(text, object_pairs_hook=each_key_once)
    except json.JSONDecodeError as error:
        raise DataError(f"{name} is not JSON (line {error.lineno})") from None
    except (RecursionError, ValueError):  # nested too deep, or a number of too many digits
        raise DataError(f"{name} is not a fairaudit report") from None
    version = content.get("schema_version") if isinstance(content, dict) else None
    if isinstance(version, int) and version != SCHEMA_VERSION:
        age, hint = "older", "run the audit again"
        if version > SCHEMA_VERSION:
            age, hint = "newer", "update fairaudit"
        message = f"{name} has report schema {version}, {age} than this tool's {SCHEMA_VERSION}"
        raise DataError(message, hint)
    # From the text, not from ``content``: strict validation of Python values refuses lists for
    # tuples.
    try:
        report = Report.model_validate_json(text, strict=True)
    except ValidationError as error:
        field = ".".join(str(part) for part in error.errors(include_url=False)[0]["loc"])
        raise DataError(f"{name} is not a fairaudit report (field {plain(field, 80)})") from None
    # ``content`` is a dict: of nothing else could a Report be made.
    if content_sha256(content) != report.content_sha256:
        message = f"{name} is not as it was written: its {SEAL} is of another content"
        raise DataError(message, _DAMAGED)
    return report


def _text(content: JsonValue) -> str:
    """JSON with sorted keys, so that equal content is equal text; NaN is refused."""
    return json.dumps(content, sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
