"""What to change of an arm so that the largest part of its harm becomes smaller.

A knob is the change that an advice is about, as "bound up" for a larger clipping bound; the advice
names the option with the value to try. A rule of a setting sets its default from public sizes
(docs/methods.md 3.9). No advice is given against harm that is too small to matter, nor is a larger
epsilon advised where it is not known that noise is the cause.
"""

from collections.abc import Mapping

from fairaudit.methods.catalog import find
from fairaudit.methods.defaults import LEARNING_RATE, MAX_GRAD_NORM, PublicSizes
from fairaudit.metrics.quantiles import half_width
from fairaudit.metrics.registry import STEP, STEP_AND_CLIPPING, spec_of
from fairaudit.report.group_rows import gap_between
from fairaudit.report.messages.advice import BY_DEFAULT, advice
from fairaudit.report.model import Report
from fairaudit.report.parts import SplitCost, detected_split, split_cost
from fairaudit.report.types.facts import ArmFacts
from fairaudit.report.types.findings import Advice, Knob
from fairaudit.report.types.verdicts import GateRecord, GateTarget
from fairaudit.results.estimates import Estimate

LITTLE_CLIPPED = 0.05  # share of records: another clipping bound changes little
BEYOND = 1.5  # a setting above so many times its rule's value counts as far from the rule's
RISK = "excess_risk"  # the loss added: it shows changes that accuracy, in steps of a row, does not
# Harm below which nothing is advised: half a point, a hundredth of a nat.
_TOLERANCE: Mapping[str, float] = {"fraction": 0.005, "nats": 0.01}
# The factor by which a smaller penalty is advised. The risk that noise adds grows by its square.
_LESS_PENALTY = 10.0
LEAST_SEEDS = 5  # with fewer nothing is judged
# At most so many times the seeds, or the test rows, that an audit has are advised.
_MOST_SEEDS, _MOST_ROWS = 8, 20
_FEWEST_EPOCHS = 4  # with fewer, training losses do not show where training goes


def advice_for(report: Report, arm: ArmFacts) -> Advice | None:
    """The advice for an arm, the same beside all of its findings; None where no option helps."""
    knob = None if report.training is None else _knob_for(report, arm)
    if knob is None:
        return None
    now, to = _values(report, arm, knob)
    _, bound_rule = _rules(report, arm)
    # The bound that is advised may be the rule's or twice the arm's; only the former is a default.
    reason = BY_DEFAULT if knob == "bound up" and to == bound_rule else ""
    return advice(knob, arm, reason, now=now, to=to)


def advice_on_open_rule(
    report: Report, gate: GateRecord, target: GateTarget, arm: ArmFacts
) -> Advice | None:
    """How many seeds or test rows would decide a rule that is open; None where neither can help.

    With fewer than five seeds nothing is judged, so five are advised. Else as many are advised as
    would make half the width of the number's interval shorter than the distance of the estimate
    from the rule's limit. More seeds divide the variance between seeds alone, more rows both
    variances (docs/methods.md 6.3). At most eight times the seeds and twenty times the rows at hand
    are advised.

    Args:
        report: Holds the rule and the arm.
        gate: The rule.
        target: The number that leaves the rule open.
        arm: Whose number it is.
    """
    training = report.training
    estimate = _estimate_of(report, gate, target)
    # More seeds decide no rule about a guarantee ("arm"): its epsilon is not measured.
    if training is not None and training.seeds < LEAST_SEEDS and gate.kind in ("group", "gap"):
        return advice("seeds up", arm, to=f"{LEAST_SEEDS}")
    if estimate is None or estimate.value is None or estimate.ends is None:
        return None
    # A rule limits the size of a gap, whichever of its groups pays more.
    value = abs(estimate.value) if gate.kind == "gap" else estimate.value
    distance = abs(value - gate.limit)
    # Variances of the estimate: V_seed and V_shared.
    between_seeds = (estimate.training_sd or 0.0) ** 2
    of_records = (estimate.records_sd or 0.0) ** 2
    # All numbers that the rule is held against for this arm share its 5 % of error.
    n_joint = max(1, sum(other.arm == target.arm for other in gate.targets))
    half = half_width(between_seeds, of_records, estimate.n_seeds, n_joint)
    if half < distance:  # the limit lies outside the interval: the rule is open for another reason
        return None
    # Of one seed the variance between seeds is not known; given predictions have no seeds to add.
    if training is not None and estimate.n_seeds > 1:
        for factor in range(2, _MOST_SEEDS + 1):
            seeds = factor * estimate.n_seeds
            if half_width(between_seeds / factor, of_records, seeds, n_joint) < distance:
                return advice("seeds up", arm, to=f"{seeds:,}")
    # Half the width falls with the square root of the number of rows, so the rows must grow by the
    # square of half / distance. Of a suppressed count (None) no number is advised.
    if distance > 0 and half <= distance * _MOST_ROWS**0.5 and estimate.n_test:
        rows = estimate.n_test * (half / distance) ** 2
        return advice("rows up", arm, to=f"{in_two_digits(rows):,}")
    return None


