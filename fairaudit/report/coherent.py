"""Whether the parts of a report agree: what an audit never writes, and damage or an edit leaves behind."""

import math
from collections.abc import Iterator, Sequence
from itertools import chain

from fairaudit import __version__
from fairaudit.report.facts import ArmFacts, DataFacts, PrivacyFacts
from fairaudit.report.model import Report
from fairaudit.report.summarize import summarize
from fairaudit.report.summary import Summary, worst
from fairaudit.results.estimates import Comparison, Estimate, Gap, GroupMeasure

_BOUNDS = (-2.0, -1.0, 0.0, 1.0, 2.0)  # of fractions, their differences, and the differences of those
_ROUNDED = 2e-5  # relative; numbers of six digits that were equal before they were rounded
_NOTHING = 1e-12  # of a difference of two numbers that are 0 but for the last bit


def incoherence(report: Report) -> str:
    """The first thing in a report that contradicts another, in words; "" where nothing does."""
    parts = (
        *(_of_arms, _of_privacy, _of_data, _of_comparisons, _of_tuning),
        *(_of_gates, _of_places, _of_summary),
    )
    return next(chain.from_iterable(part(report) for part in parts), "")


def _of_arms(report: Report) -> Iterator[str]:
    keys = [arm.key for arm in report.every_arm]
    if not report.arms or len(set(keys)) < len(keys):
        yield "its arms have no names of their own"
    for arm in report.every_arm:
        if arm.reference is not None and (arm.reference not in keys or arm.reference == arm.key):
            yield f"arm {arm.key!r} is compared with {arm.reference!r}, which is no other arm"
        yield from _of_seeds(arm, None if report.training is None else report.training.seeds)
    if (report.status == "partial") != report.has_failures:
        yield f"its status is {report.status!r}, which its failed seeds contradict"


def _of_seeds(arm: ArmFacts, trained: int | None) -> Iterator[str]:
    failed = {seed.seed for seed in arm.failed}
    ends = arm.seeds_finished + len(arm.failed)
    if arm.seeds_finished < 0 or arm.seeds_planned < 1 or arm.repeats < 1:
        yield f"the seeds of {arm.key!r} are not counted from 1"
    if len(failed) < len(arm.failed) or ends != arm.seeds_planned:
        yield f"{arm.key!r} has {ends} finished and failed seeds of {arm.seeds_planned}"
    if trained is not None and arm.seeds_planned != trained:
        yield f"{arm.key!r} was planned with {arm.seeds_planned} seeds, the training with {trained}"


def _of_privacy(report: Report) -> Iterator[str]:
    keys = {arm.key for arm in report.every_arm}
    if set(report.every_guarantee) != keys:
        odd = sorted(set(report.every_guarantee) ^ keys)[0]
        yield f"what is guaranteed of {odd!r} is said without an arm, or not said"
    for key, facts in report.every_guarantee.items():
        for complaint in _of_guarantee(facts):
            yield f"privacy of {key!r}: {complaint}"


def _of_guarantee(facts: PrivacyFacts) -> Iterator[str]:
    held = facts.epsilon
    if not facts.guarantee.has_epsilon:
        if held is not None or facts.delta is not None or facts.epsilon_if_all_released is not None:
            yield f"an epsilon stands beside a guarantee that is {facts.guarantee.value}"
        return
    if held is None or held.headline is None or facts.delta is None:
        yield "an established guarantee has no epsilon or no delta"
        return
    every = [
        e for e in (held.pld, held.rdp, facts.target_epsilon, facts.epsilon_if_all_released) if e is not None
    ]
    if min(every) < 0:
        yield "an epsilon is below 0"
    if not 0 < facts.delta < 1:
        yield f"delta is {facts.delta:g}, not between 0 and 1"
    if facts.target_epsilon is not None and held.headline > facts.target_epsilon * (1 + _ROUNDED):
        yield f"epsilon {held.headline:g} is above its target {facts.target_epsilon:g}"
    of_all = facts.epsilon_if_all_released
    if of_all is not None and held.headline > of_all * (1 + _ROUNDED):
        yield f"one model's epsilon {held.headline:g} is above that of all of them"
    yield from _of_mechanism(facts)


