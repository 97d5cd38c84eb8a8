"""What the papers claim of private steps, as the sign of one number per seed; a claim can fail."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import comb
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fairaudit.methods.catalog import find
from fairaudit.planning.plan import Arm, Plan
from fairaudit.report.arm_readings import ArmReadings
from fairaudit.report.decomposition import SignClaim

Float64 = NDArray[np.float64]
Sign = Literal["+", "-"]

_ESIPOVA = "Esipova et al. 2023"
_TRAN = "Tran et al. 2021"
_MOST_GROUPS = 4
_TRAITS = {
    "hessian_trace": (f"{_TRAN}, Thm 4", "Hessian trace"),
    "mean_input_norm": (f"{_TRAN}, after Thm 3", "input norm"),
    "mean_closeness": (f"{_TRAN}, after Thm 4", "closeness to the decision boundary"),
}


@dataclass(frozen=True, slots=True)
class Orders:
    """Which group pays more, and less: arm -> the pair that a publication names, and the measured one."""

    published: Mapping[str, tuple[str, str]]
    measured: Mapping[str, tuple[str, str]]


def sign_claims(
    plan: Plan,
    found: Mapping[str, ArmReadings],
    names: Sequence[str],
    shown: Sequence[str],
    orders: Orders,
) -> tuple[SignClaim, ...]:
    """Every claim that the trained arms can be asked.

    Args:
        plan: The arms. found: Arm -> its readings, those with terms only.
        names: Groups. shown: Those not suppressed. orders: Who pays more.
    """
    claims: list[SignClaim] = []
    for arm in (arm for arm in plan.arms if arm.key in found and arm.key in orders.measured):
        if clips_alone(arm):
            claims += _of_clipping(arm, found[arm.key], names, orders.published[arm.key])
            claims += _of_traits(arm, found[arm.key], names, orders.measured[arm.key])
    for arm in plan.arms:
        plain = _counterpart(plan, arm, found)
        if plain is not None:
            claims += _of_scaling(arm, plain, found, names, shown)
    return tuple(claim for claim in claims if claim.found)  # without a seed there is nothing to judge


def sign_claim(statement: str, source: str, expected: Sign, values: Float64) -> SignClaim:
    """One claim from its number at each seed.

    The verdict is ``held`` where every seed that is not zero agrees, ``failed`` where at most half do.
    """
    known = [float(v) for v in values if np.isfinite(v)]
    signs: list[Literal["+", "-", "0"]] = ["+" if v > 0 else "-" if v < 0 else "0" for v in known]
    held, counted = signs.count(expected), sum(sign != "0" for sign in signs)
    p = sum(comb(counted, k) for k in range(held, counted + 1)) / 2**counted if counted else None
    verdict = "held" if counted and held == counted else "failed" if 2 * held <= counted else "mixed"
    return SignClaim.model_validate(
        {
            "statement": statement,
            "source": source,
            "expected": expected,
            "found": tuple(signs),
            "values": tuple(known),
            "held": held,
            "p": p,
            "verdict": verdict,
        }
    )


def clips_alone(arm: Arm) -> bool:
    """Flat clipping of the plain loss and noise, nothing else: what other arms are held against."""
    spec = find(arm.method)
    asks = spec.side_queries or spec.relative_queries or spec.control_of or spec.scales_by_threshold
    return bool(spec.is_private and spec.trains_by_steps and not arm.variant and not asks) and _is_first(arm)


def _is_first(arm: Arm) -> bool:
    return "#" not in arm.key  # a self-check repeats another arm


def _counterpart(plan: Plan, arm: Arm, found: Mapping[str, ArmReadings]) -> Arm | None:
    """The arm that clips alone at the same target as an arm that scales by a threshold."""
    if not find(arm.method).scales_by_threshold or arm.variant or arm.key not in found or not _is_first(arm):
        return None
    target = arm.privacy.target_epsilon
    same = (a for a in plan.arms if clips_alone(a) and a.privacy.target_epsilon == target and a.key in found)
    return next(same, None)


def _of_clipping(
    arm: Arm, found: ArmReadings, names: Sequence[str], pair: tuple[str, str]
) -> Iterator[SignClaim]:
    a, b = (names.index(name) for name in pair)
    direction = found.per_step("r_direction")
    yield sign_claim(
        f"{arm.key}: direction error is larger for {pair[0]} than for {pair[1]}",
        f"{_ESIPOVA}, Fig. 4",
        "+",
        direction[:, a] - direction[:, b],
    )
    for bound, name, source, expected in (
        ("bound_direction", "Prop. 3", f"{_ESIPOVA}, Fig. 5", "+"),
        ("bound_clip", "the bound of Thm 3, corrected,", f"{_TRAN}; {_ESIPOVA}, Fig. 5", "-"),
        ("bound_clip_printed", "the bound of Thm 3 as printed", f"{_TRAN}; {_ESIPOVA}, Fig. 5", "-"),
    ):
        sign = "positive" if expected == "+" else "negative"
        yield sign_claim(
            f"{arm.key}: {name} for {pair[0]} against {pair[1]} is {sign}",
            source,
            "+" if expected == "+" else "-",
            found.per_step(bound)[:, a, b],
        )


def _of_traits(
    arm: Arm, found: ArmReadings, names: Sequence[str], pair: tuple[str, str]
) -> Iterator[SignClaim]:
    a, b = (names.index(name) for name in pair)
    for trait, (source, spoken) in _TRAITS.items():
        values = found.averaged(trait)
        yield sign_claim(
            f"{arm.key}: {pair[0]}, which pays more than {pair[1]}, has the larger {spoken}",
            source,
            "+",
            values[:, a] - values[:, b],
        )


def _of_scaling(
    arm: Arm,
    plain: Arm,
    found: Mapping[str, ArmReadings],
    names: Sequence[str],
    shown: Sequence[str],
) -> Iterator[SignClaim]:
    ours, theirs = found[arm.key], found[plain.key]
    seeds = sorted(set(ours.seeds) & set(theirs.seeds))
    rows = [[reading.seeds.index(seed) for seed in seeds] for reading in (ours, theirs)]
    mine, other = (
        np.abs(reading.per_step("r_direction")[own])
        for reading, own in zip((ours, theirs), rows, strict=True)
    )
    for name in shown[:_MOST_GROUPS]:
        place = names.index(name)
        yield sign_claim(
            f"direction error of {name} is smaller under {arm.key} than under {plain.key}",
            f"{_ESIPOVA}, Fig. 4",
            "-",
            mine[:, place] - other[:, place],
        )
