"""What a report says of trainers of the user's own.

Their claims, and what two equal trainings gave.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from fairaudit.analysis.arm_readings import finished
from fairaudit.errors import numbered
from fairaudit.planning.arms import Arm
from fairaudit.planning.plan import Plan
from fairaudit.report.facts import ArmFacts, ArmPrivacy, ClaimFacts, ReportWarning
from fairaudit.results.jobs import JobResult

Results = Mapping[str, JobResult]

NOT_CHECKED = (
    "{who} by the user's own code, in a process of its own that only its predictions leave. What "
    "that code does with the records, and whether a claimed epsilon holds, is not checked; it may "
    "read anything that its user may, test rows included. A claimed epsilon is of one training; "
    "what several reveal adds up."
)
NO_READINGS = (
    "For {who} there is no split of the cost into clipping and noise (the training cannot be "
    "repeated without its noise), no angle between a group's gradient and the step, no curve over "
    "training and no curvature: gradients and parameters are not seen."
)


def privacy(arm: Arm, plan: Plan, results: Results) -> ArmPrivacy:
    """What a trainer claims, over all trainings that finished.

    Nothing where it is the reference.
    """
    target = arm.privacy.target_epsilon
    if target is None:
        return arm.privacy
    claim = _claim(arm, plan, results)
    reason = f"asked for epsilon {target:g}, delta {plan.training.delta:g}"
    if claim.trainings and claim.epsilon is None:
        silent = claim.trainings - claim.claiming
        reason += f"; {silent} of {numbered(claim.trainings, 'training')} claimed nothing"
    return arm.privacy.model_copy(update={"reason": reason, "claim": claim})


def limitations(plan: Plan) -> Iterator[tuple[str, str]]:
    """What is not known of arms that the user's own code trained."""
    own = [arm.key for arm in plan.arms if arm.is_own_code]
    if own:
        who = ", ".join(own)
        verb = "was" if len(own) == 1 else "were"
        yield "own_trainer", NOT_CHECKED.format(who=f"{who} {verb} trained")
        yield "own_trainer_readings", NO_READINGS.format(who=who)


def warnings(plan: Plan, arms: Sequence[ArmFacts], results: Results) -> Iterator[ReportWarning]:
    """What a trainer's trainings show.

    Whether it is deterministic, claims too much, and heeds privacy.
    """
    for facts in arms:
        if facts.differs_by is not None:
            yield _of_two_trainings(facts, facts.differs_by, plan.config.seed)
        claim, target = facts.privacy.claim, facts.privacy.target_epsilon
        if target is None:
            continue
        over = []
        if claim is not None and claim.epsilon is not None and claim.delta is not None:
            if claim.epsilon > target:
                over.append(f"epsilon {claim.epsilon:g}, asked was {target:g}")
            if claim.delta > claim.asked_delta:
                over.append(f"delta {claim.delta:g}, asked was {claim.asked_delta:g}")
        if over:
            yield ReportWarning(
                code="claim_beyond_asked",
                level="warning",
                message=f"{facts.key} claims {' and '.join(over)}",
                fix="calibrate the trainer to what it is asked for",
                arm=facts.key,
            )
        if _predicts_as_without(plan.arm(facts.key), plan, results):
            yield ReportWarning(
                code="privacy_not_heeded",
                level="warning",
                message=f"{facts.key} predicts at every seed exactly what it does without privacy",
                fix="does the trainer read `privacy`?",
                arm=facts.key,
            )


def _of_two_trainings(facts: ArmFacts, difference: float, seed: int) -> ReportWarning:
    """What a second training with the same seed gave."""
    start = f"{facts.key} was trained twice at seed {seed}: "
    if not difference:
        return ReportWarning(
            code="trainer_deterministic",
            level="notice",
            message=f"{start}the same predictions, so it looks deterministic",
            fix="",
            arm=facts.key,
        )
    return ReportWarning(
        code="trainer_not_deterministic",
        level="notice",
        message=f"{start}probabilities differ by up to {difference:.2g}, so another run may give "
        "other figures",
        fix="draw everything from the seed that it is given, noise too, as long as it is audited",
        arm=facts.key,
    )


def _claim(arm: Arm, plan: Plan, results: Results) -> ClaimFacts:
    found = []
    for result in finished(plan, arm.key, results).values():
        claims = result.facts["claimed"]
        if isinstance(claims, list):
            found += claims
    made = [claim for claim in found if claim is not None]
    epsilon, delta = None, None
    if made and len(made) == len(found):
        epsilon = max(claim["epsilon"] for claim in made)
        delta = max(claim["delta"] for claim in made)

    def said(name: str) -> str:
        return "; ".join(dict.fromkeys(claim[name] for claim in made if claim[name]))

    return ClaimFacts(
        asked_delta=plan.training.delta,
        epsilon=epsilon,
        delta=delta,
        unit=said("unit"),
        neighbouring=said("neighbouring"),
        accountant=said("accountant"),
        trainings=len(found),
        claiming=len(made),
    )


def _predicts_as_without(arm: Arm, plan: Plan, results: Results) -> bool:
    """Whether every finished seed predicts the same as the trainer's own reference."""
    if arm.reference is None or not plan.arm(arm.reference).is_own_code or "#" in arm.key:
        return False
    ours, theirs = (finished(plan, key, results) for key in (arm.key, arm.reference))
    both = ours.keys() & theirs.keys()
    for seed in both:
        own, other = (found[seed].arrays["probabilities"] for found in (ours, theirs))
        if not np.array_equal(own[:1], other):
            return False
    return bool(both)
