"""Lines and a progress bar on stderr; this file alone draws in a terminal."""

import sys
from collections.abc import Iterable

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text

from fairaudit.cli.printing import folded, no_command, width_of
from fairaudit.errors import numbered
from fairaudit.execution.progress import (
    JobFailed,
    JobFinished,
    JobsFound,
    ProgressEvent,
    StageStarted,
)
from fairaudit.report.render.terminal import WIDTH
from fairaudit.report.safe_names import plain


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

    @property
    def width(self) -> int:
        """Columns that a line may take; where stderr is no terminal, those of a usual one."""
        return width_of(sys.stderr) or WIDTH

    def lines(self, lines: Iterable[str]) -> None:
        """Print lines, unless ``quiet``; whoever made them has escaped the names in them."""
        if not self._quiet:
            width = width_of(sys.stderr)
            for line in lines:
                for piece in folded(no_command(line), width):
                    self._console.print(Text(piece))

    def listen(self, event: ProgressEvent) -> None:
        """Show one event of a running audit, which is given this method as its listener."""
        if self._quiet:
            return
        match event:
            case JobsFound():
                self._start(event)
            case JobFinished():
                place = f"{plain(event.arm)}, seed {event.seed}"
                if self._bar is not None and self._task is not None:
                    shown = place.replace("[", "\\[")
                    self._bar.update(self._task, completed=event.finished, description=shown)
                else:
                    self.lines(
                        [f"  {event.finished}/{event.total} {place} · {event.seconds:.1f} s"]
                    )
            case JobFailed():
                message = f"{event.arm}, seed {event.seed}: {event.message}"
                self.lines([f"Warning {plain(message, 1000)}"])
                if self._verbose and event.detail:
                    self.lines([f"  it said: {plain(event.detail, 1000)}"])
            case StageStarted():
                self.stop()
                if self._verbose:
                    self.lines([f"  {event.stage} …"])

    def stop(self) -> None:
        """Remove the bar, if there is one: what is printed next stands on its own line."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _start(self, event: JobsFound) -> None:
        """Begin the progress bar, in a terminal; trainings that were finished before count as done.

        Elsewhere it only says how many those are.
        """
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
            console=self._console,
            transient=True,
        )
        self._task = self._bar.add_task("", total=event.total, completed=event.finished)
        self._bar.start()
