"""Why a group pays: the sentences, then the charts and tables that they rest on.

Raw data, internal.
"""

from collections.abc import Iterator, Mapping

from fairaudit.report.decomposition import STEP_PARTS, ArmCauses, Decomposition, Why
from fairaudit.report.document import (
    Block,
    Cell,
    Chart,
    Heading,
    Quantity,
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
from fairaudit.report.panels import Bar, Intervals, Panel, labels
from fairaudit.report.safe_names import plain
from fairaudit.report.sections.training import training_charts
from fairaudit.report.written import READINGS, THOUSANDTHS, UNKNOWN, short
from fairaudit.results.estimates import interval_of

_INTERNAL = (
    "Exact functions of raw records, not private; report.json names the figures of each sentence."
)
_GROUP_STATISTICS = (
    "angle_turned",
    "hessian_trace",
    "clipped_share",
    "mean_closeness",
    "mean_input_norm",
)
# part -> what it is called
_LABELS: Mapping[str, str] = {
    "direction": "direction (clipping turns)",
    "magnitude_effective": "magnitude (clipping shortens)",
    "noise": "noise",
}
_HEADINGS = {
    "limit": "What these figures cannot say",
    "suggestion": "What might help: expected from the figures above, not tried",
}
_MOST_PANELS, _MOST_GROUPS = 8, 20


def section(report: Report) -> Section | None:
    """None where nothing was explained."""
    why, decomposition = report.why, report.diagnostics.decomposition
    if why is None and decomposition is None:
        return None
    blocks: list[Block] = []
    brief: tuple[Block, ...] = ()
    if why is not None and why.headline:
        headline = plain(why.headline, 500)
        blocks.append(Text((Strong(headline),)))
        brief = (Text(f"Why   {headline}"),)
    blocks.append(Text(_INTERNAL))
    if why is not None:  # the control has a section of its own
        blocks += bullets(_sentences(why, "finding", "statistic", "ablation"))
    blocks += figures(parts_chart(report))
    if decomposition is not None:
        blocks += figures(*training_charts(report))
    if why is not None:
        for kind, heading in _HEADINGS.items():
            sentences = bullets(_sentences(why, kind))
            if sentences:
                blocks += [Heading(heading), *sentences]
    if decomposition is not None:
        causes = _causes(report, decomposition)
        blocks += [*_parts(causes), *_errors(causes, decomposition.batches)]
        blocks += _claims_and_bounds(decomposition)
    return Section("why", "Why", tuple(blocks), brief)


def _sentences(why: Why, *kinds: str) -> list[str]:
    return [plain(sentence.text, 1200) for sentence in why.of(*kinds)]


def _causes(report: Report, decomposition: Decomposition) -> dict[str, ArmCauses]:
    """By arm in the plan's order, which the keys of a stored report no longer have."""
    keys = [arm.key for arm in report.arms if arm.key in decomposition.arms]
    return {key: decomposition.arms[key] for key in keys}


def _parts(causes: Mapping[str, ArmCauses]) -> Iterator[Block]:
    rows: list[tuple[Cell, ...]] = []
    for arm, of_arm in causes.items():
        for group in of_arm.groups:
            parts = [Quantity(group.parts[part], THOUSANDTHS) for part in STEP_PARTS]
            statistics = [
                bare(group.statistics[name].value, READINGS) for name in _GROUP_STATISTICS
            ]
            rows.append((plain(arm), plain(group.group), *parts, *statistics))
    if not rows:
        return
    yield Heading("The parts of a step")
    yield Text(
        "Mean loss increase of a step in thousandths of a nat, with intervals over seeds; the "
        "other columns are means over the checkpoints."
    )
    head = (
        "method",
        "group",
        "#direction",
        "#magnitude",
        "#noise",
        "#gradient angle (degrees)",
        "#Hessian trace",
        "#clipped (share)",
        "#boundary proximity",
        "#input norm",
    )
    yield table(head, rows, most=8)


def _errors(causes: Mapping[str, ArmCauses], most: int) -> Iterator[Block]:
    """How many batches the parts are means over, and what that leaves open."""
    largest: dict[str, float] = {}
    for arm, of_arm in causes.items():
        for group in of_arm.groups:
            for error in group.errors.values():
                if error is not None:
                    largest[arm] = max(error, largest.get(arm, 0.0))
    if largest:
        told = ", ".join(f"{plain(arm)} {_thousandth(error)}" for arm, error in largest.items())
        yield Text(
            f"Direction and magnitude are means over at most {most} drawn batches for each "
            "checkpoint and training, with a standard error of at most, in the same unit: "
            f"{told}."
        )


def _claims_and_bounds(decomposition: Decomposition) -> Iterator[Block]:
    """Every claim; the bounds of the first arm that has some, all of them are in the JSON."""
    rows: list[tuple[Cell, ...]] = []
    for claim in decomposition.claims:
        statement, source = plain(claim.statement, 200), plain(claim.source, 80)
        found = Quantity(claim.found, READINGS)
        rows.append((statement, source, claim.expected, found, claim.verdict))
    if rows:
        yield Text(
            "Claims of the papers about the sign of a figure, and its mean over the seeds with an "
            "interval that holds for all claims together; of this file, not of others:"
        )
        yield table(("claim", "source", "expected", "#found", "verdict"), rows, most=10)
    bounded = [(arm, causes.bounds) for arm, causes in decomposition.arms.items() if causes.bounds]
    for arm, bounds in bounded[:1]:
        told = []
        for bound in bounds:
            positive, agreement = (
                UNKNOWN if share is None else f"{100 * share:.0f} %"
                for share in (bound.positive.value, bound.agreement)
            )
            told.append(
                f"{plain(bound.name)} {_thousandth(bound.bound)} of {_thousandth(bound.truth)}, "
                f"positive at {positive} of the steps, of the truth's sign at {agreement}"
            )
        yield Text(
            f"Lower bounds on a step's loss increase, {plain(bounds[0].a)} minus "
            f"{plain(bounds[0].b)}, under {plain(arm)}, in thousandths of a nat: {'; '.join(told)}."
        )


def _thousandth(value: float | None) -> str:
    return short(None if value is None else 1e3 * value)


def parts_chart(report: Report) -> Chart | None:
    """Parts of each group's excess risk under each arm; None where they were not read."""
    if report.diagnostics.decomposition is None:
        return None
    causes = _causes(report, report.diagnostics.decomposition)
    titles = labels(list(causes))
    rows: list[tuple[Cell, ...]] = []
    panels: list[Panel] = []
    for key, of_arm in causes.items():
        names = labels([group.group for group in of_arm.groups])
        bars = []
        for place, group in enumerate(of_arm.groups):
            for part, number in group.parts.items():
                share = interval_of(group.shares.get(part)).value
                values = number.value, number.low, number.high, share
                rows.append((key, group.group, part, *values))
                if part in _LABELS and number.value is not None and place < _MOST_GROUPS:
                    bars.append(Bar(names[group.group], _LABELS[part], number))
        if bars and len(panels) < _MOST_PANELS:
            panels.append(Intervals(titles[key], "excess risk of one step (nats)", tuple(bars)))
    if not panels:
        return None
    return Chart(
        name="risk-parts",
        title="Parts of the excess risk",
        reading="What a private step adds to the group's training loss, beside a plain step. "
        "Whiskers are 95 % intervals over seeds.",
        alt="The parts of each group's excess risk, by method: from direction, magnitude and "
        "noise.",
        panels=tuple(panels),
        table=data_table(
            ("method", "group", "part", "nats a step", "low", "high", "share"),
            rows,
        ),
    )
