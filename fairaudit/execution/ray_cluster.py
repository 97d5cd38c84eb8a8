"""Workers on a Ray cluster.

Each worker is one Ray actor, so that a seed's encoding is made once per worker here too.

No directory is shared. What every task reads is put into Ray's object store once and is mapped by
the workers of each machine; tasks and answers travel by call. Ray retries and stores nothing for
us: a worker that dies, or whose machine does, is reported, and another is started where there is
room.
"""

import importlib
import logging
import math
import os
import secrets
import shutil
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, chdir, contextmanager, redirect_stdout, suppress
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Generic, Protocol, Self, TypeVar

from fairaudit.errors import ConfigError
from fairaudit.execution.executor import Died, Raised
from fairaudit.execution.local import (
    ONE_THREAD,
    answer_of,
    available_cores,
    configure_worker,
    environment,
)
from fairaudit.io import named_code
from fairaudit.io.scratch import scratch

Shared = TypeVar("Shared")
Task = TypeVar("Task")
Answer = TypeVar("Answer")

_ATTEMPTS = 3  # failed starts of workers in a row, after which the cluster is given up
# Packages whose version decides the bits of a result.
_DECIDE_BITS = ("fairaudit", "numpy", "scipy", "scikit-learn", "torch")
# Variables that Ray reads when it is imported: no statistics leave the machine, and Ray's warning
# of a change to come stays quiet.
_QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
# Likewise, for a cluster that is started on this machine alone: it listens on the loopback address,
# not on every network, and asks for a token, which Ray would else write into the home directory.
# Ray keeps the first token of a process.
_ALONE = {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": secrets.token_hex(32),
}


@dataclass(frozen=True, slots=True)
class RayRequest:
    """What is asked of Ray.

    Args:
        address: Of a running cluster, ``auto`` for the one of this machine; None starts one.
        workers: Trainings at a time; None for as many as the cluster has room for now.
        cpus, gpus: Of one worker; fractions share a processor.
    """

    address: str | None = None
    workers: int | None = None
    cpus: float = 1.0
    gpus: float = 0.0


def require_ray() -> None:
    """Refuse ``--executor ray`` without Ray, before any data are read.

    Raises:
        ConfigError: Ray is not installed.
    """
    if find_spec("ray") is None:
        raise ConfigError("--executor ray needs Ray", hint="pip install 'ray>=2.60'")


