"""Dataset, plan and finished jobs -> what was audited and what is guaranteed."""

from collections.abc import Mapping, Sequence
from importlib.metadata import version

import numpy as np

from fairaudit.analysis import text
from fairaudit.analysis.arm_readings import finished
from fairaudit.analysis.trainers import own_privacy
from fairaudit.config.options import AuditConfig
from fairaudit.data.dataset import Dataset, Grouping
from fairaudit.methods.catalog import REFERENCE, Guarantee, find
from fairaudit.methods.spec import Need
from fairaudit.planning.plan import Arm, Plan
from fairaudit.privacy.events import Gaussian, PrivacyEvent
from fairaudit.privacy.selection import SelectionEvent
from fairaudit.privacy.tradeoff import FALSE_POSITIVE_RATES, attack_rates
from fairaudit.report.facts import (
    NOT_SAMPLED,
    ArmFacts,
    AttackFacts,
    ClassFacts,
    DataFacts,
    Epsilon,
    FailedSeed,
    GroupFacts,
    GroupingFacts,
    ImageFacts,
    LabelFacts,
    PrivacyFacts,
    ReleaseFacts,
    SplitFacts,
    TrainingFacts,
)
from fairaudit.results.jobs import JobResult, job_id


def visible(count: int, least: int) -> int | None:
    """The count, or None where it is so small that it is suppressed."""
    return None if 0 < count < least else count


def data_facts(
    dataset: Dataset, config: AuditConfig, first: JobResult | None, split: SplitFacts | None = None
) -> DataFacts:
    """The table as it was used.

    Args:
        dataset, config: Of the audit.
        first: What depends on the seed is taken from this job.
        split: Where no job has split the rows.
    """
    least = config.suppress_below
    merged = first.facts.get("merged") if first else None
    inputs = len(_strings(first, "inputs")) if first else None
    images = None
    if dataset.image_shape is not None:
        height, width, channels = dataset.image_shape
        inputs = dataset.n_raw_inputs
        images = ImageFacts(
            height=height,
            width=width,
            channels=channels,
            resized=config.resize is not None,
            scaling=text.PIXEL_SCALING[config.pixel_range],
        )
    return DataFacts(
        name=dataset.name,
        format=dataset.format,
        sha256=dataset.digest,
        rows_read=dataset.rows_read,
        columns_read=dataset.columns_read,
        rows=dataset.n_rows,
        label=_label_facts(dataset),
        groupings=tuple(
            _grouping_facts(grouping, steers=index == 0, least=least)
            for index, grouping in enumerate(dataset.groupings)
        ),
        features=tuple(dataset.features.column_names),
        inputs=inputs,
        dropped_rows=_counts_by_group(dataset.dropped_rows, least),
        dropped_columns=dict(dataset.dropped_columns),
        missing=_counts_by_group(dataset.missing, least),
        duplicate_rows=dataset.duplicate_rows,
        duplicates_across_split=_whole(first, "duplicates_across_split"),
        fitted=_strings(first, "fitted"),
        merged_levels={str(k): int(v) for k, v in merged.items()} if isinstance(merged, Mapping) else {},
        outside_declaration=_counts_by_group(dataset.outside, least),
        split=split or _split(config, dataset, first),
        images=images,
    )


def training_facts(plan: Plan) -> TrainingFacts:
    """What every arm shares."""
    schedule = plan.schedule
    return TrainingFacts(
        model=plan.model,
        parameters=plan.model_facts.parameters,
        gradients=plan.model_facts.gradients,
        n_public=schedule.n_public,
        steps_per_epoch=schedule.steps_per_epoch,
        epochs=schedule.epochs,
        steps=schedule.steps,
        sample_rate=schedule.sample_rate,
        expected_batch_size=schedule.expected_batch_size,
        seeds=plan.config.seeds,
        repeats=plan.config.repeats,
        rules=dict(plan.origins),
    )


SHORTER = 0.999  # of the reference's step; rounding is no difference


