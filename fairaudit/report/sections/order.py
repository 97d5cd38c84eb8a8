"""Report -> document: the sections in their order.

A new one is a file beside this and its place here.
"""

from fairaudit.capabilities import added
from fairaudit.report.document import Document
from fairaudit.report.model import Report
from fairaudit.report.safe_names import plain
from fairaudit.report.sections import (
    audited,
    costs,
    gates,
    guarantee,
    metrics,
    notes,
    parts,
    readings,
    summary,
    sweep,
    why,
)

ORDER = (
    *(summary.section, costs.section, costs.gaps, metrics.section),
    *(
        parts.section,
        sweep.section,
        gates.section,
        why.section,
        metrics.within,
    ),
    *(
        readings.section,
        audited.section,
        guarantee.section,
        notes.warnings,
        notes.limitations,
    ),
    notes.reproduce,
)


def document(report: Report) -> Document:
    """The report as all renderers read it: every section that has something to say."""
    is_of_costs = bool(report.costs) or report.training is not None
    title = "Predictions by group"
    if is_of_costs:
        title = "Cost of private training by group"
    beside = list(added("sections"))
    present = []
    for section in ORDER:
        slot = section.__module__.rpartition(".")[2]
        if section.__name__ != "section":
            slot += f".{section.__name__}"
        before = [sections[slot] for sections in beside if slot in sections]
        for function in (*before, section):
            part = function(report)
            if part is not None:
                present.append(part)
    return Document(f"{title}: {plain(report.data.name)}", tuple(present))
