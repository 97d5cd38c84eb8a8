"""The process in which the user's own code trains once: reads what it is given, answers, and ends.

It is started afresh for every training, so that none can leave anything to the next: global seeds,
threads, patched modules. What it prints goes to whoever started it; what it predicts goes back in a
pipe of its own.
"""

import contextlib
import importlib
import inspect
import json
import math
import os
import resource
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn  # noqa: TID251 - pandas is for raw rows alone

import numpy as np
from numpy.typing import NDArray

from fairaudit.trainers.contract import Privacy, Range, TrainingData

if TYPE_CHECKING:
    import pandas as pd

MIB = 2**20
SUM_TOLERANCE = 1e-3  # of a row's probabilities from 1, as of given predictions
LENGTH = 8  # bytes that say how long a message is
_CALL = "it is called with three arguments, docs/trainers.md; with settings with four"
_TABLE = "a synthesizer returns a DataFrame with the columns of the table that it is given"
_IN_ORDER = "predict_proba gives [n, Y], one column per class in the order of data.classes"


class Refused(Exception):
    """What the user's code did that cannot be used.

    Args:
        message: One line.
        hint: What is expected.
        trace: The user's own traceback, or "".
    """

    def __init__(
        self,
        message: str,
        hint: str = "",
        trace: str = "",
    ) -> None:
        super().__init__(message)
        self.message, self.hint, self.trace = message, hint, trace


def main(answer: int) -> NoReturn:
    """Read one request from standard input, answer it, and end with all that was started.

    Args:
        answer: Descriptor of the pipe that the answer is written to.
    """
    from safetensors.numpy import load, save  # `plan` starts no child

    os.set_inheritable(answer, False)
    channel = os.fdopen(os.dup(0), "rb")
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)  # whoever asks for input is told that there is none
    asked = json.loads(_message(channel))
    tensors = load(_message(channel)) if asked["has_data"] else {}
    tables = [_message(channel) for _ in range(asked["tables"])]
    threading.Thread(
        target=_end_with_parent,
        args=(channel,),
        daemon=True,
    ).start()
    if asked["memory"] is not None:
        # What is private and written; address space, which some libraries reserve, elsewhere.
        kind = resource.RLIMIT_DATA if sys.platform.startswith("linux") else resource.RLIMIT_AS
        resource.setrlimit(kind, (asked["memory"] * MIB, asked["memory"] * MIB))
    try:
        arrays, facts = _answered(asked, tensors, tables)
    except Refused as refused:
        hint, cause, hidden = refused.hint, refused.__cause__, asked.get("hidden")
        if hidden and isinstance(cause, KeyError) and hidden in str(cause):
            hint = f"the rows have the column {hidden} where --trainer-groups is given"
        arrays, facts = (
            {},
            {
                "message": refused.message,
                "hint": hint,
                "trace": refused.trace,
            },
        )
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # the user's code may have put anything there
            stream.flush()
    content = json.dumps(facts).encode(), save(arrays)
    with open(answer, "wb") as pipe:
        for part in content:
            pipe.write(len(part).to_bytes(LENGTH, "little") + part)
    os._exit(0)  # threads and processes of the user's do not keep it


