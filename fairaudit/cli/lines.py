"""Data, plan and report as console lines: text only, no drawing."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from fairaudit.analysis.build_facts import privacy_facts
from fairaudit.config.options import ASSUMED, AuditConfig
from fairaudit.config.value_sources import DEFAULT, ResolvedConfig
from fairaudit.data.dataset import Dataset, Notice
from fairaudit.data.inspection import Inspection
from fairaudit.data.naming import shape_text
from fairaudit.errors import numbered
from fairaudit.methods.catalog import Guarantee
from fairaudit.planning.plan import Arm, Plan
from fairaudit.privacy.events import SampledGaussian, shown_up
from fairaudit.report.main_gap import CONTROL_NOT_RUN
from fairaudit.report.model import Report
from fairaudit.report.render.terminal import Row, aligned, to_lines
from fairaudit.report.safe_names import plain
from fairaudit.report.sections.order import document
from fairaudit.report.write import report_paths
from fairaudit.report.written import attack_sentence, listed

_MOST_GROUPS = 12
_SAID_ABOVE = (CONTROL_NOT_RUN, "mostly_clipping")


def header_lines(dataset: Dataset, version: str) -> Iterator[str]:
    """What is audited: file, label, groups."""
    shape = dataset.image_shape
    columns = (
        f"{numbered(dataset.rows_read, 'row')} x {numbered(dataset.columns_read, 'column')}"
        if shape is None
        else f"{numbered(dataset.rows_read, 'image')} of {shape_text(shape)}"
    )
    digest = f"sha256 {dataset.digest[:4]}…{dataset.digest[-2:]}"
    yield f"fairaudit {version} · {plain(dataset.name)} {columns} · {digest}"
    positive, favourable = (
        None if i is None else dataset.classes[i] for i in (dataset.positive, dataset.favourable)
    )
    outcomes = outcomes_text(positive, favourable, dataset.favourable_origin)
    yield f"  label   {plain(dataset.label)}   ({dataset.label_origin}; {outcomes})"
    for grouping in dataset.groupings:
        counts = [(name, int((grouping.groups == k).sum())) for k, name in enumerate(grouping.names)]
        shown = " · ".join(f"{plain(name)} {rows:,}" for name, rows in counts[:_MOST_GROUPS])
        more = f" · {len(counts) - _MOST_GROUPS} more" if len(counts) > _MOST_GROUPS else ""
        yield f"  group   {plain(grouping.name)}   {shown}{more}"


def outcomes_text(positive: str | None, favourable: str | None, origin: str) -> str:
    """The positive class, and the favourable one unless it is that class and somebody said so."""
    told = f"positive = {'not known' if positive is None else plain(positive)}"
    if origin == ASSUMED:
        return f"{told}, assumed to be favourable"
    return told if favourable == positive else f"{told}, favourable = {plain(favourable or 'not known')}"


def plan_lines(plan: Plan, *, seconds: float, cores: int, reading: float = 0.0) -> Iterator[str]:
    """What will be trained, at which epsilon, and about how long it takes."""
    yield f"  privacy {_privacy(plan)}"
    for guarantee in (Guarantee.UNCHECKED, Guarantee.CHECKED, Guarantee.CLAIMED):
        of_others = [arm.key for arm in plan.arms if arm.privacy.guarantee is guarantee]
        if of_others:
            yield f"          {plain(listed(of_others), 300)}: {guarantee.value}"
    seeds = plan.config.seeds
    of = f"{numbered(len(plan.arms), 'method')} × {numbered(seeds, 'seed')}"
    each = plan.config.tune or 1
    of += f" × {numbered(each, 'setting')}" if plan.config.tune else ""
    beside = " and ".join(plan.ways)
    of += f", and {len(plan.ways)} ({beside} setting) for each method and seed" if beside else ""
    trainings = f"{of} = {numbered(plan.trainings, 'training')}"
    facts = plan.model_facts
    if facts.parameters is not None:
        why = f": {plain(facts.outside, 200)}" if facts.outside else ""
        size = numbered(facts.parameters, "parameter")
        yield f"  model   {plain(plan.model)} · {size} · per-sample gradients by {facts.gradients}{why}"
    twins = each * seeds * sum(arm.has_twin for arm in plan.arms)
    its = {arm.key for arm in plan.arms if arm.is_own_code}
    own = sum(job.arm in its for job in plan.jobs)
    trainings += f", {own:,} of them by your own code" if own else ""
    trainings += f", {twins:,} of them once more without noise" if twins else ""
    beside = " and what your code takes" if own else ""
    yield f"  plan    {trainings} · about {duration_text(seconds)}{beside} on {numbered(cores, 'core')}"
    if plan.leakage is not None:
        half = plan.leakage
        of = f"{numbered(len(half.arms), 'method')} × {numbered(half.config.seeds, 'model')}"
        yield (
            f"  attack  {of} = {numbered(len(half.jobs), 'training')} more, each on a random half: "
            f"settings for {half.schedule.n_public:,} records"
        )
    if "diagnostics" in plan.origins:
        yield f"  read    {plan.origins['diagnostics']}"
    if reading:
        kept = numbered(len(plan.schedule.kept(plan.config.diagnostics_every)), "checkpoint")
        yield f"  read    {kept} of each private training: at most about {duration_text(reading)}"


def out_line(out: Path) -> str:
    """Where `run` would write."""
    return f"  out     {plain(str(out), 300)}"


def arm_lines(plan: Plan) -> Iterator[str]:
    """Every arm with its guarantee and its numbers."""
    rows = [Row(("method", "guarantee", "ε (PLD)", "ε (RDP)", "settings"))]
    for arm in plan.arms:
        privacy = arm.privacy
        settings = ", ".join(f"{name} {value:.4g}" for name, value in arm.settings.items())
        pld, rdp = (_epsilon(value) for value in (privacy.epsilon_pld, privacy.epsilon_rdp))
        rows.append(Row((plain(arm.key), guarantee_text(privacy.guarantee), pld, rdp, settings)))
    yield from aligned(rows, left=frozenset({0, 1, 4}))
    if words := attack_sentence(privacy_facts(plan, fitted=())):
        yield plain(words, 1000)
    for arm in plan.arms:
        if arm.privacy.guarantee is Guarantee.NOT_ESTABLISHED:
            yield f"{plain(arm.key)}: guarantee: not established; {plain(arm.privacy.reason, 300)}"
        elif arm.privacy.selection is not None:
            yield f"{plain(arm.key)}: {plain(arm.privacy.reason, 300)}"


def result_lines(report: Report, width: int | None = None) -> Iterator[str]:
    """The summary, the cost by group of every method, its gap, and the control's answer.

    Args:
        report: What was found.
        width: Columns of the terminal, None where there is none.
    """
    if not report.costs:
        yield "No method has a finished seed: nothing could be compared."
        return
    yield from to_lines(document(report), width)


def guarantee_text(guarantee: Guarantee) -> str:
    """The status as it is shown in every table."""
    return "no privacy" if guarantee is Guarantee.NONE else guarantee.value


def duration_text(seconds: float) -> str:
    """A rough time for people: two digits at most."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    if seconds < 5400:
        return f"{round(seconds / 60)} min"
    return f"{seconds / 3600:.1f} h"


