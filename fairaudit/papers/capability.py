"""What this folder adds to audits: published settings and forms, and an ablation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING  # noqa: TID251 - a declaration is read without what it speaks of

from fairaudit.capabilities.base import Capability

if TYPE_CHECKING:
    from fairaudit.extend import MethodSpec, Preset, Variant


class Papers(Capability):
    """What the papers need beside their methods."""

    name = "papers"

    def presets(self) -> Sequence[Preset]:
        """Settings of the papers' experiments."""
        from fairaudit.papers.presets import PRESETS

        return PRESETS

    def methods(self) -> Sequence[MethodSpec]:
        """The ablation of clipping."""
        from fairaudit.papers.forms import ABLATION

        return ABLATION

    def variants(self) -> Mapping[str, tuple[Variant, ...]]:
        """Methods as they were published."""
        from fairaudit.papers.forms import VARIANTS

        return VARIANTS
