"""The published schemas of an in-toto statement and of its test-result predicate, as JSON Schema.

Written from the specification: https://github.com/in-toto/attestation, spec/v1/statement.md,
spec/v1/resource_descriptor.md, spec/v1/digest_set.md and spec/predicates/test-result.md (v0.1).
"""

_DIGESTS = {
    "type": "object",
    "minProperties": 1,
    "additionalProperties": {"type": "string", "minLength": 1},
}
_HEX = {"properties": {"sha256": {"pattern": "^[0-9a-f]{64}$"}}}
DESCRIPTOR = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "uri": {"type": "string"},
        "digest": {"allOf": [_DIGESTS, _HEX]},
        "content": {"type": "string", "contentEncoding": "base64"},
        "downloadLocation": {"type": "string"},
        "mediaType": {"type": "string"},
        "annotations": {"type": "object"},
    },
    "additionalProperties": False,
    # At least one of these.
    "anyOf": [{"required": ["uri"]}, {"required": ["digest"]}, {"required": ["content"]}],
}
_NAMES = {"type": "array", "items": {"type": "string"}}
STATEMENT = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {
        "_type": {"const": "https://in-toto.io/Statement/v1"},
        # Every subject has a digest, and no two have one name.
        "subject": {
            "type": "array",
            "minItems": 1,
            "items": {**DESCRIPTOR, "required": ["digest"]},
        },
        "predicateType": {"const": "https://in-toto.io/attestation/test-result/v0.1"},
        "predicate": {
            "type": "object",
            "properties": {
                "result": {"enum": ["PASSED", "WARNED", "FAILED"]},
                "configuration": {"type": "array", "items": DESCRIPTOR},
                "url": {"type": "string"},
                "passedTests": _NAMES,
                "warnedTests": _NAMES,
                "failedTests": _NAMES,
            },
            "required": ["result", "configuration"],
            "additionalProperties": False,
        },
    },
    "required": ["_type", "subject", "predicateType"],
    "additionalProperties": False,
}
