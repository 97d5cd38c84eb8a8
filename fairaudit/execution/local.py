"""Worker processes, each with one task at a time and one thread.

Importing torch costs more than a small training, so one fork server imports it once and the
workers are forked from it. Each worker has a pipe of its own, not a shared queue: when one is
killed, exactly its task is lost and the others go on.

No worker outlives its parent: it holds the reading end of a pipe that nobody writes to, and ends
when the kernel closes the other end, whatever the parent died of. The fork server watches the
same of both.
"""

import _thread
import contextlib
import ctypes
import multiprocessing
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Generic, Self, TypeVar

from fairaudit.errors import EXIT_TRAINING, FairauditError, TrainingError
from fairaudit.execution.executor import Died, Raised
from fairaudit.io.scratch import scratch, temporary_files_in

Task = TypeVar("Task")
Answer = TypeVar("Answer")

PRELOAD = (
    "torch",
    "pyarrow.csv",
    "pyarrow.parquet",
    "sklearn.linear_model",  # workers that import it lazily find it loaded
    "fairaudit.execution.scheduler",  # what a task is made of
    "fairaudit.execution.worker",
)
# Python started with this variable does not import a numpy.py that happens to lie in the current
# folder.
_SAFE_PATH = "PYTHONSAFEPATH"
# OpenMP and BLAS read these once, when they are loaded.
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
_AT_START = {**ONE_THREAD, _SAFE_PATH: "1"}
_CPU_QUOTA = Path("/sys/fs/cgroup/cpu.max")
# Held while this process's environment or main module is changed for a start: of two threads at
# once, one would restore the other's temporary values for good.
_STARTING = threading.RLock()

# glibc returns freed blocks of the size of a batch to the kernel and has to map them again at the
# next step, which takes most of the time of a small step. Parameter of mallopt(3) -> bytes.
_MALLOC_THRESHOLDS = {
    -3: 2**30,  # M_MMAP_THRESHOLD: smaller blocks come from the heap
    -1: 2**31 - 1,  # M_TRIM_THRESHOLD: so much free memory the heap keeps
    -2: 2**26,  # M_TOP_PAD: the heap grows by so much more than is asked for
}


@dataclass(frozen=True, slots=True)
class _Worker:
    """A worker as the parent holds it."""

    process: ForkServerProcess
    tasks: Connection  # tasks go in, answers come out
    parent_pipe: Connection  # its other end, in the worker, says when the parent is gone


