"""Two reports side by side: what changed, and which changes are more than their intervals allow."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from pydantic import JsonValue

from fairaudit.config.options import JUDGED, AuditConfig, marked
from fairaudit.errors import ConfigError
from fairaudit.gate.judge import change, refuse_other_label
from fairaudit.gate.targets import read_estimate
from fairaudit.metrics.registry import METRICS
from fairaudit.report.measures import main_gap
from fairaudit.report.model import Report
from fairaudit.report.types.findings import Finding
from fairaudit.results.estimates import (
    Comparison,
    Estimate,
    Figure,
    Gap,
    HighEnd,
    Interval,
    LowEnd,
    Part,
)

# Options that are not listed as changed. One is the path of the data: the digest of their content
# says whether they are the same. The others are read of a finished report alone, as its rules.
_NOT_LISTED = {"data", *marked(AuditConfig, JUDGED)}


class Change(Part):
    """One number in both reports.

    ``group`` is "" for all test rows; for a gap it names the groups it lies between in the second
    report. ``exceeds`` says whether the interval of the change leaves zero out; None: it has none,
    and ``reason`` says why.
    """

    arm: str
    reference: str
    grouping: str
    group: str
    metric: str
    before: Figure | None
    after: Figure | None
    change: Figure | None
    low: LowEnd | None
    high: HighEnd | None
    exceeds: bool | None
    reason: str

    @property
    def moved(self) -> Interval:
        """The change with its interval."""
        return Interval(value=self.change, low=self.low, high=self.high)


class OptionChange(Part):
    """An option that is not the same in both reports."""

    name: str
    before: JsonValue
    after: JsonValue


class EpsilonChange(Part):
    """The guarantee of one arm in both reports; None where there is no proved epsilon."""

    arm: str
    before: HighEnd | None
    after: HighEnd | None


class Changes(Part):
    """Everything in which two reports differ.

    ``gone`` are findings that only the first report has, ``new`` those that only the second has, of
    arms that both have; ``only_before`` and ``only_after`` are the arms that one of them lacks.
    ``same_data`` is about the files' content. The interval of a change runs from the least to the
    largest difference of the two intervals: it holds whatever rows and seeds the reports share.
    """

    same_data: bool
    options: tuple[OptionChange, ...]
    only_before: tuple[str, ...]
    only_after: tuple[str, ...]
    epsilon: tuple[EpsilonChange, ...]
    gone: tuple[Finding, ...]
    new: tuple[Finding, ...]
    changes: tuple[Change, ...]


def compare_reports(before: Report, after: Report, *, other_data: bool = False) -> Changes:
    """Set two reports, as read from their files, side by side.

    Args:
        before: The first.
        after: The second; changes are second minus first.
        other_data: Whether the reports may be of different data.

    Raises:
        ConfigError: The reports are of different labels, share no arm, or are of different data
            without ``other_data``.
    """
    refuse_other_label(before, after)
    if before.data.sha256 != after.data.sha256 and not other_data:
        raise ConfigError(
            f"the reports are of different data: {before.data.sha256[:12]}… and "
            f"{after.data.sha256[:12]}…",
            hint="--other-data compares them all the same",
        )
    keys_before = [arm.key for arm in before.every_arm]
    keys_after = [arm.key for arm in after.every_arm]
    shared = [key for key in keys_after if key in keys_before]
    if not shared:
        raise ConfigError(
            f"the reports share no method ({', '.join(keys_before)}; {', '.join(keys_after)})"
        )
    options = []  # of the options that both reports have
    for name in sorted(set(before.config) & set(after.config) - _NOT_LISTED):
        was, now = before.config[name].value, after.config[name].value
        if was != now:
            options.append(OptionChange(name=name, before=was, after=now))
    epsilon = [
        EpsilonChange(arm=key, before=_epsilon(before, key), after=_epsilon(after, key))
        for key in shared
    ]
    is_same = partial(after.shares_trainings, before)
    changes = list(_changes(before.every_comparison, after.every_comparison, is_same))
    for name, study in after.studies.items():  # in the report's order, which a set would lose
        if name in before.studies:
            is_same = partial(after.shares_trainings, before, study=name)
            changes += _changes(before.studies[name].comparisons, study.comparisons, is_same)
    return Changes(
        same_data=before.data.sha256 == after.data.sha256,
        options=tuple(options),
        only_before=tuple(key for key in keys_before if key not in keys_after),
        only_after=tuple(key for key in keys_after if key not in keys_before),
        epsilon=tuple(epsilon),
        gone=_findings_only_in(before, after, shared),
        new=_findings_only_in(after, before, shared),
        changes=tuple(changes),
    )


def _findings_only_in(report: Report, other: Report, shared: Sequence[str]) -> tuple[Finding, ...]:
    """The findings of ``report`` that ``other`` lacks, about arms that both have (``shared``).

    Two kinds are left out, for the changes show their numbers with intervals: what the rules say
    (``verdict``), and what could not be seen (``unseen``: the smallest gap that an audit of this
    size would have found, a number that has no interval).
    """
    keys = {_subject(finding) for finding in other.findings}
    only = []
    for finding in report.findings:
        is_shown = finding.question not in ("verdict", "unseen") and finding.arm in shared
        if is_shown and _subject(finding) not in keys:
            only.append(finding)
    return tuple(only)


def _subject(finding: Finding) -> tuple[str, ...]:
    """The key by which a finding is found in another report: what is said of whom, no numbers."""
    where = finding.arm, finding.grouping, finding.code, finding.measure
    return (*where, *finding.groups)


def _epsilon(report: Report, arm: str) -> float | None:
    """The epsilon that the report states for an arm; None where the program accounts for none."""
    facts = report.every_guarantee.get(arm)
    if facts is None or facts.epsilon is None:
        return None
    return facts.epsilon.headline


def _changes(
    before: Sequence[Comparison], after: Sequence[Comparison], is_same: Callable[..., bool]
) -> Iterator[Change]:
    """Every number that both reports have, by arm, reference and grouping, then by metric.

    Of each metric: its change for every group, for all test rows, and of its main gap (that of the
    only pair of groups, else the largest).

    Args:
        before, after: The comparisons of the two reports.
        is_same: Called with keys of arms: whether all are the very same trainings in both reports.
    """
    earlier_of = {(c.arm, c.reference, c.grouping): c for c in before}
    order = list(METRICS)  # the registry's, in which metrics are listed
    for comparison in after:
        earlier = earlier_of.get((comparison.arm, comparison.reference, comparison.grouping))
        if earlier is None:
            continue
        keys = [key for key in (comparison.arm, comparison.reference) if key]  # "" is none
        same = is_same(*keys)
        earlier_groups = {group.group: group for group in earlier.by_group}
        pairs = [(earlier_groups.get(group.group), group) for group in comparison.by_group]
        names = {name for group in comparison.by_group for name in group.estimates}
        # Whole metrics of the arm; ``reference.M`` and parts of a cost have a dot and are left out.
        plain = [name for name in sorted(names) if name.partition("[")[0] in METRICS]
        metrics = sorted(plain, key=lambda name: order.index(name.partition("[")[0]))
        for metric in metrics:
            for was, now in (*pairs, (earlier.overall, comparison.overall)):
                if was is not None:  # else the earlier report lacks the group
                    estimates = was.estimates.get(metric), now.estimates.get(metric)
                    yield _change(metric, comparison, now.group, estimates, same)
            gap_before, gap = main_gap(earlier, metric), main_gap(comparison, metric)
            if gap_before is not None and gap is not None:
                gap = gap.larger_first
                between = f"{gap.a}, {gap.b}" if gap.a else ""
                estimates = _differences(gap_before, gap)
                yield _change(f"{metric}_gap", comparison, between, estimates, same)


def _differences(before: Gap, after: Gap) -> tuple[Estimate, Estimate]:
    """A gap's number before and after, with the same pair of groups in the order of ``after``.

    Largest gaps stay as they are: they are nowhere below 0, and may lie between other groups than
    before.
    """
    if (before.a, before.b) == (after.b, after.a) and before.kind == "pair":
        before = before.reversed
    return before.signed, after.signed


def _change(
    metric: str,
    where: Comparison,
    group: str,
    estimates: tuple[Estimate | None, Estimate | None],
    same: bool,
) -> Change:
    """One number's change, later minus earlier, with an interval where both numbers have one.

    The interval is made of both numbers' ends, so their variances are not read.

    Args:
        metric: Its name in the result.
        where: The later report's comparison that holds the number.
        group: Its group or groups in words, "" for all test rows.
        estimates: The number before and after; None where that report lacks it.
        same: Whether both are of the very same trainings.
    """
    before = read_estimate(estimates[0], "", is_size=False, own_variances=False)
    after = read_estimate(estimates[1], "", is_size=False, own_variances=False)
    difference = change(after, before, same_trainings=same)
    moved = difference.number
    exceeds, reason = None, difference.reason or "it has no interval"
    if moved.ends is not None:
        exceeds, reason = moved.excludes_zero, ""
    return Change(
        arm=where.arm,
        reference=where.reference,
        grouping=where.grouping,
        group=group,
        metric=metric,
        before=before.number.value,
        after=after.number.value,
        change=moved.value,
        low=moved.low,
        high=moved.high,
        exceeds=exceeds,
        reason=reason,
    )
