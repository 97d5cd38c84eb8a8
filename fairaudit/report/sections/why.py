"""Why a group pays: what a step does to each group, and the papers' claims and bounds."""

from collections.abc import Iterator, Mapping

from fairaudit.report.decomposition import STEP_PARTS, ArmCauses, Decomposition
from fairaudit.report.document import Block, Cell, Quantity, Section, Text, bare, table
from fairaudit.report.model import Report
from fairaudit.report.numbers import READINGS, THOUSANDTHS, UNKNOWN
from fairaudit.report.safe_names import plain

_STATISTICS = {
    "angle_turned": "#gradient angle (degrees)",
    "hessian_trace": "#Hessian trace",
    "clipped_share": "#clipped (share)",
    "mean_closeness": "#boundary proximity",
    "mean_input_norm": "#input norm",
}


def section(report: Report) -> Section | None:
    """The section on what a step does to each group; None where checkpoints were not read."""
    decomposition = report.diagnostics.decomposition
    if decomposition is None:
        return None
    # In the plan's order, which the keys of a stored report no longer have.
    keys = [arm.key for arm in report.arms if arm.key in decomposition.arms]
    causes = {key: decomposition.arms[key] for key in keys}
    blocks = [*_parts(causes), *_claims(decomposition), *_bounds(causes)]
    return Section("why", "Why: what a step does to each group", tuple(blocks))


def _parts(causes: Mapping[str, ArmCauses]) -> Iterator[Block]:
    """A table of what direction, magnitude and noise of a step add to each group's loss.

    Nothing where no arm has such a reading.
    """
    rows: list[tuple[Cell, ...]] = []
    for arm, of_arm in causes.items():
        for group in of_arm.groups:
            parts = [Quantity(group.parts[part], THOUSANDTHS) for part in STEP_PARTS]
            statistics = [bare(group.statistics[name].value, READINGS) for name in _STATISTICS]
            rows.append((plain(arm), plain(group.group), *parts, *statistics))
    if rows:
        yield Text(
            "Loss that a step adds, in thousandths of a nat, with intervals over seeds; the other "
            "columns are means over the checkpoints. None of it is private."
        )
        head = ("method", "group", "#direction", "#magnitude", "#noise", *_STATISTICS.values())
        yield table(head, rows, most=8)


def _claims(decomposition: Decomposition) -> Iterator[Block]:
    """A table of the papers' claims that this audit could check, with verdicts; nothing if none."""
    rows: list[tuple[Cell, ...]] = []
    for claim in decomposition.claims:
        statement, source = plain(claim.statement, 200), plain(claim.source, 80)
        value = Quantity(claim.found, READINGS)
        rows.append((statement, source, claim.expected, value, claim.verdict))
    if rows:
        yield Text("The papers' claims in this file; intervals hold for all of them together.")
        yield table(("claim", "source", "expected", "#found", "verdict"), rows, most=10)


def _bounds(causes: Mapping[str, ArmCauses]) -> Iterator[Block]:
    """A table of lower bounds on how much more a step costs one group than another.

    Beside each stands the true difference. Nothing where no bound was read.
    """
    rows: list[tuple[Cell, ...]] = []
    for arm, of_arm in causes.items():
        for bound in of_arm.bounds:
            shares = []
            for share in (bound.positive.value, bound.agreement):
                shares.append(UNKNOWN if share is None else f"{100 * share:.0f} %")
            between = f"{plain(bound.a)} minus {plain(bound.b)}"
            size, truth = bare(bound.bound, THOUSANDTHS), bare(bound.truth, THOUSANDTHS)
            rows.append((plain(arm), plain(bound.name), between, size, truth, *shares))
    if rows:
        yield Text(
            "Lower bounds on what a step costs one group more than another, for convex losses and "
            "steps of at most 1 / the largest eigenvalue of a Hessian, which is not checked."
        )
        titles = ("#bound", "#truth", "#positive", "#of the truth's sign")
        yield table(("method", "bound", "of", *titles), rows, most=8)
