"""The only file that draws in a terminal; everything goes to stderr."""

import sys
from collections.abc import Iterable

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from fairaudit.cli.printing import folded, no_command, width_of
from fairaudit.errors import FairauditError, numbered
from fairaudit.execution.progress import JobFailed, JobFinished, JobsFound, ProgressEvent, StageStarted
from fairaudit.io.standard_streams import write_to_nothing
from fairaudit.report.safe_names import plain


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Go on without a reader, also in a program whose streams nobody secured."""
        write_to_nothing(sys.stderr)


class Screen:
    """Lines, progress and errors on stderr.

    A terminal gets a bar, anything else one line per finished training. NO_COLOR is honoured by
    rich; ``quiet`` leaves errors only.
    """

    def __init__(self, *, quiet: bool = False, verbose: bool = False) -> None:
        self._console = _Console(stderr=True, highlight=False, soft_wrap=True)
        self._quiet = quiet
        self._verbose = verbose
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    @property
    def width(self) -> int | None:
        """Columns of the terminal, None where stderr is none."""
        return width_of(sys.stderr)

    def lines(self, lines: Iterable[str], *, style: str = "") -> None:
        """Text as it is; names in it are already plain."""
        if not self._quiet:
            width = width_of(sys.stderr)
            for line in lines:
                for piece in folded(no_command(line), width):
                    self._console.print(Text(piece, style=style))

    def detail(self, lines: Iterable[str]) -> None:
        """Text for ``-v`` only."""
        if self._verbose:
            self.lines(lines, style="dim")

    def warn(self, message: str, fix: str) -> None:
        """One warning in one line."""
        self.lines(
            [f"Warning {plain(message, 1000)}" + (f" ({plain(fix, 300)})" if fix else "")], style="yellow"
        )

    def error(self, error: FairauditError) -> None:
        """One error in one line; shown even when quiet."""
        hint = f" ({plain(error.hint, 1000)})" if error.hint else ""
        for piece in folded(f"Error: {plain(error.message, 1000)}{hint}", width_of(sys.stderr)):
            self._console.print(Text(piece, style="red"))

    def listen(self, event: ProgressEvent) -> None:
        """Draw one event of an audit."""
        if self._quiet:
            return
        match event:
            case JobsFound():
                self._start(event)
            case JobFinished():
                told = f"{plain(event.arm)}, seed {event.seed}"
                if self._bar is not None and self._task is not None:
                    shown = told.replace("[", "\\[")
                    self._bar.update(self._task, completed=event.finished, description=shown)
                else:
                    self.lines([f"  {event.finished}/{event.total} {told} · {event.seconds:.1f} s"])
            case JobFailed():
                self.warn(f"{event.arm}, seed {event.seed}: {event.message}", "")
            case StageStarted():
                self.stop()
                self.detail([f"  {event.stage} …"])

    def stop(self) -> None:
        """Remove the bar; what is printed next stands on its own line."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _start(self, event: JobsFound) -> None:
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
