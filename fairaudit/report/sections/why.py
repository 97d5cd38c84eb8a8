"""Why a group pays: the sentences, then the charts and tables that they rest on; raw data, internal."""

from collections.abc import Iterator, Mapping

from fairaudit.report.decomposition import ArmCauses, Decomposition, Why
from fairaudit.report.document import (
    Block,
    Bullets,
    Cell,
    Chart,
    Heading,
    Quantity,
    Rank,
    Section,
    Strong,
    Text,
    bare,
    bullets,
    data_table,
    figures,
    table,
)
from fairaudit.report.model import Report
from fairaudit.report.panels import Bar, Intervals, labels
from fairaudit.report.safe_names import plain
from fairaudit.report.sections.training import training_charts
from fairaudit.report.written import READINGS, THOUSANDTHS, UNKNOWN, short
from fairaudit.results.estimates import interval_of

_INTERNAL = (
    "Internal: exact functions of raw records, not differentially private. Rules wrote these sentences from "
    "the figures of this report; report.json names the figures beside each."
)
_PARTS = ("direction", "magnitude_effective", "noise")
_GROUP_STATISTICS = ("angle_turned", "hessian_trace", "clipped_share", "mean_closeness", "mean_input_norm")
# part -> what it is called
_LABELS: Mapping[str, str] = {
    "direction": "direction (clipping turns)",
    "magnitude_effective": "magnitude (clipping shortens)",
    "noise": "noise",
}
_MOST_PANELS, _MOST_GROUPS = 8, 20


def section(report: Report) -> Section | None:
    """None where nothing was explained."""
    why, decomposition = report.why, report.diagnostics.decomposition
    if why is None and decomposition is None:
        return None
    blocks: list[Block] = [Text((Strong(plain(why.headline, 500)),))] if why and why.headline else []
    blocks.append(Text(_INTERNAL))
    if why is not None:  # the control has a section of its own
        blocks += bullets([plain(s.text, 1200) for s in why.of("finding", "statistic", "ablation")])
    blocks += figures(parts_chart(report), *(training_charts(report) if decomposition is not None else ()))
    if why is not None:
        blocks += _together(why, "limit", "What these figures cannot say")
        blocks += _together(why, "suggestion", "What might help: expected from the figures above, not tried")
    if decomposition is not None:
        # In the plan's order, which the keys of a stored report no longer have.
        causes = {a.key: decomposition.arms[a.key] for a in report.arms if a.key in decomposition.arms}
        blocks += [*_parts(causes, decomposition.batches), *_claims(decomposition), *_bounds(causes)]
    brief = (Text(f"Why   {plain(why.headline, 500)}"),) if why and why.headline else ()
    return Section("why", "Why", Rank.SECOND, tuple(blocks), brief)


def _together(why: Why, kind: str, heading: str) -> Iterator[Block]:
    """Sentences of one kind as a list."""
    found = tuple(plain(sentence.text, 1200) for sentence in why.of(kind))
    if found:
        yield Heading(heading)
        yield Bullets(found)


def _parts(causes: Mapping[str, ArmCauses], most: int) -> Iterator[Block]:
    rows: list[tuple[Cell, ...]] = [
        (
            *(plain(arm), plain(group.group)),
            *(Quantity(group.parts[part], THOUSANDTHS) for part in _PARTS),
            *(bare(group.statistics[statistic].value, READINGS) for statistic in _GROUP_STATISTICS),
        )
        for arm, found in causes.items()
        for group in found.groups
    ]
    if not rows:
        return
    yield Heading("The parts of a step")
    yield Text(
        "Mean per step in thousandths of a nat, with intervals over seeds; direction, magnitude (against a "
        "plain step of the same effective length) and noise add up to the loss increase of a step. The other "
        "columns are means over the checkpoints; the gradient angle is that by which clipping turns the "
        "batch's gradient away from the group's."
    )
    head = ("method", "group", "#direction", "#magnitude", "#noise", "#gradient angle (degrees)",
            "#Hessian trace", "#clipped (share)", "#boundary proximity", "#input norm")  # fmt: skip
    yield table(head, rows, most=8)
    yield from _errors(causes, most)


