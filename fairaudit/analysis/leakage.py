"""Trainings on random halves -> what they leak, by group, in the report's types."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairaudit.analysis.arm_readings import finished
from fairaudit.analysis.build_facts import attack_facts, digest_of, failed_seeds
from fairaudit.analysis.build_measured import disclosed
from fairaudit.analysis.detected import judged
from fairaudit.data.dataset import Dataset, Grouping
from fairaudit.data.groups import NamedPair
from fairaudit.errors import numbered
from fairaudit.metrics.gaps import GroupSelection, gaps_of, reading, too_few_for_gates
from fairaudit.metrics.intervals import MetricTable, estimate
from fairaudit.metrics.leakage import LEAST_TARGETS, Attack, attack_tables
from fairaudit.metrics.registry import of_leakage, spec_of
from fairaudit.planning.plan import Arm, Plan
from fairaudit.report.measured import WITHIN_GROUP, AttackedArm, Leakage
from fairaudit.results.estimates import Gap, GroupMeasure, Measured, undefined
from fairaudit.results.jobs import JobResult

ESTIMAND = (
    "the expected success of this attack on one model of the recipe, trained on a random half of such rows"
)


def measure_leakage(plan: Plan, dataset: Dataset, results: Mapping[str, JobResult]) -> tuple[Measured, ...]:
    """What models of random halves tell of who was trained on; a seed without a result is left out.

    Args:
        plan: Of these trainings.
        dataset: Groups.
        results: Job id -> result.
    """
    found: list[Measured] = []
    for grouping in dataset.groupings:
        for arm in plan.arms:
            keys = (arm.key,) if arm.reference is None else (arm.key, arm.reference)
            by_arm = [finished(plan, key, results) for key in keys]
            seeds = sorted(set.intersection(*(set(own) for own in by_arm)))  # that all of them have
            found.append(_attacked(arm, grouping, [[own[seed] for seed in seeds] for own in by_arm]))
    return tuple(found)


def _attacked(arm: Arm, grouping: Grouping, done: Sequence[Sequence[JobResult]]) -> Measured:
    """One arm by one grouping, beside its reference where it has one."""
    n_seeds = len(done[0])
    if n_seeds < LEAST_TARGETS:
        return _nothing(arm, grouping, f"{numbered(n_seeds, 'model')} to attack; {LEAST_TARGETS} are needed")
    rows: NDArray[np.int64] = done[0][0].arrays["rows"].astype(np.int64)
    attacks = []
    for results in done:
        assert all(np.array_equal(result.arrays["rows"], rows) for result in results), "models of other rows"
        confidence = np.stack([result.arrays["confidence"][0].astype(np.float64) for result in results])
        attacks.append(Attack(confidence, np.stack([r.arrays["member"].astype(bool) for r in results])))
    assert all(np.array_equal(attacks[0].member, other.member) for other in attacks), "other coins"
    baseline = attacks[1] if len(attacks) > 1 else None
    groups = grouping.groups[rows]
    tables, records = attack_tables(attacks[0], baseline, groups, len(grouping.names))
    cut = GroupSelection(grouping.names, grouping.missing, records.count(), n_seeds)
    members = [float(attacks[0].member[:, groups == k].sum(axis=1).mean()) for k in range(len(cut.names))]
    measures = [_measure(k, cut, tables, n) for k, n in enumerate([*members, sum(members)])]
    gaps = (
        gap
        for name, table in tables.items()
        if "both rates" not in spec_of(name).needs
        for gap in gaps_of(table, cut)
    )
    return _measured(arm, grouping, measures, gaps)


def _measured(
    arm: Arm, grouping: Grouping, measures: Sequence[GroupMeasure], gaps: Iterable[Gap]
) -> Measured:
    """What was found by group and, last, of all rows."""
    return Measured(
        arm=arm.key,
        reference=arm.reference or "",
        grouping=grouping.name,
        estimand=ESTIMAND,
        overall=measures[-1],
        by_group=tuple(measures[:-1]),
        gaps=tuple(gaps),
        worst={},
    )


def _measure(k: int, cut: GroupSelection, tables: Mapping[str, MetricTable], members: float) -> GroupMeasure:
    """All numbers of group k, or of all rows where k is K."""
    is_group = k < len(cut.names)
    reason = (cut.too_few(k) if is_group else "") or cut.too_few_seeds
    estimates = {name: estimate(reading(table, cut, k)) for name, table in tables.items()}
    for name, found in estimates.items():
        if found.ends is None:  # too few rows: a rate at 1 % of fifty rows is none
            estimates[name] = undefined(found.reason, found.unit, found.n_test)
    return GroupMeasure(
        group=cut.names[k] if is_group else "",
        n_test=int(cut.counts[k]),
        n_train=members,
        gated=not reason,
        reason=reason,
        estimates=estimates,
        ungated={name: why for name, table in tables.items() if (why := too_few_for_gates(table, cut, [k]))},
    )


def _nothing(arm: Arm, grouping: Grouping, reason: str) -> Measured:
    """Too few models were trained: every group and number is named, nothing is known."""
    sides = ("", "reference.", "change.") if arm.reference else ("",)
    names = [side + spec.name for side in sides for spec in of_leakage()]
    groups = [
        GroupMeasure(
            group=name,
            n_test=0,
            n_train=0.0,
            gated=False,
            reason=reason,
            estimates={key: undefined(reason, spec_of(key).unit) for key in names},
        )
        for name in (*grouping.names, "")
    ]
    return _measured(arm, grouping, groups, ())


@dataclass(frozen=True, slots=True)
class Attacked:
    """What membership inference found, before it is written down.

    Args:
        plan: Of the attacked trainings.
        results, failures: As of an audit.
        rows: That were attacked.
        comparisons: What was measured, by arm and grouping.
    """

    plan: Plan
    results: Mapping[str, JobResult]
    failures: Mapping[str, str]
    rows: int
    comparisons: Sequence[Measured]


def leakage_facts(found: Attacked, *, least: int, named: Sequence[NamedPair]) -> Leakage:
    """What a report holds of it; arguments as of :func:`disclosed`."""
    plan = found.plan
    compared = [disclosed(c, least=least, named=named) for c in found.comparisons]
    return Leakage(
        rows=found.rows,
        n_public=plan.schedule.n_public,
        batch_size=plan.schedule.expected_batch_size,
        epochs=plan.schedule.epochs,
        delta=plan.delta,
        arms=tuple(_arm(arm, found) for arm in plan.arms),
        comparisons=judged(compared, tuple(spec.name for spec in of_leakage())),
    )


def _arm(arm: Arm, found: Attacked) -> AttackedArm:
    plan, results = found.plan, found.results
    event = arm.privacy.event if arm.privacy.guarantee.has_epsilon else None
    return AttackedArm(
        arm=arm.key,
        reference=arm.reference,
        epsilon=arm.privacy.epsilon if event else None,
        noise_multiplier=event.effective_noise_multiplier if event else None,
        ceiling=attack_facts(event, tuple(WITHIN_GROUP.values())) if event else (),
        models_planned=sum(job.arm == arm.key for job in plan.jobs),
        models_finished=len(finished(plan, arm.key, results)),
        failed=failed_seeds(plan, arm.key, results, found.failures),
        trainings=digest_of(plan, arm.key, results),
    )
