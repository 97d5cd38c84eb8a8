"""What can go wrong, said in one line each, and the exit code a script sees."""

import difflib
import re
from collections.abc import Iterable, Sequence

LONGEST_WORD = 300  # characters of what a user typed; longer ones bury the message
_LONG_WORD = re.compile(rf"\S{{{LONGEST_WORD + 1},}}")

EXIT_OK = 0
EXIT_GATE_FAILED = 1
EXIT_INPUT = 2
EXIT_INCONCLUSIVE = 3
EXIT_TRAINING = 4
EXIT_PRIVACY = 5
EXIT_BUG = 70
EXIT_INTERRUPTED = 130
EXIT_PIPE = 141
EXIT_TERMINATED = 143


class FairauditError(Exception):
    """A failure the user can act on: what was found, and what to do next.

    Args:
        message: One line; names and counts only, never a row's values.
        hint: The next step, as a command or an option.

    Example:
        >>> import fairaudit
        >>> try:
        ...     fairaudit.load_report("nowhere/report.json")
        ... except fairaudit.FairauditError as error:
        ...     print(error.message, error.exit_code)
        there is no report 'nowhere/report.json' 2
    """

    exit_code = EXIT_BUG

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message, hint)  # both, so that the error survives the trip from a worker
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        """The message with its hint; words beyond 300 characters are cut."""
        line = f"{self.message} ({self.hint})" if self.hint else self.message
        return _LONG_WORD.sub(lambda word: word[0][:LONGEST_WORD] + "...", line)


class ConfigError(FairauditError):
    """An option, a method or a rule that does not exist, or options that contradict each other."""

    exit_code = EXIT_INPUT


class DataError(FairauditError):
    """A file that cannot be read, or a table that cannot be audited."""

    exit_code = EXIT_INPUT


class OutputError(FairauditError):
    """The output directory cannot be used: not writable, full, locked, or of another run."""

    exit_code = EXIT_INPUT


class TrainingError(FairauditError):
    """A model that cannot be trained: diverged, unsupported layer, out of memory."""

    exit_code = EXIT_TRAINING


class DivergedError(TrainingError):
    """A training whose parameters or predictions are not finite: its step was too long for it."""


class OwnCodeError(TrainingError):
    """Code of the user's own failed in a training.

    Args:
        message, hint: As of every error.
        log: The end of what that code printed, and its traceback, for a file of the run folder.
        detail: The text of that code's error, of one line, for ``--verbose`` alone: it may quote a
            row.
    """

    def __init__(self, message: str, hint: str = "", log: str = "", detail: str = "") -> None:
        super().__init__(message, hint)
        # No arguments of the exception, and kept on the trip from a worker all the same.
        self.log = log
        self.detail = detail


class PrivacyError(FairauditError):
    """A privacy target that cannot be met."""

    exit_code = EXIT_PRIVACY


class GateFailed(FairauditError):
    """A rule of a report fails, and something was asked for that needs all of them to pass."""

    exit_code = EXIT_GATE_FAILED


class Undecided(FairauditError):
    """A rule of a report is inconclusive, and what was asked for needs all of them to pass."""

    exit_code = EXIT_INCONCLUSIVE


def is_out_of_memory(error: BaseException) -> bool:
    """Whether code failed for want of memory, of the machine or of a GPU.

    PyTorch raises a RuntimeError, which its text alone tells from others: "not enough memory" of a
    CPU, "CUDA out of memory" of a GPU. Its class for the latter would need torch to be imported.
    """
    words = ("not enough memory", "out of memory")
    return isinstance(error, MemoryError) or any(each in said(error) for each in words)


def said(error: BaseException) -> str:
    """An error of other code (a library, the user's own): its type and first line, shortened."""
    try:
        lines = str(error).strip().splitlines()
    except Exception:  # an exception's own text may fail
        lines = []
    return (f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__)[:200]


def nearest_name(name: str, names: Sequence[str], alike: float = 0.6) -> str | None:
    """The name that is nearest to a mistyped one; None where none is near.

    A name that differs in upper and lower case alone counts as near.

    Args:
        name: As it was typed.
        names: Those that there are.
        alike: How like the two must be, as the ``cutoff`` of difflib: 0 for any, 1 for equal ones.
    """
    near = difflib.get_close_matches(name, names, n=1, cutoff=alike)
    near = near or [known for known in names if known.lower() == name.lower()]
    return near[0] if near else None


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """The hint for a mistyped name: the nearest known one, else the first twelve; "" without any.

    A name that differs in upper and lower case alone counts as near. Of several names joined by
    commas, where one is known, the hint says to give each by itself.
    """
    names = list(names)
    parts = [part.strip() for part in name.split(",")]
    if len(parts) > 1 and set(parts) & set(names):
        return f"give each by itself, repeating the option: {', '.join(parts)}"
    near = nearest_name(name, names)
    if near is not None:
        return f"did you mean {near!r}?"
    shown = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
    return f"known: {shown}" if names else ""


def numbered(number: int, noun: str, plural: str = "") -> str:
    """The number with its noun: ``1 seed``, ``5 seeds``.

    ``plural``: The words for other numbers than 1, where an s at the end does not make them.
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
