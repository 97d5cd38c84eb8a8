"""Report -> document: the sections in their order.

A new one is a file beside this and its place here.
"""

from collections.abc import Callable
from typing import TypeAlias

from fairaudit.report.document import Document, Section
from fairaudit.report.model import Report
from fairaudit.report.sections import (
    audited,
    gaps,
    gates,
    guarantee,
    metrics,
    misalignment,
    notes,
    parts,
    readings,
    summary,
    sweep,
    why,
)

SectionOf: TypeAlias = Callable[[Report], Section | None]
# Place -> section. A study names the place before which a section of its own stands.
ORDER: dict[str, SectionOf] = {
    "summary": summary.section,
    "parts": parts.section,
    "misalignment": misalignment.section,
    "gaps": gaps.section,
    "metrics": metrics.section,
    "sweep": sweep.section,
    "gates": gates.section,
    "why": why.section,
    "metrics.within": metrics.within,
    "readings": readings.section,
    "audited": audited.section,
    "notes.not_looked_at": notes.not_looked_at,
    "guarantee": guarantee.section,
    "notes.warnings": notes.warnings,
    "notes.limitations": notes.limitations,
    "notes.reproduce": notes.reproduce,
    "notes.words": notes.words,
}


def document(report: Report) -> Document:
    """The report as all renderers read it: title, what was audited, every section, how it was made.

    A section that is None is left out.
    """
    before: dict[str, list[Section]] = {place: [] for place in ORDER}  # sections of studies
    for study in report.studies.values():
        for place, section in study.sections(report).items():
            before[place].append(section)
    present = []
    for place, section_of in ORDER.items():
        present += before[place]
        own = section_of(report)
        if own is not None:
            present.append(own)
    return Document(
        audited.title(report), tuple(present), audited.about(report), notes.foot(report)
    )
