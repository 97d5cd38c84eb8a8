"""What this folder adds to audits: the choice of an epsilon."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING  # noqa: TID251 - a declaration is read without what it speaks of

from fairaudit.capabilities.base import Capability

if TYPE_CHECKING:
    from fairaudit.choosing.choice import Choice


class Choosing(Capability):
    """The smallest epsilon at which a method keeps every rule."""

    name = "choosing"

    def commands(self) -> Sequence[Callable[..., None]]:
        """``choose``."""
        from fairaudit.choosing.commands import COMMANDS

        return COMMANDS

    @property
    def study(self) -> type[Choice]:
        """The answer, and every test that led to it."""
        from fairaudit.choosing.choice import Choice

        return Choice
