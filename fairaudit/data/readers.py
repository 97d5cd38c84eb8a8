"""Files to Arrow tables: csv, parquet, feather/arrow.

Schema first, then only the columns wanted.
"""

import hashlib
import re
import tomllib
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.ipc as paipc
import pyarrow.parquet as pq

from fairaudit.data.aside import aside
from fairaudit.data.bounds import gathered, unpacked_size
from fairaudit.data.dataset import Notice
from fairaudit.data.naming import listed, nearest, quoted
from fairaudit.errors import DataError, TrainingError

_FORMATS = {
    ".csv": "csv",
    ".tsv": "csv",
    ".tab": "csv",
    ".txt": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".parq": "parquet",
    ".feather": "feather",
    ".arrow": "feather",
    ".ipc": "feather",
}
_MAGIC = (
    (b"PAR1", "parquet"),
    (b"ARROW1", "feather"),
    (b"\xff\xff\xff\xff", "feather"),  # an Arrow stream
    (b"FEA1", "an old Feather file (version 1)"),
    (b"PK\x03\x04", "an Excel workbook or zip archive"),
    (b"\xd0\xcf\x11\xe0", "an old Excel workbook"),
    (b"\x1f\x8b", "gzip"),
)
_SPOKEN = {"csv": "CSV text", "parquet": "a Parquet file", "feather": "a Feather or Arrow file"}
_NULLS = [
    "",
    "NA",
    "N/A",
    "n/a",
    "#N/A",
    "NaN",
    "nan",
    "null",
    "NULL",
]  # "?" is a value: files differ
_NUMBER = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"
_SIDECAR_KEYS = ("label", "positive", "favourable")
_HEADER_BYTES = 1 << 16
_VALUE_BYTES = 8
BEGINNING = 2**24  # bytes of a CSV whose types are tried on the rest
_PACKED = ".gz"
_FEATHER_PACKED = 4  # how much smaller a Feather file may be than what it holds
_WINDOWS_TEXT = Notice(
    "csv_encoding", "the file is not UTF-8 and is read as Windows-1252 text", "save it as UTF-8"
)


@dataclass(frozen=True, slots=True)
class Source:
    """A file that is known to be a table, before its rows are read.

    Args:
        path: Where it is.
        format: ``csv``, ``parquet`` or ``feather``.
        schema: Column names and types; of a CSV the types are a first guess.
        declared: ``label``, ``positive`` and ``favourable`` as the file or its sidecar declares
            them.
        declared_by: ``declared in the file`` or ``declared beside the file``, or "".
        delimiter, encoding: Of a CSV.
        text_bytes: Of a CSV, unpacked.
    """

    path: Path
    format: str
    schema: pa.Schema
    declared: Mapping[str, str]
    declared_by: str
    delimiter: str = ","
    encoding: str = "utf8"
    text_bytes: int = 0


def open_source(path: Path) -> Source:
    """Find out what a file is and which columns it has.

    Raises:
        DataError: Missing, unreadable, not a table, or with duplicate column names.
    """
    found = _table_format(path)
    delimiter, encoding, size = ",", "utf8", 0
    with _explained(path, found):
        if found == "csv":
            delimiter, encoding = _csv_dialect(path)
            size = unpacked_size(path) if path.suffix.lower() == _PACKED else path.stat().st_size
        schema = _schema(path, found, delimiter, encoding)
        names = list(schema.names)  # undecodable names show here
    if not names:
        raise DataError(f"{path.name} has no columns")
    doubled = [name for name, count in Counter(names).items() if count > 1]
    if doubled:
        raise DataError(f"{path.name} has several columns of one name: {listed(doubled)}")
    declared, by = _declaration(path, schema)
    return Source(path, found, schema, declared, by, delimiter, encoding, size)


