"""Tables in formats that store what type each column has: Parquet, Arrow, ARFF.

Each says by which endings and first bytes a file is known, and how its columns are read.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.ipc as paipc
import pyarrow.parquet as pq

from fairaudit.data.reading.memory import MemoryBudget, read_text
from fairaudit.data.reading.packed import whole
from fairaudit.data.reading.text_form import REWRITTEN
from fairaudit.errors import DataError
from fairaudit.messages.names import listed

Read = Callable[[Path, Sequence[str]], pa.Table]
_OFFSET_BITS: Final = 32  # where a text or list begins, in the column's memory


@dataclass(frozen=True, slots=True)
class TypedFormat:
    """A format of tables that stores types.

    Args:
        name: What a report calls it.
        endings: Of names of files.
        is_one: Whether a file is of this format, by its first bytes; the name does not count.
        schema: The columns and their types, without reading rows.
        read: The named columns in that order.
        by_rows: Whether what one row holds can never keep another from being read.
        may_be_packed: Whether a packed file of it is read, as ``rows.arff.gz``.
    """

    name: str
    endings: frozenset[str]
    is_one: Callable[[bytes], bool]
    schema: Callable[[Path], pa.Schema]
    read: Read
    by_rows: bool = True
    may_be_packed: bool = False


def _begins(magic: bytes) -> Callable[[bytes], bool]:
    """Whether a file's first bytes are these."""
    return lambda head: head.startswith(magic)


def _read_parquet(path: Path, columns: Sequence[str]) -> pa.Table:
    """Columns of a Parquet file; nested ones are matched by prefix, so more may come.

    The footer has the number of rows, so the least memory of the columns is known before anything
    is read. How long texts are shows in reading, one row group after the other.
    """
    file = pq.ParquetFile(path)
    wanted = list(columns)
    MemoryBudget(path).charge(_least_bytes(file.schema_arrow, wanted, file.metadata.num_rows))
    budget = MemoryBudget(path)  # anew: what was foreseen above is not counted twice
    pieces = []
    for group in range(file.num_row_groups):
        pieces.append(file.read_row_group(group, columns=wanted))
        budget.charge(pieces[-1].nbytes)
    if not pieces:
        return file.read(columns=wanted).select(wanted)
    return pa.concat_tables(pieces).select(wanted)


def _least_bytes(schema: pa.Schema, columns: Sequence[str], rows: int) -> int:
    """At least how many bytes the named columns take in memory."""
    wanted = set(columns)
    return sum(_least_bits(field) for field in schema if field.name in wanted) * rows // 8


def _least_bits(field: pa.Field) -> int:
    """At least how many bits a value takes in memory; of texts and lists, where each begins."""
    return _OFFSET_BITS if _has_variable_width(field) else int(field.type.bit_width)


def _has_variable_width(field: pa.Field) -> bool:
    """Whether values take different amounts of memory, as texts and lists do."""
    try:
        return int(field.type.bit_width) < 0  # Arrow says -1 of some, and raises for others
    except ValueError:
        return True


def _file_schema(path: Path) -> pa.Schema:
    """The columns of an Arrow file."""
    with pa.memory_map(str(path)) as stream:
        return paipc.open_file(stream).schema


def _read_file(path: Path, columns: Sequence[str]) -> pa.Table:
    """Columns of an Arrow file, one batch after the other, as long as there is memory."""
    return _read_batches(path, _file_schema(path), _file_batches, columns)


def _file_batches(path: Path, options: paipc.IpcReadOptions) -> Iterator[pa.RecordBatch]:
    """The batches of rows of an Arrow file."""
    with pa.memory_map(str(path)) as stream:
        reader = paipc.open_file(stream, options=options)
        for number in range(reader.num_record_batches):
            yield reader.get_batch(number)


def _stream_schema(path: Path) -> pa.Schema:
    """The columns of an Arrow stream."""
    with pa.memory_map(str(path)) as stream:
        return paipc.open_stream(stream).schema


def _read_stream(path: Path, columns: Sequence[str]) -> pa.Table:
    """Columns of an Arrow stream, one batch after the other, as long as there is memory."""
    return _read_batches(path, _stream_schema(path), _stream_batches, columns)


def _stream_batches(path: Path, options: paipc.IpcReadOptions) -> Iterator[pa.RecordBatch]:
    """The batches of rows of an Arrow stream."""
    with pa.memory_map(str(path)) as stream:
        yield from paipc.open_stream(stream, options=options)


