"""What to change of an arm so that the largest part of its harm becomes smaller.

A knob is what an advice is about, as "bound up" for a larger clipping bound. An advice names the
option with the value to try. Nothing is advised against what is too small to matter, nor on epsilon
where it is not known that noise is the cause.
"""

from collections.abc import Mapping

from fairaudit.methods.catalog import find
from fairaudit.methods.defaults import LEARNING_RATE, MAX_GRAD_NORM, PublicSizes
from fairaudit.metrics.quantiles import half_width
from fairaudit.metrics.registry import NOISE, STEP, STEP_AND_CLIPPING, spec_of
from fairaudit.report.group_rows import gap_between
from fairaudit.report.messages.advice import BY_DEFAULT, advice
from fairaudit.report.model import Report
from fairaudit.report.parts import SplitCost, detected_split, split_cost
from fairaudit.report.types.facts import ArmFacts
from fairaudit.report.types.findings import Advice, Knob
from fairaudit.report.types.verdicts import GateRecord, GateTarget
from fairaudit.results.estimates import Estimate

LITTLE_CLIPPED = 0.05  # share of records: another clipping bound changes little
BEYOND = 1.5  # times the rule's value, from which a setting counts as another than the rule's
RISK = "excess_risk"  # the loss added, which shows what accuracy, in steps of a row, does not
# Harm below which nothing is advised: half a point, a hundredth of a nat.
_TOLERANCE: Mapping[str, float] = {"fraction": 0.005, "nats": 0.01}
# How much smaller a penalty is advised, and how much more its noise then costs: as its square.
_LESS_PENALTY = 10.0
LEAST_SEEDS = 5  # with fewer nothing is judged
_MOST_SEEDS, _MOST_ROWS = 8, 20  # times what there is, up to which more are advised


def advice_for(report: Report, arm: ArmFacts) -> Advice | None:
    """The advice for an arm, the same beside all of its findings; None where no option helps."""
    knob = None if report.training is None else _knob_for(report, arm)
    if knob is None:
        return None
    now, to = _values(report, arm, knob)
    whose = BY_DEFAULT if knob == "bound up" and to == _rules(report, arm)[1] else ""
    return advice(knob, arm, whose, now=now, to=to)


def deciding(report: Report, gate: GateRecord, target: GateTarget, arm: ArmFacts) -> Advice | None:
    """What would decide a rule that is open: seeds, or rows; None where neither can help.

    The number of seeds or rows at which its interval would lie beside the limit, were the estimate
    true. Up to eight times the seeds and twenty times the rows at hand are said.
    """
    training = report.training
    estimate = _estimate_of(report, gate, target)
    if training is not None and training.seeds < LEAST_SEEDS and gate.kind in ("group", "gap"):
        return advice("seeds up", arm, to=f"{LEAST_SEEDS}")
    if estimate is None or estimate.value is None or estimate.ends is None:
        return None
    value = abs(estimate.value) if gate.kind == "gap" else estimate.value
    away = abs(value - gate.limit)
    seeds, records = (estimate.training_sd or 0.0) ** 2, (estimate.records_sd or 0.0) ** 2
    numbers = max(1, sum(other.arm == target.arm for other in gate.targets))
    now = half_width(seeds, records, estimate.n_seeds, numbers)
    if now < away:  # its interval would decide it: it is open for another reason
        return None
    if training is not None and estimate.n_seeds > 1:
        for factor in range(2, _MOST_SEEDS + 1):
            more = factor * estimate.n_seeds
            if half_width(seeds / factor, records, more, numbers) < away:
                return advice("seeds up", arm, to=f"{more:,}")
    if away > 0 and now <= away * _MOST_ROWS**0.5 and estimate.n_test:
        rows = estimate.n_test * (now / away) ** 2
        return advice("rows up", arm, to=f"{in_two_digits(rows):,}")
    return None


def _estimate_of(report: Report, gate: GateRecord, target: GateTarget) -> Estimate | None:
    """The report's number that a rule was held against, with what its interval is made of."""
    for comparison in report.comparisons:
        place = comparison.arm, comparison.grouping
        is_same_reference = target.reference in ("", comparison.reference)
        if place != (target.arm, target.grouping) or not is_same_reference:
            continue
        if gate.kind == "gap":
            gap = gap_between(comparison, gate.metric, target.groups)
            return None if gap is None else gap.signed
        for group in (*comparison.by_group, comparison.overall):
            if gate.kind == "group" and set(target.groups) == {group.group} - {""}:
                return group.estimates.get(gate.metric)
    return None


