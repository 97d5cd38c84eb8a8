"""Which limitations a search has."""

from collections.abc import Iterator

from fairaudit.messages.base import Message
from fairaudit.methods.spec import Guarantee
from fairaudit.planning.plan import Plan
from fairaudit.tuning.messages import PerSearch, SearchCharged, SearchedCosts, SearchUncharged


def limitations(plan: Plan) -> Iterator[Message]:
    """The limitations of a report on a search for settings; none without a search."""
    tries = plan.config.tune
    if tries is None:
        return
    is_charged = plan.config.tune_privacy == "charged"
    yield SearchCharged() if is_charged else SearchUncharged(tries)
    private = {arm.key for arm in plan.arms if arm.privacy.guarantee is not Guarantee.NONE}
    models = sum(job.repeats for job in plan.jobs if job.arm in private)
    if models:
        yield PerSearch(models, is_charged)
    yield SearchedCosts()