def trainings_text(count: int, size: int) -> str:
    """Finished trainings and the bytes that they take."""
    if not size:
        return numbered(count, "training")
    unit, name = (1e6, "MB") if size >= 1e5 else (1e3, "kB")
    return f"{numbered(count, 'training')} ({size / unit:,.1f} {name})"


def _privacy(plan: Plan) -> str:
    claimed = [arm for arm in plan.arms if arm.privacy.epsilon is not None]
    sampled = any(isinstance(arm.privacy.event, SampledGaussian) for arm in claimed)
    how = "Poisson sampling, PLD" if sampled else "exact Gaussian curve"
    if any(arm.privacy.selection is not None for arm in claimed):
        how = f"the search over {plan.config.tune} settings included, RDP"
    scope = f"δ = {plan.delta:g}, record level, {how}"
    targets = sorted({a.privacy.target_epsilon for a in claimed if a.privacy.target_epsilon is not None})
    asked = [arm for arm in plan.arms if arm.privacy.guarantee is Guarantee.CLAIMED]
    if asked and not claimed:
        swept = ", ".join(dict.fromkeys(f"{arm.privacy.target_epsilon:.15g}" for arm in asked))
        return f"ε = {swept}, δ = {plan.delta:g} are asked for"
    if not claimed:
        uncharged = any(arm.tuning is not None and arm.tuning.is_uncharged for arm in plan.arms)
        return "no method has a guarantee" + (": the search is not charged" if uncharged else "")
    if len(targets) == 1:
        return f"ε ≤ {_target(targets[0])}, {scope} → {_per_arm({a.key: _sigma(a) for a in claimed}, 'σ = ')}"
    if targets:
        swept = ", ".join(map(_target, targets))
        return f"ε ≤ {swept}, {scope}"
    epsilons = {a.key: _epsilon(a.privacy.epsilon) for a in claimed}
    return f"{scope}: {_per_arm(epsilons, 'ε ≤ ')}"


