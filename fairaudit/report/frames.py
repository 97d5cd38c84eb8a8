"""A report's numbers as data frames, and its charts for notebooks."""

from dataclasses import dataclass
from typing import Any

import pandas as pd

from fairaudit.errors import ConfigError, did_you_mean
from fairaudit.metrics.registry import costs
from fairaudit.report.document import Chart
from fairaudit.report.drawing import file_spec
from fairaudit.report.model import Report
from fairaudit.report.sections.order import document
from fairaudit.results.estimates import Estimate, interval_of

_MIME = "application/vnd.vegalite.v6+json"


@dataclass(frozen=True)
class NotebookChart:
    """A chart that a notebook shows.

    Args:
        spec: Vega-Lite, with its data.
        alt: What it shows, in words.
    """

    spec: dict[str, Any]
    alt: str

    def _repr_mimebundle_(self, **_: object) -> dict[str, object]:
        return {_MIME: self.spec, "text/plain": self.alt}


def group_frame(report: Report) -> pd.DataFrame:
    """See :meth:`Report.by_group`."""
    rows = []
    for comparison in report.costs:
        for group in comparison.by_group:
            row: dict[str, object] = {
                **{"arm": comparison.arm, "reference": comparison.reference, "grouping": comparison.grouping},
                **{"group": group.group, "n_test": group.n_test, "n_train": group.n_train},
            }
            for metric in costs():
                cost = interval_of(group.estimates.get(metric))
                row |= {metric: cost.value, f"{metric}_low": cost.low, f"{metric}_high": cost.high}
            for name in ("accuracy", "reference.accuracy"):
                row[name.replace(".", "_")] = group.value(name)
            rows.append(row)
    return pd.DataFrame(rows)


def metric_frame(report: Report) -> pd.DataFrame:
    """See :meth:`Report.metrics`."""
    return pd.DataFrame(
        {
            **{"arm": comparison.arm, "reference": comparison.reference, "grouping": comparison.grouping},
            **{"group": group.group, "metric": metric, **_cells(estimate)},
        }
        for comparison in (*report.comparisons, *report.attacks)
        for group in (*comparison.by_group, comparison.overall)
        for metric, estimate in group.estimates.items()
    )


def gap_frame(report: Report) -> pd.DataFrame:
    """See :meth:`Report.gaps`."""
    return pd.DataFrame(
        {
            **{"arm": comparison.arm, "reference": comparison.reference, "grouping": comparison.grouping},
            "metric": gap.metric,
            "kind": gap.kind,
            "a": gap.a,
            "b": gap.b,
            **_cells(gap.signed),
            "size": gap.absolute.value,
            "size_low": gap.simultaneous.low,
            "size_high": gap.simultaneous.high,
            "direction": gap.direction,
            "gated": gap.gated,
        }
        for comparison in (*report.comparisons, *report.attacks)
        for gap in comparison.gaps
    )


def figure(report: Report, name: str) -> NotebookChart:
    """See :meth:`Report.figure`."""
    known = {chart.name: chart for chart in document(report).charts}
    if name not in known:
        raise ConfigError(f"the report has no figure {name!r}", hint=did_you_mean(name, known))
    return notebook_chart(known[name])


def notebook_chart(chart: Chart) -> NotebookChart:
    """A chart of any document, as a notebook shows it."""
    return NotebookChart(dict(file_spec(chart.panels, title=chart.title, description=chart.alt)), chart.alt)


def _cells(estimate: Estimate) -> dict[str, object]:
    names = ("value", "low", "high", "unit", "n_test", "n_seeds", "reason")
    return {name: getattr(estimate, name) for name in names}
