"""Whether the papers' claims held in an audit.

A claim says which sign a number has, for instance that clipping turns the gradient more for one
group than for another. It is about groups that pay differently, so it is asked only where this
audit detects that two do. It holds or fails where the interval of the number's mean over seeds lies
on one side of zero.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fairaudit.analysis.arm_readings import ArmReadings, over_seeds
from fairaudit.methods.catalog import find
from fairaudit.planning.plan import Arm, Plan
from fairaudit.report.types.decomposition import SignClaim

Float64 = NDArray[np.float64]
Sign = Literal["+", "-"]
Verdict = Literal["holds", "fails", "cannot tell"]
Pair = tuple[str, str]  # names of two groups, the one that pays more first
_ESIPOVA = "Esipova et al. 2023"
_TRAN = "Tran et al. 2021"
# Series of a group statistic that a paper says is larger where a group pays more -> (source, name).
_GROUP_STATISTICS = {
    "hessian_trace": (f"{_TRAN}, Thm 4", "Hessian trace"),
    "mean_input_norm": (f"{_TRAN}, after Thm 3", "input norm"),
    "mean_closeness": (f"{_TRAN}, after Thm 4", "boundary proximity"),
}


@dataclass(frozen=True, slots=True)
class OpenClaim:
    """One claim before it is judged.

    Args:
        statement: What is claimed, in words.
        source: Paper and place.
        expected: The sign that the number has by the paper.
        values: The number at each seed, [S]; NaN is unknown.
    """

    statement: str
    source: str
    expected: Sign
    values: Float64


def claims(
    plan: Plan,
    readings: Mapping[str, ArmReadings],
    names: Sequence[str],
    worst_off: Mapping[str, Pair],
    published: Pair | None,
) -> tuple[SignClaim, ...]:
    """Every claim that can be asked of the trained arms, judged.

    Plain DP-SGD is asked whether clipping's direction error, a bound on it and group statistics are
    larger for the group that pays more; methods that scale to a global threshold whether they turn
    gradients less than plain DP-SGD does.

    Args:
        plan: The arms.
        readings: Arm key -> its diagnostic readings, of arms whose steps were split into parts.
        names: Names of the groups, in the order of the readings.
        worst_off: Arm key -> two groups whose excess risks are detected to differ, the one that
            pays more first; an arm without such groups is absent.
        published: The groups that pay more and less by the preset's publication, or None.
    """
    open_claims: list[OpenClaim] = []
    for arm in plan.arms:
        if arm.key in readings and arm.key in worst_off and is_plain_dpsgd(arm):
            pair = worst_off[arm.key]
            # The publication's order of these two groups, where it has one; else this audit's.
            claimed = pair
            if published is not None and set(published) == set(pair):
                claimed = published
            open_claims += _direction_claims(arm, readings[arm.key], names, claimed)
            open_claims += _statistic_claims(arm, readings[arm.key], names, pair)
    for arm in plan.arms:
        # "#" stands in the key of a self-check, which repeats another arm.
        scales = find(arm.method).scales_by_threshold and not arm.variant and "#" not in arm.key
        if not scales or arm.key not in readings:
            continue
        plain = _plain_dpsgd_beside(arm, plan, readings)
        # Without such two groups nobody is detected to pay differently under plain DP-SGD.
        if plain is not None and plain.key in worst_off:
            open_claims += _scaling_claims(arm, plain, readings, names, worst_off[plain.key])
    # Claims without a known value at any seed cannot be judged, and take no share of the 5 %.
    judgeable = [claim for claim in open_claims if np.isfinite(claim.values).any()]
    return tuple(sign_claim(claim, len(judgeable)) for claim in judgeable)


def _direction_claims(
    arm: Arm, readings: ArmReadings, names: Sequence[str], pair: Pair
) -> Iterator[OpenClaim]:
    """The claims that the first group's direction error is larger, and a bound on that positive.

    Arguments as of :func:`claims`; ``pair``: the group that pays more first.
    """
    a, b = map(names.index, pair)
    direction = readings.per_step("r_direction")  # [S, K]
    yield OpenClaim(
        f"{arm.key}: direction error is larger for {pair[0]} than for {pair[1]}",
        f"{_ESIPOVA}, Fig. 4",
        "+",
        direction[:, a] - direction[:, b],
    )
    yield OpenClaim(
        f"{arm.key}: Prop. 3 for {pair[0]} against {pair[1]} is positive",
        f"{_ESIPOVA}, Fig. 5",
        "+",
        readings.per_step("bound_direction")[:, a, b],  # of [S, K, K]
    )


def _statistic_claims(
    arm: Arm, readings: ArmReadings, names: Sequence[str], pair: Pair
) -> Iterator[OpenClaim]:
    """The claims that the group which pays more has the larger Hessian trace, input norm and so on.

    Arguments as of :func:`_direction_claims`.
    """
    a, b = map(names.index, pair)
    for statistic, (source, label) in _GROUP_STATISTICS.items():
        values = readings.averaged(statistic)  # [S, K]
        statement = f"{arm.key}: {pair[0]}, which pays more than {pair[1]}, has the larger {label}"
        yield OpenClaim(statement, source, "+", values[:, a] - values[:, b])


def _plain_dpsgd_beside(arm: Arm, plan: Plan, readings: Mapping[str, ArmReadings]) -> Arm | None:
    """The first arm of plain DP-SGD at the same target epsilon that has readings, or None."""
    for plain in plan.arms:
        is_same_epsilon = plain.privacy.target_epsilon == arm.privacy.target_epsilon
        if is_same_epsilon and is_plain_dpsgd(plain) and plain.key in readings:
            return plain
    return None


def sign_claim(claim: OpenClaim, n_joint: int = 1) -> SignClaim:
    """The claim with its verdict, by the 95 % interval of its number's mean over seeds.

    It holds where the whole interval has the expected sign, and fails where it has the other.

    ``cannot tell`` where the interval includes zero or there is none. ``n_joint`` claims share the
    5 %, so each interval is widened for them.
    """
    mean = over_seeds(claim.values, n_joint=n_joint)
    verdict: Verdict = "cannot tell"
    if mean.low is not None and mean.high is not None and not mean.low <= 0.0 <= mean.high:
        if (mean.low > 0) == (claim.expected == "+"):
            verdict = "holds"
        else:
            verdict = "fails"
    return SignClaim(
        statement=claim.statement,
        source=claim.source,
        expected=claim.expected,
        found=mean,
        verdict=verdict,
    )


def is_plain_dpsgd(arm: Arm) -> bool:
    """Whether the arm is plain DP-SGD: flat clipping of the plain loss, and noise, nothing else.

    The papers' claims on clipping are about such an arm, and arms that scale are compared with it.
    The method's own declaration decides. A published variant is none, nor a self-check (``#`` in
    its key), which repeats another arm.
    """
    spec = find(arm.method)
    is_dpsgd = spec.is_private and spec.trains_by_steps
    releases_more = bool(spec.side_queries or spec.relative_queries)  # beside the gradient
    # The method takes a number from another method's run, or scales all gradients by a threshold.
    is_another = bool(spec.control_of or spec.scales_by_threshold)
    is_own_form = not arm.variant and "#" not in arm.key
    return is_dpsgd and is_own_form and not releases_more and not is_another


def _scaling_claims(
    arm: Arm, plain: Arm, readings: Mapping[str, ArmReadings], names: Sequence[str], pair: Pair
) -> Iterator[OpenClaim]:
    """The claims that scaling to a global threshold turns gradients less than flat clipping does.

    One for each group of the pair that flat clipping clips at all.

    Args:
        arm: The arm that scales.
        plain: The arm of plain DP-SGD.
        readings: Arm key -> its readings, of both arms.
        names: Names of the groups, in the order of the readings.
        pair: Two groups whose excess risks are detected to differ under ``plain``.
    """
    scaled, flat = readings[arm.key], readings[plain.key]
    scaled_errors, flat_errors = _direction_errors(scaled, flat), _direction_errors(flat, scaled)
    clipped = flat.averaged("clipped_share")  # [S, K]
    for name in pair:
        place = names.index(name)
        if not np.nan_to_num(clipped[:, place]).any():  # an unknown share counts as 0
            continue  # where nothing is clipped, neither turns a gradient
        yield OpenClaim(
            f"direction error of {name} is smaller under {arm.key} than under {plain.key}",
            f"{_ESIPOVA}, Fig. 4",
            "-",
            scaled_errors[:, place] - flat_errors[:, place],
        )


def _direction_errors(readings: ArmReadings, other: ArmReadings) -> Float64:
    """Sizes of an arm's direction errors at the S' seeds that both arms have, [S', K].

    The seeds of both arms stand in the plan's order, so rows of the two arrays belong together.
    """
    shared = [place for place, seed in enumerate(readings.seeds) if seed in other.seeds]
    errors: Float64 = np.abs(readings.per_step("r_direction")[shared])
    return errors
