"""Every message: those of the program and those of the folders that can be taken out."""

from collections.abc import Mapping

from fairaudit.capabilities.installed import CAPABILITIES
from fairaudit.messages import data, limits, training
from fairaudit.messages.base import Message, messages_in
from fairaudit.report.messages import causes, costs, health
from fairaudit.report.messages.base import FindingMessage

_HOMES = (data, training, limits, health, costs, causes)


def every_message() -> tuple[type[Message], ...]:
    """The messages of all modules, one class for each case that has a code."""
    every: list[type[Message]] = []
    for module in _HOMES:
        every += messages_in(module)
    for capability in CAPABILITIES:
        every += capability.messages()
    return tuple(every)


def messages() -> Mapping[str, type[Message]]:
    """Code -> the class of the message with this code.

    A class that inherits its code says the same of another case, and is left out.
    """
    return {message.code: message for message in every_message() if "code" in vars(message)}


def codes_of_harm() -> frozenset[str]:
    """Codes of the findings that say that there is harm, so that a reader asks where from."""
    findings = [message for message in every_message() if issubclass(message, FindingMessage)]
    return frozenset(finding.code for finding in findings if finding.asks_why)
