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
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fairaudit.errors import TrainerError
from fairaudit.trainers.child import LENGTH
from fairaudit.trainers.contract import Range

Claimed = Mapping[str, object] | None

_LARGEST_ANSWER = 2**32  # bytes of predictions, and of what is said of them
_KEPT = 2**16  # bytes of what a training prints, the last of them
_PATIENCE = 5.0  # s for pipes to run dry when the process is gone
_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from fairaudit.trainers.child import main; main(int(sys.argv[2]))"
)


class Trained(NamedTuple):
    """What one training predicts, [n, Y] of test and training rows.

    And what its predictor claims.
    """

    test: NDArray[np.float32]
    train: NDArray[np.float32]
    claimed: Claimed


@dataclass(frozen=True, slots=True)
class Given:
    """What every training of a job is handed, ready to be sent.

    Args:
        asked: JSON-ready: names and numbers, the seed aside.
        tensors: Of :func:`safetensors.numpy.save`; b"" to look for the function alone.
        tables: Raw rows of training and test, of training alone, or none.
        timeout: s, or None.
    """

    asked: Mapping[str, object]
    tensors: bytes = b""
    tables: tuple[bytes, ...] = ()
    timeout: float | None = None


@dataclass(frozen=True, slots=True)
class Declared:
    """What a function says of itself.

    Args:
        settings: Name -> range, of what a search may vary.
        supports_no_noise: It trains without noise where epsilon is infinite.
    """

    settings: Mapping[str, Range]
    supports_no_noise: bool


def declared(name: str) -> Declared:
    """Import a function of the user's own once, in a process of its own.

    Raises:
        TrainerError: It cannot be found or called.
    """
    asked = {"trainer": name, "tables": 0, "memory": None}
    facts, _ = _answer(Given(asked), 0)
    settings = facts["settings"]
    assert isinstance(settings, Mapping)
    ranges = {setting: Range(**ends) for setting, ends in settings.items()}
    return Declared(ranges, bool(facts["supports_no_noise"]))


def train_once(given: Given, seed: int) -> Trained:
    """One training in a process of its own.

    Raises:
        TrainerError: It failed, exceeded a limit, or predicted what is no probability.
    """
    facts, arrays = _answer(given, seed)
    return Trained(arrays["test"], arrays["train"], _claimed(facts))


def synthesise(given: Given, seed: int) -> tuple[pa.Table, Claimed]:
    """One synthetic table, and what is claimed of it.

    Raises:
        TrainerError: It failed, or made no table.
    """
    facts, arrays = _answer(given, seed)
    table = pa.ipc.open_stream(arrays["table"].tobytes()).read_all()
    return table, _claimed(facts)


def _claimed(facts: Mapping[str, object]) -> Claimed:
    claimed = facts["claimed"]
    if isinstance(claimed, Mapping):
        return claimed
    return None


def _answer(given: Given, seed: int) -> tuple[dict[str, object], dict[str, NDArray[Any]]]:
    from safetensors import SafetensorError  # `plan` asks nothing
    from safetensors.numpy import load

    asked = json.dumps(
        {
            **given.asked,
            "seed": seed,
            "has_data": bool(given.tensors),
        }
    ).encode()
    request = [
        asked,
        *([given.tensors] if given.tensors else []),
        *given.tables,
    ]
    answer, printed = _carried_out(request, given.timeout)
    try:
        facts, arrays = json.loads(answer[0]), load(answer[1])
        if "message" in facts:
            raise TrainerError(facts["message"], facts["hint"], f"{printed}{facts['trace']}")
        answered = {"test", "train"} <= arrays.keys() or "table" in arrays
        if given.tensors and not ("claimed" in facts and answered):
            raise ValueError("no predictions and no table")
    except (ValueError, KeyError, TypeError, RecursionError, SafetensorError) as error:
        hint = "does your code write to descriptors that it did not open?"
        raise TrainerError("its answer cannot be read", hint, printed) from error
    return facts, arrays


def _carried_out(
    request: Sequence[bytes], timeout: float | None
) -> tuple[tuple[bytes, bytes], str]:
    """Both parts of a process's answer, and the end of what it printed."""
    reading, writing = os.pipe()
    with open(reading, "rb") as answers:
        try:
            process = subprocess.Popen(
                [
                    sys.executable,
                    "-c",
                    _START,
                    json.dumps([*sys.path, os.getcwd()]),
                    str(writing),
                ],
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
        printed, answer, to_child = _Printed(), _Answer(), process.stdin

        def send() -> None:
            """The request; the pipe stays open, for the process ends itself where it is closed."""
            with contextlib.suppress(OSError):  # it is gone, which others say
                for part in request:
                    to_child.write(len(part).to_bytes(LENGTH, "little") + part)
                to_child.flush()

        threads = [
            threading.Thread(target=send, daemon=True),
            threading.Thread(
                target=printed.read,
                args=(process.stdout,),
                daemon=True,
            ),
            threading.Thread(
                target=answer.read,
                args=(answers,),
                daemon=True,
            ),
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
        cause = f"it did not end within {timeout:g} s"
        raise TrainerError(cause, "raise --trainer-timeout", printed.text)
    if answer.parts is None:
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        hint = "killed for memory, os._exit, or a crash below Python?"
        raise TrainerError(f"its process ended with {how} and no answer", hint, printed.text)
    return answer.parts, printed.text


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
        with contextlib.suppress(OSError, ValueError, MemoryError):
            facts, arrays = _message(pipe), _message(pipe)
            if facts is not None and arrays is not None:
                self.parts = facts, arrays
            while pipe.read(_KEPT):  # else the process would wait for ever to be read
                pass


def _message(pipe: BinaryIO) -> bytes | None:
    """The next one; None where the pipe ends early, or its length is absurd."""
    size = int.from_bytes(pipe.read(LENGTH), "little")
    part = pipe.read(size) if size <= _LARGEST_ANSWER else b""
    if size and len(part) == size:
        return part
    return None