class Cluster(Generic[Shared, Task, Answer]):
    """Numbered workers on a Ray cluster, each with one task at a time (an ``Executor``).

    After the ``with`` block its workers are gone, and Ray too where this object started it.

    Args:
        serve: ``(shared, task) -> answer``, runs in the workers; its module is installed on every
            node.
        shared: The first argument of every call.
        tasks: Number of tasks there will be: no more workers than these are started.
        request: Which cluster, and what each worker needs.
    """

    def __init__(
        self,
        serve: Callable[[Shared, Task], Answer],
        shared: Shared,
        tasks: int,
        request: RayRequest,
    ) -> None:
        self._serve = serve
        self._shared = shared
        self._tasks = tasks
        self._request = request
        self._idle: dict[int, _Actor] = {}
        # Ray's handle of the awaited answer (or greeting) -> worker's number, its actor.
        self._busy: dict[object, tuple[int, _Actor]] = {}
        self._starting: dict[object, tuple[int, _Actor]] = {}
        self._failed_starts = 0
        self._closing = ExitStack()

    def __enter__(self) -> Self:
        """Connect to Ray and ask for workers; where that fails, end them and leave Ray."""
        try:
            self._open()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Kill every worker at once, and leave Ray, or stop it where this object started it."""
        called = [actor for _, actor in (*self._busy.values(), *self._starting.values())]
        for actor in (*called, *self._idle.values()):
            self._ray.kill(actor)
        self._busy.clear()
        self._starting.clear()
        self._idle.clear()
        self._closing.close()

    @property
    def idle(self) -> tuple[int, ...]:
        """Numbers of the workers that wait for a task."""
        return tuple(sorted(self._idle))

    def give(self, number: int, task: Task) -> None:
        """Hand an idle worker its next task."""
        actor = self._idle.pop(number)
        self._busy[actor.answer.remote(task)] = number, actor

    def wait(self) -> list[tuple[int, Answer | Raised | Died]]:
        """Block until a worker answers, dies or has started.

        Returns:
            (number, answer) of each that answered or died; empty where one has only started. A
            worker that died is started again.

        Raises:
            ConfigError: Workers do not start, or a node has other versions.
        """
        ready, _ = self._ray.wait([*self._busy, *self._starting])
        for call in ready:
            if call in self._starting:
                self._greet(call)
        return [self._receive(call) for call in ready if call in self._busy]

    def _receive(self, call: object) -> tuple[int, Answer | Raised | Died]:
        """Number and answer of the worker whose call has ended; a dead one is started again."""
        number, actor = self._busy.pop(call)
        try:
            answer: Answer | Raised | Died = self._ray.get(call)
            self._idle[number] = actor
        except self._ray.exceptions.RayError as error:  # of the actor, its node, or the way back
            answer = Died(_last_line(error))
            self._ray.kill(actor)  # what no longer answers must not go on computing either
            self._start(number)
        return number, answer

    def _start(self, number: int) -> None:
        """Ask Ray for worker ``number``. It gets tasks once it has started, when there is room."""
        actor = self._actors.remote(self._serve, self._stored, named_code.folder())
        self._starting[actor.greeting.remote()] = number, actor

    def _greet(self, call: object) -> None:
        """Make a started worker idle; one that failed to start is asked for again.

        Args:
            call: Handle of the worker's greeting, which holds the versions on the worker's node.

        Raises:
            ConfigError: The node has other versions than this machine, so that numbers could
                differ, or ``_ATTEMPTS`` starts in a row failed.
        """
        number, actor = self._starting.pop(call)
        try:
            theirs: Mapping[str, str] = self._ray.get(call)
        except self._ray.exceptions.RayError as error:
            self._failed_starts += 1
            if self._failed_starts == _ATTEMPTS:
                raise ConfigError(
                    f"workers do not start on the Ray cluster: {_last_line(error)}",
                    hint="install fairaudit, in the same version, on every node",
                ) from error
            self._start(number)
            return
        self._failed_starts = 0
        ours = _versions()
        # An older fairaudit does not name every package.
        of_node = {name: theirs.get(name, "unknown") for name in ours}
        differing = ", ".join(
            f"{name} {of_node[name]}" for name in ours if of_node[name] != ours[name]
        )
        if differing:
            raise ConfigError(
                f"a node of the cluster has {differing}, unlike this machine: numbers could differ",
                hint="install the same versions on every node",
            )
        self._idle[number] = actor

    def _open(self) -> None:
        """Connect to Ray, store the shared data there, and ask for as many workers as are useful.

        Raises:
            ConfigError: Ray is not installed, or the cluster cannot be used.
        """
        require_ray()
        # Ray prints news of its nodes, and standard output belongs to the report.
        self._closing.enter_context(redirect_stdout(sys.stderr))
        address = self._request.address
        if address not in (None, "auto"):
            _refuse_unreachable(address)
        alone = _ALONE if address is None else {}
        self._closing.enter_context(environment({**_QUIET, **alone}))
        self._ray = importlib.import_module("ray")
        if not self._ray.is_initialized():  # else the user's script connected, and stays so
            self._connect()
        size = min(self._request.workers or self._room(), self._tasks)
        self._stored = self._ray.put(self._shared)
        options = {
            "num_cpus": self._request.cpus,
            "num_gpus": self._request.gpus,
            "max_restarts": 0,  # `_receive` starts another one
            "runtime_env": {"env_vars": ONE_THREAD},
        }
        self._actors = self._ray.remote(_RayWorker).options(**options)
        for number in range(size):
            self._start(number)

    def _connect(self) -> None:
        """Join the cluster at the request's address, or without one start Ray on this machine."""
        address = self._request.address
        settings: dict[str, object] = {"address": address}
        if address is None:
            # For Ray's own files, as its default folder is readable by everybody.
            private = scratch() / "ray"
            self._closing.callback(shutil.rmtree, private, ignore_errors=True)
            # Ray starts no more workers than its cores hold, and --workers may ask for more than
            # this machine has.
            needed = math.ceil((self._request.workers or 0) * self._request.cpus)
            cores = max(available_cores(), needed)
            settings = {"address": "local", "num_cpus": cores, "include_dashboard": False}
            settings["_temp_dir"] = str(private)
        # Ray lets workers look for modules in the folder where it is started, before all others: so
        # it is started in an empty one.
        empty = self._closing.enter_context(TemporaryDirectory(dir=scratch()))
        self._closing.callback(self._ray.shutdown)
        try:
            with _signal_handlers_kept(), chdir(empty):
                self._ray.init(**settings, log_to_driver=False, logging_level=logging.ERROR)
        except (OSError, ValueError, RuntimeError) as error:
            where = "start Ray here" if address is None else f"use the Ray cluster at {address}"
            raise ConfigError(
                f"cannot {where}: {_last_line(error)}", hint="--executor local needs no Ray"
            ) from error

    def _room(self) -> int:
        """How many workers fit into the cluster as it is now, at least 1.

        Raises:
            ConfigError: Not one fits.
        """
        offered = self._ray.cluster_resources()
        needed = {"CPU": self._request.cpus, "GPU": self._request.gpus}
        # An amount of 0 (no GPU) sets no limit.
        room = min(int(offered.get(name, 0) / amount) for name, amount in needed.items() if amount)
        if room < 1:
            offer = ", ".join(f"{offered.get(name, 0):g} {name}" for name in needed)
            raise ConfigError(
                f"the Ray cluster has {offer}, less than one worker asks for",
                hint="lower --cpus-per-job or --gpus-per-job; --workers N waits for nodes to come",
            )
        return room


