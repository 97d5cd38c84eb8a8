"""A report's numbers as data frames, and its charts for notebooks."""

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Self

import pandas as pd

from fairaudit.errors import ConfigError, did_you_mean
from fairaudit.metrics.registry import MISALIGNMENT, costs
from fairaudit.report.drawing import file_spec
from fairaudit.report.model import Report
from fairaudit.report.render.terminal import lines_of
from fairaudit.report.safe_names import plain
from fairaudit.report.sections.order import document
from fairaudit.report.sections.summary import section
from fairaudit.results.estimates import Comparison, Estimate, interval_of

_MIME = "application/vnd.vegalite.v6+json"


@dataclass(frozen=True)
class NotebookChart:
    """A chart that a notebook shows.

    Args:
        spec: Vega-Lite, with its data.
        alt: What it shows, in words.
        svg: The same drawn, for notebooks that draw no Vega-Lite of this version; "" where the
            package that draws is not installed.
    """

    spec: dict[str, Any]
    alt: str
    svg: str = ""

    def _repr_mimebundle_(self, **_: object) -> dict[str, object]:
        """MIME type -> content; a notebook shows whichever of these it can draw best.

        What else a notebook passes, as types to leave out, is not needed.
        """
        bundle: dict[str, object] = {_MIME: self.spec, "text/plain": self.alt}
        if self.svg:
            bundle["image/svg+xml"] = self.svg
        return bundle


class AuditReport(Report):
    """A report with its numbers as frames, its charts and its first screen, for code and notebooks.

    Example:
        >>> import fairaudit, pandas as pd
        >>> people = pd.DataFrame({"sex": ["F", "M"] * 100, "paid": [0, 0, 1, 1] * 50})
        >>> said = fairaudit.score_predictions(
        ...     people, group="sex", label="paid", predictions=people["paid"], out="scored"
        ... )
        >>> list(said.metrics().query("metric == 'accuracy'").value)
        [1.0, 1.0, 1.0]
    """

    @classmethod
    def of(cls, report: Report) -> Self:
        """The same report, with these methods; it was validated before, and is not again."""
        return cls.model_construct(report.model_fields_set, **dict(report))

    def by_group(self) -> pd.DataFrame:
        """One row per arm, grouping and group: costs with interval ends, accuracies beside them.

        Returns:
            Columns ``arm, reference, grouping, group, n_test, n_train``, then ``privacy_cost``,
            ``excess_risk``, any other cost and ``misalignment`` each with ``_low`` and ``_high``,
            then ``accuracy`` and ``reference_accuracy``. Accuracies and costs are fractions, risks
            nats, misalignment degrees.
        """
        return group_frame(self)

    def metrics(self) -> pd.DataFrame:
        """One row per arm, grouping, group and metric; the group "" stands for all test rows.

        Returns:
            Columns
            ``arm, reference, grouping, group, metric, value, low, high, unit, n_test, n_seeds,
            reason``: why there is no value or interval, or "".
        """
        return metric_frame(self)

    def gaps(self) -> pd.DataFrame:
        """One row per arm, grouping, metric and gap.

        Returns:
            Columns ``arm, reference, grouping, metric, kind, a, b``; ``value, low, high``: of a
            minus b; ``unit, n_test, n_seeds, reason``; ``reading`` (``detected``, ``not certain``,
            ``not detected``, ``cannot tell``), ``direction`` (in words, "" where no difference is
            detected), ``gated``.
        """
        return gap_frame(self)

    def figure(self, name: str) -> NotebookChart:
        """One chart of the report as Vega-Lite, which a notebook shows.

        Args:
            name: Of the chart, as ``privacy-cost``, or ``epsilon-sweep`` where a method ran at
                several epsilons; the error on an unknown name suggests the nearest one.

        Raises:
            ConfigError: The report has no numbers for it.
        """
        return figure(self, name)

    def __repr__(self) -> str:
        """A line on data, arms and verdict, then the summary as text."""
        return shown(self)

    __str__ = __repr__

    def _repr_html_(self) -> str:
        """What a notebook shows of it: the first screen of its page."""
        return shown_html(self)


