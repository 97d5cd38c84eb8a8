"""Attacked models -> the report's types."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fairaudit.data.groups import NamedPair
from fairaudit.metrics.registry import of_leakage
from fairaudit.planning.plan import Arm, Plan
from fairaudit.privacy.tradeoff import attack_rates
from fairaudit.report.build_measured import disclosed
from fairaudit.report.detected import judged
from fairaudit.report.facts import AttackFacts, FailedSeed
from fairaudit.report.leakage import WITHIN_GROUP, AttackedArm, Leakage
from fairaudit.results.estimates import Measured
from fairaudit.results.jobs import JobResult, job_id


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
    jobs = [job for job in found.plan.jobs if job.arm == arm.key]
    event = arm.privacy.event if arm.privacy.guarantee.has_epsilon else None
    rates = attack_rates(event, rates=tuple(WITHIN_GROUP.values())) if event else ()
    return AttackedArm(
        arm=arm.key,
        reference=arm.reference,
        epsilon=arm.privacy.epsilon if event else None,
        noise_multiplier=event.effective_noise_multiplier if event else None,
        ceiling=tuple(
            AttackFacts(
                false_positive_rate=rate.false_positive_rate, true_positive_rate=rate.true_positive_rate
            )
            for rate in rates
        ),
        models_planned=len(jobs),
        models_finished=sum(job.id in found.results for job in jobs),
        failed=tuple(
            FailedSeed(seed=job.seed, message=found.failures.get(job.id, "not finished"))
            for job in jobs
            if job.id not in found.results
        ),
        trainings=job_id({"trainings": [job.id for job in jobs if job.id in found.results]}),
    )
