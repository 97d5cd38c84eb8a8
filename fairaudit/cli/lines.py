"""Data, plan and report as console lines: text only, no drawing."""

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from fairaudit.analysis.build_facts import privacy_of
from fairaudit.capabilities.installed import CAPABILITIES
from fairaudit.cli.durations import duration_text
from fairaudit.cli.lines_catalog import guarantee_text
from fairaudit.config.option_words import words_of
from fairaudit.config.options import ASSUMED, AuditConfig
from fairaudit.config.value_sources import DEFAULT, ResolvedConfig
from fairaudit.data.inspection import ColumnSummary, Inspection, RunSummary
from fairaudit.data.naming import shape_text
from fairaudit.errors import numbered
from fairaudit.messages.base import Message
from fairaudit.messages.names import arms_text
from fairaudit.methods.catalog import Guarantee
from fairaudit.planning.flow import Audit
from fairaudit.planning.plan import Plan
from fairaudit.privacy.events import shown_up
from fairaudit.report.model import Report
from fairaudit.report.numbers import attack_sentence
from fairaudit.report.render.terminal import WIDTH, aligned, to_lines
from fairaudit.report.safe_names import plain
from fairaudit.report.sections.order import document
from fairaudit.report.write import report_paths

_MOST_GROUPS = 12
_MOST_CLASSES = 6


def header_lines(audit: Audit, version: str) -> Iterator[str]:
    """What is audited: file, label, groups; and which options come from found files.

    A found file of options lies in the current folder and was not named by the user.
    """
    dataset = audit.dataset
    size = f"{numbered(dataset.rows_read, 'row')} x {numbered(dataset.columns_read, 'column')}"
    if dataset.image_shape is not None:
        size = f"{numbered(dataset.rows_read, 'image')} of {shape_text(dataset.image_shape)}"
    digest = f"sha256 {dataset.digest[:4]}…{dataset.digest[-2:]}"
    yield f"fairaudit {version} · {plain(dataset.name)} {size} · {digest}"
    positive, favourable = dataset.positive_class, dataset.favourable_class
    outcomes = outcomes_text(positive, favourable, dataset.favourable_origin)
    classes = classes_text(dataset.classes)
    yield f"  label   {plain(dataset.label)}   ({dataset.label_origin}; {classes}; {outcomes})"
    for grouping in dataset.groupings:
        groups = []
        for k, name in enumerate(grouping.names[:_MOST_GROUPS]):
            groups.append(f"{plain(name)} {(grouping.groups == k).sum():,}")
        if len(grouping.names) > _MOST_GROUPS:
            groups.append(f"{len(grouping.names) - _MOST_GROUPS} more")
        yield f"  group   {plain(grouping.name)}   {' · '.join(groups)}"
    for origin, names in audit.resolved.options_by_file.items():
        yield f"  options {origin} sets {plain(', '.join(names), 300)}"


def classes_text(classes: Sequence[str]) -> str:
    """How many classes a label has and, of up to six, which: ``2 classes: no, yes``."""
    count = numbered(len(classes), "class", "classes")
    if len(classes) > _MOST_CLASSES:
        return count
    return f"{count}: {', '.join(map(plain, classes))}"


def outcomes_text(positive: str | None, favourable: str | None, origin: str) -> str:
    """The positive class in words, and the favourable one where it is another or only assumed.

    Args:
        positive, favourable: Names of the classes; None: not known.
        origin: Who said which class is favourable; ``ASSUMED`` where nobody did.
    """
    text = f"positive = {'not known' if positive is None else plain(positive)}"
    if origin == ASSUMED:
        return f"{text}, assumed to be favourable"
    if favourable == positive:
        return text
    return f"{text}, favourable = {plain(favourable or 'not known')}"


