"""Every message: those of the program and those of the folders that can be taken out."""

from collections.abc import Mapping

from fairaudit.capabilities.installed import CAPABILITIES
from fairaudit.messages import data, limits, training
from fairaudit.messages.base import Message, messages_in


def every_message() -> tuple[type[Message], ...]:
    """The messages of all modules, one class for each case that a code is said of."""
    every = [*messages_in(data), *messages_in(training), *messages_in(limits)]
    for capability in CAPABILITIES:
        every += capability.messages()
    return tuple(every)


def messages() -> Mapping[str, type[Message]]:
    """Code -> the message that owns it; others say the same of another case."""
    return {message.code: message for message in every_message() if "code" in vars(message)}
