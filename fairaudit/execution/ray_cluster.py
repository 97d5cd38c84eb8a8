"""Workers on a Ray cluster.

One actor each, so that a seed's encoding is made once per worker here too.

No directory is shared. What every task reads is put into Ray's object store once and is mapped by
the workers of each machine; tasks and answers travel by call. Ray retries and stores nothing for
us: a worker that dies, or whose machine does, is reported, and another is started where there is
room.
"""

import importlib
import logging
import math
import secrets
import shutil
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, redirect_stdout
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
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
from fairaudit.io.scratch import scratch

Shared = TypeVar("Shared")
Task = TypeVar("Task")
Answer = TypeVar("Answer")

_ATTEMPTS = 3  # to start a worker, when none has started since
_DECIDE_BITS = ("fairaudit", "numpy", "scipy", "scikit-learn", "torch")
# Read when Ray is imported: no statistics leave the machine, and its warning of a change to come
# stays quiet.
_QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
# Likewise: a cluster of one machine listens on the loopback address, not on every network, and to
# who knows its token, which Ray would else write into the home directory. Ray keeps the first token
# of a process.
_ALONE = {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": secrets.token_hex(32),
}


@dataclass(frozen=True, slots=True)
class Request:
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
    """Refuse early, before any data are read.

    Raises:
        ConfigError: Ray is not installed.
    """
    if find_spec("ray") is None:
        raise ConfigError("--executor ray needs Ray", hint="pip install 'ray>=2.60'")


class Cluster(Generic[Shared, Task, Answer]):
    """An executor on Ray; leave the ``with`` block and its workers, or its own cluster, are gone.

    Args:
        serve: Runs in the workers, once per task; its module is installed on every node.
        shared: The first argument of every call.
        tasks: How many there are: no more workers are started.
        request: Where, and what each worker needs.
    """

    def __init__(
        self,
        serve: Callable[[Shared, Task], Answer],
        shared: Shared,
        tasks: int,
        request: Request,
    ) -> None:
        self._serve = serve
        self._shared = shared
        self._tasks = tasks
        self._request = request
        self._idle: dict[int, _Actor] = {}
        # The awaited answer, or the awaited greeting -> number, actor.
        self._busy: dict[object, tuple[int, _Actor]] = {}
        self._starting: dict[object, tuple[int, _Actor]] = {}
        self._failed_starts = 0
        self._closing = ExitStack()

    def __enter__(self) -> Self:
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
        """Block until a worker answers, dies or has started; it is idle then, or starts again."""
        ready, _ = self._ray.wait([*self._busy, *self._starting])
        for call in ready:
            if call in self._starting:
                self._greet(call)
        return [self._receive(call) for call in ready if call in self._busy]

    def _receive(self, call: object) -> tuple[int, Answer | Raised | Died]:
        """The actor's number and answer; a dead actor is replaced."""
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
        """Ask for a worker; it gets tasks when there was room for it, and none before."""
        actor = self._actors.remote(self._serve, self._stored)
        self._starting[actor.greeting.remote()] = number, actor

    def _greet(self, call: object) -> None:
        """Take a started actor into use, unless its node has other versions than this machine."""
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
        differing = ", ".join(
            f"{name} {theirs[name]}" for name, ours in _versions().items() if theirs[name] != ours
        )
        if differing:
            raise ConfigError(
                f"a node of the cluster has {differing}, unlike this machine: numbers could differ",
                hint="install the same versions on every node",
            )
        self._idle[number] = actor

    def _open(self) -> None:
        """Connect to Ray, hand it the shared data and start as many actors as are useful."""
        require_ray()
        # Ray prints what happens to its nodes.
        self._closing.enter_context(redirect_stdout(sys.stderr))
        address = self._request.address
        if address not in (None, "auto"):
            _knock(address)
        alone = _ALONE if address is None else {}
        self._closing.enter_context(environment({**_QUIET, **alone}))
        self._ray = importlib.import_module("ray")
        if not self._ray.is_initialized():
            self._connect()
        size = min(self._request.workers or self._room(), self._tasks)
        self._stored = self._ray.put(self._shared)
        options = {
            "num_cpus": self._request.cpus,
            "num_gpus": self._request.gpus,
            "max_restarts": 0,
            "runtime_env": {"env_vars": ONE_THREAD},
        }
        self._actors = self._ray.remote(_Worker).options(**options)
        for number in range(size):
            self._start(number)

    def _connect(self) -> None:
        """Join the cluster at the address, or start Ray on this machine where there is none."""
        address = self._request.address
        settings: dict[str, object] = {"address": address}
        if address is None:
            private = scratch() / "ray"  # Ray opens its own to everybody
            self._closing.callback(shutil.rmtree, private, ignore_errors=True)
            needed = math.ceil((self._request.workers or 0) * self._request.cpus)
            cores = max(available_cores(), needed)
            settings = {"address": "local", "num_cpus": cores, "include_dashboard": False}
            settings["_temp_dir"] = str(private)
        self._closing.callback(self._ray.shutdown)
        try:
            with _own_signal_handlers():
                self._ray.init(
                    **settings,
                    log_to_driver=False,
                    logging_level=logging.ERROR,
                )
        except (OSError, ValueError, RuntimeError) as error:
            where = "start Ray here" if address is None else f"use the Ray cluster at {address}"
            raise ConfigError(
                f"cannot {where}: {_last_line(error)}", hint="--executor local needs no Ray"
            ) from error

    def _room(self) -> int:
        """How many workers fit into the cluster as it is now."""
        offered = self._ray.cluster_resources()
        needed = {"CPU": self._request.cpus, "GPU": self._request.gpus}
        room = min(int(offered.get(name, 0) / amount) for name, amount in needed.items() if amount)
        if room < 1:
            offer = ", ".join(f"{offered.get(name, 0):g} {name}" for name in needed)
            raise ConfigError(
                f"the Ray cluster has {offer}, less than one worker asks for",
                hint="lower --cpus-per-job or --gpus-per-job; --workers N waits for nodes to come",
            )
        return room


class _Method(Protocol):
    def remote(self, *arguments: object) -> object: ...


class _Actor(Protocol):
    """What Ray makes of a :class:`_Worker`."""

    greeting: _Method
    answer: _Method


class _Worker(Generic[Shared, Task, Answer]):
    """The life of a worker, in an actor."""

    def __init__(
        self,
        serve: Callable[[Shared, Task], Answer],
        shared: Shared,
    ) -> None:
        signal.signal(
            signal.SIGINT, signal.SIG_IGN
        )  # Ctrl-C reaches the whole group; the parent decides
        configure_worker()
        self._serve = partial(serve, shared)

    def greeting(self) -> dict[str, str]:
        return _versions()

    def answer(self, task: Task) -> Answer | Raised:
        return answer_of(self._serve, task)


def _knock(address: str) -> None:
    """Refuse an address where nobody listens; Ray would wait for minutes and log all the while."""
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
    """What decides the bits of a result, as it is installed here."""
    versions = {"python": ".".join(map(str, sys.version_info[:2]))}
    for name in _DECIDE_BITS:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = "missing"
    return versions


def _last_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if lines:
        return lines[-1][:200]
    return type(error).__name__


@contextmanager
def _own_signal_handlers() -> Iterator[None]:
    """Ray takes SIGTERM for itself; what it means here was decided before."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
