"""What every executor offers: numbered workers, each with one task at a time.

An executor carries tasks to workers and answers back; it knows nothing of trainings, keeps nothing
and writes nothing. So everything that a run leaves is in one directory, written by the process that
started it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self, TypeVar

from fairaudit.errors import FairauditError

Task = TypeVar("Task", contravariant=True)
Answer = TypeVar("Answer", covariant=True)


@dataclass(frozen=True, slots=True)
class Died:
    """The worker ended without an answer: killed, its machine gone, or a crash below Python.

    Args:
        cause: What is known of it, in a few words.
    """

    cause: str = ""


@dataclass(frozen=True, slots=True)
class Raised:
    """The task raised.

    Args:
        error: The error if it is a FairauditError, else None: any other type may not be picklable.
        report: The worker's traceback.
    """

    error: FairauditError | None
    report: str


class WorkerBug(Exception):
    """An exception in a worker that no user can act on; its text is the worker's traceback."""


class Executor(Protocol[Task, Answer]):
    """Workers that turn tasks into answers; they end with the ``with`` block."""

    def __enter__(self) -> Self:
        """Get ready for tasks."""
        ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End every worker at once, whatever it is doing."""
        ...

    @property
    def idle(self) -> tuple[int, ...]:
        """Numbers of the workers that wait for a task.

        The same number is the same process until it dies.
        """
        ...

    def give(self, number: int, task: Task) -> None:
        """Hand an idle worker its next task."""
        ...

    def wait(self) -> Sequence[tuple[int, Answer | Raised | Died]]:
        """Block until a busy worker answers or dies, or a worker that was starting is idle.

        Returns:
            (number of the worker, its answer) of each that answered or died; empty where one has
            only become idle.
        """
        ...
