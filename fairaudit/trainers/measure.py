"""Measures, from finished trainings of the user's own code, what they show beside their costs.

That is whether the code looks deterministic, claims more than it was asked for, heeds ``privacy``,
keeps the order of the classes, predicts as well as ours without privacy, and whom a table leaves
out.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from fairaudit.analysis.arm_readings import finished
from fairaudit.analysis.measure import evaluation, predictions
from fairaudit.data.dataset import Dataset
from fairaudit.methods.catalog import REFERENCE
from fairaudit.metrics.compare import compare
from fairaudit.planning.arms import Arm
from fairaudit.planning.flow import Audit
from fairaudit.planning.plan import Plan
from fairaudit.results.estimates import Interval, interval_of
from fairaudit.results.jobs import JobResult
from fairaudit.trainers.claims import privacy
from fairaudit.trainers.study import NAME, OwnArm, SyntheticGroup, Trainers

Float64 = NDArray[np.float64]
BEHIND = 0.01  # of accuracy; less than this may come of another kind of model


def measure(audit: Audit) -> Trainers | None:
    """What a report holds of the arms of the user's code; None where the audit has none."""
    plan, results = audit.plan, audit.results
    arms: list[OwnArm] = []
    groups: list[SyntheticGroup] = []
    for arm in plan.arms:
        if arm.capability != NAME:
            continue
        by_seed = finished(plan, arm.key, results)
        # Only the result of the first seed has this fact: the arm was trained twice there.
        differences = [result.facts.get("differs_by") for result in by_seed.values()]
        differs_by = next((value for value in differences if isinstance(value, float)), None)
        facts = OwnArm(
            arm=arm.key,
            differs_by=differs_by,
            beyond=_excess_claim(arm, plan, results),
            same_as=_same_as(arm, plan, results),
            is_reordered=_is_reordered(by_seed, finished(plan, REFERENCE, results), audit.dataset),
            behind=_behind(arm, audit) if arm.reference is None else None,
        )
        arms.append(facts)
        groups += _table_groups(arm, list(by_seed.values()), audit)
    if not arms:
        return None
    return Trainers(name=NAME, comparisons=(), arms=tuple(arms), groups=tuple(groups))


def _excess_claim(arm: Arm, plan: Plan, results: Mapping[str, JobResult]) -> str:
    """What a trainer claims beyond what it was asked for, in words; "" where it keeps to it."""
    claim, target = privacy(arm, plan, results).claim, arm.privacy.target_epsilon
    over = []
    if claim is not None and target is not None and claim.epsilon is not None:
        if claim.epsilon > target:
            over.append(f"epsilon {claim.epsilon:g}, asked was {target:g}")
        if claim.delta is not None and claim.delta > claim.asked_delta:
            over.append(f"delta {claim.delta:g}, asked was {claim.asked_delta:g}")
    return " and ".join(over)


def _same_as(arm: Arm, plan: Plan, results: Mapping[str, JobResult]) -> str:
    """The key of an arm of the same code that predicts exactly the same at every shared seed.

    The other arm was asked for another epsilon or none, so the code does not heed ``privacy``. The
    key is "" if there is no such arm, and for a reference and a self-check ("#" in its key).
    """
    target = arm.privacy.target_epsilon
    if target is None or "#" in arm.key:
        return ""
    ours = finished(plan, arm.key, results)
    for candidate in plan.arms:
        if candidate.trainer != arm.trainer or candidate.privacy.target_epsilon == target:
            continue
        theirs = finished(plan, candidate.key, results)
        shared = sorted(ours.keys() & theirs.keys())
        same = []
        for seed in shared:
            # Of the first repeat [1, n, Y], which has the same seed in both arms.
            first = ours[seed].arrays["probabilities"][:1]
            second = theirs[seed].arrays["probabilities"][:1]
            same.append(np.array_equal(first, second))
        if shared and all(same):
            return candidate.key
    return ""


