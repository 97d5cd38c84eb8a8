"""The process in which the user's own code trains once: reads what it is handed, answers, and ends.

It is started afresh for every training, so that none can leave anything to the next: global seeds,
threads, patched modules. What it prints goes to whoever started it; what it predicts goes back in a
file of its own. Without torch.
"""

import contextlib
import importlib
import inspect
import math
import os
import pickle
import resource
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, NamedTuple, NoReturn  # `plan` needs no pandas

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fairaudit.errors import OwnCodeError
from fairaudit.io.named_code import put_on_path
from fairaudit.trainers.contract import Privacy, Range, TrainingData

if TYPE_CHECKING:
    import pandas as pd

    Features = NDArray[np.float32] | pd.DataFrame

Claimed = Mapping[str, object] | None  # the fields of a `Privacy`; None: nothing is claimed

# How far a row's probabilities may sum from 1; the same is allowed of predictions that are given.
SUM_TOLERANCE = 1e-3
_MIB = 2**20
_CALL = "it is called with three arguments, docs/trainers.md; with settings with four"
_TABLE = "a synthesizer returns a DataFrame with the columns of the table that it is given"
_IN_ORDER = "predict_proba gives [n, Y], one column per class in the order of data.classes"


@dataclass(frozen=True, slots=True)
class Request:
    """What one training is handed.

    Args:
        trainer: ``module:function``.
        data: Of a trainer; the table of a synthesizer; None to ask what the function declares.
        privacy, seed, settings: As the function takes them.
        test: Features of all rows that a trainer's predictor is asked for.
        hidden: A column of the table that is in no row that is handed over; or "".
        memory: MiB, or None.
        timeout: s, or None.
    """

    trainer: str
    data: "TrainingData | pd.DataFrame | None" = None
    privacy: Privacy | None = None
    seed: int = 0
    settings: Mapping[str, float] | None = None
    test: "Features | None" = None
    hidden: str = ""
    memory: int | None = None
    timeout: float | None = None


class Trained(NamedTuple):
    """What a training predicts of the test rows, [n, Y], and what is claimed of it."""

    test: NDArray[np.float32]
    claimed: Claimed


class Synthesised(NamedTuple):
    """A synthetic table, and what is claimed of it."""

    table: pa.Table
    claimed: Claimed


class Declared(NamedTuple):
    """What a function says of itself.

    Args:
        settings: Name -> range, of what a search may vary.
        supports_no_noise: It trains without noise where epsilon is infinite.
    """

    settings: Mapping[str, Range]
    supports_no_noise: bool


def main(parent: int, answer: str, folder: str) -> NoReturn:
    """Read a pickled request from standard input, write the answer to a file, and exit at once.

    The answer is a pickled ``Trained``, ``Synthesised`` or ``Declared``, or the ``OwnCodeError``
    that says why there is none.

    Args:
        parent: Id of the process that asks; this one ends when it does.
        answer: Path of the file to write.
        folder: Where the user's module lies, if it is not installed. It is searched last.
    """
    put_on_path(folder)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    content = sys.stdin.buffer.read()
    request: Request = pickle.loads(content)
    untouched: Request = pickle.loads(content)  # the user's code may change what it is handed
    if request.memory is not None:
        # What is private and written; address space, which some libraries reserve, elsewhere.
        kind = resource.RLIMIT_DATA if sys.platform.startswith("linux") else resource.RLIMIT_AS
        resource.setrlimit(kind, (request.memory * _MIB, request.memory * _MIB))
    result: Trained | Synthesised | Declared | OwnCodeError
    try:
        function = _function(request)
        if request.data is None:
            result = _declared(function, request.trainer)
        elif isinstance(request.data, TrainingData):
            result = _trained(function, request, request.data, untouched)
        else:
            arguments = (request.data, request.privacy, request.seed)
            result = _synthesised(_called(function, request.trainer, request, *arguments))
    except OwnCodeError as error:
        result = error
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # the user's code may have put anything there
            stream.flush()
    with open(answer, "wb") as file:
        pickle.dump(result, file)
    os._exit(0)  # threads and processes of the user's do not keep it


