"""A plan with a search and its results -> what was tried, its cost, the default beside it."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from fairaudit.analysis.arm_readings import finished
from fairaudit.analysis.build_facts import arm_facts
from fairaudit.analysis.build_measured import disclosed
from fairaudit.data.dataset import Dataset
from fairaudit.data.groups import NamedPair
from fairaudit.metrics.within_model import record_correct
from fairaudit.planning.plan import Arm, Plan
from fairaudit.report.measured import ArmSearch, Searched, SearchedSeed, Tried, Tuning, Way
from fairaudit.results.estimates import DEFAULT, Comparison, Measured, key_of
from fairaudit.results.jobs import JobResult
from fairaudit.tuning.search import best_of

Float64 = NDArray[np.float64]


def tuning(
    plan: Plan,
    dataset: Dataset,
    results: Mapping[str, JobResult],
    failures: Mapping[str, str],
    beside: Mapping[str, Sequence[Measured]],
    gains: Sequence[Measured],
    first: Sequence[Comparison],
    *,
    fitted: Sequence[str],
    named: Sequence[NamedPair],
) -> Tuning | None:
    """The search of every arm; None where settings were fixed.

    Args:
        plan, dataset, results, failures: Of the audit.
        beside: What was measured on each way.
        gains: Every arm at its default setting, against itself as it was tuned.
        first: Its comparisons by the first grouping, as they are told.
        fitted: What preprocessing learned from training rows.
        named: Pairs that ``compare`` asked for.
    """
    config = plan.config
    if config.tune is None:
        return None

    def told(found: Sequence[Measured]) -> tuple[Comparison, ...]:
        return tuple(disclosed(each, least=config.suppress_below, named=named) for each in found)

    ways = []
    for name, own in plan.beside.items():
        if name not in beside:
            continue
        facts = []  # each arm under the name that readers know
        for facts_of_arm in arm_facts(own, results, failures, fitted=fitted):
            renamed = {}
            for field in ("key", "reference", "source"):
                key = getattr(facts_of_arm, field)
                renamed[field] = key and key_of(key, name)
            facts.append(facts_of_arm.model_copy(update=renamed))
        way = {"name": name, "arms": tuple(facts), "comparisons": told(beside.get(name, ()))}
        ways.append(Way.model_validate(way))
    groups = {c.arm: {g.group for g in c.by_group if not c.note_on(g)} for c in first}
    searches = []
    for arm in plan.arms:
        if arm.tuning:
            searches.append(_search(arm, plan, dataset, results, groups.get(arm.key, set())))
    return Tuning(
        trials=config.tune,
        goal=config.tune_for,
        is_charged=config.tune_privacy == "charged",
        searches=tuple(searches),
        ways=tuple(ways),
        gains=told(gains),
    )


def _search(
    arm: Arm, plan: Plan, dataset: Dataset, results: Mapping[str, JobResult], groups: set[str]
) -> ArmSearch:
    sought = arm.tuning
    assert sought is not None, f"{arm.key} has no search"
    alone: Mapping[str, float] = {}
    if DEFAULT in plan.beside:
        alone = plan.beside[DEFAULT].arm(arm.key).settings
    mean_tries, shape_tries = None, None
    if sought.selection is not None:
        mean_tries, shape_tries = sought.selection.mean, sought.selection.shape
    references = finished(plan, arm.reference or "", results)
    seeds = []
    for seed, own in finished(plan, arm.key, results).items():
        seeds.append(_seed(seed, own, references.get(seed), dataset, groups))
    return ArmSearch(
        arm=arm.key,
        searched={
            name: Searched(default=c.default, low=c.low, high=c.high, choices=c.choices)
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
    seed: int, own: JobResult, reference: JobResult | None, dataset: Dataset, groups: set[str]
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


def _correct(found: JobResult, where: JobResult, dataset: Dataset) -> tuple[Float64, Float64]:
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
    sums = np.stack([np.bincount(groups, row, k) for row in correct])
    by_group: Float64 = np.divide(sums, sizes, out=np.full(sums.shape, np.nan), where=sizes > 0)
    return correct.mean(-1), by_group
