"""Dataset, plan and finished jobs -> what was audited and what is guaranteed."""

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any, TypeVar

import numpy as np

from fairaudit.analysis import text
from fairaudit.analysis.arm_readings import finished
from fairaudit.analysis.trainers import own_privacy
from fairaudit.config.options import AuditConfig
from fairaudit.data.dataset import Dataset
from fairaudit.methods.catalog import REFERENCE, Guarantee, find
from fairaudit.methods.spec import Need
from fairaudit.planning.plan import Arm, Plan
from fairaudit.privacy.events import Gaussian, PrivacyEvent
from fairaudit.privacy.selection import SelectionEvent
from fairaudit.privacy.tradeoff import FALSE_POSITIVE_RATES, attack_rates
from fairaudit.report.facts import (
    NOT_SAMPLED,
    NOTHING_KNOWN,
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
from fairaudit.results.estimates import Part
from fairaudit.results.jobs import JobResult, job_id

P = TypeVar("P", bound=Part)


def visible(count: int, least: int) -> int | None:
    """The count, or None where it is so small that it is suppressed."""
    if 0 < count < least:
        return None
    return count


def filled(kind: type[P], *sources: object, **given: object) -> P:
    """A piece of the report from what is given, else by name from the first source with it."""
    values = dict(given)
    for source in sources:
        for name in kind.model_fields:
            if name not in values and hasattr(source, name):
                values[name] = getattr(source, name)
    return kind.model_validate(values)


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
    of_job: Mapping[str, Any] = first.facts if first else {}
    inputs, images = None, None
    if first is not None:
        inputs = len(of_job.get("inputs", ()))
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
    groupings: list[GroupingFacts] = []
    for grouping in dataset.groupings:
        counts = np.bincount(grouping.groups, minlength=len(grouping.names)).tolist()
        groups = []
        for place, name in enumerate(grouping.names):
            rows, is_missing = visible(counts[place], least), place == grouping.missing
            groups.append(GroupFacts(name=name, rows=rows, is_missing=is_missing))
        groupings.append(
            GroupingFacts(name=grouping.name, steers=not groupings, groups=tuple(groups))
        )
    classes = zip(
        dataset.classes, np.bincount(dataset.labels, minlength=len(dataset.classes)), strict=True
    )
    label = filled(
        LabelFacts,
        dataset,
        column=dataset.label,
        origin=dataset.label_origin,
        classes=[ClassFacts(name=name, rows=int(rows)) for name, rows in classes],
        positive=dataset.positive_class,
        favourable=dataset.favourable_class,
    )
    if split is None:
        split = SplitFacts(
            given=dataset.split is not None,
            test_size=config.test_size if dataset.split is None else None,
            balanced=config.balance,
            keep=dict(config.keep),
            train_rows=of_job.get("n_train"),
            test_rows=len(first.arrays["test_rows"]) if first else None,
        )
    return filled(
        DataFacts,
        dataset,
        sha256=dataset.digest,
        rows=dataset.n_rows,
        label=label,
        groupings=groupings,
        features=dataset.features.column_names,
        inputs=inputs,
        dropped_rows=_counts_by_group(dataset.dropped_rows, least),
        missing=_counts_by_group(dataset.missing, least),
        duplicates_across_split=of_job.get("duplicates_across_split"),
        fitted=of_job.get("fitted", ()),
        merged_levels=of_job.get("merged", {}),
        outside_declaration=_counts_by_group(dataset.outside, least),
        split=split,
        images=images,
    )


def training_facts(plan: Plan) -> TrainingFacts:
    """What every arm shares."""
    return filled(
        TrainingFacts, plan, plan.model_facts, plan.schedule, plan.config, rules=plan.origins
    )


SHORTER = 0.999  # of the reference's step; rounding is no difference


def arm_facts(
    plan: Plan, results: Mapping[str, JobResult], failures: Mapping[str, str]
) -> tuple[ArmFacts, ...]:
    """Every arm with how many of its seeds finished; a failed seed is named, never dropped."""
    found = []
    for arm in plan.arms:
        done = finished(plan, arm.key, results).values()
        differences = [result.facts.get("differs_by") for result in done]
        known = [value for value in differences if isinstance(value, float)]
        facts = filled(
            ArmFacts,
            arm,
            seeds_planned=sum(job.arm == arm.key for job in plan.jobs),
            seeds_finished=len(done),
            failed=failed_seeds(plan, arm.key, results, failures),
            trainings=digest_of(plan, arm.key, results),
            step_shortened=_is_shortened(arm, plan),
            trainer=arm.trainer if arm.is_own_code else "",
            differs_by=known[0] if known else None,
        )
        found.append(facts)
    return tuple(found)


def privacy_facts(
    plan: Plan, *, fitted: Sequence[str], results: Mapping[str, JobResult] | None = None
) -> dict[str, PrivacyFacts]:
    """What each arm guarantees and what that leaves out.

    Of trainers of the user's own, what they claim.
    """
    facts = {}
    for arm in plan.arms:
        if arm.is_own_code:
            facts[arm.key] = own_privacy(arm, plan, results or {})
        else:
            facts[arm.key] = _privacy(arm, plan, fitted=bool(fitted))
    return facts


def failed_seeds(
    plan: Plan, arm: str, results: Mapping[str, JobResult], failures: Mapping[str, str]
) -> tuple[FailedSeed, ...]:
    """The seeds of an arm that have no result, and why."""
    missing = [job for job in plan.jobs if job.arm == arm and job.id not in results]
    return tuple(
        FailedSeed(seed=job.seed, message=failures.get(job.id, "not finished")) for job in missing
    )


def digest_of(plan: Plan, arm: str, results: Mapping[str, JobResult]) -> str:
    """What an arm's finished trainings follow from, as one name."""
    done = [job.id for job in plan.jobs if job.arm == arm and job.id in results]
    return job_id({"trainings": done})


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
    accountants, sampling = "PLD (headline) and RDP", text.SAMPLING
    if isinstance(event, Gaussian):
        accountants, sampling = "the exact Gaussian curve (headline) and RDP", NOT_SAMPLED
    if privacy.selection is not None:
        accountants = "RDP"
    facts: dict[str, object] = {
        "reason": privacy.reason,
        "unit": text.UNIT,
        "neighbouring": text.NEIGHBOURING,
        "sampling": sampling,
        "accountant": f"dp-accounting {version('dp-accounting')}, {accountants}",
    }
    if privacy.guarantee is Guarantee.NONE and not privacy.reason:
        facts["reason"] = text.NOT_PRIVATE
    if event is not None:
        facts["releases"] = [filled(ReleaseFacts, release) for release in event.releases]
        facts["effective_noise_multiplier"] = event.effective_noise_multiplier
    if privacy.guarantee.has_epsilon:
        by_pool = Need.PUBLIC_POOL in find(arm.method).needs
        facts["epsilon"] = Epsilon(pld=privacy.epsilon_pld, rdp=privacy.epsilon_rdp)
        facts["delta"] = plan.delta
        facts["epsilon_if_all_released"] = plan.epsilon_if_all_released
        facts["not_covered"] = _not_covered(arm, plan, fitted=fitted and not by_pool)
        # Of a charged search `event` is one training alone: the search leaves an attacker more.
        if event is not None:
            facts["attack"] = attack_facts(privacy.selection or event)
    nothing = {"epsilon": None, "attack": ()}
    return filled(PrivacyFacts, privacy, event, NOTHING_KNOWN, **{**nothing, **facts})


def attack_facts(
    event: PrivacyEvent | SelectionEvent, rates: Sequence[float] = FALSE_POSITIVE_RATES
) -> tuple[AttackFacts, ...]:
    """What one run, or a search, that releases this leaves to an attacker."""
    return tuple(filled(AttackFacts, rate) for rate in attack_rates(event, rates=tuple(rates)))


def _not_covered(arm: Arm, plan: Plan, *, fitted: bool) -> tuple[str, ...]:
    items = [*find(arm.method).unprotected]
    if plan.model_facts.outside:
        items.append(text.OWN_MODULE)
    items += text.not_covered(plan.config, fitted=fitted, source=arm.source)
    if arm.privacy.selection is not None and text.CHOICES in items:
        items[items.index(text.CHOICES)] = text.BEYOND_THE_SEARCH
    return tuple(items)


def _counts_by_group(
    counts: Mapping[str, Mapping[str, int]], least: int
) -> dict[str, dict[str, int | None]]:
    """Counts by reason and group, small ones suppressed."""
    shown = {}
    for reason, by_group in counts.items():
        shown[reason] = {group: visible(count, least) for group, count in by_group.items()}
    return shown
