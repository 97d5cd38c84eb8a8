"""An audit's results -> Report. `run_metadata` alone reads the clock and the environment."""

import platform
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version

from fairaudit import __version__
from fairaudit.analysis.build_facts import arm_facts, data_facts
from fairaudit.analysis.build_measured import diagnostics, sklearn_baseline, sweeps
from fairaudit.analysis.disclosure import Disclosure
from fairaudit.analysis.family import reported
from fairaudit.analysis.limitations import limitations
from fairaudit.config.presets import find_preset
from fairaudit.messages.base import Message
from fairaudit.messages.training import (
    ControlNotRun,
    ManyGroups,
    PresetNote,
    SeedFailed,
    TwinFailed,
)
from fairaudit.methods.catalog import catalog, find
from fairaudit.planning.flow import Audit
from fairaudit.planning.plan import Plan
from fairaudit.report.conditions import with_findings
from fairaudit.report.model import Report
from fairaudit.report.reproduce import EXECUTION_FIELDS, FRAME, reproduce_command
from fairaudit.report.types.facts import (
    ArmFacts,
    ExecutionFacts,
    Limitation,
    OptionValue,
    ReportWarning,
    Tool,
)
from fairaudit.results.estimates import Comparison
from fairaudit.results.jobs import NUMERICS_VERSION

MANY_GROUPS_SEEDS = 10  # recommended for three groups and more


@dataclass(frozen=True, slots=True)
class RunMetadata:
    """When, where and how fast: everything in which two runs of one command differ.

    Args:
        version: The tool's.
        created_utc: ISO 8601.
        command: As typed.
        environment: name -> version.
        workers: Processes used; None: nothing was trained.
        seconds: Stage -> wall time in s.
    """

    version: str
    created_utc: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    workers: int | None
    seconds: Mapping[str, float]


def run_metadata(
    command: Sequence[str],
    libraries: Sequence[str],
    *,
    workers: int | None,
    seconds: Mapping[str, float],
) -> RunMetadata:
    """The metadata of a run of this program on this machine, now.

    Args:
        command: As typed.
        libraries: Installed distributions whose versions the report names.
        workers: Processes used.
        seconds: Stage -> wall time in s.
    """
    environment = {
        "python": platform.python_version(),
        "platform": f"{sys.platform} {platform.machine()}",
        **{name: version(name) for name in libraries},
    }
    made = datetime.now(UTC).isoformat(timespec="seconds")
    return RunMetadata(__version__, made, tuple(command), environment, workers, dict(seconds))


def build_report(audit: Audit, metadata: RunMetadata) -> Report:
    """The report of an audit with its findings; "partial" when a planned training has no result."""
    plan, dataset, results = audit.plan, audit.dataset, audit.results
    done = [results[job.id] for job in plan.jobs if job.id in results]
    first_job = done[0] if done else None
    data = data_facts(dataset, plan.config, first_job)
    arms = arm_facts(plan, results, audit.failures)
    disclosure = Disclosure.of(plan.config, dataset.groupings)
    # Judged together; `changed` are the gaps within a model that privacy is detected to change.
    compared, changed = reported(audit.comparisons, disclosure)
    # Warnings are about the first grouping alone.
    first = [c for c in compared if c.grouping == dataset.groupings[0].name]
    check = sklearn_baseline(plan, dataset, results)
    swept = sweeps(compared, plan)
    read = diagnostics(plan, dataset, results, compared)
    # Options that decide the result; those of execution are volatile and kept apart.
    options = audit.resolved.config.model_dump(mode="json", exclude=set(EXECUTION_FIELDS))
    origins = audit.resolved.origins
    if origins["data"] == FRAME:  # a data frame was given from Python
        options["data"] = None  # the path is a temporary file's, different at every run
    report = Report(
        numerics_version=NUMERICS_VERSION,
        tool=Tool(name="fairaudit", version=metadata.version),
        created_utc=metadata.created_utc,
        status="complete",
        command=metadata.command,
        reproduce=reproduce_command(audit.resolved),
        config={
            name: OptionValue(value=value, origin=origins[name]) for name, value in options.items()
        },
        environment=dict(metadata.environment),
        execution=ExecutionFacts(
            device=plan.config.device,
            workers=metadata.workers,
            executor=plan.config.executor,
            memory=plan.config.memory,
            resume=plan.config.resume,
            out=str(plan.config.out),
        ),
        data=data,
        training=plan.training,
        arms=arms,
        sklearn_baseline=check,
        comparisons=compared,
        changed=changed,
        sweep=swept,
        studies=dict(audit.studies),
        diagnostics=read,
        warnings=tuple(map(ReportWarning.of, _warnings(audit, arms, first))),
        limitations=tuple(map(Limitation.of, limitations(plan, dataset, compared))),
        timing=dict(metadata.seconds),
    )
    if report.has_failures:
        report = report.model_copy(update={"status": "partial"})
    return with_findings(report)


def _warnings(
    audit: Audit, arms: Sequence[ArmFacts], compared: Sequence[Comparison]
) -> Iterator[Message]:
    """What a reader of the numbers is to be warned of: failed trainings, few seeds, notices.

    Args:
        audit: The audit.
        arms: Its arms in the report's types.
        compared: Its comparisons by the first grouping.
    """
    trained = list(arms)
    for study in audit.studies.values():
        for way in study.ways:  # the same arms at default settings, trained beside a search
            trained += way.arms
    for arm in trained:
        if arm.failed:
            yield SeedFailed(
                arm.key,
                seeds=tuple(failed.seed for failed in arm.failed),
                planned=arm.seeds_planned,
                reason=arm.failed[0].message,
            )
    yield from _control_warning(audit.plan)
    warned: set[str] = set()  # arms: one warning each, of the first seed whose twin failed
    for job in audit.plan.twins:
        why = audit.failures.get(job.id)
        if why and job.arm not in warned:
            warned.add(job.arm)
            yield TwinFailed(job.arm, job.seed, why)
    groups = 0  # the most groups with test rows in any comparison
    for comparison in compared:
        groups = max(groups, len([g for g in comparison.by_group if g.n_test]))
    planned = audit.plan.config.seeds
    if groups > 2 and 1 < planned < MANY_GROUPS_SEEDS:  # of one seed there are no intervals
        yield ManyGroups(groups, seeds=planned, enough=MANY_GROUPS_SEEDS)
    yield from audit.plan.notices
    yield from audit.dataset.notices
    if audit.resolved.config.preset is not None:
        for note in find_preset(audit.resolved.config.preset).notes:
            yield PresetNote(note)
    for study in audit.studies.values():
        yield from study.warnings()


def _control_warning(plan: Plan) -> Iterator[Message]:
    """Warn of a method that scales gradients by a threshold where its control is not trained.

    Such a method also clips less. Its control is DP-SGD that clips at the threshold which the
    method settled on, and shows how much of a lower cost comes from that alone.
    """
    scaled = [arm.key for arm in plan.arms if find(arm.method).scales_by_threshold]
    # Keys of the arms from whose run another arm takes a number; None stands for no such arm.
    sources = {arm.source for arm in plan.arms}
    has_control = not sources.isdisjoint(scaled)
    if scaled and not has_control:
        control = next(spec.name for spec in catalog().values() if spec.control_of)
        yield ControlNotRun(tuple(scaled), control)