def has_few_seeds(estimate: Estimate) -> bool:
    """Whether an interval is over fewer seeds than are judged; one over test rows alone is not."""
    return estimate.training_sd is not None and estimate.n_seeds < LEAST_SEEDS


def in_two_digits(rows: float) -> int:
    """A number of rows, rounded up to two significant digits."""
    unit = int(10 ** max(0, len(str(int(rows))) - 2))
    return -int(-rows // unit) * unit


def _values(report: Report, arm: ArmFacts, knob: Knob) -> tuple[float, float]:
    """The value of the option that a knob is about: as it is now, and as it is advised."""
    step_rule, bound_rule = _rules(report, arm)
    step, bound = (arm.settings.get(name, 0.0) for name in ("learning_rate", "max_grad_norm"))
    if _is_scaled(arm):  # its step is that of the rule times Z/C
        step_rule *= arm.settings["threshold"] / (bound or 1.0)
    match knob:
        case "bound by rule":
            return bound, bound_rule
        case "bound up":
            return bound, bound_rule if bound_rule > BEYOND * bound else 2 * bound
        case "step by rule":
            return step, step_rule
        case "step down":
            return step, step / 2
        case "epochs up":
            epochs = report.training.epochs if report.training is not None else 0
            return epochs, 2 * epochs
        case "epsilon up" | "own noise":
            epsilon = arm.privacy.target_epsilon or arm.privacy.headline or 0.0
            return epsilon, 2 * epsilon
        case "teachers down":
            return arm.settings["teachers"], arm.settings["teachers"] / 2
        case "penalty down":
            return arm.settings["penalty"], arm.settings["penalty"] / _LESS_PENALTY
    return 0.0, 0.0


def _is_scaled(arm: ArmFacts) -> bool:
    """Whether an arm scales all gradients by a threshold, so that its step is another."""
    return "threshold" in arm.settings and find(arm.method).scales_by_threshold


def _knob_for(report: Report, arm: ArmFacts) -> Knob | None:
    """What to change of an arm so that the largest part of its harm becomes smaller.

    The harm is its first detected gap, else its first detected cost, else its added loss as it was
    estimated. A reference has no privacy to pay for, so there advice is against undertraining. None
    where no option helps, where the harm is too small to matter, and where it was not split, unless
    a setting is far beyond its rule.
    """
    compared = [comparison for comparison in report.costs if comparison.arm == arm.key]
    if arm.capability:  # code of the user's own trains it, and has options of its own
        return report.studies[arm.capability].knob(compared)
    if arm.reference is None:
        return _knob_against_undertraining(report, arm)
    splits = list(map(detected_split, compared))
    splits += [split_cost(comparison, comparison.overall, RISK) for comparison in compared]
    known = [split for split in splits if split is not None]
    for split in known:
        if not is_slight(split):
            part = split.largest(step_by_rule=arm.step_by_rule).name
            return _knob_for_part(report, arm, part, split)
    if known:
        return None
    knob = _knob_against_noise(report, arm)
    return None if knob == "epsilon up" else knob  # what the cause is, is not known


def is_slight(split: SplitCost) -> bool:
    """Whether a cost or gap is too small for advice."""
    return abs(split.total.value or 0.0) < _TOLERANCE.get(spec_of(split.metric).unit, 0.0)


def training_losses(report: Report, key: str) -> list[float]:
    """Mean loss of training records over all groups, by epoch [E]; [] where it was not read."""
    curves = [curve for curve in report.diagnostics.arms.get(key, ()) if curve.name == "loss"]
    sizes: dict[str, float | None] = {}
    for comparison in report.comparisons:
        if comparison.grouping == report.data.groupings[0].name:  # sizes are alike in all of them
            sizes = {group.group: group.n_train for group in comparison.by_group}
    losses = []
    for row in curves[0].values if curves else ():
        total = weights = 0.0
        for column, value in zip(curves[0].columns, row, strict=True):
            weight = sizes.get(column) or 0.0
            if value is not None:
                total += value * weight
                weights += weight
        if weights > 0:
            losses.append(total / weights)
    return losses


def _knob_against_undertraining(report: Report, arm: ArmFacts) -> Knob | None:
    """What would train a reference better, by its learning rate and how its training loss went.

    None where the loss rises at a learning rate that the rule or a search has set.
    """
    if "penalty" in arm.settings:
        return "penalty down"
    if "teachers" in arm.settings:
        return "teachers down"
    step = arm.settings.get("learning_rate", 0.0)
    rule = LEARNING_RATE.default.value(_public_sizes(report)) if LEARNING_RATE.default else step
    is_given = not arm.step_by_rule and report.settings_tried is None
    losses = training_losses(report, arm.key)
    if is_given and not rule / BEYOND <= step <= rule * BEYOND:
        return "step by rule"
    if len(losses) < 4 or losses[-1] <= losses[0]:
        return "epochs up"
    return "step down" if is_given else None


def _knob_for_part(report: Report, arm: ArmFacts, part: str, split: SplitCost) -> Knob | None:
    """What to change so that this part of a cost becomes smaller; None where nothing would do it.

    Where a rule set the learning rate, or a search that and the clipping bound, the value already
    balances the parts: then only a larger epsilon makes the step's part smaller.

    Args:
        report, arm: The arm, and the report that holds it.
        part: A name of ``registry.PARTS``.
        split: All parts of the cost.
    """
    is_weighed = report.settings_tried is not None  # by a search
    if part == "partition":
        return "teachers down" if "teachers" in arm.settings else None
    if part == "regularisation":
        noise = max((p.number.value or 0.0 for p in split.parts if p.name == NOISE), default=0.0)
        pays = (split.total.value or 0.0) > noise * _LESS_PENALTY**2
        return "penalty down" if "penalty" in arm.settings and pays else None
    if part in (STEP, STEP_AND_CLIPPING):
        if is_weighed or arm.step_by_rule:
            return "epsilon up"
        step, _ = _step_and_bound_over_rules(report, arm)
        # Near the rule's length a step is as long as this epsilon lets it be.
        return "epsilon up" if 1 <= step <= BEYOND else "step by rule"
    if part == "clipping":
        is_bounded = "max_grad_norm" in arm.settings and not find(arm.method).is_normalised
        clips_much = _clipped_share(report, arm.key) > LITTLE_CLIPPED
        return "bound up" if is_bounded and clips_much and not is_weighed else None
    # NOISE and STEP_AND_NOISE; of a method from outside whatever else it calls its part.
    return _knob_against_noise(report, arm)


def _knob_against_noise(report: Report, arm: ArmFacts) -> Knob:
    """What to change so that noise adds less: a bound or step above the rule's, else epsilon."""
    step, bound = _step_and_bound_over_rules(report, arm)
    if report.settings_tried is not None:
        return "epsilon up"
    if bound > BEYOND and not find(arm.method).is_normalised:
        return "bound by rule"
    if step > BEYOND and not arm.step_by_rule:
        return "step by rule"
    return "epsilon up"


def _rules(report: Report, arm: ArmFacts) -> tuple[float, float]:
    """The learning rate and clipping bound that the rules set at the arm's noise; 0 for none."""
    sigma = arm.settings.get("noise_multiplier")
    step, bound = LEARNING_RATE.default, MAX_GRAD_NORM.default
    if sigma is None or step is None or bound is None:
        return 0.0, 0.0
    sizes = _public_sizes(report, sigma)
    return step.value(sizes), bound.value(sizes)


def _step_and_bound_over_rules(report: Report, arm: ArmFacts) -> tuple[float, float]:
    """Learning rate and clipping bound of an arm, each divided by what its rule would set.

    Both are 1 where the arm lacks the settings, so that nothing is said against them.
    """
    bound, step = arm.settings.get("max_grad_norm"), arm.settings.get("learning_rate")
    step_rule, bound_rule = _rules(report, arm)
    if not step_rule or not bound_rule or bound is None or step is None:
        return 1.0, 1.0
    # Its gradients are scaled by C/Z: what compares with the rule is the step that moves as far.
    if _is_scaled(arm):
        step *= bound / arm.settings["threshold"]
    return step / step_rule, bound / bound_rule


def _public_sizes(report: Report, sigma: float = 0.0) -> PublicSizes:
    """The public sizes that rules for default settings read, at the noise multiplier ``sigma``."""
    training, images = report.training, report.data.images
    columns = len(report.data.features)
    if images is not None:
        columns = images.height * images.width * images.channels
    assert training is not None, "only trained arms are advised on"
    return PublicSizes(
        training.n_public,
        max(1, columns),
        training.model,
        noise_multiplier=sigma,
        steps=training.steps,
        expected_batch_size=training.expected_batch_size,
    )


def _clipped_share(report: Report, key: str) -> float:
    """The share of records clipped at the last reading, of the group where it is largest.

    1 where it was not read, so that advice on the clipping bound stays possible.
    """
    for curve in report.diagnostics.arms.get(key, ()):
        if curve.name == "clipped" and curve.values:
            shares = [value for value in curve.values[-1] if value is not None]
            return max(shares, default=1.0)
    return 1.0
