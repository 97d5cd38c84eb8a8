"""Why a group pays, in sentences: each follows from a rule on figures of the report and names them."""

from collections.abc import Iterator, Sequence

from fairaudit.errors import numbered
from fairaudit.methods.catalog import find
from fairaudit.report.case import Case, cases_of
from fairaudit.report.decomposition import Decomposition, OverSeeds, Sentence, Why, say
from fairaudit.report.explain_ablation import ablation
from fairaudit.report.explain_traits import traits
from fairaudit.report.facts import ArmFacts, Control
from fairaudit.report.gaps import COST, main_gap
from fairaudit.report.names import plain
from fairaudit.report.written import PERCENT, POINTS, written
from fairaudit.results.estimates import Comparison, Interval

LARGE = 0.5  # share of a group's parts from which one part is the main one
SMALL = 0.1
LITTLE_CLIPPED = 0.05
MOST_ARMS = 3
PART_NAMES = {
    "direction": "direction error",
    "magnitude_effective": "magnitude error",
    "noise": "noise",
}


def explain(
    decomposition: Decomposition | None,
    arms: Sequence[ArmFacts],
    compared: Sequence[Comparison],
    control: Control,
) -> Why | None:
    """The explanation; None where neither steps were read nor clipping was taken apart.

    Args:
        decomposition: What was read of kept steps. arms: All arms.
        compared: By the first grouping. control: What the control showed.
    """
    apart = ablation(arms, compared)
    if decomposition is None:
        return Why(headline="", sentences=apart) if apart else None
    cases = list(cases_of(decomposition, arms, compared))[:MOST_ARMS]
    sentences: list[Sentence] = []
    for case in cases:
        sentences += [_cost(case), _parts(case), *_main_part(case)]
    if cases:
        sentences += traits(cases[0])
    if control.status == "run":
        sentences.append(say("control", control.message, "control.message"))
    sentences += apart
    sentences += _limits(decomposition, cases)
    for case in cases:
        sentences += _levers(case)
    return Why(headline=_headline(cases[0]) if cases else "", sentences=tuple(sentences))


def _headline(case: Case) -> str:
    turned = [_number(g.traits["angle_turned"].value, 0) for g in (case.payer, case.other)]
    shares = ", ".join(f"{spoken} {_percent(case.payer.shares[part])}" for part, spoken in PART_NAMES.items())
    return (
        f"{case.arm.key}: clipping turns the batch's gradient {turned[0]}° further from "
        f"{case.who}'s "
        f"({case.beside}'s {turned[1]}°); of what a step costs {case.who}, {shares}."
    )


def _cost(case: Case) -> Sentence:
    by_group = {g.group: g.estimates.get("excess_risk") for g in case.comparison.by_group}
    told = []
    for group in (case.payer, case.other):
        estimate = by_group[group.group]
        assert estimate is not None
        assert estimate.value is not None
        told.append(f"{plain(group.group)} {written(estimate)}")
    gap = main_gap(case.comparison, "excess_risk")
    resolved = "" if gap is not None and gap.direction else " The difference in loss is not resolved here."
    return say(
        "finding",
        f"Under {case.arm.key} privacy costs {told[0]} nats of loss and {told[1]}; in accuracy the gap is "
        f"{written(cost.absolute if (cost := main_gap(case.comparison, COST)) else None, POINTS)} points."
        f"{resolved}",
        f"comparisons[{case.arm.key}].by_group[{case.payer.group}].estimates.excess_risk",
    )


def _parts(case: Case) -> Sentence:
    told = []
    for group in (case.payer, case.other):
        shares = ", ".join(f"{spoken} {_percent(group.shares[part])}" for part, spoken in PART_NAMES.items())
        told.append(f"{plain(group.group)}: {shares}")
    return say(
        "finding",
        f"Shares of what clipping and noise do to a group's loss in a step of {case.arm.key}. "
        f"{'. '.join(told)}.",
        *(f"{case.place}.groups[{group.group}].shares" for group in (case.payer, case.other)),
    )


