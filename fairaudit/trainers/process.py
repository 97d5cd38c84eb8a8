"""Starts the process in which the user's own code trains, and reads its answer. Without torch."""

import contextlib
import json
import os
import pickle
import signal
import subprocess
import sys
from tempfile import TemporaryFile
from typing import BinaryIO, TypeVar

from fairaudit.errors import OwnCodeError
from fairaudit.io.named_code import folder
from fairaudit.io.scratch import scratch
from fairaudit.trainers.answers import Declared, Synthesised, TrainerAnswer, read
from fairaudit.trainers.child import TrainerRequest
from fairaudit.trainers.contract import TrainingData

_KEPT = 2**16  # bytes of what a training prints, the last of them
# What Python runs in the new process; its arguments are this one's sys.path, then those of `main`.
_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from fairaudit.trainers.child import main; main(*map(int, sys.argv[2:4]), sys.argv[4])"
)


AnswerOf = TypeVar("AnswerOf", TrainerAnswer, Synthesised, Declared)


def answer_of(request: TrainerRequest, kind: type[AnswerOf]) -> AnswerOf:
    """Have a request answered by the user's own code, in a process of its own.

    Args:
        request: What the code is handed.
        kind: The type of the answer that the request asks for.

    Raises:
        OwnCodeError: It failed, exceeded a limit, or gave back what cannot be used.
    """
    shape: tuple[int, ...] = ()  # (n, Y) of the predictions that are asked for; () without any
    if isinstance(request.data, TrainingData) and request.test is not None:
        shape = (len(request.test), len(request.data.classes))
    with contextlib.ExitStack() as files:
        try:
            # Without names: nothing that the code does to files can reach them.
            answer = files.enter_context(TemporaryFile(dir=scratch()))
            printed = files.enter_context(TemporaryFile(dir=scratch()))
        except OSError as error:
            raise _not_started(error) from error
        exit_code, is_late = _run(request, answer.fileno(), printed.fileno())
        log = _end_of(printed)
        if is_late:
            message = f"it did not end within {request.timeout:g} s"
            raise OwnCodeError(message, "raise --trainer-timeout", log)
        if exit_code or not os.fstat(answer.fileno()).st_size:
            # subprocess gives a signal's number below 0.
            ending = f"signal {-exit_code}" if exit_code < 0 else f"exit code {exit_code}"
            hint = "killed for memory, os._exit, or a crash below Python?"
            raise OwnCodeError(f"its process ended with {ending} and no answer", hint, log)
        try:
            return read(answer, kind, shape)
        except OwnCodeError as error:
            # The same error; its log is what was printed, then the error's own.
            raise OwnCodeError(error.message, error.hint, log + error.log, error.detail) from error


def _end_of(printed: BinaryIO) -> str:
    """The last ``_KEPT`` bytes of what a training printed, as text, with a note where it is cut."""
    size = printed.seek(0, os.SEEK_END)
    printed.seek(max(0, size - _KEPT))
    log = printed.read(_KEPT).decode(errors="replace")
    if size > _KEPT:
        return f"[only the last {_KEPT:,} bytes were kept]\n{log}"
    return log


def _not_started(error: OSError) -> OwnCodeError:
    """The error for a machine that gives no file or no process."""
    return OwnCodeError(f"no process can be started: {error.strerror}", "use fewer --workers")


def _run(request: TrainerRequest, answer: int, printed: int) -> tuple[int, bool]:
    """Start the process that answers a request, and wait until it has ended or its time is up.

    Args:
        request: Given to it on standard input, pickled.
        answer: Descriptor of the file that it writes its answer to.
        printed: Descriptor of the file that gets all that it prints.

    Returns:
        Its exit code, and whether it was killed because it exceeded the request's timeout.

    Raises:
        OwnCodeError: No process can be started.
    """
    # -P: else Python would look in the current folder first, for json too.
    command = [sys.executable, "-P", "-c", _START, json.dumps(sys.path)]
    command += [str(os.getpid()), str(answer), folder()]
    is_late = False
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=printed,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # a process group of its own, which is killed as one
            pass_fds=[answer],
        )
    except OSError as error:
        raise _not_started(error) from error
    with process:
        try:
            process.communicate(pickle.dumps(request), request.timeout)
        except subprocess.TimeoutExpired:
            is_late = True
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):  # none may be left
                os.killpg(process.pid, signal.SIGKILL)  # what it forked, too
    return process.returncode, is_late
