"""The trainings of a search -> what was tried, and the default setting beside it."""

from collections.abc import Mapping

from fairaudit.analysis.arm_readings import finished
from fairaudit.analysis.build_facts import arm_facts
from fairaudit.analysis.disclosure import Disclosure
from fairaudit.analysis.family import reported
from fairaudit.analysis.measure import evaluation, on_rows_of, predictions
from fairaudit.analysis.measure import measure as measure_plan
from fairaudit.data.dataset import Dataset
from fairaudit.metrics.compare import compare
from fairaudit.planning.flow import Audit
from fairaudit.planning.plan import Arm, Plan
from fairaudit.report.types.facts import Way
from fairaudit.results.estimates import DEFAULT, Measured, finite, key_of
from fairaudit.results.jobs import JobResult
from fairaudit.tuning.search import NAME, best_of, tuning_of
from fairaudit.tuning.searched import ArmSearch, Searched, SearchedSeed, Tried
from fairaudit.tuning.study import Tuned


def measure(audit: Audit) -> Tuned | None:
    """What a report holds of an audit's searches; None where settings were fixed."""
    plan, dataset, results = audit.plan, audit.dataset, audit.results
    config, default = plan.config, plan.side_plans.get(DEFAULT)
    if config.tune is None or default is None:
        return None
    disclosure = Disclosure.of(config, dataset.groupings)
    return Tuned(
        name=NAME,
        comparisons=(),
        trials=config.tune,
        goal=config.tune_for,
        is_charged=config.tune_privacy == "charged",
        searches=tuple(_search(arm, plan, results) for arm in plan.arms),
        ways=(_default_way(audit, default, disclosure),),
        gains=reported(measure_gains(plan, dataset, results), disclosure).comparisons,
    )


def _default_way(audit: Audit, default: Plan, disclosure: Disclosure) -> Way:
    """Facts and comparisons of every arm at its default setting, under keys as ``dpsgd:default``.

    Args:
        audit: With the results of the trainings at default settings.
        default: The plan of these trainings, in which arms have their ordinary keys.
        disclosure: What of them may be told.
    """
    arms = []
    for facts in arm_facts(default, audit.results, audit.failures):
        renamed = {}
        for field in ("key", "reference", "source"):
            key = getattr(facts, field)
            renamed[field] = key and key_of(key, DEFAULT)  # None stays None
        arms.append(facts.model_copy(update=renamed))
    measured_arms = []
    for measured in measure_plan(default, audit.dataset, audit.results):
        names = {"arm": key_of(measured.arm, DEFAULT)}
        if measured.reference:
            names["reference"] = key_of(measured.reference, DEFAULT)
        measured_arms.append(measured.model_copy(update=names))
    comparisons = reported(measured_arms, disclosure).comparisons
    return Way(name=DEFAULT, arms=tuple(arms), comparisons=comparisons)


def measure_gains(
    plan: Plan, dataset: Dataset, results: Mapping[str, JobResult]
) -> tuple[Measured, ...]:
    """Compare every arm at its default setting with itself as tuned, on the same seeds and rows.

    Tuned stands where a reference does, so what these comparisons call a cost is what searching
    gained. There is one for each grouping and arm.
    """
    gains = []
    for number, grouping in enumerate(dataset.groupings):
        shared = evaluation(dataset, grouping, plan.config.suppress_below)
        for arm in plan.arms:
            default = predictions(plan.side_plans[DEFAULT], arm.key, number, results)
            tuned = on_rows_of(default, predictions(plan, arm.key, number, results))
            gains.append(compare(shared, key_of(arm.key, DEFAULT), arm.key, default, tuned))
    return tuple(gains)


def _search(arm: Arm, plan: Plan, results: Mapping[str, JobResult]) -> ArmSearch:
    """What was searched for one arm, at what charge, and what each seed found."""
    tuning = tuning_of(arm)
    # The default setting of one ordinary training, whose noise spends all of epsilon.
    alone: Mapping[str, float] = {}
    if DEFAULT in plan.side_plans:
        alone = plan.side_plans[DEFAULT].arm(arm.key).settings
    mean_tries, shape_tries = None, None
    if tuning.selection is not None:
        mean_tries, shape_tries = tuning.selection.mean, tuning.selection.shape
    searched = {}
    for name, coordinate in tuning.coordinates.items():
        searched[name] = Searched(
            default=finite(coordinate.default),
            low=coordinate.low,
            high=coordinate.high,
            choices=coordinate.choices,
        )
    seeds = []
    for seed, trained in finished(plan, arm.key, results).items():
        tuned = trained.facts["tuning"]
        assert isinstance(tuned, Mapping)
        best = best_of([candidate["weight"] for candidate in tuned["candidates"]])
        tried = []
        for number, candidate in enumerate(tuned["candidates"]):
            # The exact score stays with the trainings.
            released = {name: value for name, value in candidate.items() if name != "score"}
            released |= {"number": number, "selected": number == best}
            tried.append(Tried.model_validate(released))
        searched_seed = SearchedSeed(
            seed=seed,
            fit_rows=tuned["fit_rows"],
            validation_rows=tuned["validation_rows"],
            tried=tuple(tried),
        )
        seeds.append(searched_seed)
    return ArmSearch(
        arm=arm.key,
        searched=searched,
        mean_tries=mean_tries,
        base_epsilon=arm.privacy.base_epsilon,
        noise_multiplier=tuning.settings.get("noise_multiplier"),
        uncharged_noise_multiplier=alone.get("noise_multiplier"),
        score_noise=tuning.score_noise,
        seeds=tuple(seeds),
        shape_tries=shape_tries,
    )
