"""Two reports side by side as console lines."""

from collections.abc import Iterator

from fairaudit.gate.comparison import Changes
from fairaudit.metrics.registry import costs
from fairaudit.privacy.events import shown_up
from fairaudit.report.numbers import CHANGES, figure, written
from fairaudit.report.render.terminal import aligned
from fairaudit.report.safe_names import plain

_MOST_ROWS = 60


def change_lines(changes: Changes, *, every: bool) -> Iterator[str]:
    """What differs between two reports: options, epsilons, arms, findings, then numbers.

    Of the numbers costs are shown, and others where they changed by more than their 95 % interval.

    Args:
        changes: The comparison.
        every: Show all numbers.
    """
    if not changes.same_data:
        yield "The reports are of different data: a change may come from the data alone."
    for option in changes.options:
        old, new = plain(str(option.before), 80), plain(str(option.after), 80)
        yield f"option   {plain(option.name)}: {old} -> {new}"
    for row in changes.epsilon:
        if row.before != row.after:
            before = "–" if row.before is None else shown_up(row.before)
            after = "–" if row.after is None else shown_up(row.after)
            yield f"epsilon  {plain(row.arm)}: {before} -> {after}"
    for name, arms in (("first", changes.only_before), ("second", changes.only_after)):
        if arms:
            yield f"only in the {name} report: {', '.join(map(plain, arms))}"
    for word, findings in (("no more", changes.gone), ("now", changes.new)):
        for finding in findings:
            yield f"{word:<9}{plain(finding.arm)}: {plain(finding.text, 500)}"
    shown = []
    for change in changes.changes:
        is_cost = change.metric.removesuffix("_gap") in costs()  # or the gap of a cost
        if every or change.exceeds or is_cost:
            shown.append(change)
    rows = [("method", "group", "metric", "before", "after", "change", "")]
    for change in shown[:_MOST_ROWS]:
        where = plain(f"{change.grouping}: {change.group}" if change.group else "all rows")
        numbers = (figure(change.before), figure(change.after), written(change.moved, CHANGES))
        note = "changed" if change.exceeds else plain(change.reason, 80)
        rows.append((plain(change.arm), where, plain(change.metric), *numbers, note))
    if shown:
        yield from aligned(rows, left={0, 1, 2, 6})
    if len(shown) > _MOST_ROWS:
        yield f"{len(shown) - _MOST_ROWS} more: --json shows all"
    # `exceeds` is None where a number has no interval, so nothing is known of its change.
    decided = [change for change in changes.changes if change.exceeds is not None]
    beyond = sum(bool(change.exceeds) for change in decided)
    yield (
        f"{beyond} of {len(decided)} numbers changed by more than their 95 % intervals allow; "
        "of so many, up to one in twenty may by chance."
    )
