"""Measures what a search tried and gained, from its trainings and those at default settings."""

from collections.abc import Mapping
from typing import Any

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
from fairaudit.results.estimates import DEFAULT, Measured, key_of
from fairaudit.results.jobs import JobResult
from fairaudit.tuning.reported import searched_in
from fairaudit.tuning.search import NAME, best_of, tuning_of
from fairaudit.tuning.searched import ArmSearch, SearchedForm, SearchedSeed, Tried
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
        comparisons=(),  # those with references are the audit's own; ``gains`` are apart
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
            renamed[field] = key_of(key, DEFAULT) if key else key  # None: there is no such arm
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

    The tuned arm stands where a reference does. What these comparisons call a cost is then how much
    worse the default is: what searching gained.

    Returns:
        A comparison for each grouping and arm.
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
    """The search of one arm as a report holds it: ranges, charge, and what each seed tried."""
    tuning = tuning_of(arm)
    # Settings of one ordinary training at the default, whose noise spends all of epsilon.
    ordinary: Mapping[str, float] = {}
    if DEFAULT in plan.side_plans:
        ordinary = plan.side_plans[DEFAULT].arm(arm.key).settings
    mean_tries, shape_tries, score_noise_multiplier = None, None, None
    if tuning.selection is not None:
        mean_tries, shape_tries = tuning.selection.mean, tuning.selection.shape
        if tuning.charge is not None:  # None of a method without noise
            score_noise_multiplier = tuning.charge.score.noise_multiplier
    forms = []
    for choice, form in tuning.forms.items():
        choices = dict(zip(tuning.names_of_choices, choice, strict=True))
        forms.append(SearchedForm(choices=choices, noise_multiplier=form.noise_multiplier))
    seeds = []
    for seed, trained in finished(plan, arm.key, results).items():
        tuned = trained.facts["tuning"]
        assert isinstance(tuned, Mapping)
        seeds.append(_searched_seed(seed, tuned))
    return ArmSearch(
        arm=arm.key,
        searched=searched_in(tuning.coordinates),
        mean_tries=mean_tries,
        base_epsilon=arm.privacy.base_epsilon,
        noise_multiplier=tuning.settings.get("noise_multiplier"),
        uncharged_noise_multiplier=ordinary.get("noise_multiplier"),
        score_noise=tuning.score_noise,
        seeds=tuple(seeds),
        shape_tries=shape_tries,
        forms=tuple(forms),
        score_noise_multiplier=score_noise_multiplier,
    )


def _searched_seed(seed: int, tuned: Mapping[str, Any]) -> SearchedSeed:
    """One seed's search as a report holds it, without exact scores, which are not released.

    Args:
        seed: The seed.
        tuned: The fact ``tuning`` of its training.
    """
    best = best_of([candidate["weight"] for candidate in tuned["candidates"]])
    tried = []
    for number, candidate in enumerate(tuned["candidates"]):
        released = {name: value for name, value in candidate.items() if name != "score"}
        released |= {"number": number, "selected": number == best}
        tried.append(Tried.model_validate(released))
    return SearchedSeed(
        seed=seed,
        fit_rows=tuned["fit_rows"],
        validation_rows=tuned["validation_rows"],
        tried=tuple(tried),
    )
