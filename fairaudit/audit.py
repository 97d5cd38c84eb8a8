"""The straight line of an audit: read, plan, train, measure, report."""

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from typing import TypeVar

from fairaudit.analysis.build import build_report, run_metadata
from fairaudit.analysis.measure import measured
from fairaudit.config.model_names import is_factory
from fairaudit.config.option_words import refuse_alone
from fairaudit.config.options import AuditConfig
from fairaudit.config.value_sources import (
    OPTION,
    PRESET,
    ResolvedConfig,
    naming_found_files,
)
from fairaudit.data.dataset import Dataset, Notice
from fairaudit.data.public import share_inputs
from fairaudit.data.tabular import load_dataset
from fairaudit.errors import ConfigError
from fairaudit.execution.local import available_cores, warm_up
from fairaudit.execution.model_check import examine
from fairaudit.execution.progress import Listener, StageStarted, silent
from fairaudit.execution.ray_cluster import Request, require_ray
from fairaudit.execution.run_directory import (
    RunDir,
    open_rundir,
    refuse_other_data,
    refuse_unusable_rundir,
)
from fairaudit.execution.scheduler import Execution, execute
from fairaudit.gate.check import judged, refuse_without_baseline
from fairaudit.gate.grammar import parse_rules
from fairaudit.gate.targets import Vocabulary
from fairaudit.methods.catalog import find
from fairaudit.methods.spec import Need
from fairaudit.metrics.registry import part_of
from fairaudit.planning.flow import Audit
from fairaudit.planning.plan import Plan, make_plan
from fairaudit.report.conditions import asking_why
from fairaudit.report.load import load_report
from fairaudit.report.model import Report
from fairaudit.report.write import (
    DRAWN,
    put_aside,
    where_put,
    write_report,
)
from fairaudit.results.estimates import key_of

_LIBRARIES = ("dp-accounting", "numpy", "pandas", "pyarrow", "scikit-learn", "scipy", "torch")

_LARGE = 2**25  # values of a table whose encoding is a stage of its own

Value = TypeVar("Value")


def audit(resolved: ResolvedConfig, listener: Listener = silent) -> Report:
    """Every stage of an audit, one after the other; the report is written before it is returned."""
    get_ready(resolved.config)
    return carry_out(prepare(resolved, listener), listener)


def get_ready(config: AuditConfig) -> None:
    """Let local workers import torch while this one reads the table.

    Raises:
        ConfigError: The executor is not installed, or an option belongs to another one.
        ModuleNotFoundError: A package is not installed that trainings or the report need.
        OutputError: The output directory cannot be used, or holds an audit of other data.
    """
    needed = ["torch", "sklearn", "safetensors"]
    if set(config.format) & DRAWN:
        needed.append("vl_convert")
    for name in needed:
        if find_spec(name) is None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    refuse_unusable_rundir(config.out)
    refuse_other_data(config)
    if config.executor == "ray":
        return require_ray()
    refuse_alone(config)
    warm_up()


def prepare(resolved: ResolvedConfig, listener: Listener = silent) -> Audit:
    """Read the table and decide everything that precedes training.

    Raises:
        FairauditError: The table or the options cannot be audited, or a rule does not fit them.
    """
    with naming_found_files(resolved):
        return _prepared(resolved, listener)


def _prepared(resolved: ResolvedConfig, listener: Listener) -> Audit:
    config = resolved.config
    seconds: dict[str, float] = {}
    rules = parse_rules(config.fail_on)
    baseline = load_report(where_put(config.baseline, config.out)) if config.baseline else None
    refuse_without_baseline(rules, has_baseline=baseline is not None)
    dataset = _timed("reading", seconds, listener, lambda: load_dataset(config))
    if not dataset.groupings:
        classes = "" if dataset.image_shape is None else ", or --group-by-label for the classes"
        raise ConfigError(
            "no group given",
            hint=f"--group COL{classes}; `fairaudit inspect {config.data}` lists candidates",
        )
    plan = _timed(
        "planning",
        seconds,
        listener,
        lambda: _plan(resolved.config, dataset),
    )
    plan = replace(plan, notices=(*plan.notices, *_unread(resolved, plan)))
    vocabulary = _vocabulary(plan, dataset)
    for rule in rules:
        vocabulary.check(rule)
        if part_of(rule.metric.key) and config.twins == "auto":
            plan = plan.splitting(vocabulary.arms_of(rule))
    by_pool = any(Need.PUBLIC_POOL in find(arm.method).needs for arm in plan.arms)
    return Audit(
        resolved,
        plan,
        dataset,
        inputs=share_inputs(dataset, config, by_pool=by_pool),
        rules=rules,
        baseline=baseline,
        seconds=seconds,
    )


def _vocabulary(plan: Plan, dataset: Dataset) -> Vocabulary:
    """The names that rules about the report of a plan may use."""
    arms = [(arm.key, arm.method) for arm in plan.arms]
    studies = set()
    for beside in plan.beside.values():
        if beside.study:
            studies.add(beside.study)
    for name, way in plan.ways.items():
        arms += [(key_of(arm.key, name), arm.method) for arm in way.arms]
    groups = {grouping.name: grouping.names for grouping in dataset.groupings}
    return Vocabulary(tuple(arms), groups, frozenset(studies))