def warm_up(preload: Sequence[str] = PRELOAD) -> None:
    """Start the fork server, unless it runs, so that its imports overlap with the parent's work.

    ``preload``: modules that the server imports, and the workers forked from it then have.
    """
    forkserver.set_forkserver_preload([*preload, "fairaudit.execution.parent_watch"])
    with _STARTING, environment(_AT_START):
        # The tracker first: its start unblocks SIGINT, which the next statement blocks.
        resource_tracker.ensure_running()
        # The server inherits the mask: it ignores Ctrl-C itself only after its preloads are
        # imported.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            # The server's socket is put into this process's own folder, which is removed when the
            # process ends, and stays only if it is killed.
            with _no_main_module(), temporary_files_in(scratch()):
                forkserver.ensure_running()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def available_cores() -> int:
    """Cores that this process may use: its affinity, and the container's quota if there is one."""
    cores = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    try:
        quota, period = map(int, _CPU_QUOTA.read_text(encoding="ascii").split())
    except (OSError, ValueError):  # no cgroup, or no limit (the quota is then "max")
        return cores
    # Both in µs: so much time of processors in each period.
    return max(1, min(cores, quota // period))


class Pool(Generic[Task, Answer]):
    """Numbered worker processes of this machine, each with one task at a time (an ``Executor``).

    The workers end with the ``with`` block.

    Args:
        serve: ``task -> answer``, picklable; runs in the workers.
        size: Number of workers; a process starts when its first task is given.
        preload: What the fork server imports, if it is not running yet.
    """

    def __init__(
        self, serve: Callable[[Task], Answer], size: int, *, preload: Sequence[str] = PRELOAD
    ) -> None:
        self._serve = serve
        self._preload = preload
        self._idle: dict[int, _Worker | None] = dict.fromkeys(range(size))
        self._busy: dict[int, _Worker] = {}

    def __enter__(self) -> Self:
        """Start the fork server; workers are forked from it when they get a task."""
        warm_up(self._preload)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Kill every worker at once, whatever it is doing."""
        workers = [*self._busy.values(), *(w for w in self._idle.values() if w is not None)]
        self._busy.clear()
        self._idle.clear()
        for worker in workers:
            worker.process.kill()  # no result is lost: the parent alone writes them
        for worker in workers:
            _close_worker(worker)

    @property
    def idle(self) -> tuple[int, ...]:
        """Numbers of the workers that wait for a task."""
        return tuple(sorted(self._idle))

    def give(self, number: int, task: Task) -> None:
        """Hand an idle worker its next task; its process is started where it has none.

        Raises:
            TrainingError: No process could be started.
        """
        worker = self._idle.pop(number)
        if worker is None:  # its process was never started, or died
            warm_up(self._preload)  # `_fork` alone would start a server that sees Ctrl-C
            try:
                worker = _fork(self._serve)
            except (EOFError, ConnectionError) as error:  # the fork server died meanwhile
                raise TrainingError(
                    "no worker could be started", hint="look for what kills processes"
                ) from error
        self._busy[number] = worker
        with contextlib.suppress(OSError):  # it died while idle: `wait` will say so
            worker.tasks.send(task)

    def wait(self) -> list[tuple[int, Answer | Raised | Died]]:
        """Block until at least one busy worker answers or dies; whichever did is idle again.

        Returns:
            (number of the worker, its answer) of each.
        """
        ready = set(wait([worker.tasks for worker in self._busy.values()]))
        answered = [(n, worker) for n, worker in self._busy.items() if worker.tasks in ready]
        return [(number, self._receive(number, worker)) for number, worker in answered]

    def _receive(self, number: int, worker: _Worker) -> Answer | Raised | Died:
        """The answer of a worker that has one, or ``Died``; the worker is idle then.

        A dead worker's process is replaced when its number is given another task.
        """
        answer: Answer | Raised | Died
        try:
            answer = worker.tasks.recv()
            self._idle[number] = worker
        except (EOFError, OSError):
            worker.process.kill()  # what no longer answers must not go on computing either
            answer = Died(_close_worker(worker))
            self._idle[number] = None
        del self._busy[number]
        return answer


def _fork(serve: Callable[[Task], Answer]) -> _Worker:
    """Start a worker process, in which ``serve`` computes the answer to every task.

    Tasks go to it and answers come back through one pipe. A second pipe carries nothing: the worker
    reads from it, and it closes when this process ends.
    """
    context = multiprocessing.get_context("forkserver")
    near, far = context.Pipe()
    watched, parent_pipe = context.Pipe(duplex=False)
    process = context.Process(
        target=_work,
        args=(serve, far, watched, os.environ.get(_SAFE_PATH)),
        name="fairaudit-worker",
        daemon=True,
    )
    try:
        with _no_main_module():
            process.start()
    except BaseException:
        near.close()
        parent_pipe.close()
        raise
    finally:
        far.close()  # or the worker's death would not close the pipe
        watched.close()  # the worker alone reads from it
    return _Worker(process, near, parent_pipe)


def _close_worker(worker: _Worker) -> str:
    """Wait for a worker's end and close its pipes; return what it died of, in words."""
    worker.parent_pipe.close()
    worker.tasks.close()
    worker.process.join()
    code = worker.process.exitcode or 0
    worker.process.close()
    if code < 0:
        return f"signal {-code}"
    return f"exit code {code}"


def _work(
    serve: Callable[[Task], Answer],
    tasks: Connection,
    parent_pipe: Connection,
    safe_path: str | None,
) -> None:
    """Runs in the worker process: answer tasks until the parent closes the pipe.

    Where there is no memory for the loop itself the process ends with an exit code, which costs the
    task and not the run.

    Args:
        serve: ``task -> answer``.
        tasks: Where tasks come from and answers go to.
        parent_pipe: Nothing is ever sent through it; it closes when the parent is gone.
        safe_path: The parent's ``PYTHONSAFEPATH``, None where it has none. The fork server was
            started with 1 (``_AT_START``), which programs that the user's own code starts must not
            inherit.
    """
    if safe_path is None:
        os.environ.pop(_SAFE_PATH, None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the group; the parent decides

    def end_with_parent() -> None:
        """Block until the parent is gone, then end this process."""
        with contextlib.suppress(EOFError, OSError):
            parent_pipe.recv()
        os._exit(0)

    try:
        # Not a threading.Thread: where it finds no memory, starting it waits for ever.
        _thread.start_new_thread(end_with_parent, ())
    except RuntimeError:  # no room for a thread
        os._exit(EXIT_TRAINING)
    try:
        # What a library prints goes to stderr: standard output belongs to the report.
        os.dup2(2, 1)
        configure_worker()
        while True:
            task = tasks.recv()
            tasks.send(answer_of(serve, task))
    except (EOFError, ConnectionError):
        return  # the parent is gone
    except MemoryError:
        os._exit(EXIT_TRAINING)


def answer_of(serve: Callable[[Task], Answer], task: Task) -> Answer | Raised:
    """``serve(task)``; where that raises, whatever it raises, a ``Raised`` with the traceback."""
    try:
        return serve(task)
    except BaseException as error:  # an error that is not sent to the parent would be lost
        expected = error if isinstance(error, FairauditError) else None
        return Raised(expected, "".join(traceback.format_exception(error)))


def configure_worker() -> None:
    """Make this process a worker: it computes with one thread and keeps freed memory."""
    os.environ.update(ONE_THREAD)
    torch = sys.modules.get("torch")  # if not imported yet, the environment above decides
    if torch is not None:
        torch.set_num_threads(1)
        with contextlib.suppress(RuntimeError):  # it can be set only once, and maybe was
            torch.set_num_interop_threads(1)
    keep_freed_memory()


def keep_freed_memory() -> None:
    """Make glibc keep freed blocks for the next step (``_MALLOC_THRESHOLDS`` says why).

    With another C library nothing is done.
    """
    if not sys.platform.startswith("linux"):
        return
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return  # another C library, as in Alpine
    for parameter, size in _MALLOC_THRESHOLDS.items():
        mallopt(parameter, size)


@contextlib.contextmanager
def environment(values: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables for processes started in the ``with`` block; restore them after."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextlib.contextmanager
def _no_main_module() -> Iterator[None]:
    """Hide the user's script, ``__main__``, while a process is started in the ``with`` block.

    The new process would import the script, which runs it once more. So a script that calls
    ``run_audit`` needs no ``if __name__ == "__main__"``.
    """
    with _STARTING:
        main = sys.modules["__main__"]
        try:
            sys.modules["__main__"] = ModuleType("__main__")
            yield
        finally:
            sys.modules["__main__"] = main
