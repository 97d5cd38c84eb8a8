"""Stored reports of earlier schemas, as they would be written today."""

from collections.abc import Mapping
from typing import Any

from fairaudit.config.options import ASSUMED

Content = dict[str, Any]  # of a report's JSON, not checked yet


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
            {**comparison, "gaps": [_without_p(gap) for gap in comparison["gaps"]]}
            for comparison in content["comparisons"]
        ],
    }


def _without_p(gap: Mapping[str, Any]) -> Content:
    return {name: value for name, value in gap.items() if name != "wilcoxon_p"}
