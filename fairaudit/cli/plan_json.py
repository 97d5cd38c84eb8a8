"""A plan as JSON-ready data."""

import math
from dataclasses import asdict

from pydantic import JsonValue, TypeAdapter

from fairaudit.audit import PreparedAudit
from fairaudit.report.build_facts import privacy_facts, training_facts
from fairaudit.report.reproduce import EXECUTION_FIELDS

_JSON = TypeAdapter(dict[str, JsonValue])


def plan_record(prepared: PreparedAudit, *, seconds: float) -> dict[str, JsonValue]:
    """What `plan --json` prints: options with origins, schedule, arms with epsilon, gates, where to."""
    plan, resolved = prepared.plan, prepared.resolved
    options = resolved.config.model_dump(mode="json", exclude=set(EXECUTION_FIELDS))
    privacy = {key: facts.model_dump(mode="json") for key, facts in privacy_facts(plan, fitted=()).items()}
    return _JSON.validate_python(
        {
            "data": {"name": prepared.dataset.name, "sha256": plan.digest, "rows": prepared.dataset.n_rows},
            "config": {
                name: {"value": value, "origin": resolved.origins[name]} for name, value in options.items()
            },
            "training": training_facts(plan).model_dump(mode="json"),
            "arms": [
                {"key": arm.key, "settings": dict(arm.settings), "privacy": privacy[arm.key]}
                for arm in plan.arms
            ],
            "gates": [{"rule": rule.text, "words": rule.words} for rule in prepared.rules],
            "out": str(resolved.config.out),
            "trainings": plan.trainings,
            "trainings_attacked": len(plan.leakage.jobs) if plan.leakage else 0,
            "estimated_seconds": math.ceil(seconds),
            "notices": [asdict(notice) for notice in (*plan.notices, *prepared.dataset.notices)],
        }
    )
