"""What the figures of a search do not say."""

from collections.abc import Iterator

from fairaudit.errors import numbered
from fairaudit.methods.spec import Guarantee
from fairaudit.planning.plan import Plan

_SEARCH_CHARGED = (
    "The search is charged, and nothing beyond it: the method, what is searched, how far, how many "
    "tries and all other settings were chosen outside the guarantee. Epsilon is of a search that "
    "draws all of it afresh; this audit trains a fixed number of candidates and gives the "
    "expectation over which are tried."
)
_SEARCH_UNCHARGED = (
    "The search is not charged: each private arm keeps the best of {tune} trainings by an exact "
    "score, and the epsilon that is named is of one of them."
)
_SEARCHED = (
    "Costs are those of this search, in both arms alike; a wider one may find better settings. "
    "Costs at default settings are of trainings with all of epsilon and all training rows."
)
_PER_SEARCH = (
    "Epsilon is for {one}. This audit searches for {models} on the same rows and trains at default "
    "settings beside; what all of that reveals together is not accounted for."
)


def limitations(plan: Plan) -> Iterator[tuple[str, str]]:
    """What a report says that a search leaves open, as code and text; nothing without a search."""
    tries = plan.config.tune
    if tries is None:
        return
    released = "one training, not for a search"
    if plan.config.tune_privacy == "charged":
        released = "the one model that a search releases"
        yield "hyperparameters", _SEARCH_CHARGED
    else:
        yield "hyperparameters", _SEARCH_UNCHARGED.format(tune=tries)
    private = {arm.key for arm in plan.arms if arm.privacy.guarantee is not Guarantee.NONE}
    models = sum(job.repeats for job in plan.jobs if job.arm in private)
    if models:
        searched = numbered(models, "private model")
        yield "per_run", _PER_SEARCH.format(one=released, models=searched)
    yield "configuration", _SEARCHED
