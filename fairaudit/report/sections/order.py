"""Report -> document: the sections in their order; a new one is a file beside this and its place here."""

from fairaudit.report.document import Document, complete
from fairaudit.report.model import Report
from fairaudit.report.safe_names import plain
from fairaudit.report.sections import (
    audited,
    control,
    costs,
    data,
    gaps,
    gates,
    guarantee,
    instruments,
    leakage,
    limitations,
    metrics,
    parts,
    readings,
    register,
    reproduce,
    selection,
    summary,
    sweep,
    training,
    tried,
    tuning,
    verdict,
    warnings,
    why,
    within,
)

ORDER = (
    summary.section,
    *(verdict.section, audited.section, costs.section, tuning.section, gaps.section, metrics.section),
    *(parts.section, tried.section, sweep.section, leakage.section, gates.section, control.section),
    *(why.section, within.section, selection.section),
    *(readings.section, guarantee.section, data.section, warnings.section, limitations.section),
    *(reproduce.section, training.section, register.section, instruments.section),
)


def document(report: Report) -> Document:
    """The report as all renderers read it: every section that has something to say."""
    is_of_costs = bool(report.costs) or report.training is not None
    title = "Cost of private training by group" if is_of_costs else "Predictions by group"
    found = (section(report) for section in ORDER)
    return complete(f"{title}: {plain(report.data.name)}", [part for part in found if part is not None])
