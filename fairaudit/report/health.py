"""Is a cost that of privacy, or of a configuration? What a reader must know before any cost."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from fairaudit.metrics.names import CONSTANT, COSTS
from fairaudit.report.decomposition import Curve
from fairaudit.report.facts import ReportWarning
from fairaudit.report.gaps import main_gap, scale_of
from fairaudit.report.measured import Yardstick
from fairaudit.report.parts import split_cost, split_gap
from fairaudit.report.sweep import Sweep
from fairaudit.report.written import written
from fairaudit.results.estimates import Comparison

RISES_BY = 0.01  # of the loss, relative: less is the noise of batches
STILL_FALLS_BY = 0.005  # of the loss in the last quarter of training, relative

_COST, _RISK = COSTS


def health(
    compared: Sequence[Comparison],
    swept: Sequence[Sweep],
    curves: Mapping[str, Sequence[Curve]],
    check: Yardstick,
) -> Iterator[ReportWarning]:
    """Warnings about arms whose cost says more of their settings than of privacy.

    Args:
        compared: By the first grouping, references included. swept: Methods at several epsilons.
        curves: Arm -> readings over training, where they were taken. check: Of the reference.
    """
    seen: set[str] = set()
    for comparison in compared:
        if comparison.arm not in seen:
            yield from _against_constant(comparison)
            yield from _of_loss(comparison, curves.get(comparison.arm, ()))
        seen.add(comparison.arm)
        yield from _of_clipping(comparison)
    for sweep in swept:
        yield from _of_sweep(sweep, compared)
    yield from _of_reference(check, compared, curves)


def _against_constant(comparison: Comparison) -> Iterator[ReportWarning]:
    """Worse than predicting the training rows' shares: over all rows, or as an interval shows of a group."""
    for group in (comparison.overall, *(g for g in comparison.by_group if g.gated)):
        told = []
        for cost, words in ((_COST, "points of accuracy less"), (_RISK, "nats more loss")):
            found = group.estimates.get(f"{cost}.{CONSTANT}")
            least = None if found is None else found.low if group.group else found.value
            if found is not None and least is not None and least > 0:
                told.append(f"{written(found, scale_of(cost))} {words}")
        if told:
            where = group.group or "all test rows"
            yield ReportWarning(
                code="worse_than_constant",
                level="warning",
                arm=comparison.arm,
                message=f"{comparison.arm} is worse on {where} than predicting the training rows' shares of "
                f"the classes for everybody: {' and '.join(told)}",
                fix=_remedy(comparison),
            )
            return


def _remedy(comparison: Comparison) -> str:
    """What may help a training that goes wrong: another bound where it does so without any noise, too."""
    split = split_cost(comparison, comparison.overall, _RISK) if comparison.reference else None
    if split is not None and (split.still.value or 0.0) > (split.noise.value or 0.0):
        return _FIXES[split.name]
    return "a smaller --learning-rate or fewer --epochs: steps, or the noise in them, are too large"


