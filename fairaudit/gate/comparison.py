"""Two reports side by side: what changed, and which changes are more than their intervals allow."""

from collections.abc import Iterator, Sequence

from pydantic import JsonValue

from fairaudit.config.options import GATES
from fairaudit.errors import ConfigError
from fairaudit.gate.judge import change
from fairaudit.gate.targets import read_estimate
from fairaudit.metrics.registry import METRICS
from fairaudit.report.main_gap import main_gap
from fairaudit.report.model import Report
from fairaudit.results.estimates import (
    DEFAULT,
    Comparison,
    Estimate,
    Figure,
    HighEnd,
    Interval,
    LowEnd,
    Part,
    key_of,
)

# Where the data lie and what is asked of a report; the digest tells whether the data are the same.
_ASIDE = ("data", "format", *GATES)


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

    ``same_data`` is about the files' content. The interval of a change runs from the least to the
    largest difference of the two intervals: it holds whatever rows and seeds the reports share.
    """

    same_data: bool
    options: tuple[OptionChange, ...]
    only_before: tuple[str, ...]
    only_after: tuple[str, ...]
    epsilon: tuple[EpsilonChange, ...]
    changes: tuple[Change, ...]


def compare_reports(before: Report, after: Report, *, other_data: bool = False) -> Changes:
    """Set two reports, as read from their files, side by side.

    Args:
        before: The first.
        after: The second; changes are second minus first.
        other_data: The reports may be of different data.

    Raises:
        ConfigError: They are of another label, of other data, or share no arm.
    """
    _refuse_unlike(before, after, other_data=other_data)
    found = _comparisons(before, after), _comparisons(after, before)
    keys = _keys(before, after), _keys(after, before)
    shared = [key for key in keys[1] if key in keys[0]]
    if not shared:
        raise ConfigError(f"the reports share no method ({', '.join(keys[0])}; {', '.join(keys[1])})")
    return Changes(
        same_data=before.data.sha256 == after.data.sha256,
        options=tuple(_options(before, after)),
        only_before=tuple(key for key in keys[0] if key not in keys[1]),
        only_after=tuple(key for key in keys[1] if key not in keys[0]),
        epsilon=tuple(
            EpsilonChange(arm=k, before=_epsilon(before, k), after=_epsilon(after, k)) for k in shared
        ),
        changes=tuple(
            change
            for earlier, later, shares in (
                (found[0], found[1], after.shares_trainings),
                (before.attacks, after.attacks, after.shares_attacks),
            )
            for a, b in _pairs(earlier, later)
            for change in _changes(a, b, shares(before, *filter(None, (b.arm, b.reference))))
        ),
    )


def _pairs(
    before: Sequence[Comparison], after: Sequence[Comparison]
) -> Iterator[tuple[Comparison, Comparison]]:
    """The same arm by the same grouping in both."""
    known = {(c.arm, c.reference, c.grouping): c for c in before}
    for comparison in after:
        earlier = known.get((comparison.arm, comparison.reference, comparison.grouping))
        if earlier is not None:
            yield earlier, comparison


def _is_fixed_beside(report: Report, other: Report) -> bool:
    """Whether settings were searched for in the other report alone: there, this one is its default way."""
    return report.tuning is None and other.tuning is not None


def _keys(report: Report, other: Report) -> list[str]:
    keys = [arm.key for arm in report.every_arm]
    return keys + [key_of(key, DEFAULT) for key in keys] if _is_fixed_beside(report, other) else keys


def _comparisons(report: Report, other: Report) -> list[Comparison]:
    """All of a report; of fixed settings beside searched ones also under the names of the default way."""
    found = list(report.every_comparison)
    if _is_fixed_beside(report, other):
        found += [
            c.model_copy(
                update={
                    "arm": key_of(c.arm, DEFAULT),
                    "reference": c.reference and key_of(c.reference, DEFAULT),
                }
            )
            for c in found
        ]
    return found


def _refuse_unlike(before: Report, after: Report, *, other_data: bool) -> None:
    labels = before.data.label, after.data.label
    if len({(label.column, label.positive, label.favourable) for label in labels}) > 1:
        told = " and ".join(
            f"{label.column!r} (positive {label.positive!r}, favourable {label.favourable!r})"
            for label in labels
        )
        raise ConfigError(f"the reports are about different labels: {told}", hint="compare like with like")
    if before.data.sha256 != after.data.sha256 and not other_data:
        raise ConfigError(
            f"the reports are of different data: {before.data.sha256[:12]}… and {after.data.sha256[:12]}…",
            hint="--other-data compares them all the same",
        )


def _options(before: Report, after: Report) -> Iterator[OptionChange]:
    for name in sorted(set(before.config) & set(after.config) - set(_ASIDE)):
        values = before.config[name].value, after.config[name].value
        if values[0] != values[1]:
            yield OptionChange(name=name, before=values[0], after=values[1])


def _epsilon(report: Report, arm: str) -> float | None:
    """Of an arm; one of fixed settings is also known as its default way."""
    facts = report.every_guarantee.get(arm) or report.privacy.get(arm.replace(f":{DEFAULT}", "", 1))
    return facts.epsilon.headline if facts is not None and facts.epsilon is not None else None


def _changes(before: Comparison, after: Comparison, same: bool) -> Iterator[Change]:
    earlier = {group.group: group for group in before.by_group}
    pairs = [(earlier[group.group], group) for group in after.by_group if group.group in earlier]
    for metric in _metrics(after):
        for was, now in (*pairs, (before.overall, after.overall)):
            estimates = was.estimates.get(metric), now.estimates.get(metric)
            yield _change(metric, after, now.group, estimates, same)
        gaps = main_gap(before, metric), main_gap(after, metric)
        if gaps[0] is not None and gaps[1] is not None:
            between = f"{gaps[1].a}, {gaps[1].b}" if gaps[1].a else ""
            sizes = gaps[0].absolute, gaps[1].absolute
            yield _change(f"{metric}_gap", after, between, sizes, same, is_size=True)


def _metrics(comparison: Comparison) -> Sequence[str]:
    """The metrics that it holds, in the registry's order; those of single classes after the plain ones."""
    held = {name for group in comparison.by_group for name in group.estimates}
    per_class = sorted(name for name in held if "[" in name and "." not in name)
    return [
        name for m in METRICS if m in held for name in (m, *(p for p in per_class if p.startswith(m + "[")))
    ]


def _change(
    metric: str,
    where: Comparison,
    group: str,
    estimates: tuple[Estimate | None, Estimate | None],
    same: bool,
    *,
    is_size: bool = False,
) -> Change:
    before, after = (read_estimate(each, "", is_size=is_size, own_variances=False) for each in estimates)
    found = change(after, before, same_trainings=same)
    moved = found.number
    exceeds = None if moved.ends is None else moved.excludes_zero
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
        reason="" if exceeds is not None else found.reason or "it has no interval",
    )
