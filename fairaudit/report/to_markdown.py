"""Report -> Markdown for reviewers: under 240 lines, no timing, every name escaped."""

from collections.abc import Iterator

from fairaudit.errors import numbered
from fairaudit.methods.catalog import REFERENCE
from fairaudit.report.arm_names import listed
from fairaudit.report.facts import LabelFacts, TrainingFacts
from fairaudit.report.fitting import fitted
from fairaudit.report.gaps import CONTROL_NOT_RUN, COST, main_gap, named_gaps, reading, spoken
from fairaudit.report.markdown_alone import ALONE, alone_section
from fairaudit.report.markdown_data import (
    data_section,
    diagnostics_section,
    readings_section,
    reproduce_section,
)
from fairaudit.report.markdown_gates import gates_section, verdict_section
from fairaudit.report.markdown_privacy import privacy_section
from fairaudit.report.markdown_review import instruments_section, register_section, selection_section
from fairaudit.report.markdown_summary import summary_section
from fairaudit.report.markdown_sweep import SWEEP, sweep_section
from fairaudit.report.markdown_why import why_section
from fairaudit.report.model import Report
from fairaudit.report.names import markdown
from fairaudit.report.parts import PARTS_TITLE, parts_section
from fairaudit.report.tables import Row, count, number, table
from fairaudit.report.written import POINTS, written
from fairaudit.results.estimates import Comparison, Estimate, Gap

MOST_LINES = 240
# Headings whose tables are what a report is read for. A sweep says the most in the fewest rows.
_RANKS = {
    **dict.fromkeys(("Cost by group", "Gaps between groups", SWEEP), 0),
    **dict.fromkeys((ALONE, PARTS_TITLE, "Gates", "Why"), 1),
}
_MOST_WARNINGS = 12
_WITHIN = ("accuracy", "loss", "tpr", "fpr", "precision", "auc", "calibration_error")


def to_markdown(report: Report, *, reserved: int = 0) -> str:
    """The report as text for people; what it shortens is whole in the JSON.

    Args:
        report: What was found.
        reserved: Lines to leave free, for charts that are put between.
    """
    return "\n".join(fitted(full_text(report), MOST_LINES - 1 - reserved, _RANKS)) + "\n"


def full_text(report: Report) -> list[str]:
    """The lines of the report before they are cut to length."""
    sections = (
        summary_section(report),
        verdict_section(report),
        _audited(report),
        *((_costs(report), _gaps(report)) if report.costs else (alone_section(report),)),
        parts_section(report),
        sweep_section(report),
        gates_section(report),
        _control(report),
        why_section(report),
        _within(report),
        selection_section(report),
        *((diagnostics_section(report),) if report.diagnostics.decomposition is None else ()),
        readings_section(report),
        privacy_section(report),
        data_section(report),
        _warnings(report),
        _limitations(report),
        register_section(report),
    )
    title = "Cost of private training by group" if report.costs or report.training else "Predictions by group"
    lines = [f"# {title}: {markdown(report.data.name)}"]
    for section in sections:
        written = list(section)
        lines += ["", *written] if written else []
    titles = [line.removeprefix("## ") for line in lines if line.startswith("## ")]
    return [*lines, "", *instruments_section(titles), "", *reproduce_section(report)]


def _size(training: TrainingFacts) -> str:
    if training.parameters is None:
        return ""
    size = numbered(training.parameters, "parameter")
    return f" ({size}, per-sample gradients by {markdown(training.gradients)})"


def _outcomes(label: LabelFacts) -> str:
    """The positive class, and the favourable one with who said so."""
    positive = "not known" if label.positive is None else markdown(label.positive)
    if label.favourable is None:
        return f"positive = {positive}, favourable = not known"
    favourable = f"{markdown(label.favourable)} ({markdown(label.favourable_origin)})"
    return f"positive = {positive}, favourable = {favourable}"


