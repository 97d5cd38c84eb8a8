"""Settings of an experiment as config fields: what a preset is, and every one by its name."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from fairaudit.capabilities.installed import CAPABILITIES
from fairaudit.errors import ConfigError, did_you_mean


@dataclass(frozen=True, slots=True)
class Preset:
    """The settings of one published experiment.

    Args:
        name: What follows ``--preset``.
        summary: One line for people.
        source: Paper and place.
        fields: Field of :class:`fairaudit.config.options.AuditConfig` -> value.
        worst_off: The group that pays more according to the publication, and the other group; None:
            it names none.
        notes: Where publication, published scripts and this tool differ; printed in the report.

    Example:
        >>> preset = find_preset("esipova-adult")
        >>> preset.source, preset.worst_off
        ('Esipova et al. 2023, appendix B.2', ('Male', 'Female'))
    """

    name: str
    summary: str
    source: str
    fields: Mapping[str, object]
    notes: tuple[str, ...]
    worst_off: tuple[str, str] | None = None


@cache
def presets() -> Mapping[str, Preset]:
    """Every preset of an installed capability, by name."""
    return {preset.name: preset for one in CAPABILITIES for preset in one.presets()}


def find_preset(name: str) -> Preset:
    """The preset of that name.

    Raises:
        ConfigError: No preset has that name.
    """
    by_name = presets()
    if name not in by_name:
        raise ConfigError(f"unknown preset {name!r}", hint=did_you_mean(name, by_name))
    return by_name[name]
