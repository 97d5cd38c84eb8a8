"""What of a measured comparison a report may hold: no small groups, and not every gap."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from fairaudit.analysis.build_facts import visible
from fairaudit.config.options import AuditConfig
from fairaudit.data.dataset import Grouping
from fairaudit.data.groups import NamedPair, named_pairs
from fairaudit.errors import numbered
from fairaudit.results.estimates import Comparison, Gap, GroupMeasure, Measured, undefined

MOST_GROUPS_OF_CLASS = 3  # up to so many groups every pair is kept in every class's rates
OF_SUPPRESSED = "the most selected group is suppressed, and a ratio would tell its rate"


@dataclass(frozen=True, slots=True)
class Disclosure:
    """What an audit's options let a report tell.

    Args:
        least: Test rows; groups with fewer are suppressed, with their gaps and with ratios that are
            divided by their rate. Totals stay and may allow a subtraction, which the report says.
        named: Pairs that ``compare`` asked for before training.
        unpredicted: Name of a grouping -> group -> number of its rows for which given predictions
            lack one; empty where no predictions were given.
    """

    least: int = 0
    named: Sequence[NamedPair] = ()
    unpredicted: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        config: AuditConfig,
        groupings: Sequence[Grouping],
        unpredicted: Mapping[str, Mapping[str, int]] | None = None,
    ) -> "Disclosure":
        """What the options of an audit by these groupings let its report tell.

        ``unpredicted``: as of the class; None where no predictions were given.
        """
        named = named_pairs(config.compare, groupings)
        return cls(config.suppress_below, named, unpredicted or {})

    def of_measured(self, measured: Measured) -> Comparison:
        """The comparison without what a report does not tell, its gaps as they were measured."""
        unpredicted = self.unpredicted.get(measured.grouping, {})
        pairs = {
            frozenset((pair.a, pair.b)) for pair in self.named if pair.grouping == measured.grouping
        }
        # A group without any test row tells nothing of anybody, and is not hidden. `or` is for
        # mypy: what was just measured has its counts.
        hidden = {g.group for g in measured.by_group if 0 < (g.n_test or 0) < self.least}
        # Ratios that are divided by a suppressed group's rate would reveal that rate.
        hidden_ratios = {ratio for ratio, group in measured.divided_by.items() if group in hidden}
        if hidden_ratios:  # the arm's ratios or the reference's: their difference tells it, too
            hidden_ratios.add("change.impact_ratio")
        by_group = []
        for measure in measured.by_group:
            lacking = visible(unpredicted.get(measure.group, 0), self.least)
            if measure.group in hidden:
                suppressed = GroupMeasure(
                    group=measure.group,
                    n_test=None,
                    n_train=None,
                    gated=False,
                    reason=f"suppressed: fewer than {numbered(self.least, 'test row')}",
                    estimates={},
                    unpredicted=lacking,
                )
                by_group.append(suppressed)
            else:
                by_group.append(_withheld(measure, hidden_ratios, lacking))
        gaps = _shown_gaps(measured, hidden, hidden_ratios, pairs)
        all_lacking = visible(sum(unpredicted.values()), self.least)
        return Comparison(
            arm=measured.arm,
            reference=measured.reference,
            grouping=measured.grouping,
            estimand=measured.estimand,
            overall=_withheld(measured.overall, (), all_lacking),
            by_group=tuple(by_group),
            gaps=tuple(gaps),
            # Classes that a group may have lost, by the point estimate.
            doubtful=tuple(share for share in measured.doubtful if share.group not in hidden),
            constant=tuple(one for one in measured.constant if one.group not in hidden),
        )


def _shown_gaps(
    measured: Measured,
    hidden: Collection[str],
    hidden_ratios: Collection[str],
    named: Collection[frozenset[str]],
) -> Iterator[Gap]:
    """The gaps that a report holds, with the pairs that the user named marked as such.

    Args:
        measured: The comparison as it was measured.
        hidden: Suppressed groups; no gap of theirs is shown.
        hidden_ratios: Metrics of which no gap is shown.
        named: Pairs of groups that ``compare`` asked for.
    """
    has_many_groups = len(measured.by_group) > MOST_GROUPS_OF_CLASS
    for gap in measured.gaps:
        pair = frozenset((gap.a, gap.b))
        if gap.metric in hidden_ratios or pair & set(hidden):
            continue
        # Ten groups and ten classes make thousands of gaps in the rates of one class, some of
        # them large by chance: only the largest gap is kept, and the pairs that were named.
        is_of_class = gap.metric.endswith("]") and gap.kind in ("pair", "population")
        if is_of_class and has_many_groups and pair not in named:
            continue
        is_named = gap.kind == "pair" and pair in named
        yield gap.model_copy(update={"named": True}) if is_named else gap


def _withheld(
    measure: GroupMeasure, hidden_ratios: Collection[str], unpredicted: int | None
) -> GroupMeasure:
    """A group's numbers, with those made undefined that would reveal a suppressed group's.

    Args:
        measure: The numbers.
        hidden_ratios: Names of the metrics whose numbers would reveal it.
        unpredicted: How many rows of the group lack a prediction; None: the count is suppressed.
    """
    estimates = dict(measure.estimates)
    for metric in hidden_ratios:
        if metric in estimates:
            estimates[metric] = undefined(OF_SUPPRESSED, estimates[metric].unit)
    return measure.model_copy(update={"estimates": estimates, "unpredicted": unpredicted})
