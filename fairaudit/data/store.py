"""A large table's records and labels in one file, for workers that share it and for a run that goes on.

The file is in the format of safetensors: the length of a header, the header in JSON, then the arrays as
they lie in memory. It is mapped, so all workers of a machine read the same pages, and none copies it.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairaudit.data.dataset import Dataset, Grouping, Int64
from fairaudit.data.pixels import Shape
from fairaudit.data.records import Layout, Records, RecordWriter, field_from_json, fields_to_json
from fairaudit.io.atomic import appearing

_FORMAT = "fairaudit-records-2"
_TYPES: dict[str, np.dtype[Any]] = {"U8": np.dtype(np.uint8), "I64": np.dtype(np.int64)}
_HEADER_UNIT = 4096  # so that every array begins where a page does
_NO_HASH = "0" * 64
_PIECE = 1 << 24
_LARGE = 2**28  # bytes of a table whose records are worth a file; every worker reads a smaller one itself


@dataclass(frozen=True, slots=True)
class StoredRows:
    """What a worker needs to know of a data set, beside its records; arrays are mapped.

    Args:
        labels, classes, groupings, split, duplicate_of: As of a Dataset.
    """

    labels: Int64
    classes: tuple[str, ...]
    groupings: tuple[Grouping, ...]
    split: Int64 | None
    duplicate_of: Int64 | None

    @property
    def n_rows(self) -> int:
        """Rows that can be used."""
        return len(self.labels)

    @property
    def image_shape(self) -> Shape | None:
        """None: images are not stored here."""
        return None


@dataclass(frozen=True, slots=True)
class Store:
    """A file that was opened: its rows, and the records of their features."""

    rows: StoredRows
    records: Records


def is_large(dataset: Dataset) -> bool:
    """Whether workers should share one file instead of reading the table once each."""
    return dataset.image_shape is None and dataset.n_rows * dataset.features.num_columns * 8 > _LARGE


def write_store(path: Path, dataset: Dataset) -> None:
    """Write the file; it appears complete or not at all.

    Raises:
        OutputError: The directory is not writable, or the disk is full.
    """
    writer = RecordWriter(dataset.features, dataset.declared)
    arrays = {"labels": dataset.labels, **{f"groups.{i}": g.groups for i, g in enumerate(dataset.groupings)}}
    optional = {"split": dataset.split, "duplicate_of": dataset.duplicate_of}
    arrays |= {name: array for name, array in optional.items() if array is not None}
    shapes: dict[str, tuple[str, list[int]]] = {name: ("I64", [len(a)]) for name, a in arrays.items()}
    shapes["records"] = ("U8", [dataset.n_rows, writer.layout.width])  # last: the others stay aligned
    facts = {
        "fields": fields_to_json(writer.layout.fields),
        "classes": list(dataset.classes),
        "groupings": [
            {"name": g.name, "names": list(g.names), "missing": g.missing} for g in dataset.groupings
        ],
    }
    hashed = hashlib.sha256()
    with appearing(path) as file:
        file.write(_header(shapes, facts, _NO_HASH))
        for part in _parts(arrays, writer):
            hashed.update(part)
            file.write(part)
        file.seek(0)
        file.write(_header(shapes, facts, hashed.hexdigest()))


def open_store(path: Path) -> Store | None:
    """The file, mapped; None where there is none, or not a whole one."""
    try:
        with path.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(size)) if size <= os.fstat(file.fileno()).st_size else {}
    except (OSError, ValueError):
        return None
    metadata = header.pop("__metadata__", {}) if isinstance(header, dict) else {}
    ends = [spec["data_offsets"][1] for spec in header.values()] if metadata.get("format") == _FORMAT else []
    if not ends or path.stat().st_size != 8 + size + max(ends):
        return None
    arrays = {name: _mapped(path, 8 + size, spec) for name, spec in header.items()}
    facts = json.loads(metadata["facts"])
    groupings = tuple(
        Grouping(g["name"], arrays[f"groups.{i}"], tuple(g["names"]), g["missing"])
        for i, g in enumerate(facts["groupings"])
    )
    labels, split, twins = (arrays.get(name) for name in ("labels", "split", "duplicate_of"))
    assert labels is not None
    rows = StoredRows(labels, tuple(facts["classes"]), groupings, split, twins)
    layout = Layout.of([field_from_json(value) for value in facts["fields"]])
    return Store(rows, Records(layout, arrays["records"]))


def is_intact(path: Path) -> bool:
    """Whether a file holds what was once written to it; reads all of it."""
    if open_store(path) is None:
        return False
    hashed = hashlib.sha256()
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        written = json.loads(file.read(size))["__metadata__"]["sha256"]
        while part := file.read(_PIECE):
            hashed.update(part)
    return bool(hashed.hexdigest() == written)


def _parts(arrays: Mapping[str, Int64], writer: RecordWriter) -> Iterator[memoryview]:
    """The bytes of the file behind its header, in the order of the header."""
    for array in arrays.values():
        yield np.ascontiguousarray(array, dtype=np.int64).data.cast("B")
    for block in writer.blocks():
        yield block.data.cast("B")


def _header(shapes: Mapping[str, tuple[str, list[int]]], facts: object, sha256: str) -> bytes:
    header: dict[str, Any] = {
        "__metadata__": {"format": _FORMAT, "facts": json.dumps(facts), "sha256": sha256}
    }
    start = 0
    for name, (kind, shape) in shapes.items():
        end = start + _TYPES[kind].itemsize * int(np.prod(shape))
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [start, end]}
        start = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(len(text) + 8) % _HEADER_UNIT)
    return len(text).to_bytes(8, "little") + text


def _mapped(path: Path, start: int, spec: Mapping[str, Any]) -> NDArray[Any]:
    shape = tuple(int(n) for n in spec["shape"])
    mapped: NDArray[Any] = np.memmap(
        path, _TYPES[spec["dtype"]], "r", start + int(spec["data_offsets"][0]), shape
    )
    return mapped
