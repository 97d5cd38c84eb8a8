"""How the process of the user's own code answers, and how that is read: as data, never unpickled.

An answer is one line of JSON, then the bytes of an array or of a table. Whoever reads it knows what
was asked for, and holds it to that: the code of a training may have written anything.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, BinaryIO, NamedTuple, Self, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fairaudit.errors import OwnCodeError, said
from fairaudit.trainers.contract import Privacy, Range

Claimed = Mapping[str, object] | None  # the fields of a `Privacy`; None: nothing is claimed

# How far a row's probabilities may sum from 1; the same is allowed of predictions that are given.
SUM_TOLERANCE = 1e-3
IN_ORDER = "predict_proba gives [n, Y], one column per class in the order of data.classes"
_ROUNDING = 1e-5  # of a row's sum, once its numbers are float32
_LONGEST_LINE = 2**20  # bytes of the JSON
_TEXTS = ("message", "hint", "log", "detail")  # of an error, in the order of its arguments


class TrainerAnswer(NamedTuple):
    """What a training predicts of the test rows, [n, Y], and what is claimed of it."""

    test: NDArray[np.float32]
    claimed: Claimed

    def content(self) -> tuple[dict[str, object], bytes | pa.Buffer]:
        """The answer as (fields of the line of JSON, the bytes after that line)."""
        values = np.ascontiguousarray(self.test, "<f4")  # little-endian float32
        return {"shape": list(values.shape), "claimed": self.claimed}, values.tobytes()

    @classmethod
    def of(cls, head: Mapping[str, Any], body: bytes, shape: Sequence[int]) -> Self:
        """The answer from its content, held to be probabilities of the shape that was asked for.

        Args:
            head: Fields of the line of JSON.
            body: The bytes after it.
            shape: (n, Y).

        Raises:
            Exception: Of whatever kind: the content is no such answer.
        """
        if list(head["shape"]) != list(shape) or len(body) != 4 * math.prod(shape):
            raise ValueError(f"it has shape {head['shape']} in {len(body):,} bytes")
        values = np.frombuffer(body, "<f4").astype(np.float32).reshape(shape)
        # Rows were checked as float64, before they were rounded.
        refuse_improper(values, SUM_TOLERANCE + _ROUNDING)
        return cls(values, claim_of(head["claimed"]))


class Synthesised(NamedTuple):
    """A synthetic table, and what is claimed of it."""

    table: pa.Table
    claimed: Claimed

    def content(self) -> tuple[dict[str, object], bytes | pa.Buffer]:
        """As of :class:`TrainerAnswer`; the bytes are the table as an Arrow stream."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self.table.schema) as stream:
            stream.write_table(self.table)
        return {"claimed": self.claimed}, sink.getvalue()

    @classmethod
    def of(cls, head: Mapping[str, Any], body: bytes, shape: Sequence[int]) -> Self:
        """The answer from its content, as of :class:`TrainerAnswer`; the shape is not read."""
        with pa.ipc.open_stream(body) as stream:
            table = stream.read_all()
        table.validate(full=True)  # offsets, lengths and texts: the bytes may be anything
        return cls(table, claim_of(head["claimed"]))


class Declared(NamedTuple):
    """What a function says of itself.

    Args:
        settings: Name -> range, of what a search may vary.
        supports_no_noise: It trains without noise where epsilon is infinite.
    """

    settings: Mapping[str, Range]
    supports_no_noise: bool

    def content(self) -> tuple[dict[str, object], bytes | pa.Buffer]:
        """As of :class:`TrainerAnswer`; there are no bytes."""
        ranges = {name: asdict(ends) for name, ends in self.settings.items()}
        return {"settings": ranges, "supports_no_noise": self.supports_no_noise}, b""

    @classmethod
    def of(cls, head: Mapping[str, Any], body: bytes, shape: Sequence[int]) -> Self:
        """The answer from its content, as of :class:`TrainerAnswer`; its bytes are not read."""
        ranges = {name: Range(**ends) for name, ends in head["settings"].items()}
        return cls(ranges, head["supports_no_noise"] is True)


