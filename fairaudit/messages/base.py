"""What all messages are: a code, how much it matters, and the numbers that its sentence needs."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from types import ModuleType
from typing import ClassVar, Literal

Level = Literal["warning", "notice", "limitation", "finding"]


@dataclass(frozen=True, slots=True)
class Message(ABC):
    """Something that the reader of a report must know; each subclass is one message.

    Its fields are the names and numbers that the sentence needs, never a row's values.

    Args of the class:
        code: Stable, snake_case; for scripts and ``fairaudit explain``.
        level: ``warning`` (may bias the audit), ``notice`` (tells what was done), ``limitation``
            (what the figures do not say) or ``finding`` (a result of an arm, see
            ``report/messages/base.py``).
        when: Where it is given, as a clause.
    """

    code: ClassVar[str]
    level: ClassVar[Level] = "warning"
    when: ClassVar[str]

    @property
    @abstractmethod
    def text(self) -> str:
        """The sentence, in one line."""

    @property
    def fix(self) -> str:
        """What to do about it; "" for nothing."""
        return ""

    @property
    def about(self) -> str:
        """Key of the arm that it is about; "" for none."""
        return ""


def messages_in(module: ModuleType) -> tuple[type[Message], ...]:
    """The messages that a module defines, in its order; base classes without a code are none."""
    messages: list[type[Message]] = []
    for value in vars(module).values():
        is_message = isinstance(value, type) and issubclass(value, Message)
        # A class that is imported here is of another module.
        if is_message and value.__module__ == module.__name__ and hasattr(value, "code"):
            messages.append(value)
    return tuple(messages)