def _per_arm(values: Mapping[str, str], prefix: str) -> str:
    """One number where all arms agree, else one per arm."""
    if len(set(values.values())) == 1:
        return prefix + next(iter(values.values()))
    return ", ".join(f"{plain(key)} {prefix}{value}" for key, value in values.items())


def _sigma(arm: Arm) -> str:
    assert arm.privacy.event is not None, "an arm with an epsilon has an event"
    return f"{arm.privacy.event.releases[0].noise_multiplier:.3g}"


def _target(epsilon: float) -> str:
    """As it was asked for: nothing is claimed by it, so nothing is rounded up."""
    return f"{epsilon:.15g}"


def _epsilon(value: float | None) -> str:
    return "–" if value is None else shown_up(value)


def report_line(out: Path, formats: Sequence[str]) -> str:
    """Where the files of a report lie."""
    paths = report_paths(out, formats)
    return f"Report {' · '.join(plain(str(p) if i == 0 else p.name, 1000) for i, p in enumerate(paths))}"


def warning_lines(report: Report, *, verbose: bool) -> Iterator[str]:
    """Warnings, and with ``verbose`` the notices; what the control and the summary say stands there."""
    for warning in report.warnings:
        if warning.level == "warning" and warning.code not in _SAID_ABOVE:
            yield _noted("Warning", warning.message, warning.fix)
        elif verbose and warning.level == "notice":
            yield _noted("Note", warning.message, warning.fix)


def notice_lines(notices: Iterable[Notice]) -> Iterator[str]:
    """What the data or the plan want to be known."""
    for notice in notices:
        yield _noted("Warning" if notice.level == "warning" else "Note", notice.message, notice.fix)


def option_lines(resolved: ResolvedConfig, plan: Plan) -> Iterator[str]:
    """Every option that is not a default, with its origin, then what rules decided."""
    rows = [
        Row((name, plain(_shown(getattr(resolved.config, name)), 60), origin))
        for name, origin in resolved.origins.items()
        if origin != DEFAULT
    ]
    rows += [Row((name, "by rule", plain(rule, 120))) for name, rule in sorted(plan.origins.items())]
    yield from aligned([Row(("option", "value", "origin")), *rows], left=frozenset({0, 1, 2}))


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "–"
    if isinstance(value, dict):
        return ", ".join(f"{k} {_shown(v)}" if isinstance(v, dict) else f"{k}={v}" for k, v in value.items())
    return str(value)


