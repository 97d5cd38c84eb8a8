"""One setting at several values: an audit of each, then cost and gap against the setting."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from fairaudit.audit import carry_out, get_ready, prepare
from fairaudit.config.value_sources import ResolvedConfig
from fairaudit.errors import ConfigError, numbered
from fairaudit.execution.progress import Listener, silent
from fairaudit.execution.run_directory import share_trainings
from fairaudit.io.atomic import write_atomically
from fairaudit.metrics.registry import costs_of_constant, spec_of
from fairaudit.planning.flow import Audit
from fairaudit.report.document import Block, Cell, Document, Quantity, Section, Text, figures, table
from fairaudit.report.group_rows import comparison_of
from fairaudit.report.measures import main_gap, scale_of
from fairaudit.report.model import Report
from fairaudit.report.numbers import UNKNOWN
from fairaudit.report.panels import MOST_SERIES, Bar, Chart, Panel, labels
from fairaudit.report.render.html import page
from fairaudit.report.render.markdown import to_text
from fairaudit.report.safe_names import group_text, plain
from fairaudit.report.to_json import part_json
from fairaudit.report.types.verdicts import Outcome, verdicts
from fairaudit.results.estimates import Comparison, Interval, Part, interval_of

_NAME = "sweep"  # of the files
_Series = tuple[str, str | None]  # key of a method, and a group that pays, or None for the gap


class SettingPoint(Part):
    """One method at one value of the setting, cut by one grouping.

    Args:
        value: Of the setting.
        arm: Key of the method.
        reference: Of the model that it was compared with.
        grouping: Name of the grouping.
        report: Where the audit's report lies, below the folder of the sweep.
        cost: Name of a cost -> group -> how much of it the group pays.
        gap: Name of a cost -> its gap: of two groups the first less the second, of more the
            largest.
        verdict: The worst outcome of the rules about the method at this value; None without rules.
    """

    value: float
    arm: str
    reference: str
    grouping: str
    report: str
    cost: dict[str, dict[str, Interval]]
    gap: dict[str, Interval]
    verdict: Outcome | None = None


class SettingSweep(Part):
    """What one setting does to costs and gaps; each value was audited by itself.

    Args:
        setting: Name of the option.
        points: By rising value.
    """

    setting: str
    points: tuple[SettingPoint, ...]


def sweep(
    setting: str,
    audits: Sequence[tuple[float, ResolvedConfig]],
    out: Path,
    listener: Listener = silent,
    *,
    command: Sequence[str] = (),
    before_each: Callable[[float, Audit], None] = lambda value, audit: None,
    after_each: Callable[[float, Report], None] = lambda value, report: None,
) -> SettingSweep:
    """Audit at each value, and write what the setting does: ``sweep.json``, ``.md`` and ``.html``.

    Trainings that do not turn on the setting, as those of the reference on the clipping bound, are
    done once.

    Args:
        setting: Name of the option.
        audits: Its values, each with the options of its audit.
        out: Folder of the sweep; each audit has one below it (:func:`folder_of`).
        listener: Called with every event of progress.
        command: The words of the command as typed.
        before_each: Called with each value and what is to be trained, before it is.
        after_each: Called with each value and its report, in which its rules are judged.

    Raises:
        ConfigError: A value twice.
        FairauditError: As of an audit.
    """
    points: list[SettingPoint] = []
    folder_before: Path | None = None  # of the last audit, which has the trainings of all so far
    for value, resolved in in_order(setting, audits):
        folder = resolved.config.out
        get_ready(resolved.config)
        if folder_before is not None:
            share_trainings(folder_before, folder)
        prepared = prepare(resolved, listener)
        before_each(value, prepared)
        report = carry_out(prepared, listener, command=command)
        after_each(value, report)
        points += _points(value, report, f"{folder.name}/report.json")
        folder_before = folder
    swept = SettingSweep(setting=setting, points=tuple(points))
    write_atomically(out / f"{_NAME}.json", part_json(swept).encode())
    whole = document(swept)
    write_atomically(out / f"{_NAME}.md", to_text(whole).encode())
    write_atomically(out / f"{_NAME}.html", page(whole).encode())
    return swept


def in_order(
    setting: str, audits: Sequence[tuple[float, ResolvedConfig]]
) -> list[tuple[float, ResolvedConfig]]:
    """The audits of a sweep by rising value, as they are run.

    Args:
        setting: Name of the option.
        audits: Its values, each with the options of its audit.

    Raises:
        ConfigError: A value twice.
    """
    values = [value for value, _ in audits]
    if len(set(values)) < len(values):
        raise ConfigError(f"--{setting.replace('_', '-')} names a value twice")
    return sorted(audits, key=lambda one: one[0])


def folder_of(setting: str, value: float) -> str:
    """The folder of one audit of a sweep.

    Example:
        >>> folder_of("max_grad_norm", 0.5)
        'max-grad-norm-0.5'
    """
    return f"{setting.replace('_', '-')}-{value:g}"


def _swept_costs() -> tuple[str, ...]:
    """Names of the costs that a sweep shows: those that are about no single class."""
    return costs_of_constant()


def _points(value: float, report: Report, name: str) -> Iterator[SettingPoint]:
    """The points of an audit at one value: each method that has a cost, by each grouping.

    ``name``: where the report lies, below the folder of the sweep.
    """
    judged = verdicts(report.gates)
    for arm in report.arms:
        for grouping in report.data.groupings:
            compared = comparison_of(report, arm, grouping.name)
            if compared is None or not compared.reference:
                continue
            cost = {
                metric: {
                    group.group: interval_of(group.estimates.get(metric))
                    for group in compared.by_group
                }
                for metric in _swept_costs()
            }
            yield SettingPoint(
                value=value,
                arm=arm.key,
                reference=compared.reference,
                grouping=grouping.name,
                report=name,
                cost=cost,
                gap=dict(_gaps(compared)),
                verdict=judged.get(arm.key),
            )


def _gaps(compared: Comparison) -> Iterator[tuple[str, Interval]]:
    """The main gap of every cost: of two groups the first less the second, else the largest."""
    for metric in _swept_costs():
        gap = main_gap(compared, metric)
        if gap is None:
            continue
        # Of two groups it is the first less the second at every value, whichever pays more there.
        if gap.kind == "pair" and gap.a != compared.by_group[0].group:
            gap = gap.reversed
        yield metric, interval_of(gap.signed)


def document(swept: SettingSweep) -> Document:
    """The sweep as a page: one chart of costs and gaps against the setting, then its table."""
    title = f"Cost and gap against {swept.setting}"
    values = list(dict.fromkeys(point.value for point in swept.points))
    blocks: list[Block] = [
        Text(
            "Each value was audited by itself, with the same seeds; intervals are 95 %. Costs are "
            "against the model without privacy. What looks best here was chosen among "
            f"{len(values)}."
        ),
        *figures(*_charts(swept)),
    ]
    for metric in _swept_costs():
        heads = [f"#{value:g}" for value in values]
        rows = list(_rows(swept, metric, values))
        if rows:
            spec = spec_of(metric)
            blocks.append(Text(f"{spec.title.capitalize()}, {spec.counted}, by {swept.setting}."))
            blocks.append(table(("method", "of", *heads), rows, most=16))
    if any(point.verdict for point in swept.points):
        heads = [f"#{value:g}" for value in values]
        blocks.append(
            Text(
                "What the rules say of each method at each value, each value held by itself. Where "
                "only some pass, that one does was not tested as a choice among them."
            )
        )
        blocks.append(table(("method", *heads), list(_verdicts(swept, values)), most=16))
    return Document(title, (Section(_NAME, title, tuple(blocks)),))


def _verdicts(swept: SettingSweep, values: Sequence[float]) -> Iterator[tuple[Cell, ...]]:
    """Every method with the worst outcome of its rules: a column for each value."""
    by_arm: dict[str, dict[float, str]] = {}
    for point in swept.points:
        by_arm.setdefault(point.arm, {})[point.value] = point.verdict or UNKNOWN
    for arm, outcomes in by_arm.items():
        yield (plain(arm), *(outcomes.get(value, UNKNOWN) for value in values))


def _rows(swept: SettingSweep, metric: str, values: Sequence[float]) -> Iterator[tuple[Cell, ...]]:
    """The gap, then every group, of each method by each grouping: a column for each value."""
    scale = scale_of(metric)
    by_arm_and_grouping: dict[tuple[str, str], dict[float, SettingPoint]] = {}
    for point in swept.points:
        by_arm_and_grouping.setdefault((point.arm, point.grouping), {})[point.value] = point

    def cells(numbers: Mapping[float, Interval | None]) -> Iterator[Cell]:
        """A number at each value; a method that has none at a value has a dash."""
        for value in values:
            yield Quantity(numbers.get(value), scale, UNKNOWN)

    for (arm, grouping), points in by_arm_and_grouping.items():
        groups = dict.fromkeys(g for point in points.values() for g in point.cost[metric])
        names = [group_text(grouping, group) for group in groups]
        title = f"gap, {' less '.join(names)}" if len(names) == 2 else "largest gap"
        gaps = {value: point.gap.get(metric) for value, point in points.items()}
        yield (plain(arm), title, *cells(gaps))
        for group, name in zip(groups, names, strict=True):
            paid = {value: point.cost[metric].get(group) for value, point in points.items()}
            yield (plain(arm), name, *cells(paid))


def _charts(swept: SettingSweep) -> Iterator[Chart]:
    """One chart of gaps and costs against the setting for each grouping.

    A series is a method's gap, or its cost for one group; a panel is a cost.
    """
    for number, grouping in enumerate(dict.fromkeys(point.grouping for point in swept.points), 1):
        points = [point for point in swept.points if point.grouping == grouping]
        series: list[_Series] = []
        for point in points:
            series.append((point.arm, None))
            groups = point.cost[_swept_costs()[0]]  # every cost has the same groups
            series += [(point.arm, group) for group in groups]
        legend = labels(series, 60, text_of=_series_text)
        shown = dict(list(legend.items())[:MOST_SERIES])  # the first, for which a chart has room
        panels = []
        for metric in _swept_costs():
            bars = list(_bars(swept.setting, points, metric, shown))
            if bars:
                spec = spec_of(metric)
                panels.append(Panel(f"{spec.title} ({spec.counted})", spec.counted, tuple(bars)))
        if panels:
            left_out = len(legend) - len(shown)
            more = ""
            if left_out > 0:
                more = f" {numbered(left_out, 'more is', 'more are')} in the table."
            yield Chart(
                name=f"sweep-{number}",
                title=f"Cost and gap against {swept.setting}, by {plain(grouping)}",
                reading=f"Whiskers are 95 % intervals.{more}",
                alt=f"Costs and gaps against {swept.setting}.",
                series=tuple(shown.values()),
                panels=tuple(panels),
            )


def _bars(
    setting: str, points: Sequence[SettingPoint], metric: str, shown: Mapping[_Series, str]
) -> Iterator[Bar]:
    """The bars of one cost: at each value the gap and every group's cost, where there is one.

    Args:
        setting: Name of the option.
        points: Of one grouping.
        metric: Name of the cost.
        shown: A series -> its label; others are left out.
    """
    for point in points:
        numbers: dict[_Series, Interval | None] = {(point.arm, None): point.gap.get(metric)}
        for group, paid in point.cost[metric].items():
            numbers[point.arm, group] = paid
        for series, number in numbers.items():
            if number is not None and number.value is not None and series in shown:
                scaled = number.scaled(scale_of(metric).factor)
                yield Bar(f"{setting} {point.value:g}", shown[series], scaled)


def _series_text(series: _Series) -> str:
    """How a series is written, which two groups of names that begin alike may share."""
    arm, group = series
    return f"{arm}: gap" if group is None else f"{arm}: {plain(group, 20)}"
