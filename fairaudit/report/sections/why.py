"""Why a group pays: what a step does to each group, and the papers' claims and bounds."""

from collections.abc import Iterator, Mapping

from fairaudit.report.document import (
    Block,
    Cell,
    Folded,
    Quantity,
    Section,
    Text,
    bare,
    figures,
    table,
)
from fairaudit.report.model import Report
from fairaudit.report.numbers import HUNDREDTHS, PERCENT, READINGS, THOUSANDTHS, UNKNOWN
from fairaudit.report.safe_names import plain
from fairaudit.report.step_charts import cause_charts
from fairaudit.report.types.decomposition import (
    STEP_PARTS,
    ArmCauses,
    Decomposition,
    RankCorrelation,
)

# Key of ``GroupCauses.statistics`` -> title of its column; # marks a column of numbers.
_STATISTICS = {
    "angle_turned": "#gradient angle (degrees)",
    "clipped_share": "#clipped (share)",
    "excess_norm": "#clipping bias",
    "noise_norm": "#noise norm",
    "hessian_trace": "#Hessian trace",
    "eigenvalue_largest": "#largest eigenvalue",
    "eigenvalue_smallest": "#smallest eigenvalue",
    "mean_closeness": "#boundary proximity",
    "mean_input_norm": "#input norm",
}
# Readings of one record -> words.
_OF_RECORDS = {
    "input_norm": "input norm",
    "gradient_norm": "gradient norm",
    "closeness": "boundary proximity",
    "trace": "Hessian trace",
}
# Clipping split the other way round, turned first, then shortened; not every report has these.
_SECOND_SPLIT = ("direction_star", "magnitude_star")


def section(report: Report) -> Section | None:
    """The section on what a step does to each group; None where checkpoints were not read."""
    decomposition = report.diagnostics.decomposition
    if decomposition is None:
        return None
    # In the plan's order: the keys of a stored report are sorted by name.
    keys = [arm.key for arm in report.arms if arm.key in decomposition.arms]
    causes = {key: decomposition.arms[key] for key in keys}
    blocks = [
        *_parts(causes),
        *_statistics(causes),
        *_correlations(report, causes),
        *_agreements(causes),
        *_claims(decomposition),
        *_bounds(causes),
    ]
    charts = figures(*cause_charts(report))
    if charts:
        blocks.append(Folded("Over training: eigenvalues, clipping bias, noise, bounds", charts))
    return Section("why", "Why: what a step does to each group", tuple(blocks))


def _parts(causes: Mapping[str, ArmCauses]) -> Iterator[Block]:
    """A table of what direction, magnitude and noise of a step add to each group's loss.

    A dash stands for a part that a report lacks. Nothing where no group was read.
    """
    rows: list[tuple[Cell, ...]] = []
    for arm, of_arm in causes.items():
        for group in of_arm.groups:
            cells = []
            for part in (*STEP_PARTS, *_SECOND_SPLIT):  # in the order of the titles below
                cells.append(Quantity(group.parts.get(part), THOUSANDTHS))
            rows.append((plain(arm), plain(group.group), *cells))
    if rows:
        yield Text(
            "Loss that a step adds, in thousandths of a nat, with intervals over seeds: means over "
            "all steps, each checkpoint for the steps around it. (The section on misalignment has "
            "plain means over checkpoints.) Direction* and magnitude* split the same clipping the "
            "other way round: turned first, then shortened. None of it is private."
        )
        titles = ("#direction", "#magnitude", "#noise", "#direction*", "#magnitude*")
        yield table(("method", "group", *titles), rows, most=8)


def _statistics(causes: Mapping[str, ArmCauses]) -> Iterator[Block]:
    """A table of each group's readings, a column for each of ``_STATISTICS``, as Hessian trace.

    A reading is a mean over the checkpoints; a dash where it was not read. Nothing where no group
    was read.
    """
    rows: list[tuple[Cell, ...]] = []
    for arm, of_arm in causes.items():
        for group in of_arm.groups:
            cells = []
            for name in _STATISTICS:
                number = group.statistics.get(name)
                cells.append(bare(None if number is None else number.value, READINGS))
            rows.append((plain(arm), plain(group.group), *cells))
    if rows:
        yield Text(
            "Means over the checkpoints. Clipping bias is the length that clipping takes from a "
            "record's gradient. Noise norm is the length of the noise on a step's sum, divided by "
            "the expected number of the group's records in a batch. Eigenvalues are of the Hessian "
            "of the group's loss."
        )
        yield table(("method", "group", *_STATISTICS.values()), rows, most=8)


