"""What a preset is: published settings as config fields."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Preset:
    """The settings of one published experiment.

    Args:
        name: What follows ``--preset``.
        summary: One line for people.
        source: Paper and place.
        fields: Field of :class:`fairaudit.config.options.AuditConfig` -> value.
        worst_off: The group that pays more by the publication, and the other; None: it names none.
        notes: Where publication, published scripts and this tool differ; printed in the report.
    """

    name: str
    summary: str
    source: str
    fields: Mapping[str, object]
    notes: tuple[str, ...]
    worst_off: tuple[str, str] | None = None