def arm_facts(
    plan: Plan, results: Mapping[str, JobResult], failures: Mapping[str, str]
) -> tuple[ArmFacts, ...]:
    """Every arm with how many of its seeds finished; a failed seed is named, never dropped."""
    found = []
    for arm in plan.arms:
        done = finished(plan, arm.key, results).values()
        facts = ArmFacts(
            key=arm.key,
            method=arm.method,
            variant=arm.variant,
            settings=dict(arm.settings),
            reference=arm.reference,
            source=arm.source,
            reads_groups=arm.reads_groups,
            repeats=arm.repeats,
            seeds_planned=sum(job.arm == arm.key for job in plan.jobs),
            seeds_finished=len(done),
            failed=failed_seeds(plan, arm.key, results, failures),
            trainings=digest_of(plan, arm.key, results),
            step_shortened=_is_shortened(arm, plan),
            trainer=arm.trainer if arm.is_own_code else "",
            differs_by=next((f for r in done if isinstance(f := r.facts.get("differs_by"), float)), None),
        )
        found.append(facts)
    return tuple(found)


def privacy_facts(
    plan: Plan, *, fitted: Sequence[str], results: Mapping[str, JobResult] | None = None
) -> dict[str, PrivacyFacts]:
    """What each arm guarantees and what that leaves out; of trainers of the user's own, what they claim."""
    return {
        arm.key: own_privacy(arm, plan, results or {})
        if arm.is_own_code
        else _privacy(arm, plan, fitted=bool(fitted))
        for arm in plan.arms
    }


def failed_seeds(
    plan: Plan, arm: str, results: Mapping[str, JobResult], failures: Mapping[str, str]
) -> tuple[FailedSeed, ...]:
    """The seeds of an arm that have no result, and why."""
    return tuple(
        FailedSeed(seed=job.seed, message=failures.get(job.id, "not finished"))
        for job in plan.jobs
        if job.arm == arm and job.id not in results
    )


def digest_of(plan: Plan, arm: str, results: Mapping[str, JobResult]) -> str:
    """What an arm's finished trainings follow from, as one name."""
    return job_id({"trainings": [job.id for job in plan.jobs if job.arm == arm and job.id in results]})


def _is_shortened(arm: Arm, plan: Plan) -> bool:
    """Whether noise made the arm's step by rule shorter than the reference's."""
    if arm.source is not None:  # a control goes as far as what it controls
        return _is_shortened(plan.arm(arm.source), plan)
    own, spec = plan.config.settings.get(arm.method, {}), find(arm.method)
    if not arm.has_noisy_steps or plan.config.learning_rate is not None or "learning_rate" in own:
        return False
    step = arm.settings["learning_rate"]
    if spec.scales_by_threshold:
        step *= arm.settings["max_grad_norm"] / arm.settings["threshold"]
    return step < plan.arm(REFERENCE).settings["learning_rate"] * SHORTER


def _privacy(arm: Arm, plan: Plan, *, fitted: bool) -> PrivacyFacts:
    privacy, event = arm.privacy, arm.privacy.event
    is_claimed = privacy.guarantee.has_epsilon
    no_privacy = privacy.guarantee is Guarantee.NONE
    spec = find(arm.method)
    whole = isinstance(event, Gaussian)
    headline = "the exact Gaussian curve" if whole else "PLD"
    accountants = "RDP" if privacy.selection is not None else f"{headline} (headline) and RDP"
    by_pool = Need.PUBLIC_POOL in spec.needs
    return PrivacyFacts(
        guarantee=privacy.guarantee,
        reason=privacy.reason or (text.NOT_PRIVATE if no_privacy else ""),
        unit=text.UNIT,
        neighbouring=text.NEIGHBOURING,
        sampling=NOT_SAMPLED if whole else text.SAMPLING,
        accountant=f"dp-accounting {version('dp-accounting')}, {accountants}",
        epsilon=Epsilon(pld=privacy.epsilon_pld, rdp=privacy.epsilon_rdp) if is_claimed else None,
        target_epsilon=privacy.target_epsilon,
        delta=plan.delta if is_claimed else None,
        sample_rate=event.sample_rate if event else None,
        steps=event.steps if event else None,
        releases=tuple(
            ReleaseFacts(name=release.name, noise_multiplier=release.noise_multiplier)
            for release in (event.releases if event else ())
        ),
        effective_noise_multiplier=event.effective_noise_multiplier if event else None,
        epsilon_if_all_released=plan.epsilon_if_all_released if is_claimed else None,
        not_covered=_not_covered(arm, plan, fitted=fitted and not by_pool) if is_claimed else (),
        # Of a charged search `event` is one training alone: the search leaves an attacker more.
        attack=attack_facts(privacy.selection or event) if is_claimed and event else (),
    )


