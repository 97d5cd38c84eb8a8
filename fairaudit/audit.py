"""The straight line of an audit: read, plan, train, measure, report."""

import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec

from fairaudit.analysis.build import build_report, run_metadata
from fairaudit.analysis.measure import measured
from fairaudit.capabilities.installed import CAPABILITIES
from fairaudit.config.model_names import is_factory
from fairaudit.config.option_words import refuse_alone
from fairaudit.config.options import AuditConfig
from fairaudit.config.value_sources import OPTION, PRESET, ResolvedConfig, naming_config_files
from fairaudit.data.dataset import Dataset
from fairaudit.data.inputs.shared import share_inputs
from fairaudit.data.tabular import load_dataset
from fairaudit.errors import ConfigError
from fairaudit.execution.local import available_cores, warm_up
from fairaudit.execution.model_check import examine
from fairaudit.execution.progress import Listener, StageStarted, silent
from fairaudit.execution.ray_cluster import RayRequest, require_ray
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
from fairaudit.messages.base import Message
from fairaudit.messages.names import typed
from fairaudit.messages.training import SettingNotUsed
from fairaudit.methods.catalog import find
from fairaudit.methods.spec import Need
from fairaudit.metrics.registry import part_of
from fairaudit.planning.flow import Audit
from fairaudit.planning.plan import Plan, make_plan
from fairaudit.report.conditions import arms_with_harm
from fairaudit.report.load import load_report
from fairaudit.report.model import Report
from fairaudit.report.write import DRAWN, put_aside, where_put, write_report
from fairaudit.results.estimates import key_of

_LIBRARIES = ("dp-accounting", "numpy", "pandas", "pyarrow", "scikit-learn", "scipy", "torch")


def audit(resolved: ResolvedConfig, listener: Listener = silent) -> Report:
    """Run every stage of an audit; the report is written to ``out`` before it is returned."""
    get_ready(resolved.config)
    return carry_out(prepare(resolved, listener), listener)


def get_ready(config: AuditConfig) -> None:
    """Refuse what would fail only after the table is read, then start to load workers.

    So local workers import torch while this process reads the table.

    Raises:
        ConfigError: The executor is not installed, or an option belongs to another one.
        ModuleNotFoundError: A package is not installed that trainings or the report need.
        OutputError: The output directory cannot be used, or holds an audit of other data.
    """
    needed = ["torch", "sklearn", "safetensors"]
    if set(config.format) & DRAWN:
        needed.append("vl_convert")
    for name in needed:
        if find_spec(name) is None:  # they are not imported here: workers do that
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    refuse_unusable_rundir(config.out)
    refuse_other_data(config)
    if config.executor == "ray":
        require_ray()
        return
    refuse_alone(config)  # any option without effect, as Ray's here
    warm_up()


def prepare(resolved: ResolvedConfig, listener: Listener = silent) -> Audit:
    """Read the table and the rules, and plan which trainings to run; nothing is trained.

    Raises:
        FairauditError: The table or the options cannot be audited, or a rule does not fit them.
    """
    config = resolved.config
    seconds: dict[str, float] = {}
    with naming_config_files(resolved):
        rules = parse_rules(config.fail_on)
        baseline = load_report(where_put(config.baseline, config.out)) if config.baseline else None
        refuse_without_baseline(rules, has_baseline=baseline is not None)
        with _stage("reading", seconds, listener):
            dataset = load_dataset(config)
        if not dataset.groupings:
            classes = "" if dataset.image_shape is None else ", or --group-by-label for the classes"
            raise ConfigError(
                "no group given",
                hint=f"--group COL{classes}; `fairaudit inspect {typed(str(config.data))}` lists "
                "candidates",
            )
        with _stage("planning", seconds, listener):
            own_model = None
            if is_factory(config.model):
                own_model = examine(config, share_inputs(dataset, config))
            plan = make_plan(config, dataset, own_model)
        plan = replace(plan, notices=(*plan.notices, *_unread_settings(resolved, plan)))
        vocabulary = _vocabulary(plan, dataset)
        for rule in rules:
            vocabulary.check(rule)
            # A rule on a part of a cost, as the noise's, needs the twins that split the cost.
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
    """What rules may name (arms, methods, groups, studies), and metrics that stay unmeasured."""
    arms = [(arm.key, arm.method) for arm in plan.arms]
    for name, way in plan.default_plans.items():
        arms += [(key_of(arm.key, name), arm.method) for arm in way.arms]
    # "": a way, which is no study.
    studies = {side_plan.study for side_plan in plan.side_plans.values()} - {""}
    groups = {grouping.name: grouping.names for grouping in dataset.groupings}
    lacking: dict[str, str] = {}
    for capability in CAPABILITIES:
        lacking |= capability.unmeasured(plan, dataset)
    return Vocabulary(tuple(arms), groups, frozenset(studies), lacking)


