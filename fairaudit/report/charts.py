"""Report -> the charts that it has numbers for, in reading order."""

from fairaudit.report.charts_causes import parts_chart
from fairaudit.report.charts_costs import accuracy_chart, cost_chart, risk_chart, sweep_chart
from fairaudit.report.charts_groups import selection_chart, size_chart
from fairaudit.report.charts_training import angle_chart, loss_chart, norm_chart
from fairaudit.report.model import Report
from fairaudit.report.panels import Chart

_MAKERS = (
    cost_chart,
    accuracy_chart,
    risk_chart,
    sweep_chart,
    selection_chart,
    parts_chart,
    angle_chart,
    loss_chart,
    norm_chart,
    size_chart,
)


def charts(report: Report) -> tuple[Chart, ...]:
    """Every chart whose numbers the report holds; one without numbers is left out, never drawn empty."""
    made = (maker(report) for maker in _MAKERS)
    return tuple(chart for chart in made if chart is not None)