def read_columns(source: Source, columns: Sequence[str]) -> tuple[pa.Table, tuple[Notice, ...]]:
    """The named columns of a file, in that order, and what to say about how they were read.

    Raises:
        DataError: Damaged content, or no rows.
    """
    notices: tuple[Notice, ...] = ()
    with _explained(source.path, source.format):
        table = _read(source, columns).select(list(columns))
        if source.format != "csv":
            table.validate(
                full=True
            )  # Arrow trusts offsets, codes and text of a file, and would follow them
        if source.format == "csv" and any(pa.types.is_binary(t) for t in table.schema.types):
            table = _read(replace(source, encoding="cp1252"), columns)
            notices = (_WINDOWS_TEXT,)
    if not table.num_rows:
        raise DataError(f"{source.path.name} has columns but no rows")
    if source.format == "csv":
        notices += _mixed_types(table)
    return table, notices


class Batches(NamedTuple):
    """Columns of a file by and by: their types, and their rows."""

    schema: pa.Schema
    rows: Iterator[pa.RecordBatch]


def stream_columns(source: Source, columns: Sequence[str]) -> Batches | None:
    """The rows and types of :func:`read_columns` by and by.

    None where only that one can tell the types.

    Raises:
        DataError: As that one, from the iterator too.
    """
    schema = pa.schema([source.schema.field(name) for name in columns])
    if source.format == "csv":
        found = aside(lambda: _settled(source, columns))
        if found is None:
            return None
        schema = found

    def rows() -> Iterator[pa.RecordBatch]:
        count = 0
        with _explained(source.path, source.format):
            for batch in _stream(source, columns, schema):
                batch.validate(full=True)  # as above
                count += batch.num_rows
                yield batch
        if not count:
            read_columns(source, columns)  # says so

    return Batches(schema, rows())


