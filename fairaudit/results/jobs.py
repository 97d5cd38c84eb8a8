"""One finished training as a value and as a file (safetensors with a JSON header; no pickle).

A job is one arm at one seed: one training, one file. That file, ``<job id>.safetensors``, holds the
arrays as tensors; its header's metadata holds

- ``format``: version of this layout,
- ``job_id``: again, so that a renamed file is noticed,
- ``facts``: canonical JSON,
- ``sha256``: over all of the above and every array's name, type, shape and bytes.

A file that is absent, cut short, altered or of another layout is the same thing to a reader:
the job is not done.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from fairaudit.io.atomic import write_atomically

Array = NDArray[np.generic]
# What a training leaves of its job: arrays and facts, as of :class:`JobResult`.
JobContent: TypeAlias = tuple[dict[str, Array], dict[str, object]]

# Part of every job id: raise it with any change that moves a reported figure at a fixed seed.
NUMERICS_VERSION = "9"
_FORMAT = "fairaudit-job-2"
_SUFFIX = ".safetensors"
JOBS = "jobs"  # the folder of results inside the output directory
_ID_DIGITS = 24  # hexadecimal, 96 bits: no two trainings will share an id
_MAPPED_BYTES = 2**20  # arrays of that size or more are mapped from the file, smaller ones read
_STORABLE = frozenset("?bBhHiIlLqQefd")  # numpy's one-letter types that a tensor file keeps exactly


# Names of the arrays of an arm's twins: of the arm without noise, and of its steps alone. The
# second names a fact, too: what became of that twin.
WITHOUT_NOISE, STEP_FACT = "without_noise", "step"


class StepTwin(StrEnum):
    """What became of the twin that takes an arm's steps alone: plain SGD with their lengths."""

    TRAINED = "trained"
    REFERENCE = "reference"  # not trained: its steps are the reference's, so it is that model
    # There is no such twin: it diverged, or the arm's steps have no length apart from clipping.
    NONE = "none"


@dataclass(frozen=True, slots=True)
class JobResult:
    """What one job leaves behind; predictions, curves and facts, never the model.

    Args:
        job_id: The job's id.
        arrays: name -> array, R = repeats, n = test rows of this seed, Y classes, K groups:
            ``test_rows`` [n] int64, row indices into the dataset;
            ``probabilities`` [R, n, Y] float32, on the test rows;
            ``train_classes`` [Y] int64, training rows of each class;
            ``train_count.G`` [K] int64, training rows by group, G = index of the grouping;
            of a training on a random half of the rows alone ``rows`` [n] int64, ``member`` [n] bool
            and ``confidence`` [R, n] float64, the log odds of each row's true class;
            of an arm's twins alone ``without_noise.NAME`` and ``step.NAME``: probabilities
            of the arm without noise, and of its steps alone;
            ``trace.NAME`` [T_obs, R, ...] float32 and ``trace_steps.NAME`` [T_obs] int64;
            of a private training that clips what was read of its steps (``results/steps.py``);
            ``weights`` [R] float64: of a search's R candidates, the chance that each is kept.
        facts: JSON-ready: ``n_train``, ``event`` (what the engine did, or null),
            ``params_sha256``, ``inputs`` (names), ``fitted``, ``merged``,
            ``duplicates_across_split``, ``step`` (of twins, a :class:`StepTwin`),
            ``tuning`` (of a search: its rows and candidates),
            ``sklearn_baseline`` (sgd jobs, of scikit-learn's logistic regression:
            {"accuracy": float, "train_rows": float}), ``seconds``.
    """

    job_id: str
    arrays: Mapping[str, Array]
    facts: Mapping[str, object]


def job_id(parts: Mapping[str, object]) -> str:
    """The id of a job: equal parts give equal ids, on every machine and in every order.

    Args:
        parts: Everything that the result depends on, and nothing else, JSON-ready. The
            numerics version is added here, so that no caller can forget it.

    Returns:
        24 hexadecimal digits.
    """
    content = canonical_json({"numerics_version": NUMERICS_VERSION, "parts": parts})
    return hashlib.sha256(content.encode()).hexdigest()[:_ID_DIGITS]