class _Method(Protocol):
    """A method of an actor."""

    def remote(self, *arguments: object) -> object:
        """Call it in the actor; returns Ray's handle of the answer at once."""
        ...


class _Actor(Protocol):
    """A :class:`_RayWorker` in another process, as Ray hands it to this one."""

    greeting: _Method
    answer: _Method


class _RayWorker(Generic[Shared, Task, Answer]):
    """A worker: an object that lives in a process of the cluster (a Ray actor)."""

    def __init__(
        self, serve: Callable[[Shared, Task], Answer], shared: Shared, folder: str
    ) -> None:
        # ``folder`` is where the command runs; Ray starts this process elsewhere.
        named_code.look_in(folder)
        with suppress(OSError):  # another machine may have no such folder
            os.chdir(folder)
        # Ctrl-C reaches the whole process group; the parent decides what it means.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        configure_worker()
        self._serve = partial(serve, shared)

    def greeting(self) -> dict[str, str]:
        """The versions on the worker's node; that it answers says that the worker has started."""
        return _versions()

    def answer(self, task: Task) -> Answer | Raised:
        """The answer to a task, or what it raised."""
        return answer_of(self._serve, task)


def _refuse_unreachable(address: str) -> None:
    """Refuse an address HOST:PORT where nobody listens; Ray would wait for minutes and log.

    Raises:
        ConfigError: Nobody listens, or the address has another form.
    """
    host, _, port = address.rpartition(":")
    try:
        if not host or "/" in host or not port.isdigit():
            raise OSError("not of the form HOST:PORT")
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
    except (OSError, OverflowError) as error:
        raise ConfigError(
            f"cannot use the Ray cluster at {address}: {error}",
            hint="on a node of the cluster: --ray-address auto",
        ) from error


def _versions() -> dict[str, str]:
    """Python and the packages that decide the bits of a result -> version here, or "missing"."""
    versions = {"python": ".".join(map(str, sys.version_info[:2]))}
    for name in _DECIDE_BITS:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = "missing"
    return versions


def _last_line(error: BaseException) -> str:
    """The last line of an error's text, shortened; the error's type where it has no text."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if lines:
        return lines[-1][:200]
    return type(error).__name__


@contextmanager
def _signal_handlers_kept() -> Iterator[None]:
    """Put this process's signal handlers back after the ``with`` block: Ray replaces SIGTERM's.

    Only the main thread can set handlers: in another one Ray replaces none, and nothing is done.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