def _answered(
    asked: Mapping[str, Any],
    tensors: Mapping[str, NDArray[Any]],
    tables: list[bytes],
) -> tuple[dict[str, NDArray[Any]], dict[str, object]]:
    function = _function(asked["trainer"])
    if not asked["has_data"]:
        return {}, _declared(function, asked["trainer"])
    told = asked["privacy"]
    privacy = None if told is None else Privacy(*told)
    if asked["synthesizes"]:
        table = _features("train", tensors, tables)
        return _synthetic(
            _called(
                function,
                asked["trainer"],
                _CALL,
                table,
                privacy,
                asked["seed"],
            )
        )
    classes, names, groups = (tuple(asked[name]) for name in ("classes", "names", "group_names"))
    data = TrainingData(
        _features("train", tensors, tables),
        tensors["labels"].copy(),
        tensors["groups"].copy() if "groups" in tensors else None,
        classes,
        groups,
        names,
    )
    arguments: list[object] = [data, privacy, asked["seed"]]
    if getattr(function, "settings", None):
        arguments.append(asked["settings"])
    predictor = _called(function, asked["trainer"], _CALL, *arguments)
    predict = getattr(predictor, "predict_proba", predictor)
    if not callable(predict):
        raise Refused(f"it returned a {type(predictor).__name__} without predict_proba", _IN_ORDER)
    # Scikit-learn's classifiers say their order; a class that training lacked is missing there.
    listed = getattr(predictor, "classes_", None)
    order = [str(name) for name in (classes if listed is None else listed)]
    if order not in (list(classes), list(map(str, range(len(classes))))):
        expected = f"{', '.join(classes[:6])[:100]}, or 0 to {len(classes) - 1}"
        raise Refused(
            f"its classes_ are {', '.join(order[:6])[:100]}; expected are {expected}", _IN_ORDER
        )
    found: dict[str, NDArray[Any]] = {}
    what = f"predict_proba of {asked['trainer']}"
    for part in ("test", "train"):
        features = _features(part, tensors, tables)  # anew: the trainer may have changed its own
        rows = len(features)
        predicted = _called(predict, what, _IN_ORDER, features)
        found[part] = _probabilities(predicted, rows, len(classes))
    return found, {"claimed": _claim(getattr(predictor, "claimed", None))}


def _declared(function: Callable[..., object], name: str) -> dict[str, object]:
    """What a function says of itself: the settings that can be searched, and that it has a twin."""
    settings = getattr(function, "settings", None) or {}
    ranges = {}
    for setting, ends in settings.items():
        if not isinstance(ends, Range):
            raise Refused(f"{name}: its setting {setting!r} is no fairaudit.Range", _CALL)
        ranges[str(setting)] = asdict(ends)
    arguments: tuple[object, ...] = (None, None, 0)
    if ranges:
        arguments = (*arguments, {})
    with contextlib.suppress(ValueError):  # one whose signature is not told
        try:
            inspect.signature(function).bind(*arguments)
        except TypeError as error:
            count = {3: "three", 4: "four"}[len(arguments)]
            raise Refused(f"{name} does not take {count} arguments: {error}", _CALL) from error
    can_do_without = getattr(function, "supports_no_noise", False) is True
    return {"settings": ranges, "supports_no_noise": can_do_without}


def _synthetic(made: object) -> tuple[dict[str, NDArray[Any]], dict[str, object]]:
    import pandas as pd
    import pyarrow as pa

    if not isinstance(made, pd.DataFrame):
        raise Refused(f"it returned a {type(made).__name__}, no DataFrame", _TABLE)
    claimed = made.attrs.pop("claimed", None)
    try:
        table = pa.Table.from_pandas(made, preserve_index=False)
    except (pa.ArrowException, ValueError, TypeError) as error:
        raise Refused(f"its table cannot be read: {_said(error)}", _TABLE) from error
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    content = np.frombuffer(sink.getvalue(), np.uint8)
    return {"table": content}, {"claimed": _claim(claimed)}


def _features(
    part: str,
    tensors: Mapping[str, NDArray[Any]],
    tables: list[bytes],
) -> "NDArray[np.float32] | pd.DataFrame":
    if not tables:
        encoded: NDArray[np.float32] = tensors[part].copy()
        return encoded
    import pyarrow as pa

    content = tables[("train", "test").index(part)]
    raw: pd.DataFrame = pa.ipc.open_stream(content).read_all().to_pandas()
    return raw