def _read_batches(
    path: Path,
    schema: pa.Schema,
    batches: Callable[[Path, paipc.IpcReadOptions], Iterator[pa.RecordBatch]],
    columns: Sequence[str],
) -> pa.Table:
    """The named columns of batches of rows as one table.

    A batch, which may be the whole file, is unpacked at once, the named columns of it alone. So the
    narrowest of them is read first: with its rows it is known what numbers of all of them take.

    Args:
        path: The file.
        schema: Its columns.
        batches: Reads them, those columns alone that the options include.
        columns: Names of those that are wanted, at least one.

    Raises:
        DataError: The wanted columns are larger than the memory at hand.
    """
    wanted = list(columns)
    places = sorted(map(schema.get_field_index, wanted))  # Arrow takes an empty list for all
    fields = [schema.field(place) for place in places]
    # Columns of fixed width (False) come before others, then those of fewer bits.
    costs = [(_has_variable_width(field), _least_bits(field)) for field in fields]
    narrowest = paipc.IpcReadOptions(included_fields=[places[costs.index(min(costs))]])
    rows = sum(len(batch) for batch in batches(path, narrowest))
    MemoryBudget(path).charge(_least_bytes(schema, wanted, rows))
    budget, pieces = MemoryBudget(path), []  # what was foreseen is not counted twice
    for batch in batches(path, paipc.IpcReadOptions(included_fields=places)):
        pieces.append(pa.Table.from_batches([batch]).select(wanted))
        budget.charge(pieces[-1].nbytes)
    return pa.concat_tables(pieces or [schema.empty_table().select(wanted)])


class _Arff(NamedTuple):
    """An ARFF file: its columns, and the lines below ``@data`` as a CSV without a header."""

    schema: pa.Schema
    rows: bytes


_ATTRIBUTE: Final = re.compile(
    r"""@attribute\s+(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"|(\S+))\s+(.+)""", re.IGNORECASE
)
_DATA: Final = re.compile(rb"^[ \t]*@data[^\n]*\n", re.IGNORECASE | re.MULTILINE)
_COMMENT: Final = re.compile(rb"^[ \t]*%[^\n]*\n?", re.MULTILINE)
# A quoted value, to be kept, or a comma with blanks around it.
_BLANKS: Final = re.compile(rb"""('(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*")|[ \t]*,[ \t]*""")
_NUMBERS: Final = ("numeric", "real", "integer")
_HINT: Final = "save it as CSV"


def _parse_arff(path: Path) -> _Arff:
    """Split an ARFF file into its columns and its rows.

    Raises:
        DataError: It is no ARFF file, it has sparse rows or columns of tables, which are not read,
            or it is larger than the memory at hand.
    """
    text = whole(path)
    MemoryBudget(path).require(REWRITTEN * text.size)
    content = text.to_pybytes()
    start = _DATA.search(content)
    if start is None:
        raise DataError(f"{path.name} has no line @data", _HINT)
    fields = []
    for line in content[: start.start()].decode("utf-8-sig").splitlines():
        attribute = _ATTRIBUTE.match(line.strip())
        if attribute is None:
            continue
        name = next(part for part in attribute.groups()[:3] if part is not None)
        kind = attribute[4].strip().lower()
        if kind.startswith("relational"):
            raise DataError(f"{path.name} holds tables within rows ({listed([name])})", _HINT)
        is_number = kind.startswith(_NUMBERS)
        fields.append(
            pa.field(re.sub(r"\\(.)", r"\1", name), pa.float64() if is_number else pa.string())
        )
    rows = _COMMENT.sub(b"", content[start.end() :])
    if rows.lstrip().startswith(b"{"):
        raise DataError(f"{path.name} has sparse rows, {{0 1, 3 2}}", _HINT)
    return _Arff(pa.schema(fields), rows)


def _read_arff(path: Path, columns: Sequence[str]) -> pa.Table:
    """Columns of an ARFF file; ``?`` is a missing value."""
    arff = _parse_arff(path)
    if not arff.rows.strip():
        return arff.schema.empty_table().select(list(columns))
    # The file's quotes are those that occur more often: Arrow's reader knows one kind.
    quote = max("'\"", key=lambda sign: arff.rows.count(sign.encode()))
    # Arrow takes a quote for one only as the first sign of a field.
    rows = _BLANKS.sub(lambda match: match[1] or b",", arff.rows)
    table = read_text(
        path,
        pa.BufferReader(rows),
        read_options=pacsv.ReadOptions(column_names=arff.schema.names),
        parse_options=pacsv.ParseOptions(quote_char=quote, escape_char="\\"),
        convert_options=pacsv.ConvertOptions(
            column_types=dict(zip(arff.schema.names, arff.schema.types, strict=True)),
            include_columns=list(columns),
            null_values=["?"],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    return table.select(list(columns))


def _is_arff(head: bytes) -> bool:
    """Whether the first line that is no comment opens an ARFF file."""
    lines = (line.strip().lower() for line in head.removeprefix(b"\xef\xbb\xbf").splitlines())
    first = next((line for line in lines if line and not line.startswith(b"%")), b"")
    return first.startswith(b"@relation")


FORMATS: Final = (
    TypedFormat(
        "parquet",
        frozenset({".parquet", ".pq", ".parq"}),
        _begins(b"PAR1"),
        pq.read_schema,
        _read_parquet,
    ),
    TypedFormat(
        "feather",
        frozenset({".feather", ".arrow", ".ipc"}),
        _begins(b"ARROW1"),
        _file_schema,
        _read_file,
    ),
    TypedFormat(
        "arrow stream",
        frozenset({".arrows"}),
        _begins(b"\xff\xff\xff\xff"),
        _stream_schema,
        _read_stream,
    ),
    TypedFormat(
        "arff",
        frozenset({".arff"}),
        _is_arff,
        lambda path: _parse_arff(path).schema,
        _read_arff,
        by_rows=False,
        may_be_packed=True,
    ),
)
