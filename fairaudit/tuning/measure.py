"""The trainings of a search -> what was tried, its cost, the default setting beside it."""

import math
from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
from numpy.typing import NDArray

from fairaudit.analysis.arm_readings import finished
from fairaudit.analysis.build_facts import arm_facts
from fairaudit.analysis.build_measured import disclosed
from fairaudit.analysis.measure import evaluation, on_rows_of, predictions
from fairaudit.analysis.measure import measure as measure_plan
from fairaudit.data.dataset import Dataset
from fairaudit.data.groups import named_pairs
from fairaudit.metrics.compare import compare
from fairaudit.metrics.within_model import record_correct
from fairaudit.planning.flow import Audit
from fairaudit.planning.plan import Arm, Plan
from fairaudit.report.facts import Way
from fairaudit.results.estimates import DEFAULT, Comparison, Measured, key_of
from fairaudit.results.jobs import JobResult
from fairaudit.tuning.search import Tuning, best_of, tuning_of
from fairaudit.tuning.study import ArmSearch, Searched, SearchedSeed, Tried, Tuned

Float64 = NDArray[np.float64]


def measure(audit: Audit) -> Tuned | None:
    """The search of every arm; None where settings were fixed."""
    plan, dataset, results = audit.plan, audit.dataset, audit.results
    config, default = plan.config, plan.beside.get(DEFAULT)
    if config.tune is None or default is None:
        return None
    named = named_pairs(config.compare, dataset.groupings)
    told = partial(disclosed, least=config.suppress_below, named=named)
    groups: dict[str, set[str]] = {}  # of each arm, those of the first grouping that are gated
    for comparison in map(told, audit.comparisons):
        if comparison.grouping == dataset.groupings[0].name:
            gated = {g.group for g in comparison.by_group if not comparison.note_on(g)}
            groups[comparison.arm] = gated
    searches = []
    for arm in plan.arms:
        searches.append(
            _search(
                arm,
                plan,
                dataset,
                results,
                groups.get(arm.key, set()),
            )
        )
    return Tuned(
        name=Tuning.capability,
        comparisons=(),
        trials=config.tune,
        goal=config.tune_for,
        is_charged=config.tune_privacy == "charged",
        searches=tuple(searches),
        ways=(_way(audit, default, told),),
        gains=tuple(map(told, measure_gains(plan, dataset, results))),
    )


def _way(
    audit: Audit,
    default: Plan,
    told: Callable[[Measured], Comparison],
) -> Way:
    """Every arm at its default setting, under the name that readers know."""
    arms = []
    for facts in arm_facts(default, audit.results, audit.failures):
        renamed = {}
        for field in ("key", "reference", "source"):
            key = getattr(facts, field)
            renamed[field] = key and key_of(key, DEFAULT)
        arms.append(facts.model_copy(update=renamed))
    comparisons = []
    for measured in measure_plan(default, audit.dataset, audit.results):
        names = {"arm": key_of(measured.arm, DEFAULT)}
        if measured.reference:
            names["reference"] = key_of(measured.reference, DEFAULT)
        comparisons.append(told(measured.model_copy(update=names)))
    return Way(
        name=DEFAULT,
        arms=tuple(arms),
        comparisons=tuple(comparisons),
    )


def measure_gains(
    plan: Plan, dataset: Dataset, results: Mapping[str, JobResult]
) -> tuple[Measured, ...]:
    """Every arm at its default setting against itself as tuned, on the same seeds and rows.

    What these comparisons call a cost is what searching gained.
    """
    gains = []
    for number, grouping in enumerate(dataset.groupings):
        shared = evaluation(dataset, grouping)
        for arm in plan.arms:
            default = predictions(plan.beside[DEFAULT], arm.key, number, results)
            tuned = on_rows_of(default, predictions(plan, arm.key, number, results))
            gains.append(
                compare(
                    shared,
                    key_of(arm.key, DEFAULT),
                    arm.key,
                    default,
                    tuned,
                )
            )
    return tuple(gains)


def _search(
    arm: Arm,
    plan: Plan,
    dataset: Dataset,
    results: Mapping[str, JobResult],
    groups: set[str],
) -> ArmSearch:
    sought = tuning_of(arm)
    alone: Mapping[str, float] = {}
    if DEFAULT in plan.beside:
        alone = plan.beside[DEFAULT].arm(arm.key).settings
    mean_tries, shape_tries = None, None
    if sought.selection is not None:
        mean_tries, shape_tries = sought.selection.mean, sought.selection.shape
    references = finished(plan, arm.reference or "", results)
    seeds = []
    for seed, own in finished(plan, arm.key, results).items():
        seeds.append(
            _seed(
                seed,
                own,
                references.get(seed),
                dataset,
                groups,
            )
        )
    return ArmSearch(
        arm=arm.key,
        searched={
            name: Searched(
                default=None if math.isnan(c.default) else c.default,
                low=c.low,
                high=c.high,
                choices=c.choices,
            )
            for name, c in sought.coordinates.items()
        },
        mean_tries=mean_tries,
        base_epsilon=arm.privacy.base_epsilon,
        noise_multiplier=sought.settings.get("noise_multiplier"),
        uncharged_noise_multiplier=alone.get("noise_multiplier"),
        score_noise=sought.score_noise,
        seeds=tuple(seeds),
        shape_tries=shape_tries,
    )


def _seed(
    seed: int,
    own: JobResult,
    reference: JobResult | None,
    dataset: Dataset,
    groups: set[str],
) -> SearchedSeed:
    tuned = own.facts["tuning"]
    assert isinstance(tuned, Mapping)
    accuracies, by_group = _correct(own, own, dataset)
    places = [k for k, name in enumerate(dataset.groupings[0].names) if name in groups]
    gaps = None  # the largest difference between two of these groups
    if reference is not None and len(places) > 1:
        weights = reference.arrays["weights"].astype(np.float64)
        theirs = weights @ _correct(reference, own, dataset)[1]
        gaps = np.ptp((theirs - by_group)[:, places], axis=1)
    best = best_of([candidate["weight"] for candidate in tuned["candidates"]])
    tried = []
    for number, candidate in enumerate(tuned["candidates"]):
        shown = {
            "number": number,
            "selected": number == best,
            "accuracy": float(accuracies[number]),
            "gap": None if gaps is None else float(gaps[number]),
        }
        # The exact score stays with the trainings.
        released = {name: value for name, value in candidate.items() if name != "score"}
        tried.append(Tried.model_validate({**released, **shown}))
    return SearchedSeed(
        seed=seed,
        fit_rows=tuned["fit_rows"],
        validation_rows=tuned["validation_rows"],
        tried=tuple(tried),
    )


def _correct(
    found: JobResult,
    where: JobResult,
    dataset: Dataset,
) -> tuple[Float64, Float64]:
    """Accuracy of every candidate over the test rows of ``where``, ``[n]``.

    And by group, ``[n, K]``.
    """
    rows = where.arrays["test_rows"].astype(np.int64)
    kept = np.isin(found.arrays["test_rows"], rows)
    correct = record_correct(
        found.arrays["probabilities"][:, kept].astype(np.float32), dataset.labels[rows]
    )
    grouping = dataset.groupings[0]
    groups, k = grouping.groups[rows], len(grouping.names)
    sizes = np.bincount(groups, minlength=k)
    sums = np.stack(
        [
            np.bincount(
                groups,
                row,
                k,
            )
            for row in correct
        ]
    )
    by_group: Float64 = np.divide(
        sums,
        sizes,
        out=np.full(sums.shape, np.nan),
        where=sizes > 0,
    )
    return correct.mean(-1), by_group
