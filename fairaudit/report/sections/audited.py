"""What was audited: data, label, groups, methods, and how well the reference learned."""

from collections.abc import Iterator

from fairaudit.errors import numbered
from fairaudit.report.document import Bullets, Section, Strong, Words
from fairaudit.report.facts import GroupingFacts
from fairaudit.report.model import Report
from fairaudit.report.numbers import count, listed
from fairaudit.report.safe_names import plain

_MOST_GROUPINGS, _MOST_GROUPS = 6, 8


def section(report: Report) -> Section | None:
    """The frame of all that follows."""
    data = report.data
    rows = f"{data.rows:,} of {numbered(data.rows_read, 'row')}"
    if data.images is None:
        rows += f", {numbered(data.columns_read, 'column')}"
    groups = [_groups(grouping) for grouping in data.groupings[:_MOST_GROUPINGS]]
    label, positive, favourable = data.label, "not known", "not known"
    if label.positive is not None:
        positive = plain(label.positive)
    if label.favourable is not None:
        favourable = f"{plain(label.favourable)} ({plain(label.favourable_origin)})"
    outcomes = f"positive = {positive}, favourable = {favourable}"
    items: list[Words] = [
        f"Data: {plain(data.name)}, {rows}, sha256 {plain(data.sha256[:16])}…",
        f"Label: {plain(label.column)} ({plain(label.origin)}), {outcomes}",
        f"Groups: {'; '.join(groups)}",
        f"Methods: {plain(listed(arm.key for arm in report.arms), 600)}; {_training(report)}",
    ]
    if report.status != "complete":
        items.append("Status: PARTIAL: some trainings have no result, see warnings")
    if report.comparisons:
        first = (report.costs or report.comparisons)[0]
        items.append(f"Intervals: 95 %; {plain(first.estimand, 300)}")
    items += _reference_check(report)
    items.append("How to read it: docs/reading-a-report.md; what epsilon covers: docs/epsilon.md")
    return Section("audited", "What was audited", (Bullets(tuple(items)),))


def _groups(grouping: GroupingFacts) -> str:
    groups = [f"{plain(group.name)} {count(group.rows)}" for group in grouping.groups]
    if len(groups) > _MOST_GROUPS:
        groups[_MOST_GROUPS:] = ["…"]
    return f"{plain(grouping.name)} ({', '.join(groups)})"


def _training(report: Report) -> str:
    training = report.training
    if training is None:
        return "predictions were given, nothing was trained"
    model = f"model {plain(training.model)}"
    if training.parameters is not None:
        parameters = numbered(training.parameters, "parameter")
        model += f" ({parameters}, per-sample gradients by {plain(training.gradients)})"
    tried = f"{numbered(training.repeats, 'private run')} per seed,"
    if report.settings_tried is not None:
        tried = f"{numbered(report.settings_tried, 'setting')} tried per seed and arm, by default"
    epochs = numbered(training.epochs, "epoch")
    how = f"{model}, {numbered(training.seeds, 'seed')}, {tried} {epochs}"
    own = {arm.key: arm.trainer for arm in report.arms if arm.is_own_code}
    if own:
        code = plain(", ".join(dict.fromkeys(own.values())), 300)
        how = f"{plain(listed(own), 600)} by {code}; others: {how}"
    return how


def _reference_check(report: Report) -> Iterator[Words]:
    check = report.sklearn_baseline
    accuracy = ""
    if check.reference_accuracy is not None:
        accuracy = f"{plain(check.arm)} {100 * check.reference_accuracy:.1f} % on test rows"
    if accuracy and check.baseline_accuracy is not None:
        baseline = f"{plain(check.baseline, 80)} {100 * check.baseline_accuracy:.1f} %"
        both = f"Reference check: {accuracy}, {baseline}: "
        if check.undertrained:
            yield both, Strong("reference undertrained"), ", costs cannot be read"
        else:
            yield both, check.reading
    elif report.training is not None:
        beside = ""
        if accuracy:
            beside = f" ({accuracy})"
        yield f"Reference check: none, {plain(check.reason, 200)}{beside}"
