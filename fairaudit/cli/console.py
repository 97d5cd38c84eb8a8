"""Lines and a progress bar on stderr; this file alone draws in a terminal."""

import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from fairaudit.cli.durations import duration_text
from fairaudit.cli.printing import folded, no_command, width_of
from fairaudit.errors import numbered
from fairaudit.execution.progress import (
    JobFailed,
    JobFinished,
    JobsCounted,
    ProgressEvent,
    StageStarted,
)
from fairaudit.report.render.terminal import WIDTH
from fairaudit.report.safe_names import plain

# Words of a verdict -> their colour, where a terminal has colours.
_COLOURS = {
    r"\bPASS\b": "bold green",
    r"\bFAIL\b": "bold red",
    r"\b(INCONCLUSIVE|UNHEALTHY|undecided)\b": "bold yellow",
    r"(?<!not )\bdetected\b": "bold",
}


class Screen:
    """Lines and progress on stderr.

    A terminal gets a bar, anything else one line per finished training; ``quiet`` leaves neither.
    """

    def __init__(self, *, quiet: bool = False, verbose: bool = False) -> None:
        self._console = Console(stderr=True, highlight=False, soft_wrap=True)
        self._quiet = quiet
        self._verbose = verbose
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._began = 0.0  # when the first training of this run began
        self._before = 0  # trainings that earlier runs had finished

    @property
    def width(self) -> int:
        """Columns that a line may take; where stderr is no terminal, those of a usual one."""
        return width_of(sys.stderr) or WIDTH

    def lines(self, lines: Iterable[str], *, is_result: bool = False) -> None:
        """Print lines, unless ``quiet``; whoever made them has escaped the names in them.

        ``is_result``: Words of a verdict have their colour, where the terminal has colours.
        """
        if self._quiet:
            return
        width = width_of(sys.stderr)
        for line in lines:
            for piece in folded(no_command(line), width):
                text = Text(piece)
                if is_result:
                    for pattern, colour in _COLOURS.items():
                        text.highlight_regex(pattern, colour)
                self._console.print(text)

    @contextmanager
    def busy(self, what: str) -> Iterator[None]:
        """Show in a terminal what is being done, for the time of the ``with`` block."""
        if self._quiet or not self._console.is_terminal:
            yield
            return
        with self._console.status(Text(what)):
            yield

    def listen(self, event: ProgressEvent) -> None:
        """Show one event of a running audit, which is given this method as its listener."""
        if self._quiet:
            return
        match event:
            case JobsCounted():
                self._start(event)
            case JobFinished():
                place = f"{plain(event.arm)}, seed {event.seed}"
                if self._bar is not None and self._task is not None:
                    shown = place.replace("[", "\\[")  # rich would read [..] as markup
                    self._bar.update(self._task, completed=event.finished, description=shown)
                else:
                    left = self._left(event)
                    self.lines(
                        [f"  {event.finished}/{event.total} {place} · {event.seconds:.1f} s{left}"]
                    )
            case JobFailed():
                message = f"{event.arm}, seed {event.seed}: {event.message}"
                self.lines([f"Warning {plain(message, 1000)}"])
                if self._verbose and event.detail:
                    self.lines([f"  it said: {plain(event.detail, 1000)}"])
            case StageStarted():  # other work than trainings, which the bar counts
                self.stop()
                if self._verbose:
                    self.lines([f"  {event.stage} …"])

    def stop(self) -> None:
        """Remove the bar, if there is one: what is printed next stands on its own line."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _left(self, event: JobFinished) -> str:
        """About how long the trainings that are left take, in words; "" where none is left."""
        done, left = event.finished - self._before, event.total - event.finished
        if done < 1 or left < 1:
            return ""
        seconds = (time.monotonic() - self._began) / done * left
        return f" · about {duration_text(seconds)} left"

    def _start(self, event: JobsCounted) -> None:
        """Begin the progress bar, in a terminal; trainings that were finished before count as done.

        How many those are is said outside a terminal, too.
        """
        self._began, self._before = time.monotonic(), event.finished
        if event.finished:
            total = numbered(event.total, "training was", "trainings were")
            self.lines([f"  resume  {event.finished} of {total} finished before"])
        if not self._console.is_terminal:
            return
        self._bar = Progress(
            TextColumn("  training"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=self._console,
            transient=True,
        )
        self._task = self._bar.add_task("", total=event.total, completed=event.finished)
        self._bar.start()
