"""What the parts of a step say of a group's cost, in sentences: only what their intervals tell from zero."""

from collections.abc import Iterator, Mapping

from fairaudit.report.arm_readings import over_seeds
from fairaudit.report.decomposition import GroupCauses, OverSeeds, Sentence, say
from fairaudit.report.explained_method import ExplainedMethod
from fairaudit.report.written import PERCENT, THOUSANDTHS, written

LARGE = 0.5  # share of a group's parts from which one part is the main one
PART_NAMES: Mapping[str, str] = {
    "direction": "gradient direction",
    "magnitude_effective": "gradient shrinkage",
    "noise": "noise",
}


def detected_parts(group: GroupCauses) -> dict[str, OverSeeds]:
    """The parts of a group's steps that are told from zero."""
    return {part: group.parts[part] for part in PART_NAMES if group.parts[part].excludes_zero}


def detected_shares(group: GroupCauses) -> dict[str, OverSeeds]:
    """Shares of the increase of a group's loss in a step, of the parts that are told from zero.

    Empty where the parts together are not shown to raise the loss, or one of them lowers it: a share of what?
    """
    known, total = detected_parts(group), _total(group)
    if total.low is None or total.low <= 0 or any((part.value or 0.0) < 0 for part in known.values()):
        return {}
    return {part: group.shares[part] for part in known}


def shares_of(group: GroupCauses) -> str:
    """``81 % [70, 92] from gradient shrinkage, ..``; "" where no share can be told."""
    return ", ".join(
        f"{written(share, PERCENT)} from {PART_NAMES[part]}" for part, share in detected_shares(group).items()
    )


def parts_sentences(method: ExplainedMethod) -> Iterator[Sentence]:
    """Each group's parts, then which part makes the difference between them."""
    yield say(
        "finding",
        " ".join(
            _of_group(method, group, name)
            for group, name in ((method.worst_off, method.who), (method.other, method.beside))
        ),
        *(f"{method.place}.groups[{group.group}].parts" for group in (method.worst_off, method.other)),
    )
    yield say("finding", _difference(method), f"{method.place}.groups")


def _of_group(method: ExplainedMethod, group: GroupCauses, name: str) -> str:
    open_parts = [label for part, label in PART_NAMES.items() if part not in detected_parts(group)]
    unknown = f"; {' and '.join(open_parts)}: cannot tell" if open_parts else ""
    if shares := shares_of(group):
        return f"Per-step loss increase for {name} under {method.arm.key}: {shares}{unknown}."
    known = ", ".join(
        f"{written(value, THOUSANDTHS)} from {PART_NAMES[part]}"
        for part, value in detected_parts(group).items()
    )
    start = f"Per-step loss change for {name} under {method.arm.key}"
    if not known:
        return f"{start}: cannot tell which part is above zero."
    return (
        f"{start}, in thousandths of a nat: {known}{unknown}; together {written(_total(group), THOUSANDTHS)}."
    )


def _difference(method: ExplainedMethod) -> str:
    """Which part makes the worst-off group's steps cost more than the other's."""
    whole = _minus(method, tuple(PART_NAMES))
    start = f"The difference per step, {method.who} minus {method.beside} under {method.arm.key}"
    size = f"{written(whole, THOUSANDTHS)} thousandths of a nat"
    if whole.low is None or whole.high is None or whole.low <= 0 <= whole.high:
        return f"{start}: {size} in all; cannot tell which part makes it."
    if whole.high < 0:
        return (
            f"{start}, has the other sign than the measured difference: {size}. So the parts of single steps "
            "do not explain it."
        )
    for part, label in PART_NAMES.items():
        if (_minus(method, (part,), beyond=LARGE).low or 0.0) > 0:
            return f"{start}, is mostly {label}: {written(_minus(method, (part,)), THOUSANDTHS)} of {size}."
    return f"{start}: {size} in all; no part is shown to be most of it."


def _minus(method: ExplainedMethod, parts: tuple[str, ...], *, beyond: float = 0.0) -> OverSeeds:
    """These parts of the worst-off group's steps minus the other's, less a share of all parts.

    One part is picked out of all, so its interval holds for all of them together.
    """
    worst_off, other = method.worst_off, method.other
    whole = _added(_summed(worst_off, tuple(PART_NAMES)), _summed(other, tuple(PART_NAMES)), -1.0)
    own = _added(_summed(worst_off, parts), _summed(other, parts), -1.0)
    many = 1 if parts == tuple(PART_NAMES) else len(PART_NAMES)
    return over_seeds(_added(own, whole, -beyond), many=many)


def _total(group: GroupCauses) -> OverSeeds:
    return over_seeds(_summed(group, tuple(PART_NAMES)))


def _summed(group: GroupCauses, parts: tuple[str, ...]) -> list[float | None]:
    """Sum of parts at each seed; None where one is not known."""
    by_seed = zip(*(group.parts[part].by_seed for part in parts), strict=True)
    return [None if None in values else sum(v for v in values if v is not None) for values in by_seed]


def _added(first: list[float | None], second: list[float | None], factor: float) -> list[float | None]:
    pairs = zip(first, second, strict=True)
    return [None if a is None or b is None else a + factor * b for a, b in pairs]
