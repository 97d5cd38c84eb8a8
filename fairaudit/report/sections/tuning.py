"""The cost three ways: at default settings, at the reference's, and at each arm's own; the search's price."""

from collections.abc import Iterator
from typing import NamedTuple

from fairaudit.privacy.events import shown_up
from fairaudit.report.arm_names import versus
from fairaudit.report.document import (
    Block,
    Cell,
    Column,
    Heading,
    Quantity,
    Rank,
    Section,
    Strong,
    Table,
    Text,
    bare,
    table,
)
from fairaudit.report.main_gap import COST, main_gap
from fairaudit.report.model import Report
from fairaudit.report.safe_names import plain
from fairaudit.report.tuned import Tuning
from fairaudit.report.written import POINTS, UNKNOWN, figure
from fairaudit.results.estimates import Comparison
from fairaudit.results.ways import DEFAULT, key_of

WAYS = {"default": "default", "reused": "reference's best, in both", "tuned": "each tuned"}
_MOST = 16
_DEFAULT = (
    "no search; every method trains once at its default setting, on all training rows and at all of epsilon, "
    "which is to the bit what the same command finds without --tune"
)
_REUSED = (
    "both models train at the setting with which the model without privacy scores best, on all training rows "
    "and at all of epsilon; no epsilon covers how that setting was found"
)


class _Row(NamedTuple):
    way: str
    tuned: Comparison
    found: Comparison


def section(report: Report) -> Section | None:
    """None where settings were fixed."""
    tuning = report.tuning
    if tuning is None or not report.costs:
        return None
    shown = _table(report)
    blocks = (
        Text(
            (
                "The same records and the same ε, spent three ways. ",
                *(Strong("Default"), f": {_DEFAULT}. "),
                *(Strong("Reused"), f": {_REUSED}. "),
                *(Strong("Tuned"), f": {_tuned(tuning)}. The rest of this report is about the tuned models."),
            )
        ),
        shown,
        Text("Accuracy on test rows; intervals are 95 %, over seeds and test rows, models paired by seed."),
        *_by_group(report),
        *_charge(report, tuning),
    )
    brief = (Text("Cost three ways: settings by default, reused, tuned"), shown)
    return Section("tuning", "Cost at default, reused and tuned settings", Rank.MAIN, blocks, brief=brief)


def _tuned(tuning: Tuning) -> str:
    tried = f"{tuning.trials} settings tried in every method, the model without privacy included"
    if not tuning.is_charged:
        return f"{tried}, the best by an exact score kept; the search is not charged"
    return f"{tried}, on fewer training rows and with more noise, for ε covers the search"


def _rows(report: Report) -> Iterator[_Row]:
    """Every comparison on each way on which it was made, the tuned one last."""
    by_place = {(c.arm, c.reference, c.grouping): c for c in report.every_comparison}
    for comparison in report.costs:
        for way in WAYS:
            arm, reference = (
                key_of(key, way.removeprefix("tuned")) for key in (comparison.arm, comparison.reference)
            )
            found = by_place.get((arm, reference, comparison.grouping))
            if found is not None:
                yield _Row(way, comparison, found)


def _table(report: Report) -> Table:
    several = len(report.data.groupings) > 1
    rows = []
    for way, tuned, found in _rows(report):
        gap = main_gap(found)
        before, after = (found.overall.estimates.get(name) for name in ("reference.accuracy", "accuracy"))
        row: list[Cell] = [f"{versus(tuned)}{f', by {plain(tuned.grouping)}' * several}", WAYS[way]]
        row += [_epsilon(report, tuned.arm, found.arm)]
        row += [bare(None if each is None else each.value) for each in (before, after)]
        row += [Quantity(found.overall.estimates.get(COST), POINTS, UNKNOWN)]
        row += [Quantity(None if gap is None else gap.size, POINTS, UNKNOWN)]
        rows.append(tuple(row))
    columns = (
        *(Column("method"), Column("settings"), Column("ε", spare=1)),
        *(Column("non-private accuracy", True, spare=3), Column("private accuracy", True, spare=2)),
        *(Column("cost (points)", True), Column("largest gap (points)", True)),
    )
    return Table(columns, tuple(rows))


def _epsilon(report: Report, tuned: str, arm: str) -> str:
    """What is guaranteed on that way, or what one training alone would be."""
    facts, untuned = report.every_guarantee[arm], report.every_guarantee.get(key_of(tuned, DEFAULT))
    held = None if facts.epsilon is None else facts.epsilon.headline
    if held is not None:
        return shown_up(held)
    if facts.target_epsilon is None or untuned is None or not untuned.guarantee.has_epsilon:
        return UNKNOWN
    return f"{facts.target_epsilon:g} for one training alone"


def _by_group(report: Report) -> Iterator[Block]:
    costs: dict[tuple[str, str, str], dict[str, Cell]] = {}
    for way, tuned, found in _rows(report):
        for group in found.by_group:
            place = versus(tuned), plain(tuned.grouping), plain(group.group)
            cost = Quantity(group.estimates.get(COST), POINTS, UNKNOWN)
            costs.setdefault(place, {})[way] = cost
    head = ("method", "group", *(f"#{words}" for words in WAYS.values()))
    rows = [
        (method, f"{grouping} = {group}", *(found.get(way) for way in WAYS))
        for (method, grouping, group), found in costs.items()
    ]
    yield Text("Cost of each group, in points:")
    yield table(head, rows)


def _charge(report: Report, tuning: Tuning) -> Iterator[Block]:
    """What a search leaves of epsilon for one training, or what it would cost."""
    yield Heading("What charging the search costs")
    charged = [search for search in tuning.searches if search.base_epsilon is not None]
    for key, facts in report.privacy.items():
        untuned = report.every_guarantee.get(key_of(key, DEFAULT))
        if not tuning.is_charged and untuned is not None and untuned.guarantee.has_epsilon:
            yield Text(f"{plain(key)}: {plain(facts.reason, 400)}.")
    if not charged:
        return
    rows = []
    for search in charged:
        held = report.privacy[search.arm].epsilon
        one = None if search.base_epsilon is None else shown_up(search.base_epsilon)
        rows.append(
            (
                plain(search.arm),
                UNKNOWN if held is None or held.headline is None else shown_up(held.headline),
                one,
                figure(search.noise_multiplier),
                figure(search.uncharged_noise_multiplier),
                figure(search.score_noise),
            )
        )
    first = next((seed for search in charged for seed in search.seeds), None)
    head = ("method", "#ε of the search (RDP)", "#ε of one training in it (PLD)", "#its noise multiplier",
            "#the same without a search", "#noise of a score (rows)")  # fmt: skip
    yield table(head, rows, most=_MOST)
    held_out = (
        "" if first is None else f"{first.validation_rows:,} of {first.fit_rows + first.validation_rows:,} "
    )
    yield Text(
        "Noise multipliers are of the default setting; every candidate's is calibrated for its own length. "
        f"The search also takes {held_out}training rows to score on, from which nothing is learned."
    )
