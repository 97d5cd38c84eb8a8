"""Is a cost that of privacy, or of a configuration? What a reader must know before any cost."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import numpy as np

from fairaudit.metrics.intervals import among
from fairaudit.metrics.registry import CONSTANT, METRICS, costs
from fairaudit.report.decomposition import Curve
from fairaudit.report.facts import ArmFacts, ReportWarning
from fairaudit.report.main_gap import detected_gap, scale_of
from fairaudit.report.measured import SklearnBaseline, Sweep
from fairaudit.report.parts import shortened_arms, split_cost, split_gap
from fairaudit.report.written import written
from fairaudit.results.estimates import Comparison

RISES_BY = 0.01  # of the loss, relative: less is the noise of batches
STILL_FALLS_BY = 0.005  # of the loss in the last quarter of training, relative

_RISK = "excess_risk"  # which shows what accuracy, in steps of a row, does not
_warning = partial(ReportWarning, level="warning")


def health(
    arms: Sequence[ArmFacts],
    compared: Sequence[Comparison],
    swept: Sequence[Sweep],
    curves: Mapping[str, Sequence[Curve]],
    check: SklearnBaseline,
    n_classes: int,
) -> Iterator[ReportWarning]:
    """Warnings about arms whose cost says more of their settings than of privacy.

    Args:
        arms: What was trained.
        compared: By the first grouping, references included.
        swept: Methods at several epsilons.
        curves: Arm -> readings over training, where they were taken.
        check: Of the reference.
        n_classes: Y.
    """
    seen: set[str] = set()
    shortened, of_key = shortened_arms(arms), {arm.key: arm for arm in arms}
    is_untrained = any(
        warning for c in compared if c.arm == check.arm for warning in _against_constant(c, "")
    )
    for comparison in compared:
        arm = of_key[comparison.arm]
        if arm.key == check.arm or (
            is_untrained and arm.reference == check.arm
        ):  # both by their steps
            remedy = _advice(_training_losses(comparison, curves.get(arm.key, ())), n_classes)
        else:
            remedy = _remedy(arm, arms, [c for c in compared if c.arm == arm.key])
        risen = list(_of_loss(comparison, curves.get(arm.key, ()), remedy))
        if arm.key not in seen:
            yield from (*_against_constant(comparison, remedy), *risen)
        seen.add(arm.key)
        # Of a loss that rises, more steps make more.
        if risen:
            longer = ""
        else:
            longer = ", or more --epochs"
        longer += ", or a larger --epsilon, for longer steps" if arm.key in shortened else ""
        yield from _of_clipping(comparison, arm, longer)
    told: dict[str, ReportWarning] = {}  # of a method once, whatever it is compared with
    for sweep in swept:
        for warning in _of_sweep(sweep, compared, arms):
            told.setdefault(sweep.method, warning)
    yield from told.values()
    yield from _of_reference(check, compared, curves, n_classes)


def _against_constant(comparison: Comparison, remedy: str) -> Iterator[ReportWarning]:
    """Worse than predicting the training rows' shares.

    Over all rows, or as an interval shows of a group.

    The warning picks a group and a metric, so their intervals hold for all of them together.
    """
    gated = [group for group in comparison.by_group if group.gated]
    for group in (comparison.overall, *gated):
        told, is_shown = [], False
        for cost in map(METRICS.__getitem__, costs()):
            found = group.estimates.get(f"{cost.name}.{CONSTANT}")
            if found is None:
                continue
            least = found.value
            if group.group:
                found = among(found, len(costs()) * len(gated))
                least = found.low
            if least is None or least <= 0:
                continue
            words = f"{cost.counted} more {cost.cost_of}"
            if METRICS[cost.cost_of].worst == "lowest":
                words = f"{cost.counted_of} less"
            told.append(f"{written(found, scale_of(cost.name))} {words}")
            is_shown |= found.low is not None and found.low > 0
        if told:
            where = group.group or "all test rows"
            verb = "worse" if is_shown else "not shown to be better"
            yield _warning(
                code="worse_than_constant",
                arm=comparison.arm,
                message=f"{comparison.arm} is {verb} on {where} "
                f"than predicting the training rows' shares of the classes for everybody: "
                f"{' and '.join(told)}",
                fix=remedy,
            )
            return


def _remedy(arm: ArmFacts, arms: Sequence[ArmFacts], own: Sequence[Comparison]) -> str:
    """What may help a training that goes wrong.

    Other settings where it does so without any noise, too.
    """
    if arm.is_own_code:
        return f"other settings inside {arm.trainer}"
    splits = [split_cost(c, c.overall, _RISK) for c in own if c.reference]
    for split in filter(None, splits):
        if (split.still.value or 0.0) > (split.noise.value or 0.0):
            return _fix(split.name, arm)
    less = {
        "partition": "fewer queries" + _set(arm, "queries", 0.25),
        "regularisation": "a larger penalty" + _set(arm, "penalty", 10.0),
    }
    for part, setting in (("partition", "teachers"), ("regularisation", "penalty")):
        if setting in arm.settings:  # it takes no noised steps
            if any(splits):
                return f"a larger --epsilon, or {less[part]}: the noise is too large"
            user = next((other for other in arms if other.reference == arm.key), arm)
            return _fix(part, user) + (", or a larger --epsilon" if arm.reference else "")
    if "max_grad_norm" in arm.settings and not any(splits):
        bound = ", or a larger --max-grad-norm"
    else:
        bound = ""
    return (
        f"a smaller --learning-rate or fewer --epochs{bound}: steps, or the noise in them, are "
        "too large"
    )


def _of_loss(
    comparison: Comparison, curves: Sequence[Curve], remedy: str
) -> Iterator[ReportWarning]:
    losses = _training_losses(comparison, curves)
    if len(losses) < 4:
        return
    first, last = np.mean(losses[: len(losses) // 2]), np.mean(losses[-(len(losses) // 4) :])
    if last > first * (1 + RISES_BY):
        yield _warning(
            code="loss_rises",
            arm=comparison.arm,
            message=f"{comparison.arm}'s training loss rises: {last:,.3f} nats in its last "
            "quarter, "
            f"{first:,.3f} in the first half",
            fix=remedy,
        )


def _training_losses(comparison: Comparison, curves: Sequence[Curve]) -> list[float]:
    """Loss of the records seen, by epoch, over all groups; empty where it was not read."""
    of_loss = [curve for curve in curves if curve.name == "loss"]
    if not of_loss:
        return []
    curve = of_loss[0]
    sizes = {group.group: group.n_train for group in comparison.by_group}
    weights = [sizes.get(column) or 0.0 for column in curve.columns]
    losses = []
    for row in curve.values:
        total = whole = 0.0
        for value, weight in zip(row, weights, strict=True):
            if value is not None:
                total += value * weight
                whole += weight
        if whole > 0:
            losses.append(total / whole)
    return losses


def _of_clipping(comparison: Comparison, arm: ArmFacts, longer: str) -> Iterator[ReportWarning]:
    """More than half of a cost, or of the gap, is there without any noise.

    As its interval shows.
    """
    gap = detected_gap(comparison)
    found = [("cost", split_cost(comparison, comparison.overall, metric)) for metric in costs()]
    if gap is not None:
        what = f"gap between {gap.a} and {gap.b}"
        found += [(what, split_gap(comparison, metric, gap)) for metric in costs()]
    for what, split in found:
        if split is None or split.total.value is None:
            continue
        if split.total.low is None or split.still.low is None:
            continue
        if split.is_still and split.total.low > 0 and split.still.low > split.total.value / 2:
            still = written(split.still, scale_of(split.metric))
            total = written(split.total, scale_of(split.metric))
            yield _warning(
                code="mostly_clipping",
                arm=comparison.arm,
                message=f"most of {comparison.arm}'s {what} is there without any noise: {still} of "
                f"{total} "
                f"{METRICS[split.metric].counted_of}, which less noise alone does not remove",
                fix=_fix(split.name, arm) + (longer if split.name == "clipping" else ""),
            )
            return


def _fix(part: str, arm: ArmFacts) -> str:
    """What makes the part of a cost that is there without noise smaller."""
    if part == "partition":
        return f"fewer teachers{_set(arm, 'teachers', 0.5)}"
    if part == "regularisation":
        return f"a smaller penalty{_set(arm, 'penalty', 0.1)}"
    return f"a larger {'--threshold' if 'threshold' in arm.settings else '--max-grad-norm'}"


def _set(arm: ArmFacts, name: str, factor: float) -> str:
    """The option that changes one of the arm's own numbers by so much."""
    if name not in arm.settings:
        return ""
    value = arm.settings[name] * factor
    if name == "penalty":
        shown = f"{value:.3g}"
    else:
        shown = str(max(1, int(value)))
    return f", as --settings {arm.method}.{name}={shown}"