def _of_mechanism(facts: PrivacyFacts) -> Iterator[str]:
    if facts.sample_rate is not None and not 0 < facts.sample_rate <= 1:
        yield f"the sample rate is {facts.sample_rate:g}"
    if facts.steps is not None and facts.steps < 1:
        yield f"there are {facts.steps} steps"
    if any(release.noise_multiplier <= 0 for release in facts.releases):
        yield "something is released without noise"


def _of_data(report: Report) -> Iterator[str]:
    data = report.data
    yield from _of_label(data)
    if len({grouping.name for grouping in data.groupings}) < len(data.groupings):
        yield "two groupings have one name"
    for number, grouping in enumerate(data.groupings):
        names = [group.name for group in grouping.groups]
        if not names or len(set(names)) < len(names) or grouping.steers != (number == 0):
            yield f"the groups of {grouping.name!r} have no names of their own"
        if not _adds_up([group.rows for group in grouping.groups], data.rows):
            yield f"the groups of {grouping.name!r} do not add up to {data.rows:,} rows"
    counts = [
        n for by_group in (*data.dropped_rows.values(), *data.missing.values()) for n in by_group.values()
    ]
    if data.rows > data.rows_read or any(n is not None and n < 0 for n in counts):
        yield "more rows are used than were read"


def _of_label(data: DataFacts) -> Iterator[str]:
    label = data.label
    names = [one.name for one in label.classes]
    if len(set(names)) < len(names) or not _adds_up([one.rows for one in label.classes], data.rows):
        yield f"the classes of {label.column!r} do not add up to {data.rows:,} rows"
    if not {label.positive, label.favourable} <= {None, *names}:
        yield f"the positive or the favourable value of {label.column!r} is no class of it"
    if bool(label.favourable_origin) != (label.favourable is not None):
        yield f"who said which value of {label.column!r} is favourable is not told"


def _adds_up(counts: Sequence[int | None], total: int) -> bool:
    known = [n for n in counts if n is not None]
    return min(known, default=0) >= 0 and (
        sum(known) == total if len(known) == len(counts) else sum(known) < total
    )


def _of_comparisons(report: Report) -> Iterator[str]:
    finished = {arm.key: arm.seeds_finished for arm in report.every_arm}
    if report.training is None:  # one given baseline stands for every seed of what is compared with it
        finished = dict.fromkeys(finished, max(finished.values(), default=0))
    groups = {g.name: [group.name for group in g.groups] for g in report.data.groupings}
    places = [(c.arm, c.reference, c.grouping) for c in report.every_comparison]
    if len(set(places)) < len(places):
        yield "an arm is measured twice"
    for arm in report.every_arm:
        unmeasured = [g for g in groups if (arm.key, arm.reference, g) not in places]
        if arm.reference is not None and unmeasured:
            yield f"{arm.key!r} is not measured by {unmeasured[0]!r}"
    for comparison in report.every_comparison:
        where = f"{comparison.arm!r} by {comparison.grouping!r}"
        if comparison.arm not in finished or comparison.reference not in ("", *finished):
            yield f"{where} is of no arm of this report"
        elif [g.group for g in comparison.by_group] != groups.get(
            comparison.grouping
        ) or comparison.overall.group:
            yield f"{where} is not of the groups of this report"
        else:
            seeds = min(finished[key] for key in (comparison.arm, comparison.reference) if key)
            for complaint in _of_comparison(comparison, seeds):
                yield f"{where}: {complaint}"


