"""The study of a search as a report holds and tells it: its charge, its gain and what it tried.

At each seed a search trains candidates; "best" is the one with the best released score.
"""

from collections.abc import Iterator, Mapping
from typing import Literal

from fairaudit.errors import numbered
from fairaudit.privacy.events import shown_up
from fairaudit.report.document import (
    Block,
    Cell,
    Heading,
    Quantity,
    Section,
    Strong,
    Table,
    Text,
    bare,
    table,
)
from fairaudit.report.measures import COST, main_gap
from fairaudit.report.messages.advice import advice
from fairaudit.report.messages.base import FindingMessage, Subject
from fairaudit.report.model import Report, Study
from fairaudit.report.numbers import POINTS, UNKNOWN, figure, short, versus
from fairaudit.report.safe_names import plain
from fairaudit.report.types.facts import ArmFacts
from fairaudit.results.estimates import DEFAULT, Comparison, GroupMeasure, Interval, key_of
from fairaudit.tuning.messages import BestAtEdge, SearchRaisedLoss
from fairaudit.tuning.searched import ArmSearch

RISK = "excess_risk"
# A best setting at an end of its range is a finding at more than this share of the seeds: less may
# be luck of the scores.
OFTEN = 0.5
WAYS = {"default": "default", "tuned": "each tuned"}  # the two ways, and what a table calls them
_MOST = 16  # rows of the table of charges that are shown
_MOST_TRIED = 24  # rows of the table of best settings that are shown


class Tuned(Study):
    """The search for settings of every arm, and the default setting beside it.

    ``gains`` are every arm at its default setting (``dpsgd:default``) against itself as it was
    tuned (``dpsgd``), seed by seed: their ``privacy_cost`` and ``excess_risk`` are what searching
    gains.
    """

    trials: int
    goal: Literal["accuracy", "worst-group"]
    is_charged: bool
    searches: tuple[ArmSearch, ...]
    gains: tuple[Comparison, ...] = ()

    @property
    def settings_tried(self) -> int:
        """How many settings were tried in every arm at each seed."""
        return self.trials

    def gain(self, arm: str, grouping: str) -> Comparison | None:
        """An arm's default setting against it as tuned, by a grouping; None where not measured."""
        return next((c for c in self.gains if (c.reference, c.grouping) == (arm, grouping)), None)

    def search(self, arm: str) -> ArmSearch | None:
        """The search of an arm; None where it has none."""
        return next((search for search in self.searches if search.arm == arm), None)

    def findings(self, report: Report) -> Iterator[FindingMessage]:
        """Best settings at an end of their range, and losses that the search raised."""
        yield from edges(self, {arm.key: arm for arm in report.arms})
        yield from raised_losses(self)

    def sections(self, report: Report) -> dict[str, Section]:
        """The sections on costs at both settings and on what was tried.

        The keys say before which section each stands (:meth:`Study.sections`). Each is left out
        where the report has nothing for it.
        """
        sections = {}
        if report.costs:
            sections["gaps"] = _section(report, self)
        tried = tried_section(self)
        if tried is not None:
            sections["sweep"] = tried
        return sections


def raised_losses(tuned: Tuned) -> Iterator[FindingMessage]:
    """A finding for each arm whose tuned loss over all rows is higher than at the default setting.

    A search is scored by accuracy, and a higher loss may not show there.
    """
    raised = set()  # arms that have a finding already, by another grouping's comparison
    for gain in tuned.gains:
        by_loss = gain.overall.estimates.get(RISK)
        if by_loss is None or by_loss.value is None or by_loss.ends is None:
            continue
        # What searching gained in loss, as an interval: where all of it is below 0, the loss is
        # higher. `ungated` has the metrics that gates do not read, and why. In a gain the tuned arm
        # stands as the reference.
        least, most = by_loss.ends
        if most < 0 and RISK not in gain.overall.ungated and gain.reference not in raised:
            raised.add(gain.reference)
            yield SearchRaisedLoss(
                Subject(arm=gain.reference, measure=RISK, unit="nats"),
                added=Interval(value=-by_loss.value, low=-most, high=-least),
            )


def edges(tuned: Tuned, arms: Mapping[str, ArmFacts]) -> Iterator[FindingMessage]:
    """A finding for each setting whose best values lie at one end of what was searched.

    That must be so at more than ``OFTEN`` of an arm's seeds. A wider search might then find better
    values.

    Args:
        tuned: The searches.
        arms: Key -> facts of the arm, for the advice's command.
    """
    for search in tuned.searches:
        for name, where in search.searched.items():
            values = _best_at_edge(search, name)
            low, high = where.low, where.high
            if where.choices:
                low, high = min(where.choices), max(where.choices)
            for end in (low, high):
                # The values that lie nearer to this end than to the other.
                is_high = end == high
                near = [value for value in values if (high - value < value - low) == is_high]
                is_often = len(near) > OFTEN * len(search.seeds)
                # A range that ends at its default does so because no value beyond is admitted, so
                # there a wider search is no advice.
                if is_often and end != where.default:
                    nearest = min(near, key=lambda value: abs(value - end))
                    reason = f"{name.replace('_', ' ')} {nearest:.3g}"
                    arm = arms[search.arm]
                    yield BestAtEdge(
                        Subject(arm=arm.key),
                        nearest=Interval(value=nearest, low=None, high=None),
                        reason=name,
                        advice=advice("search wider", arm, reason),
                    )


