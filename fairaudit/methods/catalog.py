"""What each method is, without torch: `plan`, `methods` and the report read only this."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Guarantee(StrEnum):
    """Whether a proof stands behind an arm's epsilon."""

    ESTABLISHED = "established"
    NOT_ESTABLISHED = "not established"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Variant:
    """A published form kept for reproduction; it has no epsilon.

    Args:
        name: What follows the colon of the arm's key.
        reason: Why no guarantee is established; printed wherever the arm is.
        trainer: ``module:Class``.
    """

    name: str
    reason: str
    trainer: str


@dataclass(frozen=True, slots=True)
class MethodSpec:
    """One training method.

    Args:
        name: Canonical name. aliases: Other spellings accepted.
        summary: One line. source: Paper and equation.
        guarantee: Status of the default form.
        trainer: ``module:Class``, imported by the worker that trains.
        settings: Names of the numbers it reads.
        side_queries: Released beside the gradient: query name -> the setting that holds its
            noise multiplier.
        reads_groups: Group labels enter training (disparate treatment).
        reference: Arm its cost is measured against, or None for the reference itself.
        control_of: The method whose released thresholds it reads, or None.
        variants: Published forms.
    """

    name: str
    summary: str
    source: str
    guarantee: Guarantee
    trainer: str
    settings: tuple[str, ...]
    aliases: tuple[str, ...] = ()
    side_queries: Mapping[str, str] = field(default_factory=dict)
    reads_groups: bool = False
    reference: str | None = "sgd"
    control_of: str | None = None
    variants: tuple[Variant, ...] = ()