def _noted(word: str, message: str, fix: str) -> str:
    return f"{word} {plain(message, 1000)}" + (f" ({plain(fix, 300)})" if fix else "")


def score_lines(report: Report, config: AuditConfig) -> Iterator[str]:
    """What was scored, the costs or else the metrics by group, warnings, and where the report lies."""
    data = report.data
    rows = f"{data.rows:,} of {numbered(data.rows_read, 'row')}"
    yield f"fairaudit {report.tool.version} · {plain(data.name)} {rows}"
    label = data.label
    outcomes = outcomes_text(label.positive, label.favourable, label.favourable_origin)
    yield f"  label   {plain(label.column)}   ({outcomes})"
    models = ", ".join(f"{plain(arm.key)} {arm.seeds_planned}" for arm in report.arms)
    yield f"  models  {models}; nothing is trained, and no privacy is stated"
    yield from to_lines(document(report))
    yield from warning_lines(report, verbose=False)
    yield report_line(config.out, config.format)


_MOST_COLUMNS = 60


def inspection_lines(found: Inspection) -> Iterator[str]:
    """Columns, candidates, group sizes, and what `run` would do with them."""
    size = f"{numbered(found.rows, 'row')} x {numbered(found.columns, 'column')}"
    yield f"{plain(found.name)}  {size} · sha256 {found.digest[:16]}…"
    yield from _columns(found)
    if found.label is not None:
        outcomes = outcomes_text(found.positive, found.favourable, found.favourable_origin)
        yield f"label    {plain(found.label)}   ({found.label_origin or 'given'}; {outcomes})"
    if found.label is None or found.problem:
        yield f"labels?  {_names(found.label_candidates)}"
    if not found.groupings:
        yield f"groups?  {_names(found.group_candidates)}"
    for grouping in found.groupings:
        yield f"group    {plain(grouping.name)}"
        rows = [Row(("", "rows", "share", "positive"))]
        for group in grouping.groups:
            rate = "–" if group.positive_rate is None else f"{100 * group.positive_rate:.1f} %"
            rows.append(
                Row((f"  {plain(group.name)}", f"{group.rows:,}", f"{100 * group.share:.1f} %", rate))
            )
        yield from aligned(rows, left=frozenset({0}))
    yield from _would_run(found)
    if found.command is not None:
        yield f"next     {found.command}"


def _columns(found: Inspection) -> Iterator[str]:
    rows = [Row(("column", "type", "role", "missing", "distinct"))]
    for column in found.schema[:_MOST_COLUMNS]:
        missing = "–" if column.missing is None else f"{100 * column.missing:.1f} %"
        distinct = "–" if column.distinct is None else f"{column.distinct:,}"
        cells = (plain(column.name), plain(column.type, 24), column.role, missing, distinct)
        rows.append(Row(cells, plain(column.note, 80)))
    yield from aligned(rows, left=frozenset({0, 1, 2}))
    if len(found.schema) > _MOST_COLUMNS:
        yield f" {numbered(len(found.schema) - _MOST_COLUMNS, 'more column')}: --json shows all"


def _would_run(found: Inspection) -> Iterator[str]:
    if found.would_run is None:
        # What a hint has for a command was not tried; the one that was stands below.
        hint = "" if found.hint.startswith("type: ") else f" ({plain(found.hint, 400)})" if found.hint else ""
        yield f"run      would stop: {plain(found.problem, 400)}{hint}"
        return
    run = found.would_run
    yield (
        f"run      {numbered(run.rows, 'usable row')}: {run.train:,} train, {run.test:,} test per seed · "
        f"{numbered(run.features, 'column')} as {numbered(run.inputs, 'input')} · "
        f"{numbered(run.duplicate_rows, 'duplicate row')}"
    )


def problem_lines(found: Inspection) -> Iterator[str]:
    """Why `run` would stop; nothing where it would not."""
    if found.would_run is None:
        yield from _would_run(found)


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(plain(name) for name in names[:20]) if names else "no candidate"