def plan_lines(
    plan: Plan,
    *,
    seconds: float,
    cores: int,
    reading: float = 0.0,
    splitting: float = 0.0,
    studies: Mapping[str, float] | None = None,
) -> Iterator[str]:
    """What will be trained, at which epsilon, and about how long it takes.

    Args:
        plan: What is trained.
        seconds: Estimated wall time of the whole run, on ``cores`` cores.
        cores: Trainings at a time, at most.
        reading: The part of ``seconds`` for the readings of checkpoints; 0: none are taken.
        splitting: Seconds that twins may take on top, where ``--twins auto`` trains them.
        studies: The part of ``seconds`` for each study beside it, by its name.
    """
    yield f"  privacy {_privacy_text(plan)}"
    # Guarantees that rest on a condition, or that this program does not establish.
    for guarantee in Guarantee:
        keys = [arm.key for arm in plan.arms if arm.privacy.guarantee is guarantee]
        if keys and guarantee not in (Guarantee.ESTABLISHED, Guarantee.NONE):
            yield f"          {plain(arms_text(keys), 300)}: {guarantee.value}"
    facts = plan.model_facts
    if facts.parameters is not None:
        why = f": {plain(facts.why_not_in_table, 200)}" if facts.why_not_in_table else ""
        size = numbered(facts.parameters, "parameter")
        yield (
            f"  model   {plain(plan.training.model)} · {size} · per-sample gradients by "
            f"{facts.gradients}{why}"
        )
    # The time that the user's own code takes is not known, and comes on top of every estimate.
    has_own_code = any(arm.capability for arm in plan.arms)
    elsewhere = " and what your code takes" if has_own_code else ""
    spent = f"{duration_text(seconds)} on {numbered(cores, 'core')}{elsewhere}"
    yield f"  plan    {_trainings_of(plan)} · about {spent}"
    yield from _twin_lines(plan, splitting, elsewhere)
    yield from _study_lines(plan, studies, elsewhere)
    if "diagnostics" in plan.training.rules:
        yield f"  read    diagnostics: {plan.training.rules['diagnostics']}"
    if reading:
        kept = numbered(len(plan.training.kept(plan.config.diagnostics_every)), "checkpoint")
        yield f"  read    {kept} of each private training: at most about {duration_text(reading)}"


def _trainings_of(plan: Plan) -> str:
    """How many trainings a plan has: ``2 methods × 5 seeds = 10 trainings``."""
    counts = [numbered(len(plan.arms), "method"), numbered(plan.config.seeds, "seed")]
    if plan.trials > 1:
        counts.append(numbered(plan.trials, "setting"))
    trainings = f"{' × '.join(counts)} = {numbered(plan.trainings, 'training')}"
    if plan.default_plans:
        trainings += f", the {arms_text(plan.default_plans)} setting of each method included"
    own_code = {arm.key for arm in plan.arms if arm.capability}
    if own_code:
        count = plan.trials * sum(job.arm in own_code for job in plan.jobs)
        trainings += f", {count:,} of them by your own code"
    return trainings


def _twin_lines(plan: Plan, seconds: float, elsewhere: str) -> Iterator[str]:
    """The line on twins that are trained, or may be; none with ``--twins off`` or without twins.

    Args:
        plan: What is trained.
        seconds: Estimated wall time of all twins.
        elsewhere: What comes on top, in words, as " and what your code takes"; "": nothing.
    """
    trainings = plan.config.seeds * plan.trials  # of each arm
    without_noise = trainings * sum(arm.has_twins for arm in plan.arms)
    # Code of the user's own (`supports_no_noise`) can train without noise, not by its steps alone.
    steps_alone = trainings * sum(arm.has_twins and not arm.supports_no_noise for arm in plan.arms)
    line = f"  twins   {without_noise:,} without noise"
    if steps_alone:
        count = "as many" if steps_alone == without_noise else f"{steps_alone:,}"
        line += f" and {count} of their steps alone"
    if without_noise and plan.config.twins == "auto":
        more = f"at most about {duration_text(seconds)} more{elsewhere}"
        yield f"{line}, where a cost is detected: {more}"
    elif without_noise and plan.config.twins == "always":
        yield line


def _study_lines(plan: Plan, seconds: Mapping[str, float] | None, elsewhere: str) -> Iterator[str]:
    """A line for each study beside the plan: how many trainings, and about how long they take.

    Args:
        plan: What is trained.
        seconds: Estimated wall time of each study, by its name; None: not told.
        elsewhere: As of :func:`_twin_lines`.
    """
    for name, side_plan in plan.side_plans.items():
        if side_plan.study:  # the others are ways, which the line of the plan counts
            line = f"  {name:<7} {numbered(len(side_plan.jobs), 'training')} more"
            if side_plan.training.n_public != plan.training.n_public:
                line += f", with settings for {side_plan.training.n_public:,} records"
            if seconds is not None:
                line += f": about {duration_text(seconds[name])}{elsewhere}"
            yield line


