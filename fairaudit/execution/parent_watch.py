"""Imported by the fork server alone: what it and its children say where their parent was cut short.

A parent that is killed or interrupted while it starts a worker closes the pipe before the worker
has read what to do, or before the fork server has read what to fork. Both would print a traceback
after the last word of the run; there is nothing in it that anybody could act on.
"""

import sys
from types import TracebackType


def say(
    kind: type[BaseException],
    error: BaseException,
    trace: TracebackType | None,
) -> None:
    """Print every error but that of a message that broke off."""
    # The last one, whose end is missing, by name: nothing here may import pickle.
    if not issubclass(kind, (EOFError, ConnectionError)) and kind.__name__ != "UnpicklingError":
        sys.__excepthook__(kind, error, trace)


sys.excepthook = say
