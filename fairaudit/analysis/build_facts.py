"""Dataset, plan and finished jobs -> what was audited and what is guaranteed."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fairaudit.capabilities.installed import capability
from fairaudit.config.options import AuditConfig
from fairaudit.data.column_types import kind_of
from fairaudit.data.dataset import Dataset, Grouping, columns_of
from fairaudit.methods.catalog import find
from fairaudit.methods.spec import Need
from fairaudit.planning.plan import Arm, Plan
from fairaudit.privacy.events import PrivacyEvent
from fairaudit.privacy.selection import SelectionEvent
from fairaudit.privacy.tradeoff import FALSE_POSITIVE_RATES, attack_rates
from fairaudit.report.types.facts import (
    ArmFacts,
    ArmPlan,
    ArmPrivacy,
    AttackFacts,
    ClassFacts,
    DataFacts,
    FailedSeed,
    GroupFacts,
    GroupingFacts,
    ImageFacts,
    LabelFacts,
    SplitFacts,
)
from fairaudit.results.jobs import JobResult, job_id

PIXEL_SCALING = {
    "symmetric": "(x / 255 - 0.5) / 0.5 of each byte x: constants, nothing is learned from the "
    "images",
    "unit": "x / 255 of each byte x: constants, nothing is learned from the images",
}


def visible(count: int, least: int) -> int | None:
    """The count, or None where it is suppressed because it is small: from 1 to below ``least``."""
    if 0 < count < least:
        return None
    return count


FEWEST_VALUES, MOST_VALUES = 2, 12  # of a column by which people could be compared


def _could_be_groups(dataset: Dataset) -> Iterator[str]:
    """The features of few values by which the rows were not grouped; none of images."""
    if dataset.image_shape is not None:
        return  # a pixel is no column by which people could be compared
    compared = {grouping.name for grouping in dataset.groupings}
    for name, column in columns_of(dataset.features).items():
        if name in compared or pa.types.is_nested(column.type):
            continue
        values = pc.count_distinct(column, mode="only_valid").as_py()
        if FEWEST_VALUES <= values <= MOST_VALUES:
            yield name


def data_facts(
    dataset: Dataset, config: AuditConfig, first: JobResult | None, split: SplitFacts | None = None
) -> DataFacts:
    """What the report says of the table: its rows, label, groups, columns and split.

    Args:
        dataset, config: Of the audit; the config says which small counts are suppressed.
        first: The job from which numbers are taken that depend on the seed; None where nothing was
            trained.
        split: How the rows were split; None: as the job ``first`` split them.
    """
    least = config.suppress_below
    # Facts of the job; without one each fact is at its default below, or None.
    of_job: Mapping[str, Any] = first.facts if first else {}
    inputs, images = None, None  # how many inputs the model has; facts of images
    if first is not None:
        inputs = len(of_job.get("inputs", ()))
    if dataset.image_shape is not None:
        inputs = dataset.n_raw_inputs
        images = _image_facts(dataset.image_shape, config)
    if split is None:
        split = SplitFacts(
            given=dataset.split is not None,
            test_size=config.test_size if dataset.split is None else None,
            balanced=config.balance,
            keep=dict(config.keep),
            train_rows=of_job.get("n_train"),
            test_rows=len(first.arrays["test_rows"]) if first else None,
        )
    return DataFacts(
        could_be_groups=tuple(_could_be_groups(dataset)),
        name=dataset.name,
        format=dataset.format,
        sha256=dataset.digest,
        rows_read=dataset.rows_read,
        columns_read=dataset.columns_read,
        rows=dataset.n_rows,
        label=_label_facts(dataset),
        groupings=tuple(_grouping_facts(grouping, least) for grouping in dataset.groupings),
        features=tuple(dataset.features.column_names),
        categorical=tuple(
            column.name for column in dataset.features.schema if kind_of(column.type) == "category"
        ),
        inputs=inputs,
        dropped_rows=_counts_by_group(dataset.dropped_rows, least),
        dropped_columns=dict(dataset.dropped_columns),
        missing=_counts_by_group(dataset.missing, least),
        duplicate_rows=dataset.duplicate_rows,
        duplicates_across_split=of_job.get("duplicates_across_split"),
        fitted=of_job.get("fitted", ()),
        merged_levels=of_job.get("merged", {}),
        split=split,
        images=images,
    )


def _image_facts(shape: tuple[int, int, int], config: AuditConfig) -> ImageFacts:
    """What the report says of images of that shape (height, width, channels)."""
    height, width, channels = shape
    return ImageFacts(
        height=height,
        width=width,
        channels=channels,
        resized=config.resize is not None,
        scaling=PIXEL_SCALING[config.pixel_range],
    )


def _grouping_facts(grouping: Grouping, least: int) -> GroupingFacts:
    """A grouping's groups with their rows; counts from 1 to below ``least`` are suppressed."""
    counts = np.bincount(grouping.groups, minlength=len(grouping.names)).tolist()
    groups = []
    for place, name in enumerate(grouping.names):
        rows, is_missing = visible(counts[place], least), place == grouping.missing
        groups.append(GroupFacts(name=name, rows=rows, is_missing=is_missing))
    return GroupingFacts(name=grouping.name, groups=tuple(groups), fitted=grouping.fitted)


