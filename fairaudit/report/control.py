"""Does a threshold method do more than clip less? The control's answer in words."""

from collections.abc import Sequence

from fairaudit.methods.catalog import catalog, find
from fairaudit.planning.plan import Arm, Plan
from fairaudit.report.facts import Control
from fairaudit.report.main_gap import COST, main_gap
from fairaudit.report.safe_names import plain
from fairaudit.report.written import POINTS, written
from fairaudit.results.estimates import Comparison, Estimate

_WHY = (
    "Scaling by a threshold is DP-SGD with a larger clipping bound and a smaller step, so a smaller cost "
    "than dpsgd's may come from clipping less alone."
)


def control_option() -> str:
    """The option that adds the control of a threshold method."""
    return f"--method {next(spec.name for spec in catalog().values() if spec.control_of)}"


def describe_control(plan: Plan, comparisons: Sequence[Comparison]) -> Control:
    """Whether the control was trained, and how it does beside the arm that it copies.

    Args:
        plan: The arms; a control is one that reads another arm's released thresholds.
        comparisons: By the first grouping.
    """
    by_arm = {comparison.arm: comparison for comparison in comparisons}
    pairs = [(arm, plan.arm(arm.source)) for arm in plan.arms if arm.source is not None]
    pairs = [(control, copied) for control, copied in pairs if _scales_by_threshold(copied)]
    if pairs:
        told = [
            _beside(by_arm[control.key], by_arm[copied.key])
            for control, copied in pairs
            if control.key in by_arm and copied.key in by_arm
        ]
        message = " ".join([*told, _WHY]) if told else f"The control has no finished seed. {_WHY}"
        return Control(status="run", message=message)
    scaled = [arm.key for arm in plan.arms if _scales_by_threshold(arm)]
    if scaled:
        return Control(
            status="not run",
            message=f"Control not run for {', '.join(scaled)}. {_WHY} "
            f"Add {control_option()} to tell the two apart.",
        )
    return Control(status="not needed", message="No method scales gradients by a threshold.")


def _scales_by_threshold(arm: Arm) -> bool:
    return find(arm.method).scales_by_threshold


def _beside(control: Comparison, copied: Comparison) -> str:
    costs = "; ".join(
        f"{plain(mine.group)} {written(mine.estimates.get(COST), POINTS)} beside "
        f"{written(theirs.estimates.get(COST), POINTS)}"
        for mine, theirs in zip(control.by_group[:6], copied.by_group[:6], strict=True)
    )
    gaps = main_gap(control), main_gap(copied)
    told = (
        f"{control.arm} is plain DP-SGD with the clipping bound and step size that {copied.arm} "
        f"settled on. Its cost in points of accuracy beside {copied.arm}'s: {costs}."
    )
    if gaps[0] is None or gaps[1] is None:
        return told
    mine, theirs = gaps[0].absolute, gaps[1].absolute
    sizes = f"{written(mine, POINTS)} beside {written(theirs, POINTS)}"
    return f"{told} Its gap is {sizes}: {_verdict(mine, theirs, copied.arm)}"


def _verdict(control: Estimate, copied: Estimate, name: str) -> str:
    if control.ends is None or copied.ends is None:
        return "without intervals, cannot tell."
    if control.ends.low > copied.ends.high:
        return f"the gap of matched DP-SGD is larger, so here {name} does more than clip less."
    if control.ends.high < copied.ends.low:
        return f"the gap of matched DP-SGD is smaller, so here {name} does worse than clipping less alone."
    return f"the intervals overlap; no advantage of {name} over matched DP-SGD detected."