def _of_comparison(comparison: Comparison, seeds: int) -> Iterator[str]:
    for group in (*comparison.by_group, comparison.overall):
        for complaint in _of_group(group, seeds):
            yield f"group {group.group!r}: {complaint}" if group.group else f"all rows: {complaint}"
    seen = [(gap.metric, gap.kind, gap.a, gap.b) for gap in comparison.gaps]
    if len(set(seen)) < len(seen):
        yield "a gap is told twice"
    measured = {group.group: group for group in (*comparison.by_group, comparison.overall)}
    for gap in comparison.gaps:
        for complaint in _of_gap(gap, measured, seeds):
            yield f"{gap.metric} gap: {complaint}"


def _of_group(group: GroupMeasure, seeds: int) -> Iterator[str]:
    if group.gated == bool(group.reason):
        yield "it is gated with a reason why not, or not gated without one"
    if any(n is not None and n < 0 for n in (group.n_test, group.n_train, group.unpredicted)):
        yield "rows are counted below 0"
    if group.gated and group.n_test is None:
        yield "its rows are hidden and yet it is gated"
    if not set(group.ungated) <= set(group.estimates):
        yield "a metric that is not measured is said not to be gated"
    for name, estimate in group.estimates.items():
        for complaint in _of_estimate(estimate, seeds):
            yield f"{name}: {complaint}"


def _of_estimate(estimate: Estimate, seeds: int, *, has_own_interval: bool = True) -> Iterator[str]:
    value, low, high = estimate.value, estimate.low, estimate.high
    if (low is None) != (high is None) or (value is None and low is not None):
        yield "an interval has one end, or none of its own number"
    if value is None and not estimate.reason:
        yield "it is undefined and nothing says why"
    if value is not None and low is not None and high is not None and not low <= value <= high:
        yield f"{value:g} is not between {low:g} and {high:g}"
    # Half an interval is at least 1.9 of each of its two standard deviations, however they are put together;
    # an end at the bound of what there can be may have been cut.
    ends = [end for end in (low, high) if end is not None and end not in _BOUNDS]
    widest = math.inf
    if value is not None and has_own_interval:
        widest = max((abs(end - value) for end in ends), default=math.inf)
    if any(sd is not None and not 0 <= sd <= widest for sd in (estimate.training_sd, estimate.records_sd)):
        yield "a standard deviation is below 0, or its interval is narrower"
    if not 0 <= estimate.n_seeds <= seeds or (estimate.n_test or 0) < 0:
        yield f"it rests on {estimate.n_seeds} seeds of {seeds}"
    if estimate.by_seed and len(estimate.by_seed) != estimate.n_seeds:
        yield f"{len(estimate.by_seed)} values stand for {estimate.n_seeds} seeds"
    known = [v for v in estimate.by_seed if v is not None]
    if value is not None and known and len(known) == len(estimate.by_seed):
        scale = max(map(abs, known))
        if abs(abs(value) - abs(sum(known) / len(known))) > _ROUNDED * scale:
            yield f"{value:g} is not the mean over its seeds"


def _of_gap(gap: Gap, measured: dict[str, GroupMeasure], seeds: int) -> Iterator[str]:
    if gap.gated == bool(gap.reason):
        yield "it is gated with a reason why not, or not gated without one"
    named = [name for name in (gap.a, gap.b) if name]
    if not set(named) <= set(measured) or len(set(named)) < len(named):
        yield f"{gap.a!r} and {gap.b!r} are no two groups of it"
        return
    if len(named) != {"pair": 2, "population": 1, "mean": 0}.get(gap.kind, len(named)):
        yield f"its kind is {gap.kind!r}, which its groups contradict"
    for estimate in (gap.signed, gap.absolute, gap.simultaneous):
        # The interval of the largest gap is that of all pairs; its standard deviations are of one.
        of_one = gap.kind != "max" or estimate is gap.signed
        yield from _of_estimate(estimate, seeds, has_own_interval=of_one)
    size, signed = gap.absolute.value, gap.signed.value
    if min(gap.absolute.value or 0, gap.absolute.low or 0) < 0:
        yield "its size is below 0"
    if gap.kind != "mean" and (size is None) != (signed is None):
        yield "its size is told without its sign, or its sign without its size"
    if (
        gap.kind != "mean"
        and size is not None
        and signed is not None
        and abs(size - abs(signed)) > _ROUNDED * size
    ):
        yield f"its size {size:g} is not that of {signed:g}"
    if gap.kind in ("pair", "population") and signed is not None:
        yield from _of_difference(gap, signed, measured)