def out_line(out: Path) -> str:
    """The line of ``plan`` that says where ``run`` would write."""
    return f"  out     {plain(str(out), 300)}"


def arm_lines(plan: Plan) -> Iterator[str]:
    """A table of every arm with its guarantee, epsilon and settings, then what these mean."""
    rows = [("method", "guarantee", "ε (PLD)", "ε (RDP)", "settings")]
    for arm in plan.arms:
        privacy = arm.privacy
        settings = ", ".join(f"{name} {value:.4g}" for name, value in arm.settings.items())
        pld, rdp = "", ""
        if privacy.epsilon is not None:
            pld, rdp = _epsilon_text(privacy.epsilon.pld), _epsilon_text(privacy.epsilon.rdp)
        rows.append((plain(arm.key), guarantee_text(privacy.guarantee), pld, rdp, settings))
    yield from aligned(rows, left={0, 1, 4})
    # Nothing is fitted or measured before a run.
    guarantees = {arm.key: privacy_of(arm, plan, fitted=(), results={}) for arm in plan.arms}
    if words := attack_sentence(guarantees):
        yield plain(words, 1000)
    for arm in plan.arms:
        if arm.privacy.guarantee is Guarantee.NOT_ESTABLISHED:
            yield f"{plain(arm.key)}: guarantee: not established; {plain(arm.privacy.reason, 300)}"
        elif arm.charge is not None:
            yield f"{plain(arm.key)}: {plain(arm.privacy.reason, 300)}"


def result_lines(report: Report, width: int = WIDTH) -> Iterator[str]:
    """The report in short, as a terminal shows it; one line where no method finished a seed.

    Args:
        report: What was found.
        width: Columns that a table may take.
    """
    if not any(compared.overall.n_test for compared in report.comparisons):
        yield "No method has a finished seed: nothing could be compared."
        return
    yield from to_lines(document(report), width)


def trainings_text(count: int, size: int) -> str:
    """A number of finished trainings, and the ``size`` of their files in bytes unless it is 0."""
    if not size:
        return numbered(count, "training")
    unit, name = (1e6, "MB") if size >= 1e5 else (1e3, "kB")
    return f"{numbered(count, 'training')} ({size / unit:,.1f} {name})"


def _privacy_text(plan: Plan) -> str:
    """The epsilon of every private arm of the plan, and delta, in one line."""
    claims = []
    for arm in plan.arms:
        if arm.privacy.headline is not None:
            claims.append(f"{plain(arm.key)} ε ≤ {shown_up(arm.privacy.headline)}")
    if not claims:
        return "no method has a guarantee of this program"
    return f"{', '.join(claims)}; δ = {plan.training.delta:g}, record level"


def _epsilon_text(value: float | None) -> str:
    """An epsilon, rounded up; a dash for None, where an accountant gives none."""
    if value is None:
        return "–"
    return shown_up(value)


def next_lines(report: Report, out: Path, formats: Sequence[str], arm: str = "") -> Iterator[str]:
    """Commands that a user may type after an audit, to get a model for release.

    Args:
        report: The audit's report.
        out: Its folder.
        formats: Those that it was written in. The commands read JSON: without it there are none.
        arm: Whose model; "": of whichever arm fits.
    """
    if "json" not in formats:
        return
    for capability in CAPABILITIES:
        command = capability.next_command(report, str(out / "report.json"), arm)
        if command:
            yield f"For a model to release: `{plain(command, 1000)}`"


def report_line(out: Path, formats: Sequence[str]) -> str:
    """The line that says where the files of a report lie."""
    paths = report_paths(out, formats)
    shown = [str(path) for path in paths[:1]] + [path.name for path in paths[1:]]
    return f"Report {' · '.join(plain(name, 1000) for name in shown)}"


def put_aside_line(out: Path, earlier: str) -> str:
    """The line that the report of another audit was put aside.

    Args:
        out: The folder of both reports.
        earlier: The command that repeats the other audit.
    """
    return (
        f"The report that lay there is of another audit ({plain(earlier, 300)}); it is now "
        f"{plain(str(out / 'report.previous.json'), 1000)}"
    )