def _stream(source: Source, columns: Sequence[str], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    if source.format == "csv":
        yield from aside(lambda: _open_csv(source, columns, schema))
    elif source.format == "parquet":
        # Nested and dotted names share prefixes in Parquet, so more may come back than was asked.
        # Read ahead, a file would be in memory as a whole.
        for batch in pq.ParquetFile(source.path, pre_buffer=False).iter_batches(
            columns=list(columns)
        ):
            yield batch.select(list(columns))
    else:
        wanted = paipc.IpcReadOptions(
            included_fields=sorted(map(source.schema.get_field_index, columns))
        )
        with pa.memory_map(str(source.path)) as stream:
            for batch in _ipc_batches(stream, wanted):
                yield batch.select(list(columns))


def _settled(source: Source, columns: Sequence[str]) -> pa.Schema | None:
    """The types of a CSV's columns; None where the whole reading will say what is wrong.

    Arrow takes the first kind, in an order of its own, that reads every value. So the kind that it
    takes for the file's beginning is that of the file if it reads the rest; else a longer beginning
    is looked at.
    """
    beginning = BEGINNING
    while True:
        try:
            with _open_csv(source, columns, None, beginning) as reader:
                schema = reader.schema
            with _open_csv(source, columns, schema) as reader:
                for _ in reader:
                    pass
            if any(pa.types.is_binary(t) for t in schema.types):
                return None
            return schema
        except (pa.ArrowException, UnicodeError, zlib.error, EOFError):
            if beginning >= source.text_bytes:
                return None
            beginning *= 4


def _open_csv(
    source: Source, columns: Sequence[str], types: pa.Schema | None, block: int | None = None
) -> pacsv.CSVStreamingReader:
    return pacsv.open_csv(str(source.path), **_csv_options(source, columns, types, block))


def _csv_options(
    source: Source, columns: Sequence[str], types: pa.Schema | None = None, block: int | None = None
) -> dict[str, object]:
    """How some columns of a CSV are read, wherever they are."""
    return {
        "read_options": pacsv.ReadOptions(encoding=source.encoding, block_size=block),
        "parse_options": pacsv.ParseOptions(delimiter=source.delimiter, newlines_in_values=True),
        "convert_options": pacsv.ConvertOptions(
            include_columns=list(columns),
            null_values=_NULLS,
            strings_can_be_null=True,
            column_types=types,
        ),
    }


def is_table_name(path: Path) -> bool:
    """Whether a file is named like a table that can be read."""
    return path.suffix.lower() in _FORMATS


def size_of(source: Source, columns: Sequence[str]) -> int:
    """About how many bytes some columns of a file take in memory."""
    if source.format == "parquet":
        return int(pq.read_metadata(source.path).num_rows) * len(columns) * _VALUE_BYTES
    whole = source.text_bytes or source.path.stat().st_size * _FEATHER_PACKED
    return whole * len(columns) // max(len(source.schema.names), 1)


def digest_of(path: Path) -> str:
    """sha256 of a file's content, in hexadecimal."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _table_format(path: Path) -> str:
    """The format by suffix, confirmed by the first bytes."""
    head = _first_bytes(path)
    suffixes = [s.lower() for s in path.suffixes] or [""]
    packed = suffixes[-1] == _PACKED
    expected = _FORMATS.get(suffixes[-2] if packed and len(suffixes) > 1 else suffixes[-1])
    actual = next((what for magic, what in _MAGIC if head.startswith(magic)), "csv")
    if packed and expected == "csv" and actual == "gzip":
        return "csv"
    if "Excel" in actual:
        raise DataError(
            f"{path.name} is {actual}, not a table file", "save the sheet as CSV and give that"
        )
    if actual not in _SPOKEN:
        raise DataError(
            f"{path.name} is {actual}, not a table", "give a csv, parquet or feather file"
        )
    if expected is None and (actual == "csv" or packed):
        raise DataError(f"{path.name}: unknown kind of file", "name it .csv, .parquet or .feather")
    if expected is not None and expected != actual:
        suffix = {"csv": ".csv", "parquet": ".parquet", "feather": ".feather"}[actual]
        raise DataError(
            f"{path.name} is named like {_SPOKEN[expected]} but holds {_SPOKEN[actual]} (or is "
            "damaged)",
            f"if it is {_SPOKEN[actual]}, rename it to {path.stem}{suffix}",
        )
    return actual


def _first_bytes(path: Path) -> bytes:
    if path.is_dir():
        raise DataError(f"{path.name} is a folder, not a table file")
    try:
        with path.open("rb") as stream:
            head = stream.read(_HEADER_BYTES)
    except FileNotFoundError:
        if not path.parent.is_dir():
            message = f"there is no folder {quoted(str(path.parent))}"
            raise DataError(message) from None
        beside = sorted(p.name for p in path.parent.iterdir() if is_table_name(p))
        raise DataError(
            f"there is no file {quoted(str(path))}", nearest(path.name, beside)
        ) from None
    except OSError as error:
        raise DataError(f"{path.name} cannot be read: {error.strerror}") from None
    if not head.strip():
        raise DataError(f"{path.name} is empty")
    return head


def _csv_dialect(path: Path) -> tuple[str, str]:
    """Delimiter and encoding, from the header line and the first bytes."""
    with (
        pa.OSFile(str(path))
        if path.suffix.lower() != _PACKED
        else pa.input_stream(str(path)) as stream
    ):
        head = stream.read(_HEADER_BYTES)
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        encoding = "utf16"
    else:
        encoding = "utf8"
        try:
            head.decode("utf8")
        except UnicodeDecodeError as error:
            # A character cut in two by the end of the sample is no evidence against UTF-8.
            encoding = "utf8" if error.start >= len(head) - 4 else "cp1252"
    header = head.decode(encoding, errors="replace").splitlines()[0]
    header = re.sub(r'"[^"]*"', "", header)
    best = max(",;\t|", key=header.count)
    return (best if header.count(best) else ","), encoding


def _schema(path: Path, found: str, delimiter: str, encoding: str) -> pa.Schema:
    if found == "parquet":
        return pq.read_schema(path)
    if found == "feather":
        with pa.memory_map(str(path)) as stream:
            return _open_ipc(stream).schema
    reader = aside(
        lambda: pacsv.open_csv(
            str(path),
            read_options=pacsv.ReadOptions(encoding=encoding),
            parse_options=pacsv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
            convert_options=pacsv.ConvertOptions(check_utf8=False),
        )
    )
    with reader:
        return reader.schema


def _open_ipc(
    stream: pa.NativeFile, options: paipc.IpcReadOptions | None = None
) -> pa.RecordBatchFileReader | pa.RecordBatchStreamReader:
    streamed = stream.read(4) == b"\xff\xff\xff\xff"
    stream.seek(0)
    read = paipc.open_stream if streamed else paipc.open_file
    return read(stream, options=options)


def _ipc_batches(stream: pa.NativeFile, options: paipc.IpcReadOptions) -> Iterator[pa.RecordBatch]:
    reader = _open_ipc(stream, options)
    if isinstance(reader, pa.RecordBatchStreamReader):
        yield from reader
    else:
        yield from map(reader.get_batch, range(reader.num_record_batches))


def _read(source: Source, columns: Sequence[str]) -> pa.Table:
    if source.format != "csv":
        return gathered(_stream(source, columns, source.schema), source.schema, source.path.name)
    return aside(lambda: pacsv.read_csv(str(source.path), **_csv_options(source, columns)))


def _mixed_types(table: pa.Table) -> tuple[Notice, ...]:
    """One notice for columns that are mostly numbers and yet text because of some other values."""
    mixed = []
    for name in table.column_names:
        column = table.column(name)
        if not pa.types.is_string(column.type):
            continue
        values = pc.drop_null(pc.unique(column))
        numbers = pc.sum(pc.match_substring_regex(values, _NUMBER)).as_py() or 0
        if len(values) / 2 <= numbers < len(values):
            mixed.append(name)
    if not mixed:
        return ()
    return (
        Notice(
            "mixed_types",
            f"{listed(mixed)} mixes numbers and other text and is read as text",
            "write missing values as an empty field if the column is meant to be numeric",
        ),
    )


def _declaration(path: Path, schema: pa.Schema) -> tuple[dict[str, str], str]:
    """What the sidecar, else the schema metadata, says about the label."""
    sidecar = path.with_name(path.name + ".fairaudit.toml")
    if sidecar.is_file():
        try:
            content = tomllib.loads(sidecar.read_text("utf8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError):
            hint = 'write for example: label = "approved"'
            raise DataError(f"{sidecar.name} is not readable TOML", hint) from None
        if unknown := [key for key in content if key not in _SIDECAR_KEYS]:
            message = f"{sidecar.name}: unknown key {quoted(unknown[0])}"
            raise DataError(message, nearest(unknown[0], _SIDECAR_KEYS))
        return {key: str(value) for key, value in content.items()}, "declared beside the file"
    metadata = schema.metadata or {}
    found = {key: metadata.get(f"fairaudit.{key}".encode()) for key in _SIDECAR_KEYS}
    declared = {
        key: value.decode("utf8", "replace") for key, value in found.items() if value is not None
    }
    return declared, "declared in the file" if declared else ""


@contextmanager
def _explained(path: Path, found: str) -> Iterator[None]:
    """Arrow's own messages quote rows; say what is wrong without them."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeError, EOFError, zlib.error) as error:
        if isinstance(error, MemoryError) or "Resource temporarily unavailable" in str(
            error
        ):  # no thread
            raise TrainingError(
                f"out of memory while {path.name} was read",
                hint="try fewer --workers; a small file that asks for so much is damaged",
            ) from None
        text = str(error)
        message = f"{path.name} cannot be read as {_SPOKEN[found]}: damaged"
        row = re.search(r"(?:Row #(\d+): )?Expected (\d+) columns, got (\d+)", text)
        if row:
            where = f"row {int(row[1]):,}" if row[1] else "a row"
            message = f"{path.name}: {where} has {row[3]} fields where the header has {row[2]}"
        elif "UTF" in text or "codec" in text:
            message = f"{path.name} is not UTF-8 text"
        raise DataError(message) from None
