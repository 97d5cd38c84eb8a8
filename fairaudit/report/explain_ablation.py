"""What the ablation of clipping showed, in sentences."""

from collections.abc import Collection, Sequence

from fairaudit.report.decomposition import Sentence, say
from fairaudit.report.facts import ArmFacts
from fairaudit.report.main_gap import COST, is_detected, main_gap, named_gaps
from fairaudit.report.safe_names import plain
from fairaudit.report.written import POINTS, written
from fairaudit.results.estimates import Comparison, Gap

CLIPPED, SHORTER, TURNED, SLOWED = "clipped", "magnitude-only", "direction-only", "sgd-slowed"
MOST_GROUPS = 6  # whose costs are all told

_SAME_TWO_ARMS = (
    "The paper describes these two models twice in different words; they are the two pure parts, magnitude "
    "and starred direction, which do not add up to clipping's whole cost."
)


def ablation(arms: Sequence[ArmFacts], compared: Sequence[Comparison]) -> tuple[Sentence, ...]:
    """Sentences on the arms of the ablation; none where it was not trained.

    Args:
        arms: All arms.
        compared: By the first grouping.
    """
    found = {arm.method: c for arm in arms for c in compared if c.arm == arm.key and c.reference}
    if SHORTER not in found or TURNED not in found or CLIPPED not in found:
        return ()
    told = {name: _costs(comparison, _shown(found[CLIPPED])) for name, comparison in found.items()}
    sentences = [
        say(
            "ablation",
            f"In points of accuracy, without noise: clipping costs {told[CLIPPED]}; its magnitude alone "
            f"{told[SHORTER]}; its direction alone {told[TURNED]}.",
            *(f"comparisons[{name}].by_group" for name in (CLIPPED, SHORTER, TURNED)),
        ),
        _gap_sentence(found),
    ]
    if SLOWED in found:
        sentences.append(
            say(
                "ablation",
                "magnitude-only takes shorter steps, so at a fixed number of epochs it is a learning-rate "
                f"experiment as well; plain SGD slowed by as much costs {told[SLOWED]}.",
                f"comparisons[{SLOWED}].by_group",
            )
        )
    return (*sentences, say("ablation", _SAME_TWO_ARMS, f"comparisons[{SHORTER}]", f"comparisons[{TURNED}]"))


def _gap_sentence(found: dict[str, Comparison]) -> Sentence:
    """Which half, if any, shows a gap between groups that points the way clipping's does, and its size."""
    gaps = {name: gap for name, c in found.items() if (gap := _gap(c)) and is_detected(gap)}
    whole = gaps[CLIPPED].direction if CLIPPED in gaps else ""
    halves = [name for name in (SHORTER, TURNED) if whole and name in gaps and gaps[name].direction == whole]
    if not whole:
        told = "No gap between groups is detected for clipping without noise, so there is none to take apart."
    elif halves:
        sizes = " and ".join(f"{name} {written(gaps[name].absolute, POINTS)}" for name in halves)
        which = "one half by itself" if len(halves) == 1 else "each half by itself"
        told = (
            f"A gap of the same direction ({plain(whole, 80)}) is detected for {which}: {sizes} points of "
            f"clipping's {written(gaps[CLIPPED].absolute, POINTS)}."
        )
    else:
        told = (
            f"For clipping a gap of {written(gaps[CLIPPED].absolute, POINTS)} points ({plain(whole, 80)}) is "
            f"detected, for neither half by itself ({_sizes(found)}): what costs is the two together, or a "
            "half of whose gap this audit cannot tell."
        )
    return say("ablation", told, *(f"comparisons[{name}].gaps" for name in (CLIPPED, SHORTER, TURNED)))


def _sizes(found: dict[str, Comparison]) -> str:
    """The gap of either half, whatever its interval says."""
    gaps = {name: _gap(found[name]) for name in (SHORTER, TURNED)}
    return ", ".join(
        f"{name} {written(None if gap is None else gap.size, POINTS)}" for name, gap in gaps.items()
    )


def _gap(comparison: Comparison) -> Gap | None:
    """The gap of the pair that was named beforehand, else the one that stands for the comparison."""
    return next(iter(named_gaps(comparison)), main_gap(comparison, COST))


def _shown(comparison: Comparison) -> set[str]:
    """All groups where they are few, else those of the gaps that are told."""
    if len(comparison.by_group) <= MOST_GROUPS:
        return {group.group for group in comparison.by_group}
    gap = _gap(comparison)
    return {gap.a, gap.b} if gap else set()


def _costs(comparison: Comparison, shown: Collection[str]) -> str:
    costs = (
        f"{plain(g.group)} {written(g.estimates.get(COST), POINTS)}"
        for g in comparison.by_group
        if g.estimates and g.group in shown
    )
    return ", ".join(costs)
