"""The program: its commands, and the line on stderr and the exit code that every exception becomes.

Typer, the library that reads command lines, handles some exceptions itself, in ways that hide what
happened; such exceptions are wrapped before they reach it.
"""

import errno
import itertools
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping
from functools import cache
from types import FrameType
from typing import Any

import typer
from typer.core import TyperCommand
from typer.exceptions import TyperException
from typer.main import get_command

from fairaudit import __version__
from fairaudit.capabilities.installed import CAPABILITIES
from fairaudit.cli.commands import (
    clean,
    compare,
    doctor,
    explain,
    gate,
    init,
    inspect,
    methods,
    plan,
    report,
    run,
    schema,
    score,
)
from fairaudit.cli.printing import print_stderr, write_to_nothing
from fairaudit.config.options import OPTIONS, PANELS
from fairaudit.errors import (
    EXIT_BUG,
    EXIT_INPUT,
    EXIT_INTERRUPTED,
    EXIT_OK,
    EXIT_PIPE,
    EXIT_TERMINATED,
    EXIT_TRAINING,
    DataError,
    FairauditError,
)
from fairaudit.io.named_code import PACKAGES
from fairaudit.report.safe_names import plain

# Command -> how it is typed, with the sample table or with files of one's own.
EXAMPLES: Mapping[str, tuple[str, ...]] = {
    "run": (
        "fairaudit run --data sample_data/loans.parquet --group sex --method dpsgd",
        "fairaudit run --data people.csv --label hired --favourable yes --group sex --group race",
        "fairaudit run --data people.csv --group sex --fail-on 'privacy_cost_gap > 2 points'",
    ),
    "plan": ("fairaudit plan --data sample_data/loans.parquet --group sex --method all",),
    "gate": ("fairaudit gate fairaudit-report/loans/report.json --fail-on 'epsilon > 3'",),
    "score": ("fairaudit score guesses.csv --y-true hired --y-pred guess --group sex",),
    "compare": ("fairaudit compare before/report.json after/report.json",),
    "report": ("fairaudit report fairaudit-report/loans/report.json --format html",),
    "init": ("fairaudit init sample_data/loans.parquet --group sex",),
    "inspect": ("fairaudit inspect sample_data/loans.parquet --group sex",),
    "methods": ("fairaudit methods",),
    "explain": ("fairaudit explain 'excess risk'",),
    "schema": ("fairaudit schema > report.schema.json",),
    "doctor": ("fairaudit doctor",),
    "clean": ("fairaudit clean fairaudit-report/loans",),
    "choose": (
        "fairaudit choose --data people.csv --group sex --method dpsgd --epsilon 4 --epsilon 2 "
        "--fail-on 'privacy_cost_gap > 2 points'",
    ),
    "train": (
        "fairaudit train --from fairaudit-report/loans/report.json --method dpsgd --out model",
    ),
    "predict": ("fairaudit predict model --data new.csv --out predictions.parquet",),
}


class _HiddenFromTyper(Exception):
    """Wraps an exception that typer would handle itself: ``error`` is the original.

    Typer takes an end of file for Ctrl-C. Where a pipe is closed it ends with code 1, which here
    means a failed gate.
    """

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error