def _is_reordered(
    by_seed: Mapping[int, JobResult], references: Mapping[int, JobResult], dataset: Dataset
) -> bool:
    """Whether an arm would predict well, at every seed, were its classes in another order.

    Its code then seems to return probabilities in another order than that of ``data.classes``. As
    they stand, they must be less accurate than the largest class for every row; in the best order,
    their accuracy must be at least half-way from there to our reference's.

    Args:
        by_seed, references: Seed -> result, of the arm and of our reference.
        dataset: The data.
    """
    seeds = sorted(by_seed.keys() & references.keys())
    for seed in seeds:
        of_arm = _confusion(by_seed[seed], dataset)
        of_reference = _confusion(references[seed], dataset)
        # The order of the classes under which most rows would be right.
        predicted, true = linear_sum_assignment(of_arm, maximize=True)
        # Accuracies: in that order, of the largest class for every row, and what is required.
        reordered, largest = of_arm[predicted, true].sum(), of_arm.sum(0).max()
        half_way = (np.trace(of_reference) + largest) / 2
        is_good_reordered = reordered >= half_way and reordered > largest
        is_good_as_it_is = np.trace(of_arm) >= largest
        if is_good_as_it_is or not is_good_reordered:
            return False
    return bool(seeds)


def _behind(arm: Arm, audit: Audit) -> Interval | None:
    """How much less accurate a trainer's own reference is than ours, with its 95 % interval.

    None where the interval's lower end is below ``BEHIND``, or there is no interval.
    """
    # 0, and below [0]: by the first grouping; accuracy over all rows needs no other.
    own = predictions(audit.plan, arm.key, 0, audit.results)
    ours = predictions(audit.plan, REFERENCE, 0, audit.results)
    shared = evaluation(audit.dataset, audit.dataset.groupings[0], audit.plan.config.suppress_below)
    # Ours stands where a reference does, so the privacy cost is the loss of accuracy against it.
    compared = compare(shared, arm.key, REFERENCE, own, ours)
    lacking = compared.overall.estimates.get("privacy_cost")
    if lacking is None or lacking.low is None or lacking.low < BEHIND:
        return None
    return interval_of(lacking)


def _confusion(result: JobResult, dataset: Dataset) -> Float64:
    """Shares of a seed's test rows by predicted and true class, [Y, Y], of the first repeat.

    Rows are predicted classes, columns are true ones; all shares sum to 1.
    """
    n_classes = len(dataset.classes)
    true = dataset.labels[result.arrays["test_rows"].astype(np.int64)]
    predicted = result.arrays["probabilities"][0].argmax(-1)
    table: Float64 = np.zeros((n_classes, n_classes))
    np.add.at(table, (predicted, true), 1.0 / len(true))
    return table


def _table_groups(
    arm: Arm, seed_results: Sequence[JobResult], audit: Audit
) -> Iterator[SyntheticGroup]:
    """Each group's share of the rows and rate of the positive class: synthetic beside real rows.

    Shares are means over seeds; rates are over the rows of all seeds. A group that is hidden by
    ``suppress_below`` is left out. An arm that trains on no table yields nothing.

    Args:
        arm: The arm.
        seed_results: Its result at each seed.
        audit: For the data and the options.
    """
    dataset, positive = audit.dataset, audit.dataset.positive
    for grouping in dataset.groupings:
        tables = []
        for result in seed_results:
            by_grouping = result.facts.get("synthetic", {})
            assert isinstance(by_grouping, Mapping)
            tables.append(by_grouping.get(grouping.name))
        # The arm trains on no table, or the groups are of two columns, which a table does not have.
        if not tables or None in tables:
            continue
        counts = np.array(tables)  # [S, (real, synthetic), K, Y]
        sizes = counts.sum(-1)  # [S, 2, K]
        shares = (sizes / sizes.sum(-1, keepdims=True)).mean(0)  # [2, K]
        rates = np.full(shares.shape, np.nan)  # [2, K]
        if positive is not None:
            with np.errstate(invalid="ignore"):  # 0 / 0 of a group without rows is nan
                rates = counts[..., positive].sum(0) / sizes.sum(0)
        # Whether the table of some seed has no row of a group and class of which there are real
        # ones, [K, Y].
        lacking = ((counts[:, 1] == 0) & (counts[:, 0] > 0)).any(0)
        for place, name in enumerate(grouping.names):
            if sizes[:, 0, place].min() < max(1, audit.plan.config.suppress_below):
                continue
            classes = [dataset.classes[c] for c in np.flatnonzero(lacking[place])]
            yield SyntheticGroup(
                arm=arm.key,
                grouping=grouping.name,
                group=name,
                real_share=float(shares[0, place]),
                share=float(shares[1, place]),
                real_rate=_number(rates[0, place]),
                rate=_number(rates[1, place]),
                missing_at=int((sizes[:, 1, place] == 0).sum()),
                missing_classes=tuple(classes),
            )


def _number(value: float) -> float | None:
    """The number; None for NaN, which a report may not hold."""
    return None if np.isnan(value) else float(value)
