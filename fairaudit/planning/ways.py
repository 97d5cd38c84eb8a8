"""The way beside a search: what the default setting costs, on the same records, at one epsilon.

An audit with a search (``--tune``) also trains every arm at its default setting, as an ordinary
audit on all training rows and at all of epsilon.
"""

from dataclasses import replace

from fairaudit.config.model_names import ModelFacts
from fairaudit.data.dataset import Dataset
from fairaudit.planning.plan import Plan, make_plan
from fairaudit.results.estimates import DEFAULT

# Options of an audit of fixed settings. Its trainings are those of `run` without a search, to the
# bit.
_FIXED = {
    "tune": None,
    "tune_for": "accuracy",
    "tune_privacy": "charged",
    "twins": False,
    "self_check": False,
}


def with_ways(plan: Plan, dataset: Dataset, own_model: ModelFacts | None = None) -> Plan:
    """The plan with the default way beside its search; unchanged where there is no search.

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
        training=whole.training.model_copy(update={"epsilon_if_all_released": None}),
    )
    return replace(plan, ways={DEFAULT: default})
