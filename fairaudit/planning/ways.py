"""The ways beside a search: what a setting costs that was not sought, on the same records, at one epsilon.

An audit with a search (``--tune``) tells the cost three ways. The search itself is one; here are the others,
each an ordinary audit on all training rows at all of epsilon: at the default setting, and at the setting
that the reference's search finds.
"""

from collections.abc import Mapping
from dataclasses import replace

from fairaudit.config.model_names import ModelFacts
from fairaudit.data.dataset import Dataset
from fairaudit.methods.catalog import REFERENCE, Guarantee, find
from fairaudit.planning.arms import Arm
from fairaudit.planning.guarantees import ArmPrivacy
from fairaudit.planning.plan import Job, Plan, make_plan
from fairaudit.privacy.events import shown_up
from fairaudit.results.estimates import DEFAULT, REUSED
from fairaudit.results.jobs import job_id
from fairaudit.tuning.search import EPOCHS, Choice, Form, Reuse, Tuning, combinations

# Options of an audit of fixed settings. Its trainings are those of `run` without a search, to the bit.
_FIXED = {
    "tune": None,
    "tune_for": "accuracy",
    "tune_privacy": "charged",
    "twins": False,
    "self_check": False,
}


def with_ways(plan: Plan, dataset: Dataset, own_model: ModelFacts | None = None) -> Plan:
    """The plan with both ways beside its search; unchanged where there is no search.

    Args:
        plan: As :func:`make_plan` made it.
        dataset, own_model: From which it did.

    Raises:
        PrivacyError: A noise that cannot be calibrated.
    """
    if plan.config.tune is None:
        return plan
    whole = make_plan(plan.config.model_copy(update=_FIXED), dataset, own_model)
    keys = {arm.key for arm in plan.arms}
    # Workers keep a seed's data by the options: one and the same, whichever way a job belongs to.
    default = replace(
        whole,
        config=plan.config,
        arms=tuple(arm for arm in whole.arms if arm.key in keys),
        jobs=tuple(replace(job, way=DEFAULT) for job in whole.jobs if job.arm in keys),
        notices=(),
        epsilon_if_all_released=None,
    )
    return replace(plan, ways={DEFAULT: default, REUSED: _reused(plan, default)})


def _reused(plan: Plan, default: Plan) -> Plan:
    """Every arm at the setting that its reference's search finds at that seed."""
    arms = tuple(_taking_over(arm, plan, default) for arm in default.arms)
    of_key = {arm.key: arm for arm in arms}
    searches = {(job.arm, job.seed): job.id for job in plan.jobs}

    def reusing(job: Job) -> Job:
        arm = of_key[job.arm]
        source, reuse = searches[arm.reference or arm.key, job.seed], arm.reuse
        assert reuse is not None, f"{arm.key} takes nothing over"
        own = job_id({"default": job.id, "source": source, "reuse": reuse.to_json()})
        return replace(job, id=own, source_id=source, way=REUSED)

    return replace(default, arms=arms, jobs=tuple(map(reusing, default.jobs)), reads_angles=False)


def _taking_over(arm: Arm, plan: Plan, default: Plan) -> Arm:
    search = plan.arm(arm.reference or arm.key).tuning
    assert search is not None, f"{arm.key} has no reference with a search"
    choices = tuple(name for name, c in search.coordinates.items() if c.choices)
    reuse = Reuse(
        settings=arm.settings,
        taken=tuple(name for name in search.coordinates if name != EPOCHS and name in arm.settings),
        choices=choices,
        forms=_forms(arm, search, default),
        scales_by_threshold=find(arm.method).scales_by_threshold,
    )
    return replace(arm, reuse=reuse, privacy=_privacy(arm))


def _forms(arm: Arm, search: Tuning, default: Plan) -> Mapping[Choice, Form]:
    """For every choice that the reference's search may make, noise that spends all of the arm's epsilon."""
    steps, target, spec = default.schedule.steps_per_epoch, arm.privacy.target_epsilon, find(arm.method)
    forms: dict[Choice, Form] = {}
    for chosen, values, epochs in combinations(search.coordinates, default.schedule.epochs):
        own = {**arm.settings, **{name: value for name, value in values.items() if name in arm.settings}}
        if "noise_multiplier" in own and target is not None:
            own["noise_multiplier"] = spec.mechanism.calibrated(
                own, steps, epochs, delta=default.delta, target=target
            )
        event = spec.events(own, steps, epochs) if arm.privacy.event is not None else None
        forms[chosen] = Form(epochs, own.get("noise_multiplier"), event)
    return forms


def _privacy(arm: Arm) -> ArmPrivacy:
    """One training is what it was; that its setting was found by looking at the records is not covered."""
    one = arm.privacy
    if one.event is None:
        return one
    proof = "established" if one.guarantee is Guarantee.ESTABLISHED else "claimed by its author"
    cost = shown_up(one.target_epsilon or one.epsilon_pld or 0.0)
    at = f"epsilon {cost}" if one.target_epsilon is not None else f"epsilon {cost} at the default length"
    reason = (
        f"{proof} for one training ({at}); its setting was found by training {arm.reference or REFERENCE} "
        "without privacy on the same records, which no epsilon covers"
    )
    return ArmPrivacy(Guarantee.NOT_ESTABLISHED, reason, target_epsilon=one.target_epsilon)
