"""Trainings on random halves -> what they leak, by group, in the report's types.

"Members" are rows that a model trained on. A number is "gated" where it rests on enough rows and
seeds for rules to judge it.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from fairaudit.analysis.arm_readings import finished
from fairaudit.analysis.build_facts import attack_facts, digest_of, failed_seeds
from fairaudit.analysis.disclosure import Disclosure
from fairaudit.analysis.family import reported
from fairaudit.data.dataset import Dataset, Grouping
from fairaudit.data.inputs.split import leakage_rows
from fairaudit.errors import numbered
from fairaudit.leakage.attack import LEAST_TARGETS, Attack, attack_tables
from fairaudit.leakage.plan import NAME
from fairaudit.leakage.study import AttackedArm, Leakage
from fairaudit.metrics.gaps import GroupSelection, checked_contrast, gaps_of, too_few_for_gates
from fairaudit.metrics.intervals import MetricTable, estimate
from fairaudit.metrics.registry import WITHIN, of_study, spec_of
from fairaudit.planning.flow import Audit
from fairaudit.planning.plan import Arm, Plan
from fairaudit.report.types.facts import AttackFacts
from fairaudit.results.estimates import Gap, GroupMeasure, Measured, undefined
from fairaudit.results.jobs import JobResult

ESTIMAND = (
    "the expected success of this attack on one model of the recipe, trained on a random "
    "half of such rows"
)


def measure_leakage(
    plan: Plan, dataset: Dataset, results: Mapping[str, JobResult]
) -> tuple[Measured, ...]:
    """Attack the models of every arm, and measure the success by every grouping.

    A seed at which the arm or its reference has no result is left out.

    Args:
        plan: Of the trainings on random halves.
        dataset: The audit's, for its groupings.
        results: Job id -> result.

    Returns:
        One for each grouping and arm.
    """
    measured = []
    for grouping in dataset.groupings:
        for arm in plan.arms:
            by_arm = [finished(plan, arm.key, results)]  # seed -> result; then of the reference
            if arm.reference is not None:
                by_arm.append(finished(plan, arm.reference, results))
            seeds = sorted(set.intersection(*map(set, by_arm)))
            trained = [[by_seed[seed] for seed in seeds] for by_seed in by_arm]
            measured.append(_measure_arm(arm, grouping, trained, plan.config.suppress_below))
    return tuple(measured)


def _measure_arm(
    arm: Arm, grouping: Grouping, trained: Sequence[Sequence[JobResult]], suppressed_below: int
) -> Measured:
    """How well the attack does on one arm, by group, beside the arm's reference if it has one.

    Args:
        arm: The attacked arm.
        grouping: Groups of the file's rows.
        trained: Results of the arm, one of each seed, and those of its reference if it has one.
        suppressed_below: Groups of fewer rows are hidden and compared with no other.

    Returns:
        The numbers of each group and of all rows; undefined where fewer than ``LEAST_TARGETS``
        models were trained.
    """
    n_seeds = len(trained[0])
    if n_seeds < LEAST_TARGETS:
        return _unmeasured(
            arm, grouping, f"{numbered(n_seeds, 'model')} to attack; {LEAST_TARGETS} are needed"
        )
    rows: NDArray[np.int64] = trained[0][0].arrays["rows"].astype(np.int64)
    attacks = []
    for results in trained:
        confidence, member = [], []
        for result in results:
            assert np.array_equal(result.arrays["rows"], rows), "models of other rows"
            # [0]: these trainings have one repeat.
            confidence.append(result.arrays["confidence"][0].astype(np.float64))
            member.append(result.arrays["member"].astype(bool))
        attacks.append(Attack(np.stack(confidence), np.stack(member)))
    baseline = None
    if len(attacks) > 1:
        baseline = attacks[1]
        assert np.array_equal(attacks[0].member, baseline.member), "other coins"
    groups = grouping.groups[rows]
    tables, records = attack_tables(attacks[0], baseline, groups, len(grouping.names))
    cut = GroupSelection(
        grouping.names,
        grouping.missing,
        records.count(),
        n_seeds,
        suppressed_below=suppressed_below,
    )
    measures, members_of_all = [], 0.0
    for k in range(len(cut.names)):
        members = float(attacks[0].member[:, groups == k].sum(axis=1).mean())
        members_of_all += members
        measures.append(_measure_group(k, cut, tables, members))
    measures.append(_measure_group(len(cut.names), cut, tables, members_of_all))
    gaps: list[Gap] = []
    for name, table in tables.items():
        if spec_of(name).has_gap:  # rates by one threshold are not compared
            gaps += gaps_of(table, cut)
    return _measured(arm, grouping, measures, gaps)


def _measured(
    arm: Arm, grouping: Grouping, measures: Sequence[GroupMeasure], gaps: Iterable[Gap]
) -> Measured:
    """The result for one arm by one grouping.

    Args:
        arm, grouping: What was measured.
        measures: Numbers of each group and, last, of all rows.
        gaps: Between the groups.
    """
    return Measured(
        arm=arm.key,
        reference=arm.reference or "",
        grouping=grouping.name,
        estimand=ESTIMAND,
        overall=measures[-1],
        by_group=tuple(measures[:-1]),
        gaps=tuple(gaps),
    )


def _measure_group(
    k: int, cut: GroupSelection, tables: Mapping[str, MetricTable], members: float
) -> GroupMeasure:
    """All numbers of group k, or of all rows where k is K.

    Args:
        k: The group.
        cut: The K groups, with their numbers of rows and which of them are too small to compare.
        tables: Metric -> its values at every target.
        members: How many rows of the group a model is trained on, mean over models.
    """
    group, reason = "", ""
    if k < len(cut.names):
        group, reason = cut.names[k], cut.too_few(k)
    reason = reason or cut.too_few_seeds  # "" if gates may read the group
    estimates, ungated = {}, {}
    for name, table in tables.items():
        number = estimate(checked_contrast(table, cut, k))
        if number.ends is None:
            # A number without an interval is not told at all: fifty rows have no rate at 1 %.
            number = undefined(number.reason, number.unit, number.n_test)
        estimates[name] = number
        too_few = too_few_for_gates(table, cut, [k])
        if too_few:
            ungated[name] = too_few
    return GroupMeasure(
        group=group,
        n_test=int(cut.counts[k]),
        n_train=members,
        gated=not reason,
        reason=reason,
        estimates=estimates,
        ungated=ungated,
    )


def _unmeasured(arm: Arm, grouping: Grouping, reason: str) -> Measured:
    """The result where too few models were trained: every number is undefined, for ``reason``."""
    # Prefixes of the names, as of :func:`attack_tables`: the arm's numbers have none.
    sides = ("", "reference.", "change.") if arm.reference else ("",)
    estimates = {}
    for side in sides:
        for spec in of_study(NAME):
            estimates[side + spec.name] = undefined(reason, spec_of(side + spec.name).unit)
    groups = []
    for name in (*grouping.names, ""):  # "" stands for all rows
        groups.append(
            GroupMeasure(
                group=name, n_test=0, n_train=0.0, gated=False, reason=reason, estimates=estimates
            )
        )
    return _measured(arm, grouping, groups, ())


def measure(audit: Audit) -> Leakage | None:
    """What a report holds of membership inference; None where ``--leakage`` was not asked for.

    ``audit``: with the results of the trainings on random halves.
    """
    plan, dataset = audit.plan.side_plans.get(NAME), audit.dataset
    if plan is None:
        return None
    disclosure = Disclosure.of(plan.config, dataset.groupings)
    arms = []
    for arm in plan.arms:
        event = arm.privacy.event
        ceiling: tuple[AttackFacts, ...] = ()
        if event is not None and arm.privacy.epsilon is not None:
            ceiling = attack_facts(event, tuple(WITHIN.values()))
        arms.append(
            AttackedArm(
                epsilon=arm.privacy.headline,
                ceiling=ceiling,
                arm=arm.key,
                reference=arm.reference,
                models_planned=sum(job.arm == arm.key for job in plan.jobs),
                models_finished=len(finished(plan, arm.key, audit.results)),
                failed=failed_seeds(plan, arm.key, audit.results, audit.failures),
                trainings=digest_of(plan, arm.key, audit.results),
            )
        )
    metrics = tuple(spec.name for spec in of_study(NAME))
    measured = measure_leakage(plan, dataset, audit.results)
    return Leakage(
        name=NAME,
        rows=len(leakage_rows(dataset, plan.config.split)),
        n_public=plan.training.n_public,
        delta=plan.training.delta,
        arms=tuple(arms),
        comparisons=reported(measured, disclosure, metrics).comparisons,
    )
