"""Long readings in a library's own code, which must not keep a signal from the program."""

import signal
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

Read = TypeVar("Read")


def aside(read: Callable[[], Read]) -> Read:
    """What ``read`` returns or raises, from a thread of its own.

    In the main thread Arrow's CSV reader takes SIGINT and SIGTERM for itself, and one that arrives
    at its last moment is lost: of 400 sent into small readings, 16 to 20. In another thread it
    leaves them alone. A worker, which ignores Ctrl-C, reads where it is: a thread that finds no
    memory to begin with is waited for without end.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        return read()
    outcome: Future[Read] = Future()

    def work() -> None:
        try:
            outcome.set_result(read())
        except BaseException as error:  # the border of the thread: what is not handed over is lost
            outcome.set_exception(error)

    threading.Thread(target=work, daemon=True).start()  # nobody waits for it after Ctrl-C
    return outcome.result()