def canonical_json(value: object) -> str:
    """JSON with sorted keys, no spaces and floats by ``repr``: equal values give equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def job_path(directory: Path, job_id: str) -> Path:
    """Where the result of that job lies, whether or not it is there yet."""
    return directory / f"{job_id}{_SUFFIX}"


def is_job_file(path: Path) -> bool:
    """Whether the file's name is one that :func:`job_path` gives."""
    digits = path.name.removesuffix(_SUFFIX)
    return (
        path.suffix == _SUFFIX
        and len(digits) == _ID_DIGITS
        and set(digits) <= set("0123456789abcdef")
    )


def write_result(directory: Path, result: JobResult) -> None:
    """Store a result; the file appears complete or not at all.

    Raises:
        OutputError: The directory is not writable, or the disk is full.
        ValueError: An array of a type that a tensor file cannot keep.
        TypeError: Facts that are not JSON.
    """
    from safetensors.numpy import save  # `plan` and `inspect` store nothing

    arrays = {}
    for name, array in result.arrays.items():
        if array.dtype.char not in _STORABLE:
            raise ValueError(f"array {name!r} of type {array.dtype} cannot be stored")
        # In row order and the machine's byte order, as it will be read back.
        arrays[name] = np.asarray(array, dtype=array.dtype.newbyteorder("="), order="C")
    facts = canonical_json(dict(result.facts))
    metadata = {
        "format": _FORMAT,
        "job_id": result.job_id,
        "facts": facts,
        "sha256": _digest(result.job_id, facts, arrays),
    }
    # For the owner alone to read: the arrays hold predictions of single records.
    write_atomically(
        job_path(directory, result.job_id), save(arrays, metadata=metadata), mode=0o600
    )


def read_result(directory: Path, job_id: str) -> JobResult | None:
    """The stored result of a job, whose large arrays are maps of the file.

    None where there is no file, or one that is damaged, of another job or of another layout: the
    job is not done.
    """
    from safetensors import SafetensorError, safe_open

    path = job_path(directory, job_id)
    if not path.is_file():
        return None
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except (SafetensorError, OSError, ValueError, TypeError, KeyError):
        return None  # a damaged header fails in as many ways as there are bits in it
    facts = metadata.get("facts", "")
    is_own = metadata.get("format") == _FORMAT and metadata.get("job_id") == job_id
    if not is_own or metadata.get("sha256") != _digest(job_id, facts, arrays):
        return None
    return JobResult(job_id, _mapped(path, arrays), json.loads(facts))


def _mapped(path: Path, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """The arrays of that file, large ones as memory maps: a run's results may not fit in memory.

    Args:
        path: A file that was read and found whole.
        arrays: Its arrays as they were read.
    """
    # A safetensors file is: the length of the header in 8 bytes, the header (JSON), the tensors.
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(size))
    mapped: dict[str, Array] = dict(arrays)
    for name, array in arrays.items():
        if array.nbytes >= _MAPPED_BYTES:
            start = (
                8 + size + int(header[name]["data_offsets"][0])
            )  # offsets count from the tensors
            mapped[name] = np.memmap(path, array.dtype, "r", start, array.shape)
    return mapped


def _digest(job_id: str, facts: str, arrays: Mapping[str, Array]) -> str:
    """sha256 over everything that a reader takes from the file, to notice damage: hexadecimal."""
    shapes = {name: [array.dtype.name, list(array.shape)] for name, array in arrays.items()}
    content = hashlib.sha256(canonical_json([_FORMAT, job_id, facts, shapes]).encode())
    for name in sorted(arrays):
        content.update(np.ascontiguousarray(arrays[name]).data)
    return content.hexdigest()