def _best_at_edge(search: ArmSearch, name: str) -> list[float]:
    """A setting's value in the best candidate of each seed at which it lies at an edge.

    Values are as drawn from the range, of which the edge is one.
    """
    threshold = search.searched.get("threshold")
    values = []
    for seed in search.seeds:
        best = seed.best
        if best is not None and name in best.at_edge:
            # Epochs are searched, too, but are no setting: a candidate has them as a field.
            value = best.settings.get(name, float(best.epochs))
            if name == "learning_rate" and threshold is not None and threshold.default:
                # A candidate trains with its learning rate times its threshold over the default
                # (`Tuning.candidate`).
                value *= threshold.default / best.settings["threshold"]
            values.append(value)
    return values


def _section(report: Report, tuning: Tuned) -> Section:
    """The section on costs at default and tuned settings, of a report that has costs."""
    ending = ", the best by an exact score kept; the search is not charged"
    if tuning.is_charged:
        ending = ", on fewer training rows and with more noise, for ε covers the search"
    intro = (
        "The same records and the same ε, spent two ways. ",
        Strong("Default"),
        ": every method once at its default setting, on all training rows and at all of epsilon. ",
        Strong("Tuned"),
        f": {tuning.trials} settings tried in every method, the model without privacy included"
        f"{ending}. The rest of this report is about the tuned models.",
    )
    costs = _costs(report)
    title = "Cost at default and tuned settings"
    blocks = (
        Text(intro),
        costs,
        Heading("Did searching pay?"),
        Text("The tuned private model beside the same method at its default setting."),
        _by_group(report, tuning),
        Heading("What charging the search costs"),
        *_charge(report, tuning),
    )
    return Section("tuning", title, blocks, brief=(Text(title), costs))


def _at_default(report: Report, tuned: Comparison) -> Comparison | None:
    """The comparison of the same arm and reference at default settings; None where not trained."""
    sought = key_of(tuned.arm, DEFAULT), key_of(tuned.reference, DEFAULT), tuned.grouping
    for comparison in report.every_comparison:
        if (comparison.arm, comparison.reference, comparison.grouping) == sought:
            return comparison
    return None


def _costs(report: Report) -> Table:
    """A table of each method's cost over all rows: a row at default and one at tuned settings."""
    rows: list[tuple[Cell, ...]] = []
    for tuned in report.costs:
        method = versus(tuned)
        if len(report.data.groupings) > 1:
            method += f", by {plain(tuned.grouping)}"
        default = _at_default(report, tuned)
        for way, comparison in zip(WAYS.values(), (default, tuned), strict=True):
            if comparison is None:  # not trained at the default setting
                continue
            overall, gap = comparison.overall, main_gap(comparison)
            rows.append(
                (
                    method,
                    way,
                    _epsilon(report, tuned.arm, comparison.arm),
                    bare(overall.value("reference.accuracy")),
                    bare(overall.value("accuracy")),
                    Quantity(overall.estimates.get(COST), POINTS, UNKNOWN),
                    Quantity(None if gap is None else gap.larger_first.signed, POINTS, UNKNOWN),
                )
            )
    accuracies = ("#non-private accuracy", "#private accuracy")
    head = (
        "method",
        "settings",
        "ε",
        *accuracies,
        "#privacy cost (points)",
        "#largest gap of it (points)",
    )
    return table(head, rows)


def _epsilon(report: Report, tuned: str, arm: str) -> str:
    """An arm's epsilon as text; of an uncharged search, the epsilon of each training alone.

    ``UNKNOWN`` where neither is known.

    Args:
        report: Of the audit.
        tuned: Key of the arm whose settings were searched.
        arm: That key, or the key of the same arm at its default setting.
    """
    facts, untuned = report.every_guarantee[arm], report.every_guarantee.get(key_of(tuned, DEFAULT))
    if facts.epsilon is not None and facts.epsilon.headline is not None:
        return shown_up(facts.epsilon.headline)
    if facts.target_epsilon is None or untuned is None or not untuned.guarantee.has_epsilon:
        return UNKNOWN
    return f"{facts.target_epsilon:g} for one training alone"


