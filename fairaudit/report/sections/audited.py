"""What was audited: data, label, groups, methods, and how well the reference learned."""

from collections.abc import Iterator

from fairaudit.errors import numbered
from fairaudit.report.document import Bullets, Inline, Rank, Section, Strong, Words
from fairaudit.report.facts import LabelFacts
from fairaudit.report.model import Report
from fairaudit.report.safe_names import plain
from fairaudit.report.written import count, listed


def section(report: Report) -> Section | None:
    """The frame of all that follows."""
    return Section("audited", "What was audited", Rank.DETAIL, (Bullets(tuple(_items(report))),))


def _items(report: Report) -> Iterator[Words]:
    data, training = report.data, report.training
    groups = "; ".join(
        f"{plain(g.name)} ({', '.join(f'{plain(k.name)} {count(k.rows)}' for k in g.groups[:8])}"
        f"{', …' if len(g.groups) > 8 else ''})"
        for g in data.groupings[:6]
    )
    rows = f"{data.rows:,} of {numbered(data.rows_read, 'row')}"
    yield f"Data: {plain(data.name)}, {rows}, sha256 {plain(data.sha256[:16])}…"
    yield f"Label: {plain(data.label.column)} ({plain(data.label.origin)}), {_outcomes(data.label)}"
    yield f"Groups: {groups}"
    arms = plain(listed(arm.key for arm in report.arms), 600)
    how = "predictions were given, nothing was trained"
    if training is not None:
        size, tried = "", f"{numbered(training.repeats, 'private run')} per seed,"
        if training.parameters is not None:
            parameters = numbered(training.parameters, "parameter")
            size = f" ({parameters}, per-sample gradients by {plain(training.gradients)})"
        if report.settings_tried is not None:
            tried = f"{numbered(report.settings_tried, 'setting')} tried per seed and arm, by default"
        model = f"model {plain(training.model)}{size}, {numbered(training.seeds, 'seed')}"
        how = f"{model}, {tried} {numbered(training.epochs, 'epoch')}"
    own = {arm.key: arm.trainer for arm in report.arms if arm.trainer}
    if own:
        code = plain(", ".join(dict.fromkeys(own.values())), 300)
        how = f"{plain(listed(own), 600)} by {code}; others: {how}"
    yield f"Methods: {arms}; {how}"
    partial = "PARTIAL: some trainings have no result, see warnings"
    yield f"Status: {'complete' if report.status == 'complete' else partial}"
    if report.comparisons:
        yield f"Intervals: 95 %; {plain((report.costs or report.comparisons)[0].estimand, 300)}"
    check = report.sklearn_baseline
    if check.reference_accuracy is not None and check.baseline_accuracy is not None:
        reading: tuple[Inline, ...] = (check.reading,)
        if check.undertrained:
            reading = (Strong("reference undertrained"), ", costs cannot be read")
        yield (
            f"Reference check: {plain(check.arm)} {100 * check.reference_accuracy:.1f} % on test rows, "
            f"{plain(check.baseline, 80)} {100 * check.baseline_accuracy:.1f} %: ",
            *reading,
        )
    elif training is not None:
        known = check.reference_accuracy
        accuracy = "" if known is None else f" ({plain(check.arm)} {100 * known:.1f} % on test rows)"
        yield f"Reference check: none, {plain(check.reason, 200)}{accuracy}"


def _outcomes(label: LabelFacts) -> str:
    """The positive class, and the favourable one with who said so."""
    positive = "not known" if label.positive is None else plain(label.positive)
    if label.favourable is None:
        return f"positive = {positive}, favourable = not known"
    favourable = f"{plain(label.favourable)} ({plain(label.favourable_origin)})"
    return f"positive = {positive}, favourable = {favourable}"
