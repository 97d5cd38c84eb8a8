"""The process in which the user's own code trains once: reads what it is handed, answers, and ends.

It is started afresh for every training, so that none can leave anything to the next: global seeds,
threads, patched modules. What it prints goes to whoever started it; what it predicts goes back in a
file of its own. Without torch.
"""

import contextlib
import importlib
import inspect
import os
import pickle
import resource
import signal
import sys
import sysconfig
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, NoReturn  # `plan` needs no pandas

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fairaudit.errors import OwnCodeError, said
from fairaudit.io.named_code import put_on_path
from fairaudit.trainers.answers import (
    IN_ORDER,
    Answer,
    Claimed,
    Declared,
    Synthesised,
    TrainerAnswer,
    claim_of,
    refuse_improper,
    write,
)
from fairaudit.trainers.contract import Privacy, Range, TrainingData

if TYPE_CHECKING:
    import pandas as pd

    Features = NDArray[np.float32] | pd.DataFrame

_MIB = 2**20
_KEPT = 2**16  # characters of a traceback, the last of them
_CALL = "it is called with three arguments, docs/trainers.md; with settings with four"
_TABLE = "a synthesizer returns a DataFrame with the columns of the table that it is given"


@dataclass(frozen=True, slots=True)
class TrainerRequest:
    """What one training is handed.

    Args:
        trainer: ``module:function``.
        data: Of a trainer; the table of a synthesizer; None to ask what the function declares.
        privacy, seed, settings: As the function takes them.
        test: Features of all rows that a trainer's predictor is asked for.
        hidden: A column of the table that is in no row that is handed over; or "".
        memory: The most MiB of memory that the process may take; None: no limit.
        timeout: The most seconds that it may take; None: no limit.
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


def main(parent: int, descriptor: int, folder: str) -> NoReturn:
    """Read a pickled request from standard input, write the answer to a file, and exit at once.

    The answer is a ``TrainerAnswer``, ``Synthesised`` or ``Declared``, or the ``OwnCodeError`` that
    says why there is none.

    Args:
        parent: Id of the process that asks; this one ends when it does.
        descriptor: Of the file to write, which has no name that the user's code could find.
        folder: Where the user's module lies, if it is not installed. It is searched last.
    """
    answer = os.fdopen(descriptor, "w+b")
    os.set_inheritable(descriptor, False)  # processes that the user's code starts do not get it
    put_on_path(folder)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    content = sys.stdin.buffer.read()
    request: TrainerRequest = pickle.loads(content)
    # A second copy, for the user's code may change what it is handed.
    untouched: TrainerRequest = pickle.loads(content)
    if request.memory is not None:
        # Linux limits the memory that is written to. Elsewhere only address space can be limited,
        # of which some libraries reserve more than they use.
        kind = resource.RLIMIT_DATA if sys.platform.startswith("linux") else resource.RLIMIT_AS
        resource.setrlimit(kind, (request.memory * _MIB, request.memory * _MIB))
    result: Answer | OwnCodeError
    try:
        result = _answered(request, untouched)
    except OwnCodeError as error:
        result = error
    except BaseException as error:  # objects that the user's code returned may raise anything
        trace = "".join(traceback.format_exception(error))[-_KEPT:]
        message, detail = _failure_texts(f"what {request.trainer} returned", error, request)
        result = OwnCodeError(message, log=trace, detail=detail)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # the user's code may have replaced the stream
            stream.flush()
    try:
        write(result, answer)
    except Exception as error:  # what was returned cannot be written: say so in its place
        message, detail = _failure_texts(f"what {request.trainer} returned", error, request)
        write(OwnCodeError(message, detail=detail), answer)
    os._exit(0)  # at once: the user's threads and exit functions are not waited for


def _answered(request: TrainerRequest, untouched: TrainerRequest) -> Answer:
    """Have the user's function train, make a table or declare what it takes, as is asked.

    Args:
        request: What the function is handed.
        untouched: A copy of the request that the function does not get.

    Raises:
        OwnCodeError: The function failed, or returned what cannot be used.
    """
    function = _function(request)
    if request.data is None:
        return _declared(function, request.trainer)
    if isinstance(request.data, TrainingData):
        return _trained(function, request, request.data, untouched)
    arguments = (request.data, request.privacy, request.seed)
    return _synthesised(_called(function, request.trainer, request, *arguments), request)


def _function(request: TrainerRequest) -> Callable[..., object]:
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
    """What a function declares in its attributes ``settings`` and ``supports_no_noise``.

    Args:
        function: The user's. It is not called, but its signature must take the contract's three
            arguments, or four where it declares settings.
        name: Of it, for messages.

    Raises:
        OwnCodeError: A setting is no ``Range``, or the signature takes other arguments.
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
    function: Callable[..., object],
    request: TrainerRequest,
    data: TrainingData,
    untouched: TrainerRequest,
) -> TrainerAnswer:
    """Train by the user's function, and predict the rows of ``request.test``.

    Args:
        function: The user's.
        request: What it is handed.
        data: The request's training data.
        untouched: A copy of the request, whose rows are predicted: the function may have written
            over its own.

    Raises:
        OwnCodeError: The user's code raised an error, or returned no usable predictor.
    """
    arguments: list[object] = [data, request.privacy, request.seed]
    if getattr(function, "settings", None):
        arguments.append(request.settings)
    classes = data.classes  # read before the user's code could change ``data``
    predictor = _called(function, request.trainer, request, *arguments)
    predict = getattr(predictor, "predict_proba", predictor)
    if not callable(predict):
        message = f"it returned a {type(predictor).__name__} without predict_proba"
        raise OwnCodeError(message, IN_ORDER)
    # Scikit-learn's classifiers list the classes of their columns in `classes_`, by name or by
    # number. A class that the training rows lacked is missing there, which is refused.
    listed = getattr(predictor, "classes_", None)
    order = [str(name) for name in (classes if listed is None else listed)]
    numbers = [str(number) for number in range(len(classes))]
    if order not in (list(classes), numbers):
        expected = f"{', '.join(classes[:6])[:100]}, or 0 to {len(classes) - 1}"
        message = f"its classes_ are {', '.join(order[:6])[:100]}; expected are {expected}"
        raise OwnCodeError(message, IN_ORDER)
    test = _predicted(predict, untouched.test, request, len(classes))
    return TrainerAnswer(test, _claim(getattr(predictor, "claimed", None)))


