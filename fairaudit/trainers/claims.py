"""What the user's own code claims of its privacy, and the limitations of such arms."""

from collections.abc import Iterator, Mapping

from fairaudit.analysis.arm_readings import finished
from fairaudit.errors import numbered
from fairaudit.messages.base import Message
from fairaudit.planning.arms import Arm
from fairaudit.planning.plan import Plan
from fairaudit.report.types.facts import ArmPrivacy, ClaimFacts
from fairaudit.results.jobs import JobResult
from fairaudit.trainers.messages import OneTable, OwnTrainer, OwnTrainerReadings
from fairaudit.trainers.study import NAME


def limitations(plan: Plan) -> Iterator[Message]:
    """The limitations of a report with arms that the user's code trains; none without such arms."""
    keys = tuple(arm.key for arm in plan.arms if arm.capability == NAME)
    if keys:
        yield OwnTrainer(keys)
        yield OwnTrainerReadings(keys)
    if plan.config.synthetic is not None:
        yield OneTable(plan.config.seeds)


def privacy(arm: Arm, plan: Plan, results: Mapping[str, JobResult]) -> ArmPrivacy:
    """An arm's privacy after training: as planned, and with what its finished trainings claim.

    A reference or a given table, which no epsilon is asked of, keeps what was planned. A search is
    not charged, so nothing is claimed of the model that it chooses: its jobs hold no claim
    (``jobs._search``), and ``claim.epsilon`` is None.
    """
    target = arm.privacy.target_epsilon
    if target is None:
        return arm.privacy
    claim = _claim(arm, plan, results)
    reason = f"asked for epsilon {target:g}, delta {plan.training.delta:g}"
    if arm.search is not None:
        reason += (
            f" in each of {arm.search.trials} trainings; the search over them is not charged, and "
            "no epsilon is claimed of the model that it chooses"
        )
    elif claim.trainings and claim.epsilon is None:
        silent = claim.trainings - claim.claiming
        reason += f"; {silent} of {numbered(claim.trainings, 'training')} claimed nothing"
    return arm.privacy.model_copy(update={"reason": reason, "claim": claim})


def _claim(arm: Arm, plan: Plan, results: Mapping[str, JobResult]) -> ClaimFacts:
    """The largest epsilon and the largest delta that any finished training of the arm claims.

    Both are None unless every training claims something. ``trainings`` counts all of them,
    ``claiming`` those that claim.
    """
    claims = []  # the fields of a claim for each training; None where it claims nothing
    for result in finished(plan, arm.key, results).values():
        claims_of_seed = result.facts["claimed"]  # a list with an entry for each training
        if isinstance(claims_of_seed, list):  # a fact may be of any type
            claims += claims_of_seed
    made = [claim for claim in claims if claim is not None]
    epsilon, delta = None, None
    if made and len(made) == len(claims):
        epsilon = max(claim["epsilon"] for claim in made)
        delta = max(claim["delta"] for claim in made)

    def texts(name: str) -> str:
        """The texts of one field of the claims, each once, as one text; "" without any."""
        return "; ".join(dict.fromkeys(claim[name] for claim in made if claim[name]))

    return ClaimFacts(
        asked_delta=plan.training.delta,
        epsilon=epsilon,
        delta=delta,
        unit=texts("unit"),
        neighbouring=texts("neighbouring"),
        accountant=texts("accountant"),
        trainings=len(claims),
        claiming=len(made),
    )