def _of_sweep(
    sweep: Sweep, compared: Sequence[Comparison], arms: Sequence[ArmFacts]
) -> Iterator[ReportWarning]:
    """The loss added at the largest epsilon is not shown to be below that at the smallest.

    It could be.
    """
    risks = []
    for point in (sweep.points[0], sweep.points[-1]):
        for comparison in compared:
            if (comparison.arm, comparison.reference) == (point.arm, sweep.reference):
                risk = comparison.overall.estimates.get(_RISK)
                if risk is not None and risk.ends is not None:
                    risks.append(risk)
    if len(risks) != 2:
        return
    (low, high), (least, most) = (risk.ends for risk in risks if risk.ends is not None)
    # It could be seen to fall: were it nothing at the largest epsilon, the intervals would lie
    # apart.
    if low > (most - least) / 2 and least > 0 and most >= low and least + most > (low + high) / 2:
        first, last = sweep.points[0], sweep.points[-1]
        yield _warning(
            code="cost_not_falling",
            arm=last.arm,
            message=f"{sweep.method}'s added loss is not shown to fall as epsilon grows: "
            f"{written(risks[0])} nats at epsilon {first.target_epsilon:g}, "
            f"{written(risks[1])} at {last.target_epsilon:g}",
            fix=_remedy(
                next(arm for arm in arms if arm.key == last.arm),
                arms,
                [c for c in compared if c.arm == last.arm],
            ),
        )


