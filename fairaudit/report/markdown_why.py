"""Markdown sections on why a group pays; raw data, internal."""

from collections.abc import Iterator, Mapping

from fairaudit.report.decomposition import ArmCauses, Decomposition, GroupCauses, Why
from fairaudit.report.model import Report
from fairaudit.report.names import markdown
from fairaudit.report.tables import Row, short, table
from fairaudit.report.written import READINGS, THOUSANDTHS, written

_INTERNAL = (
    "Internal: exact functions of raw records, not differentially private. Rules wrote these sentences from "
    "the figures of this report; report.json names the figures beside each."
)


def why_section(report: Report) -> Iterator[str]:
    """The sentences, then the tables that they rest on."""
    decomposition = report.diagnostics.decomposition
    if report.why is None:
        return
    yield "## Why"
    yield ""
    if report.why.headline:
        yield f"**{markdown(report.why.headline, 500)}**"
        yield ""
    yield _INTERNAL
    yield ""
    for sentence in report.why.of("finding", "trait", "ablation"):  # the control has a section of its own
        yield f"- {markdown(sentence.text, 1200)}"
    yield from _together(report.why, "limit", "What these figures cannot say")
    yield from _together(report.why, "lever", "What might help: expected from the figures above, not tried")
    if decomposition is not None:
        # In the plan's order, which the keys of a stored report no longer have.
        causes = {a.key: decomposition.arms[a.key] for a in report.arms if a.key in decomposition.arms}
        yield from _parts(causes, decomposition.batches)
        yield from _claims(decomposition)
        yield from _bounds(causes)


def _together(why: Why, kind: str, heading: str) -> Iterator[str]:
    """Sentences of one kind as a list."""
    found = [markdown(sentence.text, 1200) for sentence in why.of(kind)]
    if found:
        yield ""
        yield f"### {heading}"
        yield ""
        yield from (f"- {text}" for text in found)


def _parts(causes: Mapping[str, ArmCauses], most: int) -> Iterator[str]:
    rows = [_part_row(arm, found, group) for arm, found in causes.items() for group in found.groups]
    if not rows:
        return
    yield ""
    yield "### The parts of a step"
    yield ""
    yield (
        "Mean per step in thousandths of a nat, with intervals over seeds; direction, magnitude (against a "
        "plain step of the same effective length) and noise add up to what a step costs. Trace, share of "
        "clipped records, closeness to the boundary and input norm are means over the kept steps."
    )
    yield ""
    head = ("arm", "group", "#direction", "#magnitude", "#noise", "#turned °", "#Tr H", "#clipped",
            "#closeness", "#input norm")  # fmt: skip
    yield from table(head, rows, most=8)
    yield from _errors(causes, most)


def _errors(causes: Mapping[str, ArmCauses], most: int) -> Iterator[str]:
    """How many batches the parts are means over, and what that leaves open."""
    errors = {
        arm: max(known)
        for arm, found in causes.items()
        if (known := [e for g in found.groups for e in g.errors.values() if e is not None])
    }
    if errors:
        told = ", ".join(f"{markdown(arm)} {_thousandth(error)}" for arm, error in errors.items())
        missed = [miss for arm, found in causes.items() if (miss := _missed(arm, found))]
        yield ""
        yield (
            f"Direction and magnitude are means over drawn batches, at most {most} for each kept step and "
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
    return f"{markdown(arm)} {name} of {markdown(group)} {_thousandth(error)} for {_thousandth(wanted)}"


def _part_row(arm: str, causes: ArmCauses, group: GroupCauses) -> Row:
    traits = group.traits
    return (
        markdown(arm),
        markdown(group.group),
        *(written(group.parts[part], THOUSANDTHS) for part in ("direction", "magnitude_effective", "noise")),
        short(traits["angle_turned"].value),
        short(traits["hessian_trace"].value),
        short(traits["clipped_share"].value),
        short(traits["mean_closeness"].value),
        short(traits["mean_input_norm"].value),
    )


def _bounds(causes: Mapping[str, ArmCauses]) -> Iterator[str]:
    """One line for the first arm that has some; all of them are in the JSON."""
    for arm, found in [(a, c) for a, c in causes.items() if c.bounds][:1]:
        first = found.bounds[0]
        told = "; ".join(
            f"{markdown(b.name)} {_thousandth(b.bound)} of {_thousandth(b.truth)}, positive at "
            f"{_share(b.positive.value)} of the steps, of the truth's sign at {_share(b.agreement)}"
            for b in found.bounds
        )
        yield ""
        yield (
            f"Lower bounds on a step's loss increase, {markdown(first.a)} minus {markdown(first.b)}, under "
            f"{markdown(arm)}, in thousandths of a nat: {told}."
        )


def _claims(decomposition: Decomposition) -> Iterator[str]:
    rows = [
        (
            markdown(claim.statement, 200),
            markdown(claim.source, 80),
            claim.expected,
            written(claim.found, READINGS),
            "**fails**" if claim.verdict == "fails" else claim.verdict,
        )
        for claim in decomposition.claims
    ]
    if not rows:
        return
    yield ""
    yield (
        "Claims of the papers about the sign of a figure, and its mean over the seeds with an interval that "
        "holds for all claims together; of this file, not of others:"
    )
    yield ""
    yield from table(("claim", "source", "expected", "#found", "verdict"), rows, most=10)


def _thousandth(value: float | None) -> str:
    return short(None if value is None else 1e3 * value)


def _share(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.0f} %"
