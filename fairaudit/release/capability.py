"""What this folder adds to audits: a model for release."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING  # noqa: TID251 - a declaration is read without what it speaks of

from fairaudit.capabilities.base import Capability

if TYPE_CHECKING:
    from fairaudit.report.model import Report


class Releasing(Capability):
    """An audited arm, trained once for release."""

    name = "release"

    def commands(self) -> Sequence[Callable[..., None]]:
        """``train`` and ``predict``."""
        from fairaudit.release.commands import COMMANDS

        return COMMANDS

    def next_command(self, report: Report, path: str, arm: str = "") -> str:
        """The command that trains an arm for release; "" where it would be refused."""
        from fairaudit.release.next_command import next_command

        return next_command(report, path, arm)
