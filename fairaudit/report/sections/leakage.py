"""Membership inference: how well an attacker tells who was trained on, by group."""

import math
from collections.abc import Iterator

from fairaudit.errors import numbered
from fairaudit.privacy.events import shown_up
from fairaudit.report.charts_costs import cells
from fairaudit.report.document import (
    Block,
    Cell,
    Chart,
    Heading,
    Quantity,
    Rank,
    Section,
    Text,
    bullets,
    data_table,
    figures,
    table,
)
from fairaudit.report.main_gap import is_detected, main_gap, with_unit
from fairaudit.report.measured import Leakage
from fairaudit.report.model import Report
from fairaudit.report.panels import Bar, Intervals, alone, labels
from fairaudit.report.safe_names import plain
from fairaudit.report.written import OWN_UNIT, POINTS, UNKNOWN, Scale, listed, number, written
from fairaudit.results.estimates import Comparison, Gap

SHARE = Scale(100.0, lambda value: number(value, decimals=1), suffix=" %")
LITTLE_POWER = 3.0  # an epsilon up to which an attack on so few models finds next to nothing
_MOST_ROWS = 24
_COMPARED = {"leakage_tpr": "members found at 5 %", "leakage_advantage": "difference at one threshold"}
_PERCENT = 100.0
_WITH, _WITHOUT, _CEILING = "with privacy", "without privacy", "no attack above"
_MOST_GROUPS = 40
_LEAST = 5.0  # width of the axis, in per cent
_ENDS = ("low", "high")


def section(report: Report) -> Section | None:
    """None where it was not asked for."""
    found = report.leakage
    if found is None:
        return None
    blocks: list[Block] = [Text(_what(found)), *figures(leakage_chart(report))]
    blocks += _within(found, report)
    blocks += _between(found)
    blocks += _by_one_threshold(found)
    blocks += bullets([*_scope(found)])
    brief = (Text(_line(found)),)
    return Section("leakage", "Who is exposed: membership inference", Rank.SECOND, tuple(blocks), brief=brief)


def _what(found: Leakage) -> str:
    models = max((arm.models_finished for arm in found.arms), default=0)
    return (
        f"A separate audit: {numbered(models, 'model')} of each method, each trained on a random half of "
        f"{found.rows:,} rows, every row by a fair coin. Settings and noise are those for {found.n_public:,} "
        "training records, so these figures are of such models, not of those whose cost is told above. Each "
        "model is attacked with all others as shadow models. A threshold that accuses 5 % of the rows that "
        "were not trained on finds 5 % of those that were where the model leaks nothing to this attack."
    )


def _within(found: Leakage, report: Report) -> Iterator[Block]:
    """Each method's success in each group, the threshold set within it."""
    rows: list[tuple[Cell, ...]] = []
    for comparison in found.comparisons:
        most = _most(found, comparison.arm, 0.05)
        several = len(report.data.groupings) > 1
        for group in comparison.by_group:
            name = plain(f"{comparison.grouping} = {group.group}" if several else group.group, 32)
            cells = [
                Quantity(group.estimates.get(metric), scale)
                for metric, scale in (
                    ("leakage_tpr", SHARE),
                    ("leakage_tpr_at_1", SHARE),
                    ("leakage_auc", OWN_UNIT),
                    ("change.leakage_tpr", POINTS._replace(is_spoken=False)),
                )
            ]
            ceiling = UNKNOWN if most is None else told_rate(most)
            note = "" if group.gated else group.reason
            rows.append((plain(comparison.arm), name, group.n_test, *cells, ceiling, plain(note, 60)))
    head = ("method", "group", "#rows", "#found at 5 %", "#found at 1 %", "#AUC")
    yield table((*head, "#against reference (points)", "#no attack above", ""), rows, most=_MOST_ROWS)


def _between(found: Leakage) -> Iterator[Block]:
    """Gaps between groups, and what this many rows and models could have found."""
    rows: list[tuple[Cell, ...]] = []
    for comparison in found.comparisons:
        for metric, words in _COMPARED.items():
            gap = main_gap(comparison, metric)
            if gap is not None:
                least = with_unit(gap.minimum_detectable, "fraction")
                size = Quantity(gap.size, POINTS)
                where = plain(comparison.grouping)
                rows.append((plain(comparison.arm), where, words, size, least, plain(_read(gap), 90)))
    yield Heading("Gaps in leakage")
    head = ("method", "grouping", "of", "#gap (points)", "#would be found from", "")
    yield table(head, rows, most=_MOST_ROWS)


def _read(gap: Gap) -> str:
    if gap.absolute.ends is None:
        return gap.reason
    if is_detected(gap):
        return f"difference detected, {gap.direction}" if gap.direction else "difference detected"
    return "none detected among all that is compared" if gap.size.excludes_zero else "none detected"


def _by_one_threshold(found: Leakage) -> Iterator[Block]:
    """The attacker who does not know groups."""
    rows: list[tuple[Cell, ...]] = []
    for comparison in found.comparisons:
        for group in comparison.by_group:
            cells = [
                Quantity(group.estimates.get(f"leakage_{name}"), scale)
                for name, scale in (("tpr_global", SHARE), ("fpr_global", SHARE), ("advantage", POINTS))
            ]
            name = plain(f"{comparison.grouping} = {group.group}", 40)
            rows.append((plain(comparison.arm), name, *cells))
    yield Heading("One threshold for all groups")
    yield Text(
        "It accuses 5 % of all rows that were not trained on. A group whose scores spread more is accused "
        "more often whether or not it was trained on, so only the difference says that it leaks."
    )
    head = ("method", "group", "#members accused", "#outsiders accused", "#difference (points)")
    yield table(head, rows, most=_MOST_ROWS)


