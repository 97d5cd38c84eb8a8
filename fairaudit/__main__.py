"""``fairaudit`` and ``python -m fairaudit``.

Ctrl-C ends it in one line, also while it imports or leaves.
"""

import contextlib
import io
import os
import signal
import sys
from types import FrameType


def main() -> int:
    """The program, for whatever starts it; see :func:`fairaudit.cli.app.main`."""
    # Any other handler was set by whoever started this, and stays.
    handles = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if handles:
        signal.signal(signal.SIGINT, _interrupt)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # it was closed
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 (lives as long as this)
    from fairaudit.cli.printing import Unheard

    if isinstance(sys.stdout, io.TextIOWrapper) and isinstance(sys.stderr, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
        encoding = sys.stderr.encoding
        sys.stderr = Unheard(
            sys.stderr.detach(),
            encoding,
            "backslashreplace",
            line_buffering=True,
        )
    from fairaudit.cli.app import main as command  # takes most of the time of `--help`
    from fairaudit.errors import EXIT_INTERRUPTED, EXIT_TERMINATED

    try:
        code = command()
    except KeyboardInterrupt:  # once more, while the first was being answered
        code = EXIT_INTERRUPTED
    if handles:
        signal.signal(signal.SIGINT, _leave)
    if code in {EXIT_INTERRUPTED, EXIT_TERMINATED}:
        # A thread may still be reading: nobody waits for it, and Python's own end would break off
        # hard.
        os._exit(code)
    return code


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Unwind; but leave at once out of an import.

    Where libraries take the exception for one of their own.
    """
    while frame is not None:
        if frame.f_globals.get("__name__") == "importlib._bootstrap":
            _leave(number, frame)
        frame = frame.f_back
    raise KeyboardInterrupt


def _leave(number: int, frame: FrameType | None) -> None:
    """End now: nothing has begun, or all is done, and what is half written has another name."""
    with contextlib.suppress(OSError):
        os.write(2, b"Interrupted\n")
    os._exit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