def carry_out(
    audit: Audit,
    listener: Listener = silent,
    *,
    command: Sequence[str] = (),
) -> Report:
    """Train what is not finished, measure, and write the report; partial when a seed failed.

    Args:
        audit: As :func:`prepare` decided it.
        listener: Who watches.
        command: As typed, for the report.

    Raises:
        OutputError: The output directory cannot be used.
    """
    config = audit.resolved.config
    with opened(audit) as (ready, rundir):
        report = examined(ready, rundir, listener, command=command)
        return write_report(report, config.out, config.format)


@contextmanager
def opened(audit: Audit) -> Iterator[tuple[Audit, RunDir]]:
    """The run directory for the time of an audit.

    With what it held before among the plan's notices.

    Raises:
        OutputError: The output directory cannot be used.
    """
    out, plan = audit.resolved.config.out, audit.plan
    with open_rundir(plan) as rundir:
        if rundir.before:
            held = f"{out} held an audit of {rundir.before} with other content"
            fix = "to keep both in their place, choose another --out"
            notice = Notice("other_data_before", f"{held}; a report there is now *.previous.*", fix)
            plan = replace(plan, notices=(*plan.notices, notice))
        yield replace(audit, plan=plan), rundir


def examined(
    audit: Audit,
    rundir: RunDir,
    listener: Listener = silent,
    *,
    command: Sequence[str] = (),
    split: Collection[str] | None = None,
) -> Report:
    """Train what is not finished, measure and judge; the report is not written.

    An earlier one is put aside first: however the trainings end, a gate after them must not judge
    it. By now nothing is left to refuse, so no slip of the hand takes one away.

    Args:
        audit, rundir, listener, command: As of :func:`carry_out`.
        split: Arms for which ``--twins auto`` then trains what splits the costs that were detected;
            None: all.
    """
    put_aside(audit.resolved.config.out)
    if not rundir.is_complete(audit.plan):
        _make_ready(audit, listener)
    audit = _carried_out(audit, rundir, listener)
    report = _reported(audit, command)
    if audit.resolved.config.twins == "auto":
        wanted = [arm for arm in asking_why(report) if split is None or arm in split]
        plan = audit.plan.splitting(wanted)
        if plan.twins != audit.plan.twins:
            audit = _carried_out(replace(audit, plan=plan), rundir, listener)
            report = _reported(audit, command)
    return report


def _carried_out(audit: Audit, rundir: RunDir, listener: Listener) -> Audit:
    """The audit, trained and measured."""
    audit = _timed(
        "training",
        audit.seconds,
        listener,
        lambda: trained(
            audit,
            rundir,
            listener,
        ),
    )
    return _timed("measuring", audit.seconds, listener, lambda: measured(audit))


def _reported(audit: Audit, command: Sequence[str]) -> Report:
    """The report of what was measured, judged."""
    config = audit.resolved.config
    workers = config.workers or (available_cores() if config.executor == "local" else None)
    metadata = run_metadata(command, _LIBRARIES, workers=workers, seconds=audit.seconds)
    return judged(
        build_report(audit, metadata),
        audit.rules,
        audit.baseline,
        trust_claims=config.trust_claimed_epsilon,
        trust_module=config.trust_module,
    )


def _make_ready(audit: Audit, listener: Listener) -> None:
    """Encode a large table before any training."""
    inputs = audit.inputs
    if inputs is not None and audit.dataset.n_rows * audit.dataset.features.num_columns > _LARGE:
        _timed("encoding", audit.seconds, listener, lambda: inputs.value)


def trained(audit: Audit, rundir: RunDir, listener: Listener = silent) -> Audit:
    """The audit with the result of every training, those that were finished before included."""
    config, plan, inputs = audit.resolved.config, audit.plan, audit.inputs
    assert inputs is not None, "an audit that is trained was prepared"
    cluster = None
    if config.executor == "ray":
        cluster = Request(config.ray_address, cpus=config.cpus_per_job, gpus=config.gpus_per_job)
    execution = Execution(inputs, workers=config.workers, cluster=cluster)
    outcome = execute(plan, rundir, execution, listener=listener)
    return replace(audit, results=outcome.by_job, failures=outcome.messages)


def _plan(config: AuditConfig, dataset: Dataset) -> Plan:
    own = examine(config, share_inputs(dataset, config)) if is_factory(config.model) else None
    return make_plan(config, dataset, own)


def _unread(resolved: ResolvedConfig, plan: Plan) -> Iterator[Notice]:
    """Word of the settings of a file that nothing reads.

    A file may serve several runs, and a preset does.

    Raises:
        ConfigError: The command line named one.
    """
    for (method, name), (why, remedy) in plan.unread.items():
        origin = resolved.settings_origins.get((method, name), OPTION)
        if origin == OPTION:
            trained = ", ".join(dict.fromkeys(arm.method for arm in plan.arms))
            raise ConfigError(
                f"--settings {method}.{name}: {why} (trained: {trained})",
                hint=f"leave it out, or add {remedy}" if remedy else "leave it out",
            )
        if not origin.startswith(PRESET):
            message = f"{method}.{name} ({origin}) is not used: {why}"
            yield Notice("setting_not_used", message, level="notice")


def _timed(
    stage: str,
    seconds: dict[str, float],
    listener: Listener,
    work: Callable[[], Value],
) -> Value:
    listener(StageStarted(stage))
    start = time.perf_counter()
    value = work()
    seconds[stage] = seconds.get(stage, 0.0) + time.perf_counter() - start
    return value
