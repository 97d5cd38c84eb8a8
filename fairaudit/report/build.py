"""Results -> Report. Pure: reads no file, no clock, no environment."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from fairaudit.data.dataset import Dataset, Notice
from fairaudit.jobs import NUMERICS_VERSION, JobResult
from fairaudit.layers import ResolvedConfig
from fairaudit.metrics.estimates import Comparison
from fairaudit.plan import Plan
from fairaudit.presets import find_preset
from fairaudit.report.build_facts import arm_facts, data_facts, privacy_facts, training_facts
from fairaudit.report.build_measured import comparison_record, diagnostics, selections, yardstick
from fairaudit.report.control import control_option, describe_control
from fairaudit.report.facts import ArmFacts, Control, Execution, ReportWarning, Setting, Tool
from fairaudit.report.measured import ComparisonRecord, Yardstick
from fairaudit.report.model import Report
from fairaudit.report.reproduce import EXECUTION_FIELDS, FRAME, reproduce_command
from fairaudit.report.text import limitations

FEW_SEEDS = 5  # below it gates are inconclusive
MANY_GROUPS_SEEDS = 10  # recommended for three groups and more


@dataclass(frozen=True, slots=True)
class Findings:
    """What an audit found, before it is written down.

    Args:
        resolved: The options. plan: What was decided. dataset: The table.
        results: Job id -> result of every finished job.
        failures: Job id -> one line, for jobs that ended without a result.
        comparisons: What was measured, by arm and grouping.
    """

    resolved: ResolvedConfig
    plan: Plan
    dataset: Dataset
    results: Mapping[str, JobResult]
    failures: Mapping[str, str]
    comparisons: Sequence[Comparison]


@dataclass(frozen=True, slots=True)
class Circumstances:
    """When, where and how fast: everything in which two runs of one command differ.

    Args:
        version: The tool's. created_utc: ISO 8601. command: As typed.
        environment: name -> version. workers: Processes used. seconds: Stage -> wall time in s.
    """

    version: str
    created_utc: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    workers: int | None
    seconds: Mapping[str, float]


def build_report(findings: Findings, circumstances: Circumstances) -> Report:
    """The report of an audit; partial when a planned training has no result."""
    plan, dataset, results = findings.plan, findings.dataset, findings.results
    data = data_facts(dataset, plan, results)
    arms = arm_facts(plan, results, findings.failures)
    compared = tuple(comparison_record(c, least=plan.config.suppress_below) for c in findings.comparisons)
    first = [c for c in compared if c.grouping == dataset.groupings[0].name]
    control = describe_control(plan, first)
    check = yardstick(plan, dataset, results)
    return Report(
        numerics_version=NUMERICS_VERSION,
        tool=Tool(name="fairaudit", version=circumstances.version),
        created_utc=circumstances.created_utc,
        status="partial" if any(arm.failed for arm in arms) else "complete",
        command=circumstances.command,
        reproduce=reproduce_command(findings.resolved),
        config=_settings(findings.resolved),
        environment=dict(circumstances.environment),
        execution=_execution(findings.resolved, circumstances),
        data=data,
        training=training_facts(plan),
        arms=arms,
        privacy=privacy_facts(plan, fitted=data.fitted),
        yardstick=check,
        comparisons=compared,
        control=control,
        selection=selections(compared, dataset),
        diagnostics=diagnostics(plan, dataset, results),
        warnings=tuple(_warnings(findings, arms, check, control, first)),
        limitations=limitations(plan, dataset, compared, fitted=len(data.fitted)),
        timing=dict(circumstances.seconds),
    )


def _settings(resolved: ResolvedConfig) -> dict[str, Setting]:
    """Options that decide the result; those of execution are volatile and kept apart."""
    values = resolved.config.model_dump(mode="json", exclude=set(EXECUTION_FIELDS))
    if resolved.origins["data"] == FRAME:
        values["data"] = None  # a temporary file, different at every run
    return {name: Setting(value=value, origin=resolved.origins[name]) for name, value in values.items()}


def _execution(resolved: ResolvedConfig, circumstances: Circumstances) -> Execution:
    config = resolved.config
    return Execution(
        device=config.device,
        workers=circumstances.workers,
        executor=config.executor,
        memory=config.memory,
        resume=config.resume,
        out=str(config.out),
    )


def _warnings(
    findings: Findings,
    arms: Sequence[ArmFacts],
    check: Yardstick,
    control: Control,
    compared: Sequence[ComparisonRecord],
) -> Iterator[ReportWarning]:
    yield from _of_results(arms, check, control)
    yield from _of_seeds(findings.plan, compared)
    for notice in (*findings.plan.notices, *findings.dataset.notices):
        yield _from_notice(notice)
    if findings.resolved.config.preset is not None:
        for note in find_preset(findings.resolved.config.preset).notes:
            yield ReportWarning(code="preset_note", level="notice", message=note, fix="")


def _of_results(arms: Sequence[ArmFacts], check: Yardstick, control: Control) -> Iterator[ReportWarning]:
    for arm in arms:
        if arm.failed:
            seeds = ", ".join(str(f.seed) for f in arm.failed)
            yield ReportWarning(
                code="seed_failed",
                level="warning",
                message=f"{arm.key}: {len(arm.failed)} of {arm.seeds_planned} seeds failed (seed {seeds}): "
                f"{arm.failed[0].message}",
                fix="a smaller --learning-rate usually helps; finished seeds are kept",
            )
    if check.undertrained and check.reference_accuracy is not None and check.yardstick_accuracy is not None:
        yield ReportWarning(
            code="reference_undertrained",
            level="warning",
            message=f"reference undertrained: {check.arm} reaches {100 * check.reference_accuracy:.1f} % "
            f"where {check.yardstick} reaches {100 * check.yardstick_accuracy:.1f} %; every privacy cost "
            "is understated",
            fix="more --epochs or another --learning-rate",
        )
    if control.status == "not run":
        yield ReportWarning(
            code="control_not_run", level="warning", message=control.message, fix=f"add {control_option()}"
        )


def _of_seeds(plan: Plan, compared: Sequence[ComparisonRecord]) -> Iterator[ReportWarning]:
    seeds = plan.config.seeds
    groups = max((sum(g.gated for g in c.by_group) for c in compared), default=0)
    if seeds == 1:
        message = "one seed: no interval can be given"
    elif seeds < FEW_SEEDS:
        message = f"{seeds} seeds: intervals are wide, and gates are inconclusive below {FEW_SEEDS}"
    elif groups > 2 and seeds < MANY_GROUPS_SEEDS:
        message = f"{groups} groups with {seeds} seeds: {MANY_GROUPS_SEEDS} or more are recommended"
    else:
        return
    wanted = MANY_GROUPS_SEEDS if groups > 2 else FEW_SEEDS
    yield ReportWarning(
        code="few_seeds", level="warning", message=message, fix=f"--seeds {wanted}; finished seeds are kept"
    )


def _from_notice(notice: Notice) -> ReportWarning:
    level = "warning" if notice.level == "warning" else "notice"
    return ReportWarning.model_validate(
        {"code": notice.code, "level": level, "message": notice.message, "fix": notice.fix}
    )
