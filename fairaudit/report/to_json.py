"""Report -> JSON text and back, of earlier schemas too; JSON schema."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from pydantic import JsonValue, ValidationError

from fairaudit.config.options import ASSUMED
from fairaudit.errors import DataError
from fairaudit.report.model import SCHEMA_VERSION, VOLATILE, Report
from fairaudit.report.safe_names import plain
from fairaudit.results.estimates import Part

SEAL = "content_sha256"
Content = dict[str, Any]  # of a report's JSON, not checked yet


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
        try:
            content: JsonValue = json.loads(text)
        except json.JSONDecodeError as broken:
            raise DataError(f"{name} is not JSON (line {broken.lineno})") from None
        except (RecursionError, ValueError):  # nested, or a number, beyond what Python reads
            raise DataError(f"{name} is not a fairaudit report") from None
        try:
            older = upgraded(content, SCHEMA_VERSION)
            if older is not None:
                return Report.model_validate_json(json.dumps(older), strict=True)
        except (KeyError, TypeError, ValidationError):
            pass  # nor is it a report of an earlier version
        raise _refused(content, error, name) from None


def _refused(content: JsonValue, error: ValidationError, name: str) -> DataError:
    """Why a JSON text is not a report of this version."""
    version = content.get("schema_version") if isinstance(content, dict) else None
    if isinstance(version, int) and version not in range(1, SCHEMA_VERSION + 1):
        is_newer = version > SCHEMA_VERSION
        told = f"{name} has report schema {version}, {'newer' if is_newer else 'older'} than this tool's"
        fix = "update fairaudit" if is_newer else "run the audit again"
        return DataError(f"{told} {SCHEMA_VERSION}", hint=fix)
    where = ".".join(str(part) for part in error.errors(include_url=False)[0]["loc"])
    return DataError(f"{name} is not a fairaudit report (field {plain(where, 80)})")


def _text(content: JsonValue) -> str:
    return json.dumps(content, sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def upgraded(content: object, version: int) -> Content | None:
    """The content of a report of schema 1 or 2 in the present one, ``version``; None for any other.

    What they said beyond their evidence is dropped: papers' claims judged by a p-value over seeds of one
    file, and the sentences on why a group pays.

    Raises:
        KeyError, TypeError: It is no report.
    """
    if not isinstance(content, dict) or content.get("schema_version") not in (1, 2):
        return None
    content = _of_first(content) if content["schema_version"] == 1 else {**content}
    baseline = content.pop("yardstick")
    renamed = {"yardstick": "baseline", "yardstick_accuracy": "baseline_accuracy"}
    content["sklearn_baseline"] = {renamed.get(name, name): value for name, value in baseline.items()}
    if (decomposition := content["diagnostics"]["decomposition"]) is not None:
        decomposition["claims"] = []
        for causes in decomposition["arms"].values():
            for group in causes["groups"]:
                group["statistics"] = group.pop("traits")
            for association in causes["associations"]:
                association["statistic"] = association.pop("trait")
    return {**content, "schema_version": version, "why": None}


def _of_first(content: Content) -> Content:
    """Schema 1 as schema 2.

    What schema 1 did not know: which outcome people want (it took the positive one for it), and a digest of
    the content. The p-value of a gap, whose side was read off the data, is dropped.
    """
    label = {"favourable": content["data"]["label"]["positive"], "favourable_origin": ""}
    if label["favourable"] is not None:
        label["favourable_origin"] = ASSUMED
    selection = [{**part, "favourable": part["positive"]} for part in content["selection"]]
    for part in selection:
        del part["positive"]
    return {
        **content,
        "data": {**content["data"], "label": {**content["data"]["label"], **label}},
        "selection": selection,
        "comparisons": [
            {
                **comparison,
                "gaps": [
                    {name: value for name, value in gap.items() if name != "wilcoxon_p"}
                    for gap in comparison["gaps"]
                ],
            }
            for comparison in content["comparisons"]
        ],
    }
