"""A search: the cost three ways (default, the reference's and own settings), its price, and what it tried."""

from collections.abc import Iterator

from fairaudit.errors import numbered
from fairaudit.privacy.events import shown_up
from fairaudit.report.document import (
    Block,
    Cell,
    Chart,
    Column,
    Heading,
    Quantity,
    Rank,
    Section,
    Strong,
    Table,
    Text,
    bare,
    data_table,
    figures,
    table,
)
from fairaudit.report.main_gap import COST, main_gap
from fairaudit.report.measured import ArmSearch, Tuning
from fairaudit.report.model import Report
from fairaudit.report.panels import Scatter, Spot, labels
from fairaudit.report.safe_names import plain
from fairaudit.report.written import POINTS, UNKNOWN, figure, short, versus
from fairaudit.results.estimates import DEFAULT, Comparison, key_of

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
_MOST_TRIED = 24
PERCENT = 100.0
_AS_DEFAULT, _OTHER = "default setting", "another setting"
_LEAST = 2.0  # points, of each axis


def section(report: Report) -> Section | None:
    """None where settings were fixed."""
    tuning = report.tuning
    if tuning is None or not report.costs:
        return None
    shown = _table(report)
    tuned = f"{tuning.trials} settings tried in every method, the model without privacy included"
    tuned += (
        ", on fewer training rows and with more noise, for ε covers the search"
        if tuning.is_charged
        else ", the best by an exact score kept; the search is not charged"
    )
    blocks = (
        Text(
            (
                "The same records and the same ε, spent three ways. ",
                *(Strong("Default"), f": {_DEFAULT}. "),
                *(Strong("Reused"), f": {_REUSED}. "),
                *(Strong("Tuned"), f": {tuned}. The rest of this report is about the tuned models."),
            )
        ),
        shown,
        Text("Accuracy on test rows; intervals are 95 %, over seeds and test rows, models paired by seed."),
        *_by_group(report),
        *_gains(report, tuning),
        *_charge(report, tuning),
    )
    brief = (Text("Cost three ways: settings by default, reused, tuned"), shown)
    return Section("tuning", "Cost at default, reused and tuned settings", Rank.MAIN, blocks, brief=brief)


def _rows(report: Report) -> Iterator[tuple[str, Comparison, Comparison]]:
    """Way, tuned comparison and the one of that way, for every way on which it was made, the tuned last."""
    by_place = {(c.arm, c.reference, c.grouping): c for c in report.every_comparison}
    for comparison in report.costs:
        for way in WAYS:
            arm, reference = (
                key_of(key, way.removeprefix("tuned")) for key in (comparison.arm, comparison.reference)
            )
            found = by_place.get((arm, reference, comparison.grouping))
            if found is not None:
                yield way, comparison, found


def _table(report: Report) -> Table:
    several = len(report.data.groupings) > 1
    rows = []
    for way, tuned, found in _rows(report):
        gap = main_gap(found)
        row: list[Cell] = [f"{versus(tuned)}{f', by {plain(tuned.grouping)}' * several}", WAYS[way]]
        row += [_epsilon(report, tuned.arm, found.arm)]
        row += [bare(found.overall.value(name)) for name in ("reference.accuracy", "accuracy")]
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


def _gains(report: Report, tuning: Tuning) -> Iterator[Block]:
    """Whether searching paid: the tuned private model beside the same method at its default setting."""
    rows: list[tuple[Cell, ...]] = []
    for arm, grouping in dict.fromkeys((c.arm, c.grouping) for c in report.costs):
        found = tuning.gain(arm, grouping)
        if found is None:
            continue
        for group in (found.overall, *found.by_group):
            before, after = (group.estimates.get(name) for name in ("accuracy", "reference.accuracy"))
            rows.append(
                (
                    plain(arm),
                    "all rows" if group is found.overall else f"{plain(grouping)} = {plain(group.group)}",
                    *(bare(None if each is None else each.value) for each in (before, after)),
                    Quantity(group.estimates.get(COST), POINTS, UNKNOWN),
                )
            )
    if rows:
        yield Heading("Did searching pay?")
        yield Text(
            "The tuned private model beside the same method at its default setting, on the same seeds and "
            "test rows; a gain below 0 is a loss. The costs above do not say it: both their models are tuned."
        )
        head = ("method", "group", "#accuracy, default", "#accuracy, tuned", "#gain (points)")
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


