"""Starts the process in which the user's own code trains, and reads its answer. Without torch."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load

from fairaudit.config.options import AuditConfig
from fairaudit.errors import TrainerError
from fairaudit.execution.own_child import LENGTH

_KEPT = 2**16  # bytes of what a training prints, the last of them
_PATIENCE = 5.0  # s for pipes to run dry when the process is gone
_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from fairaudit.execution.own_child import main; main(int(sys.argv[2]))"
)


class Trained(NamedTuple):
    """What one training predicts, [n, Y] of test and training rows, and what its predictor claims."""

    test: NDArray[np.float32]
    train: NDArray[np.float32]
    claimed: Mapping[str, object] | None


@dataclass(frozen=True, slots=True)
class Given:
    """What every training of a job is handed, ready to be sent.

    Args:
        asked: JSON-ready: names and numbers, the seed aside.
        tensors: Of :func:`safetensors.numpy.save`; b"" to look for the function alone.
        tables: Raw rows of training and test, or none.
        timeout: s, or None.
    """

    asked: Mapping[str, object]
    tensors: bytes = b""
    tables: tuple[bytes, ...] = ()
    timeout: float | None = None


def look_for(config: AuditConfig) -> None:
    """Import every trainer once, so that one that cannot be found or called is told before any training.

    Raises:
        TrainerError: One that cannot.
    """
    for name in config.trainer:
        _answer(Given({"trainer": name, "raw": False, "memory": None}), 0)


def train_once(given: Given, seed: int) -> Trained:
    """One training in a process of its own.

    Raises:
        TrainerError: It failed, exceeded a limit, or predicted what is no probability.
    """
    facts, arrays = _answer(given, seed)
    claimed = facts["claimed"]
    return Trained(arrays["test"], arrays["train"], claimed if isinstance(claimed, Mapping) else None)


def _answer(given: Given, seed: int) -> tuple[dict[str, object], dict[str, NDArray[np.float32]]]:
    asked = json.dumps({**given.asked, "seed": seed, "has_data": bool(given.tensors)}).encode()
    request = [asked, *([given.tensors] if given.tensors else []), *given.tables]
    ending = _carried_out(request, given.timeout)
    if ending.answer is None:
        raise TrainerError(ending.cause, ending.hint, ending.printed)
    facts, arrays = ending.answer
    if "message" in facts:
        log = f"{ending.printed}{facts['trace']}"
        raise TrainerError(str(facts["message"]), str(facts["hint"]), log)
    return facts, arrays


class _Ending(NamedTuple):
    """What a process came to: its answer, or why there is none; and the end of what it printed."""

    answer: tuple[dict[str, object], dict[str, NDArray[np.float32]]] | None
    cause: str
    hint: str
    printed: str


def _carried_out(request: Sequence[bytes], timeout: float | None) -> _Ending:
    reading, writing = os.pipe()
    with open(reading, "rb") as answers:
        try:
            process = subprocess.Popen(
                [sys.executable, "-c", _START, json.dumps([*sys.path, os.getcwd()]), str(writing)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=(writing,),
                start_new_session=True,
            )
        except OSError as error:
            raise TrainerError(
                f"no process can be started: {error.strerror}", "use fewer --workers"
            ) from error
        finally:
            os.close(writing)
        assert process.stdin is not None
        assert process.stdout is not None
        printed, answer = _Printed(), _Answer()
        threads = [
            threading.Thread(target=_send, args=(process.stdin, request), daemon=True),
            threading.Thread(target=printed.read, args=(process.stdout,), daemon=True),
            threading.Thread(target=answer.read, args=(answers,), daemon=True),
        ]
        late = False
        try:
            for thread in threads:
                thread.start()
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            late = True
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)  # what it forked, too
            code = process.wait()
            for thread in threads[1:]:
                thread.join(_PATIENCE)
            with contextlib.suppress(OSError):
                process.stdin.close()
            if not threads[1].is_alive():  # else what left the group prints on
                process.stdout.close()
    if late:
        return _Ending(None, f"it did not end within {timeout:g} s", "raise --trainer-timeout", printed.text)
    if answer.parts is None:
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        hint = "killed for memory?" if code == -signal.SIGKILL else "os._exit, or a crash below Python?"
        return _Ending(None, f"its process ended with {how} and no answer", hint, printed.text)
    facts, arrays = answer.parts
    return _Ending((json.loads(facts), load(arrays)), "", "", printed.text)


def _send(pipe: BinaryIO, request: Sequence[bytes]) -> None:
    """The request; the pipe stays open, for the process ends itself where it is closed."""
    with contextlib.suppress(OSError):  # it is gone, which others say
        for part in request:
            pipe.write(len(part).to_bytes(LENGTH, "little"))
            pipe.write(part)
        pipe.flush()


@dataclass(slots=True)
class _Printed:
    """The last of what is printed."""

    kept: bytes = b""
    lost: bool = False

    def read(self, pipe: BinaryIO) -> None:
        with contextlib.suppress(OSError, ValueError):
            while piece := os.read(pipe.fileno(), _KEPT):
                self.lost |= len(self.kept) + len(piece) > _KEPT
                self.kept = (self.kept + piece)[-_KEPT:]

    @property
    def text(self) -> str:
        lead = f"[only the last {_KEPT:,} bytes were kept]\n" if self.lost else ""
        return lead + self.kept.decode(errors="replace")


@dataclass(slots=True)
class _Answer:
    """Both parts of an answer, once they are there: facts, then arrays."""

    parts: tuple[bytes, bytes] | None = None

    def read(self, pipe: BinaryIO) -> None:
        with contextlib.suppress(OSError, ValueError):
            facts, arrays = _message(pipe), _message(pipe)
            if facts is not None and arrays is not None:
                self.parts = facts, arrays


def _message(pipe: BinaryIO) -> bytes | None:
    """The next one; None where the pipe ends before it does."""
    size = int.from_bytes(pipe.read(LENGTH), "little")
    part = pipe.read(size)
    return part if size and len(part) == size else None