def warning_lines(report: Report, *, verbose: bool) -> Iterator[str]:
    """The warnings of a report, and with ``verbose`` its notices too."""
    for warning in report.warnings:
        if warning.level == "warning":
            yield _message_line("Warning", warning.message, warning.fix)
        elif verbose and warning.level == "notice":
            yield _message_line("Note", warning.message, warning.fix)


def notice_lines(notices: Iterable[Message]) -> Iterator[str]:
    """Warnings and notices of the data or the plan, a line each."""
    for notice in notices:
        word = "Warning" if notice.level == "warning" else "Note"
        yield _message_line(word, notice.text, notice.fix)


def option_lines(resolved: ResolvedConfig, plan: Plan) -> Iterator[str]:
    """A table of every option that is not at its default, with its origin, then of default rules.

    The rules are those that set the numbers which the options leave open.
    """
    rows = [("option", "origin")]
    for name, origin in resolved.origins.items():
        if origin != DEFAULT:
            words = " ".join(words_of(name, getattr(resolved.config, name)))
            rows.append((plain(words or name, 60), origin))  # an empty list has no words
    for name, rule in sorted(plan.training.rules.items()):
        rows.append((name, f"by rule: {plain(rule, 120)}"))
    yield from aligned(rows, left={0, 1})


def _message_line(word: str, message: str, fix: str) -> str:
    """A message behind "Warning" or "Note", with what to do about it where ``fix`` says so."""
    return f"{word} {plain(message, 1000)}" + (f" ({plain(fix, 300)})" if fix else "")


def score_lines(report: Report, config: AuditConfig, width: int = WIDTH) -> Iterator[str]:
    """Lines of ``score``: what was scored, the report in short, warnings, where the report lies.

    ``width``: Columns that a table may take.
    """
    data = report.data
    rows = f"{data.rows:,} of {numbered(data.rows_read, 'row')}"
    yield f"fairaudit {report.tool.version} · {plain(data.name)} {rows}"
    label = data.label
    outcomes = outcomes_text(label.positive, label.favourable, label.favourable_origin)
    classes = classes_text([of.name for of in label.classes])
    yield f"  label   {plain(label.column)}   ({classes}; {outcomes})"
    # Each model with its number of seeds.
    models = ", ".join(f"{plain(arm.key)} {arm.seeds_planned}" for arm in report.arms)
    yield f"  models  {models}; nothing is trained, and no privacy is stated"
    yield from to_lines(document(report), width)
    yield from warning_lines(report, verbose=False)
    yield report_line(config.out, config.format)


_MOST_COLUMNS = 40
_FEW_COLUMNS = 24  # lines; in a table of more, columns that are left out have none
_FEWEST_TOGETHER = 4  # numbered columns, for them to share a line
_NUMBERED = re.compile(r"(.*?)([0-9]+)([^0-9]*)", re.DOTALL)
_MOST_SUSPECTS = 6


def inspection_lines(facts: Inspection) -> Iterator[str]:
    """Lines of ``inspect``: columns, label, group sizes, and what ``run`` would do with them.

    Where no label or group is known, the lines name columns of few values that could be one.
    """
    size = f"{numbered(facts.rows, 'row')} x {numbered(facts.columns, 'column')}"
    yield f"{plain(facts.name)}  {size} · sha256 {facts.digest[:16]}…"
    yield from _columns(facts)
    if facts.label is not None:
        outcomes = outcomes_text(facts.positive, facts.favourable, facts.favourable_origin)
        origin = facts.label_origin or "given"
        classes = f"{classes_text(list(facts.would_run.classes))}; " if facts.would_run else ""
        yield f"label    {plain(facts.label)}   ({origin}; {classes}{outcomes})"
    if facts.label is None or not facts.groupings:
        names = ", ".join(map(plain, facts.few_valued[:20]))
        yield f"2 to 20 values: {names or 'no column'}"
    likely = []
    if facts.label is None and facts.likely_labels:
        likely.append(f"label: {', '.join(map(plain, facts.likely_labels))}")
    if not facts.groupings and facts.likely_groups:
        likely.append(f"groups: {', '.join(map(plain, facts.likely_groups))}")
    if likely:
        yield f"likely   {'; '.join(likely)}"
    for grouping in facts.groupings:
        yield f"group    {plain(grouping.name)}"
        rows = [("", "rows", "share", "positive")]
        for group in grouping.groups:
            rate = "–" if group.positive_rate is None else f"{100 * group.positive_rate:.1f} %"
            share = f"{100 * group.share:.1f} %"
            rows.append((f"  {plain(group.name)}", f"{group.rows:,}", share, rate))
        yield from aligned(rows, left={0})
    run = facts.would_run
    if run is None:
        hint = f" ({plain(facts.hint, 400)})" if facts.hint else ""
        yield f"run      would stop: {plain(facts.problem, 400)}{hint}"
    else:
        yield _would_run(run)
    for suspect in facts.suspects[:_MOST_SUSPECTS]:
        yield f"look at  {plain(suspect, 300)}"
    if len(facts.suspects) > _MOST_SUSPECTS:
        yield f"look at  {len(facts.suspects) - _MOST_SUSPECTS} more such values: --json shows them"
    if facts.command:
        yield f"to run   {plain(shlex.join(facts.command), 4000)}"