def _of_difference(gap: Gap, signed: float, measured: dict[str, GroupMeasure]) -> Iterator[str]:
    """A gap between two groups is the difference of their numbers, where both are known at every seed."""
    a, b = (measured[name].estimates.get(gap.metric) for name in (gap.a, gap.b))
    if a is None or b is None or a.value is None or b.value is None:
        return
    if not a.n_seeds == b.n_seeds == gap.signed.n_seeds:
        return
    if abs(signed - (a.value - b.value)) > max(_ROUNDED * max(abs(a.value), abs(b.value)), _NOTHING):
        yield f"{signed:g} is not the difference of {a.value:g} and {b.value:g}"


def _of_tuning(report: Report) -> Iterator[str]:
    tuning = report.tuning
    if tuning is None:
        return
    finished = {arm.key: arm.seeds_finished for arm in report.arms}
    for search in tuning.searches:
        if len(search.seeds) != finished.get(search.arm):
            yield f"the search of {search.arm!r} is not told at each of its finished seeds"
        for seed in search.seeds:
            where = f"the search of {search.arm!r} at seed {seed.seed}"
            chosen = [tried for tried in seed.tried if tried.selected]
            if len(seed.tried) != tuning.trials or len(chosen) != 1:
                counts = f"{len(seed.tried)} candidates of {tuning.trials}"
                yield f"{where} has {counts}, {len(chosen)} of them best"
            elif chosen[0].released_score < max(tried.released_score for tried in seed.tried):
                yield f"{where} calls another candidate best than that of the best score"
            if abs(sum(tried.weight for tried in seed.tried) - 1) > _ROUNDED:
                yield f"the chances of {where} do not add up to 1"


def _of_gates(report: Report) -> Iterator[str]:
    for gate in report.gates:
        if gate.outcome != worst(target.outcome for target in gate.targets):
            yield f"rule {gate.rule!r} has another outcome than its findings"
    if report.verdict != (worst(gate.outcome for gate in report.gates) if report.gates else None):
        yield "its verdict is not that of its gates"


def _of_places(report: Report) -> Iterator[str]:
    keys = {arm.key for arm in report.arms}
    groups = {g.name: {group.name for group in g.groups} for g in report.data.groupings}
    named = {report.sklearn_baseline.arm, *(s.arm for s in report.selection), *report.diagnostics.arms}
    named |= {gap.arm for gap in report.changed or ()}
    if not named | set(report.diagnostics.readings) <= keys:
        yield f"it tells of {sorted(named - keys)[:1]}, which is no arm of it"
    for selection in report.selection:
        if set(selection.rate) != groups.get(selection.grouping):
            yield f"selection rates by {selection.grouping!r} are not of the groups of this report"


def _of_summary(report: Report) -> Iterator[str]:
    """What a summary claims follows from the rest of its report, by the rules of its own version."""
    if report.summary is None or report.tool.version != __version__:
        return
    due = summarize(report)
    if report.summary.verdicts != due.verdicts or _claims(report.summary) != _claims(due):
        yield "its summary is not what its figures and its rules say"


def _claims(summary: Summary) -> list[tuple[object, ...]]:
    """All but wording and the sizes of parts, whose last digit rounding may move."""
    return [
        (
            *(method.arm, method.reference, method.grouping, method.epsilon, method.verdict),
            *(method.accuracy, method.excess_risk, method.misalignment),
            *(
                getattr(method.parts, name, None)
                for name in ("of", "metric", "a", "b", "is_still", "is_noise")
            ),
        )
        for method in summary.methods
    ]
