"""Whether the papers' claims held in an audit.

A claim is about groups that pay differently, so it is asked only where this audit detects that two
do.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fairaudit.analysis.arm_readings import ArmReadings, over_seeds
from fairaudit.methods.catalog import find
from fairaudit.planning.plan import Arm, Plan
from fairaudit.report.decomposition import SignClaim

Float64 = NDArray[np.float64]
Sign = Literal["+", "-"]
Verdict = Literal["holds", "fails", "cannot tell"]
Pair = tuple[str, str]
_ESIPOVA = "Esipova et al. 2023"
_TRAN = "Tran et al. 2021"
_GROUP_STATISTICS = {
    "hessian_trace": (f"{_TRAN}, Thm 4", "Hessian trace"),
    "mean_input_norm": (f"{_TRAN}, after Thm 3", "input norm"),
    "mean_closeness": (f"{_TRAN}, after Thm 4", "boundary proximity"),
}


@dataclass(frozen=True, slots=True)
class Asked:
    """One claim before it is judged.

    Args:
        statement, source: In words.
        expected: The sign that the paper says.
        values: At each seed, [S]; NaN is unknown.
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
    """Every claim that the trained arms can be asked.

    Args:
        plan: The arms.
        readings: Arm -> its readings, those with terms only.
        names: Groups.
        worst_off: Arm -> two groups whose costs are told apart, the larger first.
        published: The order of two groups that a publication reports, or None.
    """
    asked: list[Asked] = []
    for arm in (arm for arm in plan.arms if arm.key in readings and arm.key in worst_off):
        pair = worst_off[arm.key]
        if clips_alone(arm):
            # The publication's order of these two groups, where it has one; else this audit's.
            if published is not None and set(published) == set(pair):
                claimed = published
            else:
                claimed = pair
            a, b = map(names.index, claimed)
            direction = readings[arm.key].per_step("r_direction")
            asked.append(
                Asked(
                    f"{arm.key}: direction error is larger for {claimed[0]} than for {claimed[1]}",
                    f"{_ESIPOVA}, Fig. 4",
                    "+",
                    direction[:, a] - direction[:, b],
                )
            )
            asked.append(
                Asked(
                    f"{arm.key}: Prop. 3 for {claimed[0]} against {claimed[1]} is positive",
                    f"{_ESIPOVA}, Fig. 5",
                    "+",
                    readings[arm.key].per_step("bound_direction")[:, a, b],
                )
            )
            a, b = map(names.index, pair)
            for statistic, (source, label) in _GROUP_STATISTICS.items():
                values = readings[arm.key].averaged(statistic)
                statement = (
                    f"{arm.key}: {pair[0]}, which pays more than {pair[1]}, has the larger {label}"
                )
                asked.append(
                    Asked(
                        statement,
                        source,
                        "+",
                        values[:, a] - values[:, b],
                    )
                )
    for arm in plan.arms:
        scales = find(arm.method).scales_by_threshold and not arm.variant and "#" not in arm.key
        if not scales or arm.key not in readings:
            continue
        for plain in plan.arms:  # the one that clips alone at the same target
            target = plain.privacy.target_epsilon
            if target != arm.privacy.target_epsilon or not clips_alone(plain):
                continue
            if plain.key in readings:
                if plain.key in worst_off:  # else no two groups are told apart under it
                    asked += _of_scaling(
                        arm,
                        plain,
                        readings,
                        names,
                        worst_off[plain.key],
                    )
                break  # one such arm is enough
    # Claims without a known value at any seed cannot be judged, and share no error.
    asked = [claim for claim in asked if np.isfinite(claim.values).any()]
    return tuple(sign_claim(claim, len(asked)) for claim in asked)


def sign_claim(claim: Asked, n_joint: int = 1) -> SignClaim:
    """One claim, judged by the interval of its mean over seeds, which ``n_joint`` claims share."""
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


def clips_alone(arm: Arm) -> bool:
    """Flat clipping of the plain loss and noise, nothing else: what other arms are held against.

    Not so a self-check (``#`` in its key), which repeats another arm.
    """
    spec = find(arm.method)
    asks = spec.side_queries or spec.relative_queries or spec.control_of or spec.scales_by_threshold
    return (
        bool(spec.is_private and spec.trains_by_steps and not arm.variant and not asks)
        and "#" not in arm.key
    )


def _of_scaling(
    arm: Arm,
    plain: Arm,
    readings: Mapping[str, ArmReadings],
    names: Sequence[str],
    pair: Pair,
) -> Iterator[Asked]:
    """Whether scaling to a global bound turns gradients less than clipping does, by group."""
    ours, theirs = readings[arm.key], readings[plain.key]
    errors = []  # of direction, on the seeds that both have
    for reading, partner in ((ours, theirs), (theirs, ours)):
        shared = [place for place, seed in enumerate(reading.seeds) if seed in partner.seeds]
        errors.append(np.abs(reading.per_step("r_direction")[shared]))
    our_errors, their_errors = errors
    clipped = readings[plain.key].averaged("clipped_share")
    for name in pair:
        place = names.index(name)
        if not np.nan_to_num(clipped[:, place]).any():
            continue  # where nothing is clipped, neither turns a gradient
        yield Asked(
            f"direction error of {name} is smaller under {arm.key} than under {plain.key}",
            f"{_ESIPOVA}, Fig. 4",
            "-",
            our_errors[:, place] - their_errors[:, place],
        )
