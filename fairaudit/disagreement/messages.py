"""What a reader must know of trainings that are repeated on the same rows."""

from dataclasses import dataclass

from fairaudit.errors import numbered
from fairaudit.messages.base import Message


@dataclass(frozen=True, slots=True)
class AgainFailed(Message):
    """How many further trainings of an arm have no result, and why the first of them."""

    code = "again_failed"
    when = "a further training of --again has no result"

    arm: str
    failed: int
    planned: int
    reason: str

    @property
    def text(self) -> str:
        return f"{lacking_text(self.arm, self.failed, self.planned)}: {self.reason}"

    @property
    def fix(self) -> str:
        return "finished trainings are kept; the same command tries the others again"

    @property
    def about(self) -> str:
        return self.arm


def lacking_text(arm: str, failed: int, planned: int) -> str:
    """How many of an arm's further trainings have no result."""
    return f"{failed} of {numbered(planned, 'further training')} of {arm} have no result"