class _Command(TyperCommand):
    """A command whose help has panels, and whose exceptions typer does not handle."""

    def format_options(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 (typer's signature)
        """Write the options of the help below the titles of their panels, in ``PANELS``' order."""
        records = {
            parameter.name: parameter.get_help_record(ctx) for parameter in self.get_params(ctx)
        }
        placed = {option.field for option in OPTIONS}
        if not placed <= records.keys():  # a command without the options of an audit
            super().format_options(ctx, formatter)
            return
        panels = {title: [option.field for option in options] for title, options in PANELS.items()}
        panels["Other"] = [name for name in records if name not in placed]
        for title, names in panels.items():
            rows = [records[name] for name in names if records[name]]  # a hidden one has none
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)

    def format_help_text(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 (typer's signature)
        """Write what the command does, then how it is typed."""
        super().format_help_text(ctx, formatter)
        examples = EXAMPLES.get(self.name or "", ())
        if examples:
            formatter.write("\nExamples:\n")
            for example in examples:  # never broken, so that they can be copied
                formatter.write(f"  {example}\n")

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401 (typer's signature)
        """Run the command; exceptions that typer would handle are wrapped."""
        try:
            return super().invoke(ctx)
        except (EOFError, OSError, SystemExit) as error:
            raise _HiddenFromTyper(error) from error


app = typer.Typer(
    name="fairaudit",
    help="Audit what differential privacy costs each group of people, and why.",
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # boxes cut long option names at 80 columns, and read [0.2] as markup
    context_settings={"help_option_names": ["-h", "--help"]},
)
_COMMANDS: tuple[Callable[..., None], ...] = (
    run.run,
    plan.plan,
    gate.gate,
    score.score,
    compare.compare,
    report.report,
    init.init,
    inspect.inspect,
    methods.methods,
    explain.explain,
    schema.schema,
    clean.clean,
    doctor.doctor,
    *itertools.chain.from_iterable(one.commands() for one in CAPABILITIES),
)
for command in _COMMANDS:
    app.command(name=command.__name__, cls=_Command)(command)

# What is wrong with a path that somebody gave, wherever it is first used.
_OF_A_PATH = {errno.ENAMETOOLONG, errno.EACCES, errno.ELOOP}
_LONGEST = 4000  # characters of an error's line
_INTERRUPTED = "Interrupted; finished trainings are kept, the same command goes on from them"


class Terminated(BaseException):
    """SIGTERM arrived; like Ctrl-C it unwinds, so that workers end and files stay whole."""


def _version(value: bool) -> None:
    """Called by typer with the value of ``--version``: print the version and end."""
    if value:
        typer.echo(f"fairaudit {__version__}")
        raise typer.Exit


@app.callback()
def root(
    context: typer.Context,
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version."
    ),
) -> None:
    """Audit what differential privacy costs each group of people, and why."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main(arguments: list[str] | None = None) -> int:
    """Run one command line and flush its answer.

    ``arguments``: the words of the command line; None: those of the process.

    Returns:
        The exit code; 1 is kept for a failed gate and means nothing else.
    """
    code = _run_command(arguments)
    try:
        sys.stdout.flush()
    except OSError as lost:  # Python would flush it again at its end
        write_to_nothing(sys.stdout)
        # A reader that has left, as `head` does, is no error; a full disk is.
        if code == EXIT_OK and not isinstance(lost, BrokenPipeError):
            _say(f"Error: standard output cannot be written: {lost.strerror}")
            return EXIT_INPUT
    return code


@cache
def _parser() -> Callable[..., Any]:
    """All commands as typer runs them, made once: making them reads every signature."""
    return get_command(app)


def _run_command(arguments: list[str] | None) -> int:
    """Run one command line and return its exit code; an error becomes one line on stderr."""
    signal.signal(signal.SIGTERM, _terminate)
    try:
        code = _parser()(arguments, standalone_mode=False, prog_name="fairaudit")
        if code == EXIT_INTERRUPTED:  # typer has caught the KeyboardInterrupt
            _say(_INTERRUPTED)
        if isinstance(code, int):
            return code
        return EXIT_OK
    except FairauditError as error:
        _say(f"Error: {error}")
        return error.exit_code
    except TyperException as error:  # what the command line itself got wrong
        _say(f"Error: {error.format_message()}")
        return EXIT_INPUT
    except KeyboardInterrupt:
        _say(_INTERRUPTED)
        return EXIT_INTERRUPTED
    except Terminated:
        _say("Terminated; finished trainings are kept, the same command goes on from them")
        return EXIT_TERMINATED
    except MemoryError:
        _say("Error: out of memory (fewer --workers, or a smaller --batch-size)")
        return EXIT_TRAINING
    except SystemExit:  # raised by typer where the reader of the help has left
        return EXIT_OK
    except Exception as caught:
        return _unexpected(caught.error if isinstance(caught, _HiddenFromTyper) else caught)


def _unexpected(error: BaseException) -> int:
    """Print what an exception of another library or the system means, and return its exit code.

    Some are the user's to mend: a path, a full disk, a package that is not installed. Any other is
    a defect of this program.
    """
    if isinstance(error, BrokenPipeError):
        return EXIT_PIPE  # whoever read the answer has left
    if isinstance(error, OSError) and error.errno in _OF_A_PATH and error.filename is not None:
        reason = (error.strerror or str(error)).lower()
        _say(f"Error: {DataError(f'{error.filename} cannot be used: {reason}')}")
        return EXIT_INPUT
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        _say("Error: no space left to write the answer")
        return EXIT_INPUT
    if isinstance(error, ModuleNotFoundError):
        package = PACKAGES.get((error.name or "").partition(".")[0])
        if package is not None:
            _say(f"Error: this needs {package}, which is not installed (pip install {package})")
            return EXIT_INPUT
    _say(f"Bug: {type(error).__name__}; please report it{_write_bug_log(error)}")
    return EXIT_BUG


def _terminate(number: int, frame: FrameType | None) -> None:
    """Handler of SIGTERM."""
    raise Terminated


def _write_bug_log(error: BaseException) -> str:
    """Write the traceback of a defect to a file, and return words on where it is.

    Only its owner may read the file, since a traceback may quote data.
    """
    try:
        descriptor, path = tempfile.mkstemp(prefix="fairaudit-bug-", suffix=".log")
        with open(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(f"fairaudit {__version__}\n")
            traceback.print_exception(error, file=file)
    except OSError as unwritten:
        return f"; its log cannot be written: {(unwritten.strerror or str(unwritten)).lower()}"
    return f" with {path}"


def _say(line: str) -> None:
    """Print a text on stderr, as one line that is not too long and safe for a terminal."""
    print_stderr(plain(" ".join(line.split()), _LONGEST))
