"""Finished trainings of the user's own code -> what they show beside their costs.

Whether the code looks deterministic, claims more than it was asked for, heeds ``privacy``, keeps
the order of the classes, predicts as well as ours without privacy, and whom a table leaves out.
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
BEHIND = 0.01  # of accuracy: a smaller lack may come of another kind of model


def measure(audit: Audit) -> Trainers | None:
    """What a report holds of the arms of the user's code; None where the audit has none."""
    plan, results = audit.plan, audit.results
    arms: list[OwnArm] = []
    groups: list[SyntheticGroup] = []
    for arm in plan.arms:
        if arm.capability != NAME:
            continue
        done = finished(plan, arm.key, results)
        differences = [result.facts.get("differs_by") for result in done.values()]
        # The first seed alone has it: what was trained there twice.
        known = [value for value in differences if isinstance(value, float)]
        facts = OwnArm(
            arm=arm.key,
            differs_by=known[0] if known else None,
            beyond=_excess_claim(arm, plan, results),
            same_as=_same_as(arm, plan, results),
            is_reordered=_is_reordered(done, finished(plan, REFERENCE, results), audit.dataset),
            behind=_behind(arm, audit) if arm.reference is None else None,
        )
        arms.append(facts)
        groups += _table_groups(arm, list(done.values()), audit)
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

    The other arm was asked for another epsilon or none, so the code does not heed ``privacy``. ""
    for no such arm, and for an arm that is a reference or a self-check ("#" in its key).
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
            first, second = (done[seed].arrays["probabilities"][:1] for done in (ours, theirs))
            same.append(np.array_equal(first, second))
        if shared and all(same):
            return candidate.key
    return ""


def _is_reordered(
    done: Mapping[int, JobResult], references: Mapping[int, JobResult], dataset: Dataset
) -> bool:
    """Whether an arm would predict well, at every seed, were its classes in another order.

    It then returns probabilities in an order that is not that of ``data.classes``. As they stand
    they must predict worse than the largest class for every row would, and in the best order reach
    at least half-way from there to our reference's accuracy.

    Args:
        done, references: Results by seed, of the arm and of our reference.
        dataset: The data.
    """
    seeds = sorted(done.keys() & references.keys())
    for seed in seeds:
        ours = _confusion(done[seed], dataset)
        theirs = _confusion(references[seed], dataset)
        # The order of columns under which most rows would be right.
        rows, columns = linear_sum_assignment(ours, maximize=True)
        reordered, largest = ours[rows, columns].sum(), ours.sum(0).max()
        half_way = (np.trace(theirs) + largest) / 2
        is_good_reordered = reordered >= half_way and reordered > largest
        is_good_as_it_is = np.trace(ours) >= largest
        if is_good_as_it_is or not is_good_reordered:
            return False
    return bool(seeds)


def _behind(arm: Arm, audit: Audit) -> Interval | None:
    """How much less accurate a trainer's own reference is than ours, with its 95 % interval.

    None where the interval's lower end is below ``BEHIND``, or there is no interval.
    """
    own, ours = (predictions(audit.plan, key, 0, audit.results) for key in (arm.key, REFERENCE))
    shared = evaluation(audit.dataset, audit.dataset.groupings[0], audit.plan.config.suppress_below)
    compared = compare(shared, arm.key, REFERENCE, own, ours)
    lacking = compared.overall.estimates.get("privacy_cost")
    if lacking is None or lacking.low is None or lacking.low < BEHIND:
        return None
    return interval_of(lacking)


def _confusion(result: JobResult, dataset: Dataset) -> Float64:
    """Shares of a seed's test rows by predicted and true class, [Y, Y], of the first repeat."""
    n = len(dataset.classes)
    truth = dataset.labels[result.arrays["test_rows"].astype(np.int64)]
    predicted = result.arrays["probabilities"][0].argmax(-1)
    table: Float64 = np.zeros((n, n))
    np.add.at(table, (predicted, truth), 1.0 / len(truth))
    return table


def _table_groups(arm: Arm, done: Sequence[JobResult], audit: Audit) -> Iterator[SyntheticGroup]:
    """Each group's share of the rows and rate of the positive class: synthetic beside real rows.

    Shares are means over seeds; rates are over the rows of all seeds. A group that is hidden by
    ``suppress_below`` is left out; nothing comes of an arm that trains on no table.

    Args:
        arm: The arm.
        done: Its result at each seed.
        audit: For the data and the options.
    """
    dataset, positive = audit.dataset, audit.dataset.positive
    for grouping in dataset.groupings:
        tables = []
        for result in done:
            counts_of = result.facts.get("synthetic", {})
            assert isinstance(counts_of, Mapping)
            tables.append(counts_of.get(grouping.name))
        # The arm trains on no table, or the groups are of two columns, which a table does not have.
        if not tables or None in tables:
            continue
        counts = np.array(tables)  # [seeds, (real, synthetic), K, Y]
        sizes = counts.sum(-1)
        shares = (sizes / sizes.sum(-1, keepdims=True)).mean(0)
        rates = np.full(shares.shape, np.nan)
        if positive is not None:
            with np.errstate(invalid="ignore"):
                rates = counts[..., positive].sum(0) / sizes.sum(0)
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