Answer = TrainerAnswer | Synthesised | Declared
AnswerOf = TypeVar("AnswerOf", TrainerAnswer, Synthesised, Declared)


def write(answer: Answer | OwnCodeError, file: BinaryIO) -> None:
    """Write an answer, or the error that says why there is none, to a file, from its beginning.

    Raises:
        Exception: Of whatever kind: it holds what cannot be written.
    """
    body: bytes | pa.Buffer = b""
    if isinstance(answer, OwnCodeError):
        head: dict[str, object] = {name: getattr(answer, name) for name in _TEXTS}
    else:
        head, body = answer.content()
    head["kind"] = type(answer).__name__
    line = json.dumps(head, allow_nan=False, default=float)  # NumPy's numbers by float()
    file.seek(0)  # an earlier attempt may have written a part
    file.truncate()
    file.write(line.encode() + b"\n")
    file.write(body)
    file.flush()


def read(file: BinaryIO, kind: type[AnswerOf], shape: Sequence[int] = ()) -> AnswerOf:
    """The answer in a file.

    Args:
        file: As :func:`write` left it, or as code of the user's own left it.
        kind: Of answer that was asked for.
        shape: (n, Y) of the probabilities that were asked for.

    Raises:
        OwnCodeError: The file holds an error in place of an answer; or what it holds cannot be
            read, or is not what was asked for.
    """
    try:
        file.seek(0)
        head = json.loads(file.readline(_LONGEST_LINE))
        if head["kind"] == OwnCodeError.__name__:
            message, hint, log, detail = (_text(head[name]) for name in _TEXTS)
            raise OwnCodeError(_line(message), _line(hint), log, _line(detail))
        if head["kind"] != kind.__name__:
            raise ValueError(f"it is no {kind.__name__}")
        return kind.of(head, file.read(), shape)
    except OwnCodeError:
        raise
    except Exception as error:  # whatever the user's code may have left there
        raise OwnCodeError(
            f"its answer cannot be used ({type(error).__name__})",
            "does the code write to files that it did not open, or change fairaudit itself?",
            detail=said(error),
        ) from error


def _text(given: object) -> str:
    """A text that every file and terminal can hold: lone surrogates are replaced by "?"."""
    return str(given).encode(errors="replace").decode()


def _line(text: str) -> str:
    """A text in one line, with one space for each stretch of white space."""
    return " ".join(text.split())


def claim_of(fields: object) -> Claimed:
    """Check the fields of a claim, which are those of a ``Privacy``.

    Returns:
        The fields; None where nothing is claimed, as by an infinite epsilon.

    Raises:
        Exception: Of whatever kind: they are no such fields.
    """
    if fields is None:
        return None
    if not isinstance(fields, dict):
        raise TypeError("a claim is no dict")
    claim = Privacy(**fields)
    return None if claim.epsilon == math.inf else asdict(claim)


def refuse_improper(values: NDArray[np.floating[Any]], tolerance: float = SUM_TOLERANCE) -> None:
    """Refuse numbers that are no probabilities of each row.

    Args:
        values: [n, Y].
        tolerance: By how much a row's sum may differ from 1.

    Raises:
        OwnCodeError: Says what is wrong in how many rows.
    """
    sums_to_one = np.abs(values.sum(axis=1, dtype=np.float64) - 1.0) <= tolerance
    for is_improper, why in (
        (~np.isfinite(values).all(axis=1), "are not finite"),
        (~sums_to_one | (values < 0.0).any(axis=1), "do not add up to 1 or are negative"),
    ):
        if is_improper.any():
            count = f"{is_improper.sum():,} of {len(values):,} rows"
            raise OwnCodeError(f"predict_proba gave numbers that {why} in {count}", IN_ORDER)
