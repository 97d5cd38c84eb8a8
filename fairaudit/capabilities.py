"""Capabilities that are folders of their own: the one place that names them, and what each adds."""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

CAPABILITIES = ("fairaudit.papers.capability:PAPERS",)


@dataclass(frozen=True, slots=True)
class Capability:
    """What a folder adds to audits.

    Every part is ``module:NAME``, imported when it is asked for, or "" for nothing.

    Args:
        presets: A tuple of :class:`fairaudit.config.presets.Preset`.
        methods: A tuple of :class:`fairaudit.methods.spec.MethodSpec`.
        additions: Method name -> :class:`fairaudit.methods.spec.MethodAddition`.
        checkpoint_series: ``(CheckpointReading) -> {name: [R, ...]}``, kept beside the core's.
        causes: ``(readings, groups, hidden, pair) -> fields of ArmCauses``, of one arm.
        claims: ``(plan, readings, groups, worst_off, published) -> SignClaims``.
        findings: ``(report) -> Findings`` without their sentences, beside the core's.
        phrases: Code of such a finding -> :class:`fairaudit.report.phrases.Phrase`.
    """

    presets: str = ""
    methods: str = ""
    additions: str = ""
    checkpoint_series: str = ""
    causes: str = ""
    claims: str = ""
    findings: str = ""
    phrases: str = ""


def added(part: str) -> Iterator[Any]:
    """That part of every capability that has it."""
    for capability in CAPABILITIES:
        place = getattr(imported(capability), part)
        if place:
            yield imported(place)


def imported(place: str) -> object:
    """What stands at ``module:NAME``."""
    module, _, name = place.partition(":")
    found: object = getattr(import_module(module), name)
    return found