def carry_out(audit: Audit, listener: Listener = silent, *, command: Sequence[str] = ()) -> Report:
    """Train what is not finished, measure, and write the report; partial when a seed failed.

    Args:
        audit: As :func:`prepare` decided it.
        listener: Called with every event of progress.
        command: The words of the command as typed, which the report repeats.

    Raises:
        FairauditError: As of :func:`execute`; or the output directory cannot be used.
    """
    config = audit.resolved.config
    with open_rundir(audit.plan) as rundir:
        report = examined(audit, rundir, listener, command=command)
        return write_report(report, config.out, config.format)


def examined(
    audit: Audit,
    rundir: RunDir,
    listener: Listener = silent,
    *,
    command: Sequence[str] = (),
    split: Collection[str] | None = None,
) -> Report:
    """Train what is not finished, measure and judge; the report is not written.

    A report of an earlier run is put aside first, so that no gate judges it if the trainings fail.
    By now options and data are known to fit, so a mistyped command puts none aside.

    Args:
        audit, listener, command: As of :func:`carry_out`.
        rundir: The open folder of the run, where finished trainings are kept.
        split: Arms whose detected costs ``--twins auto`` may split by training their twins, without
            noise and with steps alone; None: all.
    """
    config, seconds = audit.resolved.config, audit.seconds
    put_aside(config.out)
    # Under ``--twins auto`` once more, with the twins of arms whose cost is detected.
    for is_last in (False, True):
        with _stage("training", seconds, listener):
            audit = trained(audit, rundir, listener)
        with _stage("measuring", seconds, listener):
            audit = measured(audit)
        # None: as many as a Ray cluster had room for, which is not known here.
        workers = config.workers or (available_cores() if config.executor == "local" else None)
        report = judged(
            build_report(
                audit, run_metadata(command, _LIBRARIES, workers=workers, seconds=seconds)
            ),
            audit.rules,
            audit.baseline,
            trust_claims=config.trust_claimed_epsilon,
            trust_module=config.trust_module,
        )
        if is_last or config.twins != "auto":
            break
        arms = [arm for arm in arms_with_harm(report) if split is None or arm in split]
        plan = audit.plan.splitting(arms)
        if plan.twins == audit.plan.twins:  # no arm has a cost to be split
            break
        audit = replace(audit, plan=plan)
    return report


def trained(audit: Audit, rundir: RunDir, listener: Listener = silent) -> Audit:
    """Train what is not finished: the audit with the result of every training, or its failure.

    Raises: as :func:`execute`.
    """
    config, plan, inputs = audit.resolved.config, audit.plan, audit.inputs
    assert inputs is not None, "an audit that is trained was prepared"
    cluster = None
    if config.executor == "ray":
        cluster = RayRequest(config.ray_address, cpus=config.cpus_per_job, gpus=config.gpus_per_job)
    execution = Execution(inputs, workers=config.workers, cluster=cluster)
    outcome = execute(plan, rundir, execution, listener=listener)
    failures = {job_id: failed.message for job_id, failed in outcome.failures.items()}
    return replace(audit, results=outcome.by_job, failures=failures)


def _unread_settings(resolved: ResolvedConfig, plan: Plan) -> Iterator[Message]:
    """A notice for each setting of a config file that no planned method reads.

    That is no error in a file, which may serve several runs. A setting of a preset gives no notice.

    Raises:
        ConfigError: Such a setting was given on the command line.
    """
    for (method, name), why in plan.unread.items():
        origin = resolved.settings_origins.get((method, name), OPTION)
        if origin == OPTION:
            trained = ", ".join(dict.fromkeys(arm.method for arm in plan.arms))
            raise ConfigError(
                f"--settings {method}.{name}: {why} (trained: {trained})", hint="leave it out"
            )
        if not origin.startswith(PRESET):
            yield SettingNotUsed(method, name, origin, why)


@contextmanager
def _stage(name: str, seconds: dict[str, float], listener: Listener) -> Iterator[None]:
    """Tell the listener that a stage begins, and add the time that it takes to ``seconds``."""
    listener(StageStarted(name))
    start = time.perf_counter()
    yield
    seconds[name] = seconds.get(name, 0.0) + time.perf_counter() - start