def tried(report: Report) -> Section | None:
    """None where settings were fixed."""
    searches = () if report.tuning is None else tuple(s for s in report.tuning.searches if s.seeds)
    if not searches:
        return None
    stable = [  # how often the best setting is the default one
        f"{plain(search.arm)}: the default setting at "
        f"{sum(seed.best is not None and seed.best.is_default for seed in search.seeds)} of "
        f"{numbered(len(search.seeds), 'seed')}."
        for search in searches
    ]
    spreads = [Text(words) for search in searches if (words := spread_words(search))]
    blocks: list[Block] = [
        *spreads,
        *figures(spread_chart(report)),
        Text(
            "Figures of a candidate are of one model on one split, read on test rows after the choice: they "
            "describe, and have no interval. Costs elsewhere are expectations over which candidate is kept."
        ),
        Text(
            "The best score at each seed, and the chance that the search keeps that candidate. "
            + " ".join(stable)
        ),
        _tried_table(searches),
    ]
    return Section("tried", "Settings that were tried", Rank.SECOND, tuple(blocks), brief=tuple(spreads))


def spread_words(search: ArmSearch) -> str:
    """From where to where gap and accuracy ran, and how much of that one setting does; "" of a reference."""
    tried = [tried for seed in search.seeds for tried in seed.tried]
    gaps = _ran([t.gap for t in tried])
    if not gaps:
        return ""
    same = [t for t in tried if t.is_default]
    alone = _ran([t.gap for t in same])
    luck = (
        f" The default setting alone, trained {len(same):,} times among them, ran {alone}: so much is the "
        "luck of training and of rows."
        if len(same) > 1 and alone
        else ""
    )
    name, accuracy = plain(search.arm), _ran([t.accuracy for t in tried], " %")
    return f"{name}: over the settings tried, the gap ran {gaps} points, and accuracy {accuracy}.{luck}"


def _ran(values: list[float | None] | list[float], unit: str = "") -> str:
    known = [100 * value for value in values if value is not None]
    return f"from {min(known):.1f} to {max(known):.1f}{unit}" if known else ""


def _tried_table(searches: tuple[ArmSearch, ...]) -> Block:
    names = list(dict.fromkeys(name for search in searches for name in search.searched))
    rows: list[tuple[Cell, ...]] = []
    for search in searches:
        for seed in search.seeds:
            best = seed.best
            if best is None:
                continue
            values: dict[str, Cell] = {name: short(best.settings.get(name)) for name in search.searched}
            values |= {"epochs": best.epochs} if "epochs" in values else {}
            notes = ["default"] if best.is_default else []
            notes += ["diverged: the same answer for everybody"] if best.diverged else []
            if best.at_edge:
                edges = ", ".join(plain(name.replace("_", " ")) for name in best.at_edge)
                notes.append(f"at the edge: {edges}")
            cells = (values.get(name, UNKNOWN) for name in names)
            rows.append(
                (plain(search.arm), seed.seed, *cells, f"{100 * best.weight:.0f} %", "; ".join(notes))
            )
    head = ("method", "#seed", *(f"#{plain(name.replace('_', ' '))}" for name in names), "#chance", "note")
    return table(head, rows, most=_MOST_TRIED)


def spread_chart(report: Report) -> Chart | None:
    """One drawing for each method; None where nothing was sought, or no gap could be told."""
    searches = () if report.tuning is None else report.tuning.searches
    names = labels([search.arm for search in searches])
    panels, rows = [], []
    for search in searches:
        spots = []
        for seed in search.seeds:
            for tried in seed.tried:
                if tried.gap is not None:
                    series = _AS_DEFAULT if tried.is_default else _OTHER
                    accuracy, gap = PERCENT * tried.accuracy, PERCENT * tried.gap
                    spots.append(Spot(accuracy, gap, series, tried.selected))
                    chosen = "best score" if tried.selected else ""
                    row = (search.arm, seed.seed, series, tried.epochs, accuracy, gap, tried.weight, chosen)
                    rows.append(row)
        if spots:
            spots.sort(
                key=lambda spot: spot.series != _AS_DEFAULT
            )  # one colour for one meaning in every drawing
            panels.append(
                Scatter(
                    names[search.arm],
                    "accuracy on test rows (%)",
                    "largest gap in cost (points)",
                    tuple(spots),
                    _LEAST,
                )
            )
    if not panels:
        return None
    head = ("method", "seed", "setting", "epochs", "accuracy (%)", "gap (points)", "chance", "note")
    return Chart(
        name="settings-tried",
        title="Accuracy and gap of every setting tried",
        reading="One dot for each candidate of each seed, on test rows; a ring marks a seed's best score, "
        "read on other rows. The gap is in the cost of privacy, beside the tuned model without privacy.",
        alt="Accuracy and largest gap of every setting that was tried, one drawing for each method.",
        panels=tuple(panels),
        table=data_table(head, rows),
    )