def _by_group(report: Report, tuning: Tuned) -> Table:
    """A table of each group's cost, default and tuned, and of what searching gained the group.

    The gain is that of the tuned private model over the same method at its default setting.
    """
    rows: list[tuple[Cell, ...]] = []
    for tuned in report.costs:
        default = _groups(_at_default(report, tuned))
        gains = _groups(tuning.gain(tuned.arm, tuned.grouping))
        for name, group in _groups(tuned).items():  # "" is all rows
            group_name = report.name_of(tuned.grouping, name) if name else "all rows"
            gain, risk = gains.get(name), None
            accuracies: list[float | None] = [None, None]  # default, tuned
            if gain is not None:
                # In a gain the default stands as the arm, and the tuned arm as its reference.
                accuracies = [gain.value("accuracy"), gain.value("reference.accuracy")]
                risk = gain.estimates.get(RISK)
            costs = _cost(default.get(name)), _cost(group)
            gained = _cost(gain), Quantity(risk, unknown=UNKNOWN)
            rows.append((versus(tuned), group_name, *costs, *map(bare, accuracies), *gained))
    head = (
        "method",
        "group",
        "#privacy cost, default (points)",
        "#privacy cost, tuned (points)",
        "#accuracy, default",
        "#accuracy, tuned",
        "#gain (points)",
        "#gain in loss (nats)",
    )
    return table(head, rows)


def _groups(comparison: Comparison | None) -> dict[str, GroupMeasure]:
    """Name of a group -> its measures, first "" for all rows; empty without a comparison."""
    if comparison is None:
        return {}
    return {group.group: group for group in (comparison.overall, *comparison.by_group)}


def _cost(group: GroupMeasure | None) -> Quantity:
    """A group's cost in points, as a cell of a table; unknown for None."""
    return Quantity(group.estimates.get(COST) if group else None, POINTS, UNKNOWN)


def _charge(report: Report, tuning: Tuned) -> Iterator[Block]:
    """The blocks on what charging costs.

    Of a charged search: what it leaves of epsilon for one training, as a table and a sentence. Of
    an uncharged one: a sentence for each arm, on what the search would cost.
    """
    if not tuning.is_charged:
        for key, facts in report.privacy.items():
            untuned = report.every_guarantee.get(key_of(key, DEFAULT))
            if untuned is not None and untuned.guarantee.has_epsilon:
                yield Text(f"{plain(key)}: {plain(facts.reason, 400)}.")
    rows: list[tuple[Cell, ...]] = []
    rows_to_score = ""
    for search in tuning.searches:
        if search.base_epsilon is None:  # an arm without epsilon, or an uncharged search
            continue
        charged = report.privacy[search.arm].epsilon
        of_search = UNKNOWN
        if charged is not None and charged.headline is not None:
            of_search = shown_up(charged.headline)
        rows.append(
            (
                plain(search.arm),
                of_search,
                shown_up(search.base_epsilon),
                figure(search.noise_multiplier),
                figure(search.uncharged_noise_multiplier),
                figure(search.score_noise),
            )
        )
        for seed in search.seeds[:1]:  # the numbers of rows are the same at every seed
            total = seed.fit_rows + seed.validation_rows
            rows_to_score = f"{seed.validation_rows:,} of {total:,} "
    if rows:
        head = (
            "method",
            "#ε of the search (RDP)",
            "#ε of one training in it (PLD)",
            "#its noise multiplier",
            "#the same without a search",
            "#noise of a score (rows)",
        )
        yield table(head, rows, most=_MOST)
        yield Text(
            "Noise multipliers are of the default setting. The search also takes "
            f"{rows_to_score}training rows to score on, from which nothing is learned."
        )


def tried_section(tuning: Tuned) -> Section | None:
    """The section on the best setting at each seed; None where no seed has finished."""
    searches = [search for search in tuning.searches if search.seeds]
    if not searches:
        return None
    default_counts = []
    for search in searches:
        defaults = [seed for seed in search.seeds if seed.best is not None and seed.best.is_default]
        seeds = numbered(len(search.seeds), "seed")
        default_counts.append(
            f"{plain(search.arm)}: the default setting at {len(defaults)} of {seeds}."
        )
    intro = "The best score at each seed, and the chance that the search keeps that candidate."
    blocks = (Text(f"{intro} {' '.join(default_counts)}"), _best_table(searches))
    return Section("tried", "Settings that were tried", blocks)


def _best_table(searches: list[ArmSearch]) -> Table:
    """A table of the best setting of every arm at every seed.

    There is a column for each setting that some arm searched. An arm that did not search it has no
    value there, except for the epochs, which are known of every training.
    """
    names = list(dict.fromkeys(name for search in searches for name in search.searched))
    rows: list[tuple[Cell, ...]] = []
    for search in searches:
        for seed in search.seeds:
            best = seed.best
            if best is None:
                continue
            settings: dict[str, float | None] = {"epochs": best.epochs}
            for name in search.searched.keys() & best.settings.keys():
                settings[name] = best.settings[name]
            values = [short(settings.get(name)) for name in names]
            chance = f"{100 * best.weight:.0f} %"
            notes = []
            if best.is_default:
                notes.append("default")
            if best.diverged:
                notes.append("diverged: the same answer for everybody")
            if best.at_edge:
                edges = plain(", ".join(best.at_edge).replace("_", " "), 200)
                notes.append(f"at the edge: {edges}")
            rows.append((plain(search.arm), seed.seed, *values, chance, "; ".join(notes)))
    titles = [f"#{plain(name.replace('_', ' '))}" for name in names]
    return table(("method", "#seed", *titles, "#chance", "note"), rows, most=_MOST_TRIED)