def _function(request: Request) -> Callable[..., object]:
    """Import the user's function that the request names as ``module:function``.

    Raises:
        OwnCodeError: The import fails, or no such function is there.
    """
    path, _, attribute = request.trainer.partition(":")
    module = _called(importlib.import_module, f"module {path!r}", request, path)
    function: Callable[..., object] | None = getattr(module, attribute, None)
    if not callable(function):
        problem = "is not there" if function is None else "is not a function"
        raise OwnCodeError(f"{request.trainer} {problem}", _CALL)
    return function


def _declared(function: Callable[..., object], name: str) -> Declared:
    """What the function declares: ranges of its settings, and whether it can train without noise.

    Raises:
        OwnCodeError: A setting is no ``Range``; it does not take the arguments of the contract.
    """
    ranges = {}
    for setting, ends in (getattr(function, "settings", None) or {}).items():
        if not isinstance(ends, Range):
            raise OwnCodeError(f"{name}: its setting {setting!r} is no fairaudit.Range", _CALL)
        ranges[str(setting)] = ends
    arguments: tuple[object, ...] = (None, None, 0)
    count = "three"
    if ranges:
        arguments, count = (*arguments, {}), "four"
    with contextlib.suppress(ValueError):  # code in C may have no signature that could be checked
        try:
            inspect.signature(function).bind(*arguments)
        except TypeError as error:
            message = f"{name} does not take {count} arguments: {error}"
            raise OwnCodeError(message, _CALL) from error
    return Declared(ranges, getattr(function, "supports_no_noise", False) is True)


def _trained(
    function: Callable[..., object], request: Request, data: TrainingData, untouched: Request
) -> Trained:
    """Train by the user's function, and predict the rows of ``request.test``.

    Args:
        function: The user's.
        request: What it is handed.
        data: The request's training data.
        untouched: The same request once more, whose rows are predicted: the function may have
            written over its own.

    Raises:
        OwnCodeError: The user's code raised an error, or returned no usable predictor.
    """
    arguments: list[object] = [data, request.privacy, request.seed]
    if getattr(function, "settings", None):
        arguments.append(request.settings)
    classes = data.classes
    predictor = _called(function, request.trainer, request, *arguments)
    predict = getattr(predictor, "predict_proba", predictor)
    if not callable(predict):
        message = f"it returned a {type(predictor).__name__} without predict_proba"
        raise OwnCodeError(message, _IN_ORDER)
    # Scikit-learn's classifiers say their order; a class that training lacked is missing there.
    listed = getattr(predictor, "classes_", None)
    order = [str(name) for name in (classes if listed is None else listed)]
    if order not in (list(classes), list(map(str, range(len(classes))))):
        expected = f"{', '.join(classes[:6])[:100]}, or 0 to {len(classes) - 1}"
        message = f"its classes_ are {', '.join(order[:6])[:100]}; expected are {expected}"
        raise OwnCodeError(message, _IN_ORDER)
    test = _predicted(predict, untouched.test, request, len(classes))
    return Trained(test, _claim(getattr(predictor, "claimed", None)))


def _synthesised(made: object) -> Synthesised:
    """What a synthesizer returned as a table, with the privacy that it claims for it.

    Raises:
        OwnCodeError: It is no DataFrame that can be read.
    """
    import pandas as pd

    if not isinstance(made, pd.DataFrame):
        raise OwnCodeError(f"it returned a {type(made).__name__}, no DataFrame", _TABLE)
    claimed = made.attrs.pop("claimed", None)
    try:
        table = pa.Table.from_pandas(made, preserve_index=False)
    except (pa.ArrowException, ValueError, TypeError) as error:
        raise OwnCodeError(f"its table cannot be read: {_error_line(error)}", _TABLE) from error
    return Synthesised(table, _claim(claimed))


