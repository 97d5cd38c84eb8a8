"""Capabilities: folders that can be taken out. The one place that names them, and what each adds.

A part is a field of :class:`Capability`, as ``methods``: one thing that a folder may add.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

CAPABILITIES = (
    "fairaudit.papers.capability:PAPERS",
    "fairaudit.leakage.capability:LEAKAGE",
    "fairaudit.trainers.capability:TRAINERS",
    "fairaudit.tuning.capability:TUNING",
    "fairaudit.choosing.capability:CHOOSING",
    "fairaudit.release.capability:RELEASE",
    "fairaudit.opacus.capability:OPACUS",
)


@dataclass(frozen=True, slots=True)
class Capability:
    """What a folder adds to audits.

    Every part is ``module:NAME``, imported when it is asked for, or "" for nothing.

    Args:
        name: Under which a plan and a report hold it.
        commands: A tuple of functions as typer reads them; of the terminal's commands, the last.
        next_command: ``(report, path of its report.json, arm) -> shell command``, what a user types
            after an audit of that arm, of whichever fits where arm is ""; "" for nothing.
        presets: A tuple of :class:`fairaudit.config.presets.Preset`.
        methods: A tuple of :class:`fairaudit.methods.spec.MethodSpec`.
        variants: Method name -> a tuple of :class:`fairaudit.methods.spec.Variant`.
        outside: ``(options) -> Iterator[MethodSpec]``, of code that options name. Such a method
            names its capability, which has the four parts that follow.
        arms: ``(options, targets, reference) -> Iterator[Arm]`` of these methods.
        identity: ``(options, arm, delta) -> dict``, what a training of it depends on.
        train: ``(plan, job, arm, prepared) -> (arrays, facts)`` of a job.
        privacy: ``(arm, plan, results) -> ArmPrivacy``, what is known when it has trained.
        limitations: ``(plan) -> Iterator[(code, text)]``, of what is not known.
        knob: ``(its comparisons) -> Knob | None``, what to change of such an arm.
        refuse: ``(config) -> None``, raises where other options do not go with its own.
        unsuited: ``(method, config) -> (reason, remedy) | None``, why a method takes no part.
        kept_apart: ``(config, rows) -> int``, how many of the training rows train nothing.
        search: ``(ArmDraft, config, target epsilon) -> Sought | None``, of one arm's settings.
        try_settings: ``(arm, method, task, prepared) -> (arrays, facts)``, a job of such an arm.
        search_ranges: ``(options, name -> range) -> Search | None``, of settings of such code.
        try_ranges: ``(arm, seed, prepared, train) -> (arrays, facts)``, a job of such an arm.
        try_twins: The same of the arm's twins -> (arrays, ``results.jobs.StepTwin``).
        release: ``(arm, method, task, prepared, n_fit) -> Kept``, such an arm trained for release.
        plan: ``(plan, dataset, own_model) -> {name: Plan}``, of trainings beside the audit's.
        rows: ``(dataset, options of the split, seed) -> Split`` of these trainings.
        outcome: ``(task, trained, prepared) -> arrays`` that one of them leaves.
        study: Subclass of :class:`fairaudit.report.model.Study`, what a report holds.
        measure: ``(audit) -> Study | None``, of the trainings that finished.
    """

    name: str

    commands: str = ""
    next_command: str = ""
    presets: str = ""
    methods: str = ""
    variants: str = ""
    outside: str = ""
    arms: str = ""
    identity: str = ""
    train: str = ""
    privacy: str = ""
    limitations: str = ""
    knob: str = ""
    refuse: str = ""
    unsuited: str = ""
    kept_apart: str = ""
    search: str = ""
    try_settings: str = ""
    search_ranges: str = ""
    try_ranges: str = ""
    try_twins: str = ""
    release: str = ""
    plan: str = ""
    rows: str = ""
    outcome: str = ""
    study: str = ""
    measure: str = ""


def added(part: str) -> Iterator[Any]:
    """That part, imported, of every capability that has it; ``part`` is a field's name."""
    for _, addition in parts(part):
        yield addition


def parts(part: str) -> Iterator[tuple[str, Any]]:
    """The name of every capability that has that part, and the part, imported."""
    for capability in capabilities():
        place = getattr(capability, part)
        if place:
            yield capability.name, imported(place)


def capabilities() -> Iterator[Capability]:
    """The declaration of every capability, in the order of ``CAPABILITIES``."""
    for place in CAPABILITIES:
        capability = imported(place)
        assert isinstance(capability, Capability)
        yield capability


def part_of(name: str, part: str) -> Any:  # noqa: ANN401 (of whatever type the part is)
    """That part, imported, of the capability of that name.

    Raises:
        KeyError: There is no such capability, or it lacks that part.
    """
    return dict(parts(part))[name]


def imported(place: str) -> object:
    """The object that ``module:NAME`` names; the module is imported."""
    module, _, name = place.partition(":")
    value: object = getattr(import_module(module), name)
    return value
