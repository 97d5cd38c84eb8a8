"""``fairaudit`` and ``python -m fairaudit``.

Ctrl-C ends the program with one line and no traceback, also while it imports or is about to end.
"""

import os
import sys

if __name__ == "__main__" and not sys.flags.safe_path and os.path.isdir(sys.path[0]):
    # Python puts the current folder first, or this package where its path is what Python runs:
    # taken off before anything more is imported.
    _first, _package = sys.path[0], os.path.dirname(__file__)
    if os.path.samefile(_first, ".") or os.path.samefile(_first, _package):
        del sys.path[0]
        if _first == os.path.dirname(_package) and _first not in sys.path:
            sys.path.append(_first)  # the package itself was found there

import contextlib
import gc
import io
import signal
from types import FrameType


def main() -> int:
    """Prepare signals and standard streams, run the command line, and return the exit code."""
    # A million objects of libraries stay to the end: they are not searched for garbage again
    # and again while they are imported, nor once more at the end. That is a fifth of a start.
    gc.set_threshold(50_000, 20, 20)
    # Another handler than Python's own was set by the process that started this one, and stays.
    handles_interrupt = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if handles_interrupt:
        signal.signal(signal.SIGINT, _interrupt)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # the program was started with it closed
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 (lives as long as this)
    from fairaudit.cli.printing import QuietStderr

    if isinstance(sys.stdout, io.TextIOWrapper) and isinstance(sys.stderr, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
        encoding = sys.stderr.encoding
        sys.stderr = QuietStderr(
            sys.stderr.detach(), encoding, "backslashreplace", line_buffering=True
        )
    from fairaudit.cli.app import main as command  # takes most of the time of `--help`
    from fairaudit.errors import EXIT_INTERRUPTED, EXIT_TERMINATED

    try:
        code = command()
    except KeyboardInterrupt:  # a second Ctrl-C, while the first was being handled
        code = EXIT_INTERRUPTED
    if handles_interrupt:
        signal.signal(signal.SIGINT, _leave)
    if code in {EXIT_INTERRUPTED, EXIT_TERMINATED}:
        # A thread may still be reading: nobody waits for it, and Python's own end would break off
        # hard.
        os._exit(code)
    gc.freeze()  # what is alive now is not searched for garbage at the end
    return code


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Handler of Ctrl-C while a command runs: raise KeyboardInterrupt; in an import end at once.

    A library that is being imported may catch the exception as if a part of it were missing.
    """
    while frame is not None:
        if frame.f_globals.get("__name__") == "importlib._bootstrap":
            _leave(number, frame)
        frame = frame.f_back
    raise KeyboardInterrupt


def _leave(number: int, frame: FrameType | None) -> None:
    """Handler of Ctrl-C during an import or after the command: end the process at once.

    No file is left half written: files get their name when they are whole.
    """
    with contextlib.suppress(OSError):
        os.write(2, b"Interrupted\n")
    os._exit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
