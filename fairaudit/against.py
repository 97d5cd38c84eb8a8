"""One method of an audit against another, from the trainings that the audit kept."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from fairaudit.analysis.build_facts import digest_of
from fairaudit.analysis.disclosure import Disclosure
from fairaudit.analysis.family import reported
from fairaudit.analysis.measure import estimand_of_table, evaluation, on_rows_of, predictions
from fairaudit.config.model_names import is_factory
from fairaudit.config.options import OF_OTHER_CODE, AuditConfig
from fairaudit.data.dataset import Dataset
from fairaudit.data.tabular import load_dataset
from fairaudit.errors import ConfigError, DataError, did_you_mean
from fairaudit.messages.names import listed, quoted
from fairaudit.metrics.compare import compare
from fairaudit.planning.plan import Plan, make_plan
from fairaudit.report.model import Report
from fairaudit.report.reproduce import stored_options
from fairaudit.results.estimates import Comparison, Measured, Part
from fairaudit.results.jobs import JOBS, JobResult, read_result


class Pairing(Part):
    """One method against another.

    Args:
        arm, against: Their keys; costs are what the first loses beside the second, seed by seed.
        comparisons: One for each grouping, of which the second is the reference. Each pair of
            methods has a 5 % of error of its own.
        more, less: The costs of which it is detected that the first loses more over all rows than
            the second, or less.
    """

    arm: str
    against: str
    comparisons: tuple[Comparison, ...]
    more: tuple[str, ...]
    less: tuple[str, ...]


class Pairings(Part):
    """Every other private method of an audit against one of its methods.

    ``against``: key of that one method. ``pairs``: one for each of the others.
    """

    against: str
    pairs: tuple[Pairing, ...]


def compare_methods(report: Report, folder: Path, against: str, *, data: Path | None) -> Pairings:
    """Compare every other method of an audit with one of its methods; nothing is trained.

    Args:
        report: Of the audit.
        folder: Where it lies, with its finished trainings.
        against: Key of the method that the others are held against.
        data: Where the data lie now; None: where they lay for the audit.

    Raises:
        ConfigError: There is no such method or no other one; the audit trained code of the user's
            own, which a file alone may not run.
        DataError: Data or trainings are not those of the report.
    """
    keys = [arm.key for arm in report.arms]
    if report.training is None:
        raise ConfigError("nothing was trained: the report is of given predictions")
    if against not in keys:
        raise ConfigError(
            f"the report has no method {quoted(against)}", hint=did_you_mean(against, keys)
        )
    others = [arm.key for arm in report.arms if arm.reference is not None and arm.key != against]
    if not others:
        raise ConfigError(
            f"there is no other method than {quoted(against)}",
            hint="audit both: --method A --method B",
        )
    config = _config(report, data)
    dataset = load_dataset(config)
    if dataset.digest != report.data.sha256:
        raise DataError(
            f"{config.data.name} is not what was audited", hint="--data names where that lies now"
        )
    plan = make_plan(config, dataset, None)  # None: `_config` refuses a model of the user's own
    results = _results(report, plan, folder, [against, *others])
    disclosure = Disclosure.of(config, dataset.groupings)
    pairs = []
    for arm in others:
        # A cost is detected where the first of two methods loses more. So what the other one loses
        # more is looked for with their places exchanged.
        measured = _measured(plan, dataset, arm, against, results)
        comparisons = reported(measured, disclosure).comparisons
        exchanged = reported(_measured(plan, dataset, against, arm, results), disclosure)
        pair = Pairing(
            arm=arm,
            against=against,
            comparisons=comparisons,
            more=_detected_costs(comparisons),
            less=_detected_costs(exchanged.comparisons),
        )
        pairs.append(pair)
    return Pairings(against=against, pairs=tuple(pairs))


def _measured(
    plan: Plan, dataset: Dataset, arm: str, reference: str, results: Mapping[str, JobResult]
) -> list[Measured]:
    """One method compared with another as its reference: a comparison for each grouping.

    Args:
        plan, dataset: Of the audit.
        arm, reference: Keys of the two methods.
        results: Job id -> finished training, of both.
    """
    config = plan.config
    comparisons = []
    for number, grouping in enumerate(dataset.groupings):
        # At each seed both are cut to the test rows that both have: the second to those of the
        # first, then the first to what is left of the second.
        of_arm = predictions(plan, arm, number, results)
        of_reference = on_rows_of(of_arm, predictions(plan, reference, number, results))
        of_arm = on_rows_of(of_reference, of_arm)
        shared = evaluation(dataset, grouping, config.suppress_below)
        if config.has_given_synthetic:
            shared = replace(shared, estimand=estimand_of_table(config))
        comparisons.append(compare(shared, arm, reference, of_arm, of_reference))
    return comparisons


def _detected_costs(comparisons: Sequence[Comparison]) -> tuple[str, ...]:
    """The costs that are detected over all rows, each once."""
    return tuple(dict.fromkeys(cost for compared in comparisons for cost in compared.paid))


def _results(report: Report, plan: Plan, folder: Path, arms: Sequence[str]) -> dict[str, JobResult]:
    """The finished trainings of some arms by job id, which must be the very ones of the report.

    Args:
        report, plan: Of the audit.
        folder: The audit's output folder, with its trainings in ``jobs``.
        arms: Keys of the arms.

    Raises:
        DataError: Trainings of some arm are not there, or are other ones.
    """
    results = {}
    for job in plan.jobs:
        if job.arm in arms:
            result = read_result(folder / JOBS, job.id)
            if result is not None:
                results[job.id] = result
    digests = {arm.key: arm.trainings for arm in report.arms}  # of the trainings behind the report
    lost = [arm for arm in arms if digest_of(plan, arm, results) != digests[arm]]
    if lost:
        raise DataError(
            f"the trainings of {listed(lost)} are not in {folder / JOBS}",
            hint="they were removed, or another version made them: run the audit again: "
            f"{report.reproduce}",
        )
    return results


def _config(report: Report, data: Path | None) -> AuditConfig:
    """The options of the audit, read from its report; ``data``: where its data lie now, or None.

    Raises:
        ConfigError: A DataFrame was audited and no file is named; code of the user's own was
            trained; an option is not of this version.
    """
    values: dict[str, object] = {name: option.value for name, option in report.config.items()}
    if data is not None:
        values["data"] = str(data)
    config = stored_options(values)
    named = [name for name in (config.model, *config.method) if is_factory(name)]
    for option in OF_OTHER_CODE:
        if getattr(config, option.field) != AuditConfig.model_fields[option.field].get_default():
            named.append(f"--{option.field.replace('_', '-')}")
    if named:
        raise ConfigError(
            f"the audit ran code of your own ({listed(named)}), which a file alone may not run",
            hint="score the predictions of both: fairaudit score",
        )
    return config
