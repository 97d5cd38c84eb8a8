"""Membership inference: how well an attacker tells who was trained on, by group.

Members are rows that a model trained on, outsiders rows that it did not. At a rate of false
accusations of 5 % the attacker accuses 5 % of the outsiders.
"""

import math

from fairaudit.errors import numbered
from fairaudit.leakage.study import Leakage
from fairaudit.privacy.events import shown_up
from fairaudit.report.cost_charts import every_group
from fairaudit.report.document import (
    Block,
    Cell,
    Heading,
    Quantity,
    Section,
    Table,
    Text,
    bullets,
    table,
)
from fairaudit.report.main_gap import is_detected, main_gap, with_unit
from fairaudit.report.model import Report
from fairaudit.report.numbers import OWN_UNIT, POINTS, UNKNOWN, Scale, listed, number, written
from fairaudit.report.safe_names import plain

SHARE = Scale(100.0, lambda value: number(value, decimals=1), suffix=" %")
LITTLE_POWER = 3.0  # an epsilon up to which an attack on so few models finds next to nothing
ACCUSED = 0.05  # share of the outsiders: the "5 %" of leakage_tpr and of the sentences here
_MOST_ROWS = 24  # of a table that are read at once
# metric whose gaps are shown -> words
_COMPARED = {
    "leakage_tpr": "members found at 5 %",
    "leakage_advantage": "difference at one threshold",
}
# metric -> title of its column, scale; a title that starts with "#" marks a column of numbers
_WITHIN = {
    "leakage_tpr": ("#found at 5 %", SHARE),
    "leakage_tpr_at_1": ("#found at 1 %", SHARE),
    "leakage_auc": ("#AUC", OWN_UNIT),
    "change.leakage_tpr": ("#against reference (points)", POINTS._replace(is_spoken=False)),
    "leakage_tpr_global": ("#members accused at one threshold", SHARE),
    "leakage_fpr_global": ("#outsiders accused at it", SHARE),
    "leakage_advantage": ("#difference (points)", POINTS._replace(is_spoken=False)),
}


def section(report: Report) -> Section | None:
    """The section on membership attacks; None where it was not asked for."""
    leakage = Leakage.of(report)
    if leakage is None:
        return None
    models = max((arm.models_finished for arm in leakage.arms), default=0)
    intro = (
        f"{numbered(models, 'model')} of each method, each trained on a random half of "
        f"{leakage.rows:,} rows with settings and noise for {leakage.n_public:,}, each attacked "
        "with all others as shadow models: members found where 5 % (1 %) of outsiders are accused. "
        "One threshold for all groups accuses 5 % of all outsiders; of that only the difference "
        "says that a group leaks."
    )
    blocks: tuple[Block, ...] = (
        Text(intro),
        _within_groups(report, leakage),
        Heading("Gaps in leakage"),
        _gaps(leakage),
        *bullets(_scope(leakage)),
    )
    title = "Who is exposed: membership inference"
    return Section("leakage", title, blocks, brief=(Text(_sentence(leakage, models)),))


def _within_groups(report: Report, leakage: Leakage) -> Table:
    """The table of what the attack finds in each group, beside the most that epsilon allows."""
    rows: list[tuple[Cell, ...]] = []
    for comparison, group in every_group(leakage.comparisons):
        ceiling = _ceiling(leakage, comparison.arm)
        cells = [Quantity(group.estimates.get(m), scale) for m, (_, scale) in _WITHIN.items()]
        rows.append(
            (
                plain(comparison.arm),
                report.name_of(comparison.grouping, group.group),
                group.n_test,
                *cells,
                UNKNOWN if ceiling is None else told_rate(ceiling),
                plain(group.reason, 60),
            )
        )
    titles = [title for title, _ in _WITHIN.values()]
    head = ("method", "group", "#rows", *titles, "#no attack above", "note")
    return table(head, rows, most=_MOST_ROWS)


def _scope(leakage: Leakage) -> list[str]:
    """Sentences on what the attack can show: each arm's epsilon, and where it has little power."""
    sentences, weak = [], []
    for arm in leakage.arms:
        if arm.epsilon is None:
            continue
        if arm.epsilon <= LITTLE_POWER:
            weak.append(arm.arm)
        epsilon = f"epsilon {shown_up(arm.epsilon)} of one model, delta {leakage.delta:g}"
        sentences.append(f"{plain(arm.arm)}: {epsilon}.")
    sentences.append(
        "Finding nothing does not show that nothing leaks: epsilon alone bounds all attacks."
    )
    if weak:
        names = plain(listed(weak), 300)
        sentences.append(
            f"At epsilon {LITTLE_POWER:g} and below ({names}) the attack has little power."
        )
    return sentences


def _gaps(leakage: Leakage) -> Table:
    """The table of gaps between groups, each beside the smallest that would have been detected."""
    rows: list[tuple[Cell, ...]] = []
    for comparison in leakage.comparisons:
        arm, grouping = plain(comparison.arm), plain(comparison.grouping)
        for metric, words in _COMPARED.items():
            gap = main_gap(comparison, metric)
            if gap is None:
                continue
            read = "none detected"
            if gap.absolute.ends is None:
                read = plain(gap.reason, 90)
            elif is_detected(gap):
                read = "difference detected"
                if gap.direction:
                    read += f", {plain(gap.direction, 60)}"
            detectable = with_unit(gap.minimum_detectable, "fraction")
            rows.append((arm, grouping, words, Quantity(gap.size, POINTS), detectable, read))
    head = ("method", "grouping", "of", "#gap (points)", "#would be found from", "reading")
    return table(head, rows, most=_MOST_ROWS)


def _sentence(leakage: Leakage, models: int) -> str:
    """What a terminal shows of the section: members found in up to four groups of each arm.

    ``models``: how many were trained of each method.
    """
    texts = []  # a line has room for few groups and arms
    for comparison in sorted(leakage.comparisons, key=lambda c: not c.reference):
        ceiling = _ceiling(leakage, comparison.arm)
        limit = ""
        if ceiling is not None:
            limit = f" (no attack above {told_rate(ceiling)})"
        rates = []
        for group in [group for group in comparison.by_group if group.estimates][:4]:
            rate = written(group.estimates.get("leakage_tpr"), SHARE)
            rates.append(f"{plain(group.group, 16)} {rate}")
        texts.append(f"{plain(comparison.arm)} {', '.join(rates)}{limit}")
    return (
        f"Membership inference on {numbered(models, 'model')} of random halves, members found "
        f"where 5 % of outsiders are accused: {'; '.join(texts[:6])}"
    )


def told_rate(value: float) -> str:
    """The most that any attack can find, in per cent; rounded up, for it is an upper bound."""
    # A tenth of a per cent is the last digit; less than 1e-9 of it is rounding, not a value above.
    return f"{math.ceil(1000 * value - 1e-9) / 10:g} %"


def _ceiling(leakage: Leakage, key: str) -> float | None:
    """The most members that any attack finds where 5 % of outsiders are accused, as a share.

    None where no epsilon bounds it. ``key``: of the arm.
    """
    arm = leakage.arm(key)
    if arm:
        return arm.at_most(ACCUSED)
    return None


SECTIONS = {"gates": section}  # it stands before the core section of that name