def _of_reference(
    check: SklearnBaseline,
    compared: Sequence[Comparison],
    curves: Mapping[str, Sequence[Curve]],
    n_classes: int,
) -> Iterator[ReportWarning]:
    if (
        not check.undertrained
        or check.reference_accuracy is None
        or check.baseline_accuracy is None
    ):
        return
    own = next((comparison for comparison in compared if comparison.arm == check.arm), None)
    if own is None:
        losses = []
    else:
        losses = _training_losses(own, curves.get(check.arm, ()))
    yield _warning(
        code="reference_undertrained",
        arm=check.arm,
        message=f"reference undertrained: {check.arm} reaches {100 * check.reference_accuracy:.1f} "
        "% where "
        f"{check.baseline} reaches {100 * check.baseline_accuracy:.1f} %; costs against it cannot "
        "be read",
        fix=_advice(losses, n_classes),
    )


def _advice(losses: Sequence[float], n_classes: int) -> str:
    """What would train the reference better, by how its training loss went."""
    if len(losses) < 4:
        return "another --learning-rate, or more --epochs"
    quarter = len(losses) // 4
    before, last = np.mean(losses[-2 * quarter : -quarter]), np.mean(losses[-quarter:])
    if last > 1.1 * np.log(n_classes):  # where it may fall as well as rise
        return (
            "a smaller --learning-rate: its training loss is above that of a guess, as where "
            "steps overshoot"
        )
    if last < before * (1 - STILL_FALLS_BY):
        return "more --epochs or a larger --learning-rate: its training loss still falls"
    return (
        "a smaller --learning-rate: its training loss has stopped falling, as where steps overshoot"
    )