def _correlations(report: Report, causes: Mapping[str, ArmCauses]) -> Iterator[Block]:
    """A table of rank correlations of two readings over a group's records.

    A row for each method and group, a column for each pair of readings; nothing without any.
    """
    grouping = report.data.groupings[0].name
    pairs: dict[tuple[str, str], None] = {}  # of readings, in the order of the columns
    # (arm, group), a row -> pair of readings, a column -> their correlation.
    correlations: dict[tuple[str, str], dict[tuple[str, str], RankCorrelation]] = {}
    for arm, of_arm in causes.items():
        for one in of_arm.correlations:
            pairs[one.between] = None
            correlations.setdefault((arm, one.group), {})[one.between] = one
    if not correlations:
        return
    rows: list[tuple[Cell, ...]] = []
    for (arm, group), by_pair in correlations.items():
        name = report.name_of(grouping, group) or "all rows"
        numbers = [Quantity(by_pair.get(pair), HUNDREDTHS, UNKNOWN) for pair in pairs]
        rows.append((plain(arm), name, *numbers))
    yield Text(
        "Spearman's rank correlations over records, means over the checkpoints, with intervals by "
        "resampling the records."
    )
    titles = ["#" + ", ".join(_OF_RECORDS.get(one, plain(one)) for one in pair) for pair in pairs]
    yield table(("method", "group", *titles), rows, most=9)


def _agreements(causes: Mapping[str, ArmCauses]) -> Iterator[Block]:
    """A table of how often a reading and a cost put two groups in the same order.

    A row for each method and reading; nothing without any.
    """
    rows: list[tuple[Cell, ...]] = []
    for arm, of_arm in causes.items():
        for one in of_arm.agreements:
            words = _STATISTICS.get(one.reading, plain(one.reading)).removeprefix("#")
            rows.append((plain(arm), words, bare(one.value, PERCENT)))
    if rows:
        yield Text(
            "Over pairs of groups and seeds: how often the group with the larger reading has the "
            "larger excess risk. Groups by chance are so half of the time, and then often at all "
            "seeds, which share rows: it says nothing of other files."
        )
        yield table(("method", "reading", "#same order"), rows, most=9)


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

    In a bound's row stand the true difference, the share of steps at which the bound is positive,
    and the share at which bound and truth have one sign. Below the table, a line for each
    assumption that is not met names the methods. Nothing where no bound was read.
    """
    rows: list[tuple[Cell, ...]] = []
    failed: dict[str, dict[str, None]] = {}  # assumption that is not met -> arms, each once
    for arm, of_arm in causes.items():
        for bound in of_arm.bounds:
            shares = []
            for share in (bound.positive.value, bound.agreement):
                shares.append(UNKNOWN if share is None else f"{100 * share:.0f} %")
            between = f"{plain(bound.a)} minus {plain(bound.b)}"
            losses = [bare(loss, THOUSANDTHS) for loss in (bound.bound, bound.curved, bound.truth)]
            rows.append((plain(arm), plain(bound.name), between, *losses, *shares))
            if bound.assumption:
                failed.setdefault(bound.assumption, {})[plain(arm)] = None
    if rows:
        yield Text(
            "Lower bounds on what a step costs one group more than another, for convex losses. The "
            "first form also asks for steps of at most 1 / the largest eigenvalue of a group's "
            "Hessian; the form with eigenvalues does not. As printed a bound need not hold."
        )
        titles = ("#bound", "#with eigenvalues", "#truth", "#positive", "#of the truth's sign")
        yield table(("method", "bound", "of", *titles), rows, most=10)
    for assumption, arms in failed.items():
        yield Text(f"{', '.join(arms)}: {assumption}.")