def _called(
    function: Callable[..., object], name: str, request: Request, *arguments: object
) -> object:
    """Call the user's code and return what it returns.

    Args:
        function: What is called.
        name: Of it, for a message.
        request: What the training is handed: a hint may name its hidden column.
        arguments: Of the function.

    Raises:
        OwnCodeError: The code raised whatever error, whose own traceback this one carries.
    """
    try:
        return function(*arguments)
    except BaseException as error:
        hint = ""
        if isinstance(error, MemoryError):
            hint = "raise --trainer-memory, or use less"
        elif isinstance(error, KeyError) and request.hidden and request.hidden in str(error):
            hint = f"the rows have the column {request.hidden} where --trainer-groups is given"
        # From the user's first frame on, without this program's.
        inner = error.__traceback__.tb_next if error.__traceback__ else None
        trace = "".join(traceback.format_exception(type(error), error, inner))
        raise OwnCodeError(f"{name} raised {_error_line(error)}", hint, trace) from error


def _error_line(error: BaseException) -> str:
    """An error in one line, with where it was raised."""
    line = str(error).strip().partition("\n")[0]
    text = (f"{type(error).__name__}: {line}" if line else type(error).__name__)[:200]
    frames = traceback.extract_tb(error.__traceback__)
    if len(frames) > 1:
        text += f" ({os.path.basename(frames[-1].filename)}, line {frames[-1].lineno})"
    return text


def _predicted(
    predict: Callable[..., object], features: "Features | None", request: Request, classes: int
) -> NDArray[np.float32]:
    """The user's probabilities ``[n, Y]`` of some rows, checked and as float32.

    The most probable class of each row stays the same when numbers are rounded to float32.

    Args:
        predict: The user's ``predict_proba``.
        features: Of the n rows.
        request: What the training was handed, for messages.
        classes: Y, how many there are.

    Raises:
        OwnCodeError: It raised an error, or what it returned are no such probabilities.
    """
    assert features is not None
    rows = len(features)
    output = _called(predict, f"predict_proba of {request.trainer}", request, features)
    try:
        values = np.asarray(output, dtype=np.float64)
    except (TypeError, ValueError) as error:
        message = f"predict_proba gave a {type(output).__name__} that is no array"
        raise OwnCodeError(message, _IN_ORDER) from error
    size = f"{rows:,} rows"
    if values.shape != (rows, classes):
        message = f"predict_proba gave {list(values.shape)} for {size} of {classes} classes"
        raise OwnCodeError(message, _IN_ORDER)
    close = np.abs(values.sum(axis=1) - 1.0) <= SUM_TOLERANCE
    for is_strange, why in (
        (~np.isfinite(values).all(axis=1), "are not finite"),
        (~close | (values < 0.0).any(axis=1), "do not add up to 1 or are negative"),
    ):
        if is_strange.any():
            message = f"predict_proba gave numbers that {why} in {is_strange.sum():,} of {size}"
            raise OwnCodeError(message, _IN_ORDER)
    rounded = values.astype(np.float32)
    best = values.argmax(axis=1)
    # Two probabilities may be one float32: the class that was ahead is put ahead by the next one.
    moved = np.flatnonzero(rounded.argmax(axis=1) != best)
    rounded[moved, best[moved]] = np.nextafter(rounded[moved].max(axis=1), np.float32(2))
    return rounded


def _claim(claimed: object) -> Claimed:
    """The fields of the ``Privacy`` that is claimed; None for no claim or an infinite epsilon."""
    if claimed is None:
        return None
    if not isinstance(claimed, Privacy):
        raise OwnCodeError(f"its claimed is a {type(claimed).__name__}, no fairaudit.Privacy")
    return None if claimed.epsilon == math.inf else asdict(claimed)


def _end_with(parent: int) -> None:
    """Wait until the process ``parent`` has ended, then kill this one and all of its group.

    So no training outlives the audit that asked for it.
    """
    while os.getppid() == parent:
        time.sleep(1.0)
    os.killpg(0, signal.SIGKILL)