def _synthesised(made: object, request: TrainerRequest) -> Synthesised:
    """What a synthesizer returned as a table, with the privacy that it claims for it.

    Args:
        made: What it returned.
        request: What it was handed, for messages.

    Raises:
        OwnCodeError: It is no DataFrame that can be read.
    """
    import pandas as pd

    if not isinstance(made, pd.DataFrame):
        raise OwnCodeError(f"it returned a {type(made).__name__}, no DataFrame", _TABLE)
    # Taken out, for the attributes of a DataFrame go into the table's metadata as JSON, which has
    # no form for a ``Privacy``.
    claimed = made.attrs.pop("claimed", None)
    try:
        table = pa.Table.from_pandas(made, preserve_index=False)
    except (pa.ArrowException, ValueError, TypeError) as error:
        message, detail = _failure_texts("the reading of its table", error, request)
        raise OwnCodeError(message, _TABLE, detail=detail) from error
    return Synthesised(table, _claim(claimed))


def _called(
    function: Callable[..., object], name: str, request: TrainerRequest, *arguments: object
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
    except BaseException as error:  # SystemExit of the user's code, too
        hint = ""
        if isinstance(error, MemoryError):
            hint = "raise --trainer-memory, or use less"
        elif isinstance(error, KeyError) and request.hidden and request.hidden in str(error):
            hint = f"the rows have the column {request.hidden} where --trainer-groups is given"
        # The first frame is this function's; the user's frames follow it.
        user_frames = error.__traceback__.tb_next if error.__traceback__ else None
        trace = "".join(traceback.format_exception(type(error), error, user_frames))[-_KEPT:]
        message, detail = _failure_texts(name, error, request)
        raise OwnCodeError(message, hint, trace, detail) from error


def _failure_texts(name: str, error: BaseException, request: TrainerRequest) -> tuple[str, str]:
    """A message that something raised an error and where, and apart from it the error's own text.

    An error's text may quote records. It enters the message only where no record was handed over,
    or where it is of an import; the second text is then "".

    Args:
        name: What raised the error, in words.
        error: The error.
        request: What the code was handed.
    """
    frames = traceback.extract_tb(error.__traceback__)
    user_frames = [frame for frame in frames if not _is_of_a_library(frame)]
    where = ""
    if user_frames:  # the last one is where the user's code was when the error came
        last = user_frames[-1]
        where = f" ({os.path.basename(last.filename)}, line {last.lineno})"
    if request.data is None or isinstance(error, ImportError):  # the text can quote no record
        return f"{name} raised {said(error)}{where}", ""
    kind = type(error).__name__
    text = said(error).removeprefix(kind).removeprefix(": ")
    return f"{name} raised {kind}{where}", text


def _is_of_a_library(frame: traceback.FrameSummary) -> bool:
    """Whether a frame is of this program, of Python or of an installed package."""
    program = os.path.dirname(os.path.dirname(__file__))
    paths = sysconfig.get_paths()
    folders = (program, paths["stdlib"], paths["purelib"], paths["platlib"])
    # A frame without a file has a name such as "<frozen importlib._bootstrap>".
    return frame.filename.startswith((*(folder + os.sep for folder in folders), "<"))


def _predicted(
    predict: Callable[..., object],
    features: "Features | None",
    request: TrainerRequest,
    classes: int,
) -> NDArray[np.float32]:
    """Have the user's code predict some rows: checked probabilities ``[n, Y]``, as float32.

    Rounding to float32 leaves the most probable class of each row as it is.

    Args:
        predict: The user's ``predict_proba``.
        features: Of the n rows.
        request: What the training was handed, for messages.
        classes: Y, how many there are.

    Raises:
        OwnCodeError: ``predict`` raised an error, or did not return such probabilities.
    """
    assert features is not None  # a request with training data has rows to predict
    rows = len(features)
    output = _called(predict, f"predict_proba of {request.trainer}", request, features)
    try:
        values = np.asarray(output, dtype=np.float64)
    except (TypeError, ValueError) as error:
        message = f"predict_proba gave a {type(output).__name__} that is no array"
        raise OwnCodeError(message, IN_ORDER) from error
    if values.shape != (rows, classes):
        given = list(values.shape)
        message = f"predict_proba gave {given} for {rows:,} rows of {classes} classes"
        raise OwnCodeError(message, IN_ORDER)
    refuse_improper(values)
    rounded = values.astype(np.float32)
    best = values.argmax(axis=1)
    # Two probabilities may round to one float32. The class that was ahead then gets the next larger
    # float32; 2 only says in which direction.
    moved = np.flatnonzero(rounded.argmax(axis=1) != best)
    rounded[moved, best[moved]] = np.nextafter(rounded[moved].max(axis=1), np.float32(2))
    return rounded


def _claim(claimed: object) -> Claimed:
    """The fields of the ``Privacy`` that is claimed; None for no claim or an infinite epsilon.

    Raises:
        OwnCodeError: It is no ``Privacy``, or its fields were set to values that a ``Privacy``
            refuses.
    """
    if claimed is None:
        return None
    if not isinstance(claimed, Privacy):
        raise OwnCodeError(f"its claimed is a {type(claimed).__name__}, no fairaudit.Privacy")
    try:
        return claim_of(asdict(claimed))
    except Exception as error:
        raise OwnCodeError("its claimed is no fairaudit.Privacy", detail=said(error)) from error


def _end_with(parent: int) -> None:
    """Wait until the process ``parent`` has ended, then kill this one and all of its group.

    So no training outlives the audit that asked for it.
    """
    while os.getppid() == parent:
        time.sleep(1.0)
    os.killpg(0, signal.SIGKILL)
