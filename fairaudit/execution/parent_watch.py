"""Keeps the fork server and its workers from printing a traceback when their parent is cut short.

A parent that is killed or interrupted while it starts a worker closes the pipe before the worker
has read what to do, or before the fork server has read what to fork. Both would print a traceback
that nobody can act on, after the last line of the run. Only the fork server imports this module;
the workers that it forks have it.
"""

import sys
from types import TracebackType


def print_unless_cut_short(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """``sys.excepthook``: print an error, unless it is that a message from the parent broke off."""
    # UnpicklingError (a message without its end) is known by name: nothing here may import pickle.
    if not issubclass(kind, (EOFError, ConnectionError)) and kind.__name__ != "UnpicklingError":
        sys.__excepthook__(kind, error, trace)


sys.excepthook = print_unless_cut_short