def _of_loss(comparison: Comparison, curves: Sequence[Curve]) -> Iterator[ReportWarning]:
    losses = _training_losses(comparison, curves)
    if len(losses) < 4:
        return
    first, last = np.mean(losses[: len(losses) // 2]), np.mean(losses[-(len(losses) // 4) :])
    if last > first * (1 + RISES_BY):
        yield ReportWarning(
            code="loss_rises",
            level="warning",
            arm=comparison.arm,
            message=f"{comparison.arm}'s training loss rises: {last:.3f} nats in its last quarter, "
            f"{first:.3f} in the first half",
            fix=_remedy(comparison),
        )


def _training_losses(comparison: Comparison, curves: Sequence[Curve]) -> list[float]:
    """Loss of the records seen, by epoch, over all groups; empty where it was not read."""
    curve = next((curve for curve in curves if curve.name == "loss"), None)
    sizes = {group.group: group.n_train for group in comparison.by_group}
    if curve is None:
        return []
    weights = [sizes.get(column) or 0.0 for column in curve.columns]
    found = []
    for row in curve.values:
        known = [(value, weight) for value, weight in zip(row, weights, strict=True) if value is not None]
        whole = sum(weight for _, weight in known)
        if whole > 0:
            found.append(sum(value * weight for value, weight in known) / whole)
    return found


def _of_clipping(comparison: Comparison) -> Iterator[ReportWarning]:
    """More than half of a cost, or of the gap, is there without any noise, as its interval shows."""
    gap = main_gap(comparison)
    found = [("cost", split_cost(comparison, comparison.overall, metric)) for metric in COSTS]
    if gap is not None:
        found += [
            (f"gap between {gap.a} and {gap.b}", split_gap(comparison, metric, gap)) for metric in COSTS
        ]
    for what, split in found:
        if split is None or split.total.value is None or split.total.low is None or split.still.low is None:
            continue
        if split.is_still and split.total.low > 0 and split.still.low > split.total.value / 2:
            unit = "points of accuracy" if split.metric == _COST else "nats of loss"
            still, total = (written(part, scale_of(split.metric)) for part in (split.still, split.total))
            yield ReportWarning(
                code="mostly_clipping",
                level="warning",
                arm=comparison.arm,
                message=f"most of {comparison.arm}'s {what} is there without any noise: {still} of {total} "
                f"{unit}, which no epsilon removes at these settings",
                fix=_FIXES[split.name],
            )
            return


_FIXES = {
    "clipping": "a larger --max-grad-norm (--threshold for the global methods), or more --epochs",
    "regularisation": "a smaller penalty, as --settings output-perturbation.penalty=0.001",
    "partition": "fewer teachers, as --settings pate-hard.teachers=50",
}


def _of_sweep(sweep: Sweep, compared: Sequence[Comparison]) -> Iterator[ReportWarning]:
    """The loss added at the largest epsilon is not below that at the smallest, though it could be seen."""
    ends = [
        comparison.overall.estimates.get(_RISK)
        for point in (sweep.points[0], sweep.points[-1])
        for comparison in compared
        if (comparison.arm, comparison.reference) == (point.arm, sweep.reference)
    ]
    known = [e.ends for e in ends if e is not None and e.ends is not None]
    if len(known) != 2:
        return
    (low, high), (least, most) = known
    # It could be seen to fall: were it nothing at the largest epsilon, the intervals would lie apart.
    if low > (most - least) / 2 and least > 0 and most >= low and least + most > (low + high) / 2:
        first, last = sweep.points[0], sweep.points[-1]
        yield ReportWarning(
            code="cost_not_falling",
            level="warning",
            arm=last.arm,
            message=f"{sweep.method}'s added loss does not fall as epsilon grows: {written(ends[0])} "
            f"nats at epsilon {first.target_epsilon:g}, {written(ends[1])} at {last.target_epsilon:g}",
            fix="another --max-grad-norm or --learning-rate",
        )


def _of_reference(
    check: Yardstick, compared: Sequence[Comparison], curves: Mapping[str, Sequence[Curve]]
) -> Iterator[ReportWarning]:
    if not check.undertrained or check.reference_accuracy is None or check.yardstick_accuracy is None:
        return
    own = next((comparison for comparison in compared if comparison.arm == check.arm), None)
    losses = [] if own is None else _training_losses(own, curves.get(check.arm, ()))
    yield ReportWarning(
        code="reference_undertrained",
        level="warning",
        arm=check.arm,
        message=f"reference undertrained: {check.arm} reaches {100 * check.reference_accuracy:.1f} % where "
        f"{check.yardstick} reaches {100 * check.yardstick_accuracy:.1f} %; costs against it cannot be read",
        fix=_advice(losses),
    )


def _advice(losses: Sequence[float]) -> str:
    """What would train the reference better, by how its training loss went."""
    if len(losses) < 4:
        return "another --learning-rate, or more --epochs"
    quarter = len(losses) // 4
    before, last = np.mean(losses[-2 * quarter : -quarter]), np.mean(losses[-quarter:])
    if last < before * (1 - STILL_FALLS_BY):
        return "more --epochs or a larger --learning-rate: its training loss still falls"
    return "a smaller --learning-rate: its training loss has stopped falling, as where steps overshoot"
