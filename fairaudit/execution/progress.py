"""Events by which a run tells a listener (a callable) how far it is; nothing here draws."""

import sys
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StageStarted:
    """A stage of the audit began: ``reading``, ``planning``, ``training``, ``measuring``."""

    stage: str


@dataclass(frozen=True, slots=True)
class JobsCounted:
    """How many trainings the plan holds, and how many of them were finished before."""

    total: int
    finished: int


@dataclass(frozen=True, slots=True)
class JobFinished:
    """One training is on disk.

    Args:
        arm: Its arm's key.
        seed: Its seed.
        seconds: Its wall time in s.
        finished, total: How many of the plan's trainings are now on disk, and how many it has.
    """

    arm: str
    seed: int
    seconds: float
    finished: int
    total: int


@dataclass(frozen=True, slots=True)
class JobFailed:
    """One training ended without a result; the others go on.

    Args:
        arm: Its arm's key.
        seed: Its seed.
        message: Why, in one line.
        detail: What code of the user's own said of it, which may quote a row; else "".
    """

    arm: str
    seed: int
    message: str
    detail: str = ""


ProgressEvent = StageStarted | JobsCounted | JobFinished | JobFailed
Listener = Callable[[ProgressEvent], None]


def show_progress(event: ProgressEvent) -> None:
    """A listener that writes a line to stderr for every training; other events are ignored.

    It is for scripts and notebooks: the terminal's commands have a progress bar.

    Example:
        >>> done = JobFinished("dpsgd", seed=3, seconds=1.25, finished=4, total=10)
        >>> show_progress(done)  # writes "4/10 dpsgd, seed 3 · 1.2 s" to stderr
    """
    if isinstance(event, JobFinished):
        where = f"{event.finished}/{event.total} {event.arm}, seed {event.seed}"
        sys.stderr.write(f"{where} · {event.seconds:.1f} s\n")
    elif isinstance(event, JobFailed):
        sys.stderr.write(f"failed: {event.arm}, seed {event.seed}: {event.message}\n")


def usual() -> Listener:
    """The default listener: :func:`show_progress` in a notebook, else :func:`silent`."""
    if "ipykernel" in sys.modules:
        return show_progress
    return silent


def silent(event: ProgressEvent) -> None:
    """A listener that ignores everything."""