def _audited(report: Report) -> Iterator[str]:
    data, training = report.data, report.training
    groups = "; ".join(
        f"{markdown(g.name)} ({', '.join(f'{markdown(k.name)} {count(k.rows)}' for k in g.groups[:8])}"
        f"{', …' if len(g.groups) > 8 else ''})"
        for g in data.groupings[:6]
    )
    yield "## What was audited"
    yield ""
    rows = f"{data.rows:,} of {numbered(data.rows_read, 'row')}"
    yield f"- Data: {markdown(data.name)}, {rows}, sha256 {markdown(data.sha256[:16])}…"
    yield f"- Label: {markdown(data.label.column)} ({markdown(data.label.origin)}), {_outcomes(data.label)}"
    yield f"- Groups: {groups}"
    arms = markdown(listed(arm.key for arm in report.arms), 600)
    how = (
        "predictions were given, nothing was trained"
        if training is None
        else f"model {markdown(training.model)}{_size(training)}, {numbered(training.seeds, 'seed')}, "
        f"{numbered(training.repeats, 'private run')} per seed, {numbered(training.epochs, 'epoch')}"
    )
    yield f"- Arms: {arms}; {how}"
    status = (
        "complete" if report.status == "complete" else "PARTIAL: some trainings have no result, see warnings"
    )
    yield f"- Status: {status}"
    if report.comparisons:
        yield f"- Intervals: 95 %; {markdown((report.costs or report.comparisons)[0].estimand, 300)}"
    check = report.yardstick
    if check.reference_accuracy is not None and check.yardstick_accuracy is not None:
        yield (
            f"- Reference check: {markdown(check.arm)} {100 * check.reference_accuracy:.1f} % on test rows, "
            f"{markdown(check.yardstick, 80)} {100 * check.yardstick_accuracy:.1f} %: {check.reading}"
        )
    elif training is not None:
        known = check.reference_accuracy
        accuracy = "" if known is None else f" ({markdown(check.arm)} {100 * known:.1f} % on test rows)"
        yield f"- Reference check: none, {markdown(check.reason, 200)}{accuracy}"


def _costs(report: Report) -> Iterator[str]:
    rows: list[Row] = [
        (
            _versus(comparison),
            f"{markdown(comparison.grouping)} = {markdown(group.group)}" if group.group else "all",
            count(group.n_test),
            number(_value(group.estimates.get("reference.accuracy"))),
            number(_value(group.estimates.get("accuracy"))),
            written(group.estimates.get(COST), POINTS) if group.estimates else markdown(group.reason),
            written(group.estimates.get("excess_risk")),
            markdown(comparison.note_on(group), 60),
        )
        for comparison in report.costs
        for group in comparison.by_group
    ]
    yield "## Cost by group"
    yield ""
    yield (
        f"Accuracy on {report.test_rows}; cost in points of accuracy lost, excess risk in nats of loss "
        "gained, with intervals."
    )
    yield ""
    for why, arms in report.configurations.items():
        yield f"- **{markdown(listed(arms), 300)}: cost of this configuration**: {why}."
    if report.configurations:
        yield ""
    before, after = _before_and_after(report)
    head = ("arm", "group", "#test rows", f"#{before}", f"#{after}", "#cost", "#excess risk", "note")
    yield from table(head, rows, most=20)


def _gaps(report: Report) -> Iterator[str]:
    rows: list[Row] = []
    for comparison in report.costs:
        gap = main_gap(comparison)
        named = named_gaps(comparison)
        rows += [_gap_row(comparison, each) for each in (*named, gap) if each is not None]
    yield "## Gaps between groups"
    yield ""
    yield (
        "In points. The minimum detectable gap is what this audit would find four times out of five; "
        "a smaller gap may exist unseen. The last two figures are standard deviations that the interval "
        "adds up: of what differs between seeds (training, and test rows where each seed has its own), "
        "and of the test rows that seeds share."
    )
    yield ""
    head = (
        "arm",
        "between",
        "#gap in cost",
        "#minimum detectable",
        "#from seeds",
        "#from shared test rows",
        "reading",
    )
    yield from table(head, rows, most=12)
    yield from _named_risks(report)


def _named_risks(report: Report) -> Iterator[str]:
    """What the pairs that were asked for lose in loss, beside what they lose in accuracy."""
    told = [
        f"- {_versus(comparison)}, {markdown(gap.a)} against {markdown(gap.b)}: gap in excess risk "
        f"{written(gap.absolute)} nats, {markdown(reading(gap), 80) or 'undefined'}."
        for comparison in report.costs
        for gap in comparison.gaps
        if gap.named and gap.metric == "excess_risk"
    ]
    if told:
        yield ""
        yield "Pairs named before training (`--compare`), each with its own 95 % interval:"
        yield ""
        yield from told[:12]