def _label_facts(dataset: Dataset) -> LabelFacts:
    """The label's classes with their rows, and which of them is positive or favourable."""
    counts = np.bincount(dataset.labels, minlength=len(dataset.classes))
    classes = zip(dataset.classes, counts, strict=True)
    return LabelFacts(
        column=dataset.label,
        origin=dataset.label_origin,
        classes=tuple(ClassFacts(name=name, rows=int(rows)) for name, rows in classes),
        positive=dataset.positive_class,
        favourable=dataset.favourable_class,
        favourable_origin=dataset.favourable_origin,
    )


def arm_facts(
    plan: Plan, results: Mapping[str, JobResult], failures: Mapping[str, str]
) -> tuple[ArmFacts, ...]:
    """What the report says of every arm: its plan, its guarantee, and which seeds failed and why.

    Args:
        plan: What was planned.
        results: Job id -> result.
        failures: Job id -> why it has none.
    """
    fitted: Any = ()  # what preprocessing learned from training rows, at every seed alike
    for job in plan.jobs:
        if job.id in results:
            fitted = results[job.id].facts.get("fitted", ())
            break
    arms = []
    for arm in plan.arms:
        # The fields of a plan; ArmFacts has these and more.
        planned = {name: getattr(arm, name) for name in ArmPlan.model_fields}
        planned["privacy"] = privacy_of(arm, plan, fitted=fitted, results=results)
        facts = ArmFacts(
            **planned,
            seeds_planned=sum(job.arm == arm.key for job in plan.jobs),
            failed=failed_seeds(plan, arm.key, results, failures),
            trainings=digest_of(plan, arm.key, results),
        )
        arms.append(facts)
    return tuple(arms)


def privacy_of(
    arm: Arm, plan: Plan, *, fitted: Sequence[str], results: Mapping[str, JobResult]
) -> ArmPrivacy:
    """An arm's guarantee with what it means for an attacker and what it does not cover.

    An arm without an epsilon keeps its planned guarantee unchanged. For an arm that a capability
    trains (a user's own code) that capability says what is guaranteed.

    Args:
        arm, plan: The arm, and the plan that holds it.
        fitted: What preprocessing learned from training rows, which no epsilon covers.
        results: Job id -> result.
    """
    if arm.capability:
        return capability(arm.capability).privacy(arm, plan, results)
    privacy = arm.privacy
    if privacy.event is None or privacy.epsilon is None:
        return privacy
    not_covered = privacy.not_covered
    # With a public pool, preprocessing is fitted on the pool and not on private rows.
    if fitted and Need.PUBLIC_POOL not in find(arm.method).needs:
        not_covered = ("preprocessing fitted on training rows", *not_covered)
    # After a search the event is of one training alone, the charge of all that the search released.
    attack = attack_facts(arm.charge or privacy.event)
    return privacy.model_copy(update={"not_covered": not_covered, "attack": attack})


def failed_seeds(
    plan: Plan, arm: str, results: Mapping[str, JobResult], failures: Mapping[str, str]
) -> tuple[FailedSeed, ...]:
    """The seeds of an arm that have no result, and why.

    ``results``: job id -> result; ``failures``: job id -> why it has none.
    """
    missing = [job for job in plan.jobs if job.arm == arm and job.id not in results]
    return tuple(
        FailedSeed(seed=job.seed, message=failures.get(job.id, "not finished")) for job in missing
    )


def digest_of(plan: Plan, arm: str, results: Mapping[str, JobResult]) -> str:
    """One hash of all that an arm's finished trainings depend on: equal for the same trainings.

    "" where no training finished: two arms without any share none.
    """
    done = [job.id for job in plan.jobs if job.arm == arm and job.id in results]
    return job_id({"trainings": done}) if done else ""


def attack_facts(
    event: PrivacyEvent | SelectionEvent, rates: Sequence[float] = FALSE_POSITIVE_RATES
) -> tuple[AttackFacts, ...]:
    """The largest true positive rate of any membership attack at each false positive rate.

    Args:
        event: What one run, or a search, releases.
        rates: False positive rates.
    """
    return tuple(
        AttackFacts(false_positive_rate=false, true_positive_rate=true)
        for false, true in zip(rates, attack_rates(event, tuple(rates)), strict=True)
    )


def _counts_by_group(
    counts: Mapping[str, Mapping[str, int]], least: int
) -> dict[str, dict[str, int | None]]:
    """Counts by reason and group, with None for those from 1 to below ``least`` (suppressed)."""
    shown = {}
    for reason, by_group in counts.items():
        shown[reason] = {group: visible(count, least) for group, count in by_group.items()}
    return shown
