"""What a report says of trainers of the user's own: their claims, and what two equal trainings gave."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from fairaudit.analysis.arm_readings import finished
from fairaudit.errors import numbered
from fairaudit.planning.arms import Arm
from fairaudit.planning.plan import Plan
from fairaudit.report.facts import NOTHING_KNOWN, ArmFacts, ClaimFacts, PrivacyFacts, ReportWarning
from fairaudit.results.jobs import JobResult

Results = Mapping[str, JobResult]

NOT_CHECKED = (
    "{who} by the user's own code, in a process of its own that only its predictions leave. What that code "
    "does with the records, and whether a claimed epsilon holds, is not checked; it may read anything that "
    "its user may, test rows included. A claimed epsilon is of one training; what several reveal adds up."
)
NO_READINGS = (
    "For {who} there is no split of the cost into clipping and noise (the training cannot be repeated "
    "without its noise), no angle between a group's gradient and the step, no curve over training and no "
    "curvature: gradients and parameters are not seen."
)


def own_privacy(arm: Arm, plan: Plan, results: Results) -> PrivacyFacts:
    """What a trainer claims, over all trainings that finished; nothing where it is the reference."""
    target = arm.privacy.target_epsilon
    claim = None if target is None else _claim(arm, plan, results)
    reason = arm.privacy.reason
    if target is not None:
        reason = f"asked for epsilon {target:g}, delta {plan.delta:g}"
        if claim is not None and claim.trainings and claim.epsilon is None:
            none = claim.trainings - claim.claiming
            reason += f"; {none} of {numbered(claim.trainings, 'training')} claimed nothing"
    said = ("unit", "neighbouring", "accountant")
    known = {"guarantee": arm.privacy.guarantee, "reason": reason, "target_epsilon": target, "claim": claim}
    claimed = {name: getattr(claim, name) for name in said if claim is not None}
    return PrivacyFacts(**{**dict(NOTHING_KNOWN), **known, **claimed})


def own_limitations(plan: Plan) -> Iterator[tuple[str, str]]:
    """What is not known of arms that the user's own code trained."""
    own = [arm.key for arm in plan.arms if arm.is_own_code]
    if own:
        who = ", ".join(own)
        yield "own_trainer", NOT_CHECKED.format(who=f"{who} {'was' if len(own) == 1 else 'were'} trained")
        yield "own_trainer_readings", NO_READINGS.format(who=who)


def own_warnings(
    plan: Plan, arms: Sequence[ArmFacts], privacy: Mapping[str, PrivacyFacts], results: Results
) -> Iterator[ReportWarning]:
    """What a trainer's trainings show: whether it is deterministic, claims too much, and heeds privacy."""
    for facts in arms:
        if facts.differs_by is not None:
            message = f"{facts.key} was trained twice at seed {plan.config.seed}: "
            message += (
                f"probabilities differ by up to {facts.differs_by:.2g}, so another run may give other figures"
                if facts.differs_by
                else "the same predictions, so it looks deterministic"
            )
            fix = "draw everything from the seed that it is given, noise too, as long as it is audited"
            yield ReportWarning(
                code="trainer_not_deterministic" if facts.differs_by else "trainer_deterministic",
                level="notice",
                message=message,
                fix=fix if facts.differs_by else "",
                arm=facts.key,
            )
        claim, target = privacy[facts.key].claim, privacy[facts.key].target_epsilon
        if claim is not None and claim.epsilon is not None and claim.delta is not None and target is not None:
            both = (("epsilon", claim.epsilon, target), ("delta", claim.delta, claim.asked_delta))
            over = [f"{name} {found:g}, asked was {asked:g}" for name, found, asked in both if found > asked]
            if over:
                yield ReportWarning(
                    code="claim_beyond_asked",
                    level="warning",
                    message=f"{facts.key} claims {' and '.join(over)}",
                    fix="calibrate the trainer to what it is asked for",
                    arm=facts.key,
                )
        arm = plan.arm(facts.key)
        if target is not None and _predicts_as_without(arm, plan, results):
            yield ReportWarning(
                code="privacy_not_heeded",
                level="warning",
                message=f"{facts.key} predicts at every seed exactly what it does without privacy",
                fix="does the trainer read `privacy`?",
                arm=facts.key,
            )


def _claim(arm: Arm, plan: Plan, results: Results) -> ClaimFacts:
    found = [
        each
        for result in finished(plan, arm.key, results).values()
        if isinstance(claims := result.facts["claimed"], list)
        for each in claims
    ]
    made = [each for each in found if each is not None]
    whole = bool(made) and len(made) == len(found)

    def said(name: str) -> str:
        return "; ".join(dict.fromkeys(each[name] for each in made if each[name]))

    return ClaimFacts(
        asked_delta=plan.delta,
        epsilon=max(each["epsilon"] for each in made) if whole else None,
        delta=max(each["delta"] for each in made) if whole else None,
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
    return bool(both) and all(
        np.array_equal(ours[seed].arrays["probabilities"][:1], theirs[seed].arrays["probabilities"])
        for seed in both
    )