def attack_facts(
    event: PrivacyEvent | SelectionEvent, rates: Sequence[float] = FALSE_POSITIVE_RATES
) -> tuple[AttackFacts, ...]:
    """What one run, or a search, that releases this leaves to an attacker."""
    return tuple(
        AttackFacts(false_positive_rate=rate.false_positive_rate, true_positive_rate=rate.true_positive_rate)
        for rate in attack_rates(event, rates=tuple(rates))
    )


def _not_covered(arm: Arm, plan: Plan, *, fitted: bool) -> tuple[str, ...]:
    items = text.not_covered(plan.config, fitted=fitted, source=arm.source)
    if plan.model_facts.outside:
        items = ("what the model's own code leaves in files or other libraries", *items)
    if arm.privacy.selection is not None:
        items = tuple(text.BEYOND_THE_SEARCH if item == text.CHOICES else item for item in items)
    return (*find(arm.method).unprotected, *items)


def _label_facts(dataset: Dataset) -> LabelFacts:
    """The label with the rows of each class."""
    counts = np.bincount(dataset.labels, minlength=len(dataset.classes))
    return LabelFacts(
        column=dataset.label,
        origin=dataset.label_origin,
        classes=tuple(
            ClassFacts(name=name, rows=int(rows)) for name, rows in zip(dataset.classes, counts, strict=True)
        ),
        positive=None if dataset.positive is None else dataset.classes[dataset.positive],
        favourable=None if dataset.favourable is None else dataset.classes[dataset.favourable],
        favourable_origin=dataset.favourable_origin,
    )


def _grouping_facts(grouping: Grouping, *, steers: bool, least: int) -> GroupingFacts:
    """One grouping with the rows of each group, small counts suppressed."""
    counts = np.bincount(grouping.groups, minlength=len(grouping.names))
    return GroupingFacts(
        name=grouping.name,
        steers=steers,
        groups=tuple(
            GroupFacts(name=name, rows=visible(int(counts[k]), least), is_missing=k == grouping.missing)
            for k, name in enumerate(grouping.names)
        ),
    )


def _split(config: AuditConfig, dataset: Dataset, first: JobResult | None) -> SplitFacts:
    given = dataset.split is not None
    return SplitFacts(
        given=given,
        test_size=None if given else config.test_size,
        balanced=config.balance,
        keep=dict(config.keep),
        train_rows=_whole(first, "n_train"),
        test_rows=len(first.arrays["test_rows"]) if first else None,
    )


def _counts_by_group(counts: Mapping[str, Mapping[str, int]], least: int) -> dict[str, dict[str, int | None]]:
    """Counts by reason and group, small ones suppressed."""
    return {
        reason: {group: visible(count, least) for group, count in by_group.items()}
        for reason, by_group in counts.items()
    }


def _strings(result: JobResult | None, fact: str) -> tuple[str, ...]:
    value = result.facts.get(fact) if result else None
    return tuple(str(item) for item in value) if isinstance(value, list | tuple) else ()


def _whole(result: JobResult | None, fact: str) -> int | None:
    value = result.facts.get(fact) if result else None
    return value if isinstance(value, int) else None