def _function(name: str) -> Callable[..., object]:
    path, _, attribute = name.partition(":")
    hint = "it is imported before it trains"
    module = _called(importlib.import_module, f"module {path!r}", hint, path)
    function: Callable[..., object] | None = getattr(module, attribute, None)
    if not callable(function):
        what = "is not there" if function is None else "is not a function"
        raise Refused(f"{name} {what}", _CALL)
    return function


def _called(
    function: Callable[..., object],
    name: str,
    hint: str,
    *given: object,
) -> object:
    """What the user's code returns; whatever it raises is refused with its own traceback."""
    try:
        return function(*given)
    except MemoryError as error:
        raise Refused(
            f"{name} ran out of memory", "raise --trainer-memory, or use less", _trace(error)
        ) from error
    except SystemExit as error:
        raise Refused(f"{name} called sys.exit({error.code!r})", hint, _trace(error)) from error
    except BaseException as error:
        raise Refused(f"{name} raised {_said(error)}", "", _trace(error)) from error


def _said(error: BaseException) -> str:
    """An error in one line, with where it was raised."""
    line = str(error).strip().partition("\n")[0]
    said = (f"{type(error).__name__}: {line}" if line else type(error).__name__)[:200]
    frames = traceback.extract_tb(error.__traceback__)
    if len(frames) > 1:
        said += f" ({os.path.basename(frames[-1].filename)}, line {frames[-1].lineno})"
    return said


def _trace(error: BaseException) -> str:
    """The traceback from the user's first frame on, without this program's."""
    inner = error.__traceback__.tb_next if error.__traceback__ else None
    return "".join(traceback.format_exception(type(error), error, inner))


def _probabilities(
    given: object,
    rows: int,
    classes: int,
) -> NDArray[np.float32]:
    """What was predicted, checked, in float32 with the most probable class of each row kept."""
    try:
        values = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        message = f"predict_proba gave a {type(given).__name__} that is no array"
        raise Refused(message, _IN_ORDER) from error
    what = f"{rows:,} rows"
    if values.shape != (rows, classes):
        message = f"predict_proba gave {list(values.shape)} for {what} of {classes} classes"
        raise Refused(message, _IN_ORDER)
    strange = ~np.isfinite(values).all(axis=1)
    if strange.any():
        message = f"numbers that are not finite in {int(strange.sum()):,} of {what}"
        raise Refused(f"predict_proba gave {message}", _IN_ORDER)
    strange = (np.abs(values.sum(axis=1) - 1.0) > SUM_TOLERANCE) | (values < 0.0).any(axis=1)
    if strange.any():
        message = f"{int(strange.sum()):,} of {what} that do not add up to 1 or are negative"
        raise Refused(f"predict_proba gave {message}", _IN_ORDER)
    rounded = values.astype(np.float32)
    best = values.argmax(axis=1)
    moved = np.flatnonzero(rounded.argmax(axis=1) != best)
    rounded[moved, best[moved]] = np.nextafter(rounded[moved].max(axis=1), np.float32(2))
    return rounded


def _claim(claimed: Any) -> dict[str, object] | None:  # noqa: ANN401 (whatever is claimed)
    if claimed is None:
        return None
    try:
        texts = [
            getattr(
                claimed,
                name,
                "",
            )
            for name in ("unit", "neighbouring", "accountant")
        ]
        claim = Privacy(claimed.epsilon, claimed.delta, *texts)
    except Exception as error:
        raise Refused(
            f"its claimed is no fairaudit.Privacy: {_said(error)}",
            "epsilon above 0, delta from 0 to below 1",
        ) from error
    if claim.epsilon == math.inf:
        return None
    return asdict(claim)


def _message(channel: BinaryIO) -> bytes:
    return channel.read(int.from_bytes(channel.read(LENGTH), "little"))


def _end_with_parent(channel: BinaryIO) -> None:
    """End all that was started here when whoever asked is gone.

    Till then its end of the pipe is open.
    """
    with contextlib.suppress(OSError):
        channel.read(1)
    os.killpg(0, signal.SIGKILL)
