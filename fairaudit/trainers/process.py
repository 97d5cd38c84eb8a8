"""Starts the process in which the user's own code trains, and reads its answer. Without torch."""

import contextlib
import json
import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from fairaudit.errors import OwnCodeError
from fairaudit.io.named_code import folder
from fairaudit.io.scratch import scratch
from fairaudit.trainers.child import Declared, Request, Synthesised, Trained

_KEPT = 2**16  # bytes of what a training prints, the last of them
_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from fairaudit.trainers.child import main; main(int(sys.argv[2]), *sys.argv[3:])"
)


Answer = TypeVar("Answer", Trained, Synthesised, Declared)


def answer_of(request: Request, kind: type[Answer]) -> Answer:
    """Have a request answered by the user's own code, in a process of its own.

    Args:
        request: What the code is handed.
        kind: The type of the answer that the request asks for.

    Raises:
        OwnCodeError: It failed, exceeded a limit, or gave back what cannot be used.
    """
    with TemporaryDirectory(dir=scratch()) as home:
        answer, printed = Path(home, "answer"), Path(home, "printed")
        ended, late = _run(request, answer, printed)
        with printed.open("rb") as file:  # its end alone: it may be long
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _KEPT))
            log = file.read().decode(errors="replace")
        if size > _KEPT:
            log = f"[only the last {_KEPT:,} bytes were kept]\n{log}"
        if late:
            message = f"it did not end within {request.timeout:g} s"
            raise OwnCodeError(message, "raise --trainer-timeout", log)
        if ended or not answer.exists():
            ending = f"signal {-ended}" if ended < 0 else f"exit code {ended}"
            hint = "killed for memory, os._exit, or a crash below Python?"
            raise OwnCodeError(f"its process ended with {ending} and no answer", hint, log)
        result: object = pickle.loads(answer.read_bytes())
    if isinstance(result, OwnCodeError):
        raise OwnCodeError(result.message, result.hint, log + result.log)
    assert isinstance(result, kind)
    return result


def _run(request: Request, answer: Path, printed: Path) -> tuple[int, bool]:
    """Start the process that answers a request, and wait until it has ended or its time is up.

    Args:
        request: Given to it on standard input, pickled.
        answer: File that it writes its answer to.
        printed: File that gets all that it prints.

    Returns:
        Its exit code, and whether it was killed because it exceeded the request's timeout.

    Raises:
        OwnCodeError: No process can be started.
    """
    # -P: else Python would look in the current folder first, for json too.
    command = [sys.executable, "-P", "-c", _START, json.dumps(sys.path)]
    command += [str(os.getpid()), str(answer), folder()]
    late = False
    try:
        with printed.open("wb") as output:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
    except OSError as error:
        message = f"no process can be started: {error.strerror}"
        raise OwnCodeError(message, "use fewer --workers") from error
    with process:
        try:
            process.communicate(pickle.dumps(request), request.timeout)
        except subprocess.TimeoutExpired:
            late = True
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)  # what it forked, too
    return process.returncode, late