def _scope(found: Leakage) -> Iterator[str]:
    for arm in found.arms:
        most = arm.at_most(0.05)
        if arm.epsilon is not None and most is not None:
            yield (
                f"{plain(arm.arm)}: epsilon {shown_up(arm.epsilon)} of one model, delta {found.delta:g}, "
                f"so no attack that accuses 5 % of outsiders finds more than {told_rate(most)} of members."
            )
    yield (
        "What is found is what this attack finds. Finding nothing does not show that nothing leaks: more "
        "shadow models, another attack or a worse record may find more, and epsilon alone bounds them all."
    )
    weak = [arm.arm for arm in found.arms if arm.epsilon is not None and arm.epsilon <= LITTLE_POWER]
    if weak:
        yield (
            f"At epsilon {LITTLE_POWER:g} and below ({plain(listed(weak), 300)}) the attack has little "
            "power: noise leaves less to find than models and rows of this number can show."
        )
    yield (
        "The ceiling covers what epsilon covers: preprocessing that is fitted on the training rows is "
        "outside. Intervals are over rows and models together. Scores of single rows are in no report; what "
        "they are made of stays in the run's folder."
    )


def _line(found: Leakage) -> str:
    """One line for a terminal."""
    told, references = [], []
    for c in found.comparisons:
        most = _most(found, c.arm, 0.05)
        beside = "" if most is None else f" (no attack above {told_rate(most)})"
        if c.reference:
            told.append(f"{plain(c.arm)} {_rates(c)}{beside}")
        else:
            references.append(f"{plain(c.arm)} {_rates(c)}")
    models = max((arm.models_finished for arm in found.arms), default=0)
    return (
        f"Membership inference on {numbered(models, 'model')} of random halves, members found where 5 % of "
        f"outsiders are accused: {'; '.join((told + references)[:6])}"
    )


def _rates(comparison: Comparison) -> str:
    return ", ".join(
        f"{plain(group.group, 16)} {written(group.estimates.get('leakage_tpr'), SHARE)}"
        for group in [group for group in comparison.by_group if group.estimates][:4]
    )


def told_rate(value: float) -> str:
    """A ceiling in per cent, rounded up."""
    return f"{math.ceil(1000 * value - 1e-9) / 10:g} %"


def leakage_chart(report: Report) -> Chart | None:
    """Members found by group where 1 % of outsiders are accused, or 5 % where a group is too small."""
    found = report.leakage
    compared = [c for c in found.comparisons if c.reference] if found else []
    if found is None or not compared:
        return None
    at_one = all(  # every group that is large enough for any interval has one of it
        group.estimates["leakage_tpr_at_1"].ends is not None
        for comparison in compared
        for group in comparison.by_group
        if group.gated and "leakage_tpr_at_1" in group.estimates
    )
    metric, rate = ("leakage_tpr_at_1", 0.01) if at_one else ("leakage_tpr", 0.05)
    panels = []
    for c in compared:
        if bars := tuple(_bars(c, found, metric, rate)):
            (title,) = labels([f"{c.arm}, by {c.grouping}"]).values()
            origin = _PERCENT * rate
            panels.append(Intervals(title, "members found (%)", bars, origin=origin, least=_LEAST))
    if not panels:
        return None
    shown = f"{_PERCENT * rate:g} %"
    return Chart(
        name="leakage",
        title=f"Members found where {shown} of outsiders are accused",
        reading=f"The dotted line is {shown}: what guessing finds. Whiskers are 95 % intervals over rows and "
        "models. No attack on a model with this epsilon can go beyond the ceiling; others may go further "
        "than this one.",
        alt=f"Share of each group's training rows that an attack finds at {shown} false accusations, with "
        "and without privacy, and the most that is possible.",
        panels=tuple(panels),
        table=data_table(
            ("method", "grouping", "group", _WITH, *_ENDS, _WITHOUT, *_ENDS, "ceiling"),
            tuple(
                (
                    *(c.arm, c.grouping, group.group),
                    *cells(group, metric),
                    *cells(group, f"reference.{metric}"),
                    _most(found, c.arm, rate),
                )
                for c in compared
                for group in c.by_group
            ),
        ),
    )


def _bars(comparison: Comparison, found: Leakage, metric: str, rate: float) -> Iterator[Bar]:
    names = labels([group.group for group in comparison.by_group])
    most = _most(found, comparison.arm, rate)
    for group in comparison.by_group[:_MOST_GROUPS]:
        for series, name in ((_WITH, metric), (_WITHOUT, f"reference.{metric}")):
            estimate = group.estimates.get(name)
            if estimate is not None and estimate.value is not None:
                yield Bar(names[group.group], series, estimate.scaled(_PERCENT))
        if most is not None and group.estimates:
            yield Bar(names[group.group], _CEILING, alone(_PERCENT * most))


def _most(found: Leakage, key: str, rate: float) -> float | None:
    arm = found.arm(key)
    return arm.at_most(rate) if arm else None