def _main_part(case: Case) -> Iterator[Sentence]:
    """Which part makes the difference between the two groups, where every seed says so."""
    differences = {part: _difference(case, part) for part in PART_NAMES}
    known = {part: value for part, value in differences.items() if value is not None}
    if not known:
        return
    main = max(known, key=lambda part: known[part][0])
    mean, agreeing, seeds = known[main]
    if mean <= 0 or agreeing < seeds:
        yield say(
            "finding",
            f"No part of a step of {case.arm.key} costs {case.who} more than {case.beside} at every seed.",
            f"{case.place}.groups",
        )
        return
    yield say(
        "finding",
        f"What {case.who} pays per step beyond {case.beside} under {case.arm.key} is mostly "
        f"{PART_NAMES[main]}: {1e3 * mean:.3g} thousandths of a nat, larger at each of "
        f"{numbered(seeds, 'seed')}; "
        + ", ".join(f"{PART_NAMES[p]} {1e3 * v[0]:.3g}" for p, v in known.items() if p != main)
        + ".",
        f"{case.place}.groups[{case.payer.group}].parts.{main}",
        f"{case.place}.groups[{case.other.group}].parts.{main}",
    )


def _difference(case: Case, part: str) -> tuple[float, int, int] | None:
    """Mean over seeds of payer minus other, at how many seeds it has the mean's sign, and seeds."""
    pairs = zip(case.payer.parts[part].by_seed, case.other.parts[part].by_seed, strict=True)
    values = [a - b for a, b in pairs if a is not None and b is not None]
    if not values:
        return None
    mean = sum(values) / len(values)
    return mean, sum(v * mean > 0 for v in values), len(values)


def _limits(decomposition: Decomposition, cases: Sequence[Case]) -> Iterator[Sentence]:
    yield say(
        "limit",
        f"Parts are second-order readings of single steps at {decomposition.steps} kept steps, each against "
        "the plain step from the same point. They say what a step does there, not what training would have "
        "become, and do not add up to the measured excess risk.",
        "diagnostics.decomposition.steps",
    )
    if decomposition.optimizer != "sgd":
        yield say(
            "limit",
            f"The optimizer is {decomposition.optimizer}; the parts are those of a plain gradient step.",
            "config.optimizer",
        )
    failed = [f"{c.arm.key}: {b.assumption}" for c in cases for b in c.causes.bounds[:1] if b.assumption]
    if failed:
        yield say(
            "limit",
            f"The printed bounds rest on assumptions that fail here: {'; '.join(failed)}.",
            "diagnostics.decomposition.arms",
        )
    if cases and len(cases[0].causes.groups) == 2:
        yield say(
            "limit",
            "With two groups every trait that differs goes along with the cost; which of them causes it, "
            "these figures cannot say.",
            "diagnostics.decomposition.arms",
        )


def _levers(case: Case) -> Iterator[Sentence]:
    shares = {part: case.payer.shares[part].value or 0.0 for part in PART_NAMES}
    clipped = case.payer.traits["clipped_share"].value or 0.0
    who, arm = case.who, case.arm.key
    place = f"{case.place}.groups[{case.payer.group}].shares"
    noise_note = f"noise, now {100 * shares['noise']:.0f} %, grows with it"
    if shares["direction"] >= LARGE or (shares["direction"] > SMALL and clipped > LITTLE_CLIPPED):
        larger = (
            "a larger --threshold or a slower fall of it"
            if find(case.arm.method).scales_by_threshold
            else "a larger --max-grad-norm, or a method that scales all gradients by one threshold,"
        )
        yield _lever(
            f"{arm}: {larger} should lower {who}'s direction error, for {100 * clipped:.0f} % of its "
            f"records are clipped; {noise_note}.",
            place,
        )
    if shares["magnitude_effective"] >= LARGE:
        yield _lever(
            f"{arm}: clipped steps are short for {who}; more --epochs or a larger --learning-rate should "
            "lower its magnitude error (more epochs cost epsilon or noise).",
            place,
        )
    if shares["noise"] >= LARGE:
        yield _lever(
            f"{arm}: noise is the main part for {who}: a larger --epsilon, a larger --batch-size, a smaller "
            "--learning-rate or a smaller --max-grad-norm should lower it.",
            place,
        )
    if clipped < LITTLE_CLIPPED and shares["noise"] < LARGE:
        yield _lever(
            f"{arm}: hardly any record of {who} is clipped, so another clipping bound should change little.",
            f"{case.place}.groups[{case.payer.group}].traits.clipped_share",
        )


def _lever(text: str, *rests_on: str) -> Sentence:
    return say("lever", text, *rests_on)


def _percent(share: OverSeeds) -> str:
    low, high = (None, None) if share.ends is None else (max(share.ends[0], 0.0), min(share.ends[1], 1.0))
    return written(Interval(value=share.value, low=low, high=high), PERCENT, unknown="unknown")


def _number(value: float | None, decimals: int) -> str:
    return "unknown" if value is None else f"{round(value, decimals) + 0.0:.{decimals}f}"