def _estimate_of(report: Report, gate: GateRecord, target: GateTarget) -> Estimate | None:
    """The report's number that a rule was held against, with the variances of its interval.

    None where no comparison holds it, as of the epsilon of a guarantee.
    """
    for comparison in filter(target.stands_in, report.comparisons):
        if gate.kind == "gap":
            gap = gap_between(comparison, gate.metric, target.groups)
            return None if gap is None else gap.signed
        for group in (*comparison.by_group, comparison.overall):
            # All rows are the group "" of a comparison, and the target without groups.
            if gate.kind == "group" and set(target.groups) == {group.group} - {""}:
                return group.estimates.get(gate.metric)
    return None


def has_few_seeds(estimate: Estimate) -> bool:
    """Whether an interval is over fewer seeds than are judged; one over test rows alone is not."""
    return estimate.training_sd is not None and estimate.n_seeds < LEAST_SEEDS


def in_two_digits(rows: float) -> int:
    """A number of rows, rounded up to two significant digits: 1,234.5 becomes 1,300."""
    unit = int(10 ** max(0, len(str(int(rows))) - 2))
    return -int(-rows // unit) * unit  # the ceiling of rows / unit


def _values(report: Report, arm: ArmFacts, knob: Knob) -> tuple[float, float]:
    """The value of the option that a knob is about: as it is now, and as it is advised.

    Both are 0 for a knob without an option, as ``own settings``.
    """
    step_rule, bound_rule = _rules(report, arm)
    step, bound = (arm.settings.get(name, 0.0) for name in ("learning_rate", "max_grad_norm"))
    # Gradients are scaled by C/Z (bound / threshold), so a step is as long as the rule's where the
    # learning rate is Z/C times the rule's.
    if _is_scaled(arm):
        step_rule *= arm.settings["threshold"] / (bound or 1.0)  # 0: it has no bound
    match knob:
        case "bound by rule":
            return bound, bound_rule
        case "bound up":
            # The rule's value where the arm's bound is far below that, else twice the arm's bound.
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
    """Whether an arm scales gradients by the bound over a threshold, as ``global`` does.

    Its step is then shorter than one of plain clipping at the same learning rate.
    """
    return "threshold" in arm.settings and find(arm.method).scales_by_threshold


def _knob_for(report: Report, arm: ArmFacts) -> Knob | None:
    """What to change of an arm so that the largest part of its harm becomes smaller.

    The harm is its first detected gap, else its first detected cost, else the estimate of its added
    loss. A reference has no privacy to pay for: its advice is against undertraining. None where no
    option helps, and where the harm is too small to matter. Where no harm was split into parts, the
    only advice is to take a setting that is far above its rule's value back to that value.
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
    # Not split: that the noise is the cause is not known, so a larger epsilon is not advised.
    knob = _knob_against_noise(report, arm)
    return None if knob == "epsilon up" else knob


def is_slight(split: SplitCost) -> bool:
    """Whether a cost or gap is too small for advice: below half a point, or 0.01 nats."""
    return abs(split.total.value or 0.0) < _TOLERANCE.get(spec_of(split.metric).unit, 0.0)


def training_losses(report: Report, key: str) -> list[float]:
    """Mean training loss of an arm by epoch, in nats [E]; [] where it was not read.

    An epoch's loss is the mean of the groups' losses, weighted by their training rows: a group
    whose count is suppressed has no weight. An epoch without a known loss is left out.

    Args:
        report: Holds the curves, by group of the first grouping.
        key: Of the arm.
    """
    curves = [curve for curve in report.diagnostics.arms.get(key, ()) if curve.name == "loss"]
    rows_of: dict[str, float | None] = {}  # group -> its training rows
    for comparison in report.comparisons:
        if comparison.grouping == report.data.groupings[0].name:  # any arm's: all train on the same
            rows_of = {group.group: group.n_train for group in comparison.by_group}
    losses = []
    for by_group in curves[0].values if curves else ():  # one curve of losses, a row an epoch
        total = weights = 0.0
        for group, loss in zip(curves[0].columns, by_group, strict=True):
            weight = rows_of.get(group) or 0.0
            if loss is not None:
                total += loss * weight
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
    # Without a rule the learning rate counts as that of the rule.
    step = rule = arm.settings.get("learning_rate", 0.0)
    if LEARNING_RATE.default is not None:
        rule = LEARNING_RATE.default.value(_public_sizes(report))  # of a training without noise
    is_by_user = not arm.step_by_rule and report.settings_tried is None  # by no rule, no search
    losses = training_losses(report, arm.key)
    if is_by_user and not rule / BEYOND <= step <= rule * BEYOND:
        return "step by rule"
    # The loss falls, or has too few epochs to show whether it rises: train for longer.
    if len(losses) < _FEWEST_EPOCHS or losses[-1] <= losses[0]:
        return "epochs up"
    return "step down" if is_by_user else None


def _knob_for_part(report: Report, arm: ArmFacts, part: str, split: SplitCost) -> Knob | None:
    """What to change so that this part of a cost becomes smaller; None where nothing would do it.

    A learning rate that a rule or a search has set, and a clipping bound that a search has set,
    already balance the parts: changing them would make another part larger. Then only a larger
    epsilon makes the step's part smaller.

    Args:
        report, arm: The arm, and the report that holds it.
        part: A name of ``registry.PARTS``.
        split: All parts of the cost.
    """
    is_searched = report.settings_tried is not None
    if part == "partition":
        return "teachers down" if "teachers" in arm.settings else None
    if part == "regularisation":
        noise = split.parts[-1].number.value or 0.0  # the noise is the last part
        # A smaller penalty is worth it if noise alone would then cost less than all parts do now.
        is_worth_it = noise * _LESS_PENALTY**2 < (split.total.value or 0.0)
        return "penalty down" if "penalty" in arm.settings and is_worth_it else None
    if part in (STEP, STEP_AND_CLIPPING):
        if is_searched or arm.step_by_rule:
            return "epsilon up"
        step, _ = _step_and_bound_over_rules(report, arm)
        # Near the rule's length a step is as long as this epsilon lets it be.
        return "epsilon up" if 1 <= step <= BEYOND else "step by rule"
    if part == "clipping":
        is_bounded = "max_grad_norm" in arm.settings and not find(arm.method).is_normalised
        clips_much = _clipped_share(report, arm.key) > LITTLE_CLIPPED
        return "bound up" if is_bounded and clips_much and not is_searched else None
    # "noise" and "step_and_noise"; also "without_noise", if a method from outside has such a part.
    return _knob_against_noise(report, arm)


def _knob_against_noise(report: Report, arm: ArmFacts) -> Knob:
    """What to change so that noise adds less.

    A clipping bound or learning rate far above the rule's goes back to it; else epsilon goes up.
    """
    step, bound = _step_and_bound_over_rules(report, arm)
    if report.settings_tried is not None:
        return "epsilon up"
    if bound > BEYOND and not find(arm.method).is_normalised:
        return "bound by rule"
    if step > BEYOND and not arm.step_by_rule:
        return "step by rule"
    return "epsilon up"


def _rules(report: Report, arm: ArmFacts) -> tuple[float, float]:
    """The learning rate and clipping bound that the rules set at the arm's noise.

    Both are 0 for an arm without a noise multiplier, which has no such rules.
    """
    sigma = arm.settings.get("noise_multiplier")
    step, bound = LEARNING_RATE.default, MAX_GRAD_NORM.default
    if sigma is None or step is None or bound is None:
        return 0.0, 0.0
    sizes = _public_sizes(report, sigma)
    return step.value(sizes), bound.value(sizes)


def _step_and_bound_over_rules(report: Report, arm: ArmFacts) -> tuple[float, float]:
    """Learning rate and clipping bound of an arm, each divided by what its rule would set.

    Both are 1, as at the rules' values, where the arm lacks the settings, so that no advice is
    against them.
    """
    bound, step = arm.settings.get("max_grad_norm"), arm.settings.get("learning_rate")
    step_rule, bound_rule = _rules(report, arm)
    if not step_rule or not bound_rule or bound is None or step is None:
        return 1.0, 1.0
    # Gradients are scaled by C/Z (bound / threshold): compared is the learning rate at which plain
    # clipping moves as far.
    if _is_scaled(arm):
        step *= bound / arm.settings["threshold"]
    return step / step_rule, bound / bound_rule


def _public_sizes(report: Report, sigma: float = 0.0) -> PublicSizes:
    """The public sizes that rules for default settings read.

    Args:
        report: Of an audit that trained.
        sigma: The noise multiplier; 0 for a reference.
    """
    training, images = report.training, report.data.images
    columns = len(report.data.features)
    if images is not None:
        columns = images.height * images.width * images.channels
    assert training is not None, "only trained arms are advised on"
    return PublicSizes(
        training.n_public,
        max(1, columns),  # a model has an input at least
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