def shown(report: Report) -> str:
    """The ``repr`` of a report: a line on data, arms and verdict, then its summary."""
    verdict = ""
    if report.verdict is not None:
        verdict = f", verdict {report.verdict}"
    arms = plain(", ".join(arm.key for arm in report.arms), 200)
    head = f"fairaudit report on {plain(report.data.name)}: {arms}; {report.status}{verdict}"
    summary = section(report)
    lines = [] if summary is None else list(lines_of(summary.blocks))
    return "\n".join([head, *lines])


def shown_html(report: Report) -> str:
    """What a notebook shows of a report: the first screen of its page."""
    from fairaudit.report.render.html import notebook

    return notebook(report)


def group_frame(report: Report) -> pd.DataFrame:
    """A row per method and group, with costs and accuracies; see :meth:`AuditReport.by_group`."""
    rows = []
    for comparison in report.costs:
        for group in comparison.by_group:
            row = _names_of(comparison)
            row |= {"group": group.group, "n_test": group.n_test, "n_train": group.n_train}
            for metric in costs():
                cost = interval_of(group.estimates.get(metric))
                row |= {metric: cost.value, f"{metric}_low": cost.low, f"{metric}_high": cost.high}
            angle = interval_of(group.estimates.get(MISALIGNMENT))  # in degrees
            row |= {
                MISALIGNMENT: angle.value,
                f"{MISALIGNMENT}_low": angle.low,
                f"{MISALIGNMENT}_high": angle.high,
            }
            row["accuracy"] = group.value("accuracy")
            row["reference_accuracy"] = group.value("reference.accuracy")
            rows.append(row)
    return pd.DataFrame(rows)


def metric_frame(report: Report) -> pd.DataFrame:
    """A row per arm, grouping, group and metric, those of studies among them.

    See :meth:`AuditReport.metrics`; the group "" is all test rows.
    """
    rows = []
    for comparison in report.all_comparisons:
        for group in (*comparison.by_group, comparison.overall):
            for metric, estimate in group.estimates.items():
                name = {"group": group.group, "metric": metric}
                rows.append({**_names_of(comparison), **name, **_columns_of(estimate)})
    return pd.DataFrame(rows)


def gap_frame(report: Report) -> pd.DataFrame:
    """A row per arm, grouping, metric and gap, those of studies among them.

    See :meth:`AuditReport.gaps`.
    """
    rows = []
    for comparison in report.all_comparisons:
        for gap in comparison.gaps:
            row = _names_of(comparison)
            row |= {"metric": gap.metric, "kind": gap.kind, "a": gap.a, "b": gap.b}
            row |= _columns_of(gap.signed)
            row |= {"reading": gap.reading, "direction": gap.direction, "gated": gap.gated}
            rows.append(row)
    return pd.DataFrame(rows)


def figure(report: Report, name: str) -> NotebookChart:
    """The chart of that name as a notebook shows it; see :meth:`AuditReport.figure`.

    Raises:
        ConfigError: The report has no chart of that name.
    """
    charts = {chart.name: chart for chart in document(report).charts}
    if name not in charts:
        raise ConfigError(f"the report has no figure {name!r}", hint=did_you_mean(name, charts))
    chart = charts[name]
    spec = file_spec(chart)
    svg = ""
    if find_spec("vl_convert"):
        from fairaudit.report.render.html import picture  # which takes a second to import

        svg = picture(chart, "svg").decode()
        # The drawing has a width in pixels: a style lets it shrink to that of a narrow notebook.
        svg = svg.replace("<svg ", '<svg style="max-width:100%;height:auto" ', 1)
    return NotebookChart(dict(spec), chart.alt, svg)


def _names_of(comparison: Comparison) -> dict[str, object]:
    """The columns of a row that name its comparison."""
    names = ("arm", "reference", "grouping")
    return {name: getattr(comparison, name) for name in names}


def _columns_of(estimate: Estimate) -> dict[str, object]:
    """The columns of a row that hold an estimate: its number, interval, unit and counts."""
    names = ("value", "low", "high", "unit", "n_test", "n_seeds", "reason")
    return {name: getattr(estimate, name) for name in names}