def _errors(causes: Mapping[str, ArmCauses], most: int) -> Iterator[Block]:
    """How many batches the parts are means over, and what that leaves open."""
    errors = {
        arm: max(known)
        for arm, found in causes.items()
        if (known := [e for g in found.groups for e in g.errors.values() if e is not None])
    }
    if errors:
        told = ", ".join(f"{plain(arm)} {_thousandth(error)}" for arm, error in errors.items())
        missed = [miss for arm, found in causes.items() if (miss := _missed(arm, found))]
        yield Text(
            f"Direction and magnitude are means over drawn batches, at most {most} for each checkpoint and "
            f"training. The largest standard error that this leaves in the figures above, in the same "
            f"unit: {told}. The intervals allow for it."
            + (f" Above what was wanted, for batches are limited: {', '.join(missed)}." if missed else "")
        )


def _missed(arm: str, causes: ArmCauses) -> str:
    """The part of an arm that is furthest above its wanted standard error; "" where none is."""
    above = [
        (error / wanted, group.group, part, error, wanted)
        for group in causes.groups
        for part, error in group.errors.items()
        if error is not None and (wanted := group.wanted.get(part)) and error > wanted
    ]
    if not above:
        return ""
    _, group, part, error, wanted = max(above)
    name = part.partition("_")[0]
    return f"{plain(arm)} {name} of {plain(group)} {_thousandth(error)} for {_thousandth(wanted)}"


def _bounds(causes: Mapping[str, ArmCauses]) -> Iterator[Block]:
    """One line for the first arm that has some; all of them are in the JSON."""
    for arm, found in [(a, c) for a, c in causes.items() if c.bounds][:1]:
        first = found.bounds[0]
        told = "; ".join(
            f"{plain(b.name)} {_thousandth(b.bound)} of {_thousandth(b.truth)}, positive at "
            f"{_percent(b.positive.value)} of the steps, of the truth's sign at {_percent(b.agreement)}"
            for b in found.bounds
        )
        yield Text(
            f"Lower bounds on a step's loss increase, {plain(first.a)} minus {plain(first.b)}, under "
            f"{plain(arm)}, in thousandths of a nat: {told}."
        )


def _claims(decomposition: Decomposition) -> Iterator[Block]:
    rows = [
        (
            plain(claim.statement, 200),
            plain(claim.source, 80),
            claim.expected,
            Quantity(claim.found, READINGS),
            (Strong("fails"),) if claim.verdict == "fails" else claim.verdict,
        )
        for claim in decomposition.claims
    ]
    if rows:
        yield Text(
            "Claims of the papers about the sign of a figure, and its mean over the seeds with an interval "
            "that holds for all claims together; of this file, not of others:"
        )
        yield table(("claim", "source", "expected", "#found", "verdict"), rows, most=10)


def _percent(share: float | None) -> str:
    return UNKNOWN if share is None else f"{100 * share:.0f} %"


def _thousandth(value: float | None) -> str:
    return short(None if value is None else 1e3 * value)


def parts_chart(report: Report) -> Chart | None:
    """Parts of each group's excess risk under each arm; None where they were not read."""
    found = report.diagnostics.decomposition
    if found is None:
        return None
    causes = {arm.key: found.arms[arm.key] for arm in report.arms if arm.key in found.arms}
    titles = labels(list(causes))
    rows: list[tuple[Cell, ...]] = [
        (key, group.group, part, read.value, read.low, read.high, interval_of(group.shares.get(part)).value)
        for key, arm in causes.items()
        for group in arm.groups
        for part, read in group.parts.items()
    ]
    panels = []
    for key, arm in list(causes.items())[:_MOST_PANELS]:
        names = labels([group.group for group in arm.groups])
        bars = tuple(
            Bar(names[group.group], label, read)
            for group in arm.groups[:_MOST_GROUPS]
            for part, label in _LABELS.items()
            if (read := group.parts.get(part)) is not None and read.value is not None
        )
        if bars:
            panels.append(Intervals(titles[key], "excess risk of one step (nats)", bars))
    if not panels:
        return None
    return Chart(
        name="risk-parts",
        title="Parts of the excess risk",
        reading="What a private step adds to the group's training loss, beside a plain step: because "
        "clipping turns the gradient, because it shortens it, and because of noise. Whiskers are 95 % "
        "intervals over seeds.",
        alt="The parts of each group's excess risk, by method: from direction, magnitude and noise.",
        panels=tuple(panels),
        table=data_table(
            ("method", "group", "part", "nats a step", "low", "high", "share"),
            rows,
        ),
    )
