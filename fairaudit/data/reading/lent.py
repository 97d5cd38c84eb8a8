"""Objects of Python that Arrow's own threads use.

Arrow drops them a moment after a table is there, in a thread that needs Python's lock for it. If
the program ends in that moment, the interpreter ends the thread, and C++ aborts the process: a
command that had done its work would return 134.
"""

import atexit
import time
import weakref
from collections import deque
from typing import Final, TypeVar

_Held = TypeVar("_Held")

# The last ones, far more than Arrow uses at a time. Plain references: a WeakSet runs Python code
# when an object ends, in which Arrow's thread can be interrupted after the set is empty.
_LENT: Final[deque[weakref.ref[object]]] = deque(maxlen=1000)
_LONGEST: Final = 1.0  # seconds to wait at the end; it takes Arrow less than a hundredth


def lent(held: _Held) -> _Held:
    """The same stream or function, which this program does not end before Arrow has dropped.

    Args:
        held: What is about to be given to Arrow; a weak reference to it must be possible.
    """
    _LENT.append(weakref.ref(held))
    return held


@atexit.register
def _await_release() -> None:
    """Wait until nothing that was lent is alive, but for ``_LONGEST`` seconds at most.

    Somebody else may hold it too, as the traceback of an error does.
    """
    end = time.monotonic() + _LONGEST
    while any(one() is not None for one in list(_LENT)) and time.monotonic() < end:
        time.sleep(0.001)