def _would_run(run: RunSummary) -> str:
    """The line of ``inspect`` on the rows and inputs that ``run`` would train on."""
    return (
        f"run      {numbered(run.rows, 'usable row')}: {run.train:,} train, {run.test:,} test per "
        f"seed · {numbered(run.features, 'column')} as {numbered(run.inputs, 'input')} · "
        f"{numbered(run.duplicate_rows, 'duplicate row')}"
    )


def _columns(facts: Inspection) -> Iterator[str]:
    """The table of columns: type, role, share of missing values, number of distinct values.

    Numbered columns that follow each other and are alike, as pixels and the numbers of a list,
    share a line, with their largest values.
    """
    rows = [("column", "type", "role", "missing", "distinct", "becomes")]
    runs, left_out = _numbered_runs(facts.schema), 0  # a run is what shares a line
    # So that a wide table fits one screen; notices name the columns left out, with the reason.
    if len(runs) > _FEW_COLUMNS:
        runs = [run for run in runs if not run[0].becomes.startswith("left out")]
        left_out = len(facts.schema) - sum(map(len, runs))
    for run in runs[:_MOST_COLUMNS]:
        column = run[0]
        share = max((one.missing for one in run if one.missing is not None), default=None)
        values = max((one.distinct for one in run if one.distinct is not None), default=None)
        missing = "–" if share is None else f"{100 * share:.1f} %"
        distinct = "–" if values is None else f"{values:,}"
        name, kind = plain(column.name), plain(column.type, 24)
        note = plain(column.becomes or column.note, 80)
        if len(run) > 1:
            name = f"{name} .. {plain(run[-1].name)}"
            note = f"{len(run):,} columns" + (f", each {note}" if note else "")
        rows.append((name, kind, column.role, missing, distinct, note))
    yield from aligned(rows, left={0, 1, 2, 5})
    if len(runs) > _MOST_COLUMNS:
        hidden = sum(map(len, runs[_MOST_COLUMNS:]))
        yield f" {numbered(hidden, 'more column')}: --json shows all"
    if left_out:
        yield f" {numbered(left_out, 'column is', 'columns are')} left out: named below"


def _numbered_runs(schema: Sequence[ColumnSummary]) -> list[list[ColumnSummary]]:
    """The columns in order, as runs that share a line; most columns are a run of their own.

    A run is at least ``_FEWEST_TOGETHER`` neighbours whose names differ in their number alone, and
    which are alike in all else that is shown.
    """
    runs: list[list[ColumnSummary]] = []
    key_of_run: tuple[str, ...] | None = None  # None: its name has no number
    for column in schema:
        key = None  # all that neighbours of one run have in common
        match = _NUMBERED.fullmatch(column.name)
        if match:
            before_number, after_number = match[1], match[3]
            key = (
                before_number,
                after_number,
                column.type,
                column.role,
                column.note,
                column.becomes,
            )
        if key is not None and key == key_of_run:
            runs[-1].append(column)
        else:
            runs.append([column])
        key_of_run = key
    shown: list[list[ColumnSummary]] = []
    for run in runs:
        if len(run) >= _FEWEST_TOGETHER:
            shown.append(run)
        else:
            shown += [[column] for column in run]
    return shown