def _gap_row(comparison: Comparison, gap: Gap) -> Row:
    estimate = gap.simultaneous if gap.kind == "max" else gap.absolute
    said = (markdown(reading(gap), 80) or "–") + _needed(gap)
    between = ", ".join(markdown(name) for name in (gap.a, gap.b) if name)
    return (
        _versus(comparison),
        f"{markdown(comparison.grouping)}: {between or 'no pair'}",
        written(estimate, POINTS),
        "–" if gap.minimum_detectable is None else f"{100 * gap.minimum_detectable:.1f}",
        _points_sd(gap.signed.training_sd),
        _points_sd(gap.signed.records_sd),
        said if gap.gated else f"{said}; never gated: {markdown(gap.reason, 60)}",
    )


def _before_and_after(report: Report) -> tuple[str, str]:
    """What the two models of a comparison are called: of models that were given, no more is known."""
    return ("baseline", "predictions") if report.training is None else ("non-private", "private")


def _versus(comparison: Comparison) -> str:
    """The arm, and its reference where that is not the usual one."""
    arm = markdown(comparison.arm)
    return arm if comparison.reference == REFERENCE else f"{arm} against {markdown(comparison.reference)}"


def _needed(gap: Gap) -> str:
    wanted = []
    if gap.rows_needed is not None:
        wanted.append(f"{numbered(gap.rows_needed, 'test row')} per group")
    if gap.seeds_needed is not None:
        wanted.append(numbered(gap.seeds_needed, "seed"))
    return f"; a gap of this size needs {' or '.join(wanted)}" if wanted else ""


def _control(report: Report) -> Iterator[str]:
    if report.training is None:
        return
    yield "## Control: does scaling do more than clip less?"
    yield ""
    yield markdown(report.control.message, 4000)


def _within(report: Report) -> Iterator[str]:
    if not report.costs:
        return
    metrics = [m for m in _WITHIN if any(m in g.estimates for c in report.costs for g in c.by_group)]
    rows: list[Row] = []
    for comparison in report.costs:
        for group in comparison.by_group:
            if group.estimates:
                cells = (_pair(group.estimates, metric) for metric in metrics)
                rows.append((_versus(comparison), markdown(group.group), *cells))
    classes = [each.name for each in report.data.label.classes]
    changes = [
        (
            markdown(c.arm),
            markdown(spoken(gap.metric, classes)),
            written(gap.signed),
            gap.a,
            gap.b,
        )
        for c in report.costs
        for gap in c.gaps
        if gap.metric.startswith("change.") and gap.kind == "pair" and gap.signed.excludes_zero
    ]
    yield "## Within each model"
    yield ""
    before, after = _before_and_after(report)
    yield f"{before.capitalize()} → {after}, on test rows. A dash is undefined, not zero."
    yield ""
    yield from table(("arm", "group", *(f"#{m.replace('_', ' ')}" for m in metrics)), rows, most=14)
    yield ""
    if not changes:
        yield "No gap within a model is shown to change with privacy."
        return
    yield "Gaps within the model that privacy is shown to change (first group minus second):"
    yield ""
    shown = [(arm, metric, f"{markdown(a)}, {markdown(b)}", change) for arm, metric, change, a, b in changes]
    yield from table(("arm", "metric", "between", "#change of the gap"), shown, most=8)


def _warnings(report: Report) -> Iterator[str]:
    yield "## Warnings"
    yield ""
    others = [w for w in report.warnings if w.code != CONTROL_NOT_RUN]  # it has a section of its own
    if not others:
        yield "None."
    told: dict[tuple[str, str], list[str]] = {}
    for warning in others[:_MOST_WARNINGS]:
        fix = f" ({markdown(warning.fix, 200)})" if warning.fix else ""
        message = f"{markdown(warning.message, 600)}{fix}"
        told.setdefault((warning.level, warning.code), []).append(message)
    for (level, code), messages in told.items():
        yield f"- {level} {markdown(code)}: {' – '.join(messages)}"
    if len(others) > _MOST_WARNINGS:
        yield f"- {len(others) - _MOST_WARNINGS} more are in report.json."


def _limitations(report: Report) -> Iterator[str]:
    yield "## Limitations"
    yield ""
    for limitation in report.limitations:
        yield f"- {markdown(limitation.text, 800)}"


def _value(estimate: Estimate | None) -> float | None:
    return estimate.value if estimate else None


def _pair(estimates: dict[str, Estimate], metric: str) -> str:
    before, after = _value(estimates.get(f"reference.{metric}")), _value(estimates.get(metric))
    return f"{number(before)} → {number(after)}"


def _points_sd(fraction: float | None) -> str:
    return "–" if fraction is None else f"{100 * fraction:.1f}"
