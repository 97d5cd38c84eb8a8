"""Files to Arrow tables: CSV, packed or not, and the formats of ``data/reading/formats.py``.

Schema first, then only the columns wanted: of types that all rows of a column decide
(:func:`read_columns`), or as the file stores them (:func:`read_stored`).
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from fairaudit.data.dataset import columns_of
from fairaudit.data.reading.formats import FORMATS
from fairaudit.data.reading.header import fields_of, refuse_footer, refuse_odd_header, refuse_title
from fairaudit.data.reading.lent import lent
from fairaudit.data.reading.lines import MOST_BYTES, header_of, is_closed, lone_lines
from fairaudit.data.reading.memory import MemoryBudget, read_text
from fairaudit.data.reading.mending import with_names, with_own_names
from fairaudit.data.reading.packed import ending_of, packing_of, unpacked
from fairaudit.data.reading.refused import other_kind
from fairaudit.data.reading.stored import StoredColumns
from fairaudit.data.reading.text_form import BLANK, TextForm
from fairaudit.data.reading.values import USUAL_MARKS
from fairaudit.errors import DataError, FairauditError, numbered
from fairaudit.messages.names import listed, nearest, quoted

_TEXTS = frozenset({".csv", ".tsv", ".tab", ".txt", ".psv", ".data", ".dat", ".test"})
_ENDINGS = _TEXTS.union(*(one.endings for one in FORMATS))
# What a file's schema may declare, under ``fairaudit.label`` and so on.
_DECLARABLE = ("label", "positive", "favourable")
_SIMPLE_NAME = re.compile(r"\w[\w .-]*")  # of a column
_HEADER_BYTES = 1 << 16  # enough to tell a format and a first line
_DAMAGE = (pa.ArrowException, MemoryError, OSError, UnicodeError)  # what reading a file may raise
# Arrow's CSV reader would handle SIGINT and SIGTERM itself, and lose one that comes as it ends.
pa.enable_signal_handlers(False)


@dataclass(frozen=True, slots=True)
class TableFile:
    """A file that is known to be a table, before its rows are read.

    Args:
        path: Where it is.
        format: ``csv``, or the name of one of ``FORMATS``.
        schema: Column names and types; of a CSV the types are a first guess.
        declared: ``label``, ``positive`` and ``favourable`` as the file declares them.
        declared_by: ``declared in the file``, or "".
        form: Of a CSV: what is between its fields, and who names its columns.
        is_alone: Whether no row may change how another is read: of a CSV every line is a record.
        parts: Columns that the names of its folders give -> the one value of all its rows.
        within: Its path in the folder that is read; "" where it is read by itself.
    """

    path: Path
    format: str
    schema: pa.Schema
    declared: Mapping[str, str]
    declared_by: str
    form: TextForm = field(default_factory=TextForm)
    is_alone: bool = False
    parts: Mapping[str, pa.Scalar] = field(default_factory=dict)
    within: str = ""

    @property
    def marks(self) -> frozenset[str]:
        """Texts that stand for a missing value in a column of numbers."""
        return USUAL_MARKS if self.format == "csv" else frozenset()

    def stored(self, columns: Sequence[str]) -> list[str]:
        """Those of the columns that the file itself holds.

        Where it holds none of them, its first one: how many rows there are shows in a column alone.
        """
        return [name for name in columns if name not in self.parts] or [
            next(name for name in self.schema.names if name not in self.parts)
        ]

    def with_parts(self, table: pa.Table, columns: Sequence[str]) -> pa.Table:
        """The named columns: those of a table of the file's rows, and those that folders name."""
        for name, value in self.parts.items():
            if name in columns:
                table = table.append_column(name, pa.repeat(value, table.num_rows))
        return table.select(list(columns))


def open_source(path: Path, *, is_alone: bool = False, names: Sequence[str] = ()) -> TableFile:
    """Find out what a file is and which columns it has.

    Args:
        path: The file.
        is_alone: As of :class:`TableFile`; of a CSV nothing but the names of its columns is looked
            at.
        names: Names of the columns of a text file that has no line of names; (): it has one.

    Raises:
        DataError: Missing, unreadable, not a table, or with duplicate column names.
    """
    head = _first_bytes(path)
    typed = next((one for one in FORMATS if one.is_one(head)), None)  # None: delimited text
    if typed is None:
        _refuse_other_kind(path, head, names)
    elif is_alone and not typed.by_rows:
        raise DataError(
            f"{path.name} is of a format ({typed.name}) whose rows are not read one by one",
            "save it as CSV or Parquet, and audit that",
        )
    form = TextForm()
    with explained(path):
        if typed is None:
            if head.startswith((b"\xff\xfe", b"\xfe\xff")):
                raise UnicodeError("UTF-16")  # `explained` makes its DataError of it
            form = _form(path, head, names, is_alone=is_alone)
            schema = _text_schema(path, form, is_alone=is_alone)
        else:
            if not typed.may_be_packed and packing_of(path) is not None:
                raise DataError(f"{path.name} is a packed {typed.name} file", "unpack it")
            with _damage_of_any_library():
                schema = typed.schema(path)
        columns = list(schema.names)  # undecodable names show here
    if not columns:
        raise DataError(f"{path.name} has no columns")
    _refuse_doubled(path, columns, form if typed is None else None)
    declared = {}
    for key in _DECLARABLE:
        value = (schema.metadata or {}).get(f"fairaudit.{key}".encode())
        if value is not None:
            declared[key] = value.decode("utf8", "replace")
    return TableFile(
        path=path,
        format="csv" if typed is None else typed.name,
        schema=schema,
        declared=declared,
        declared_by="declared in the file" if declared else "",
        form=form,
        is_alone=is_alone,
    )


def _refuse_other_kind(path: Path, head: bytes, names: Sequence[str]) -> None:
    """Refuse a file that is neither of a format that is read nor delimited text.

    Args:
        path: The file.
        head: Its first bytes.
        names: Names of its columns, as an option gives them: with them any ending may be that of a
            text file. (): none are given.

    Raises:
        DataError: The file is of another kind, by its bytes or its ending.
    """
    error = other_kind(path, head)
    if error is None and not names and ending_of(path) not in _TEXTS:
        error = DataError(f"{path.name} is no CSV, Parquet or Arrow file", "save the table as CSV")
    if error is not None:
        raise error


def _text_schema(path: Path, form: TextForm, *, is_alone: bool) -> pa.Schema:
    """The columns of a text file; types are a first guess of Arrow's by its first rows.

    Where rows stand alone nothing but the line that names the columns is read.
    """
    # Text that is not UTF-8 is refused when all of it is read.
    convert = pacsv.ConvertOptions(check_utf8=False)
    with (
        _footer_named(path, form),
        pacsv.open_csv(
            lent(BytesIO(_header_of_lone_rows(path, form))) if is_alone else form.content(path),
            read_options=form.reading,
            parse_options=form.parsing,
            convert_options=convert,
        ) as reader,
    ):
        schema = reader.schema
    return schema


def _refuse_doubled(path: Path, columns: Sequence[str], form: TextForm | None) -> None:
    """Refuse a file with several columns of one name.

    Args:
        path: The file.
        columns: Names of its columns.
        form: How a text file is laid out; None for other formats.

    Raises:
        DataError: Some name stands twice; the hint for a text file renames its columns.
    """
    doubled = [name for name, count in Counter(columns).items() if count > 1]
    if not doubled:
        return
    hint = "give each a name of its own; where they are copies, leave one out"
    if form is not None and not form.names and all(map(_SIMPLE_NAME.fullmatch, doubled)):
        command = with_own_names(path, columns, form)
        hint = f"give each a name of its own: {command}" if command else hint
    raise DataError(f"{path.name} has several columns of one name: {listed(doubled)}", hint)


def _names_itself(line: str, names: Sequence[str]) -> bool:
    """Whether a file's first line names its columns, so that ``--names`` is not needed.

    At least half of its fields are among the names, whatever their case and signs: a preset may
    bring names for a file that has none.
    """
    fields = [_bare(field) for field in fields_of(line, TextForm.of(line))]
    known = {_bare(name) for name in names}
    return 2 * sum(field in known for field in fields) >= len(fields)


def _bare(name: str) -> str:
    """A name's letters and digits, in lower case."""
    return "".join(sign for sign in name.casefold() if sign.isalnum())


def _form(path: Path, head: bytes, names: Sequence[str], *, is_alone: bool) -> TextForm:
    """How a text file is laid out, by its first line.

    Args:
        path: The file.
        head: Its first bytes, unpacked.
        names: Names of its columns, as an option gives them; (): its first line names them. Given
            names are not used where the first line names the columns all the same.
        is_alone: Whether no row of the file may be looked at.

    Raises:
        DataError: The line is no header, or not as the names say.
    """
    lines = head.decode(errors="replace").splitlines()
    first, second = [*filter(None, lines), "", ""][:2]  # lines that are not empty; "": none
    if not names or _names_itself(first, names):
        form = TextForm.of(first)
        if not is_alone:  # else no row may be looked at
            of_second = TextForm.of(second)
            if form.delimiter == BLANK and of_second.delimiter != BLANK:
                refuse_title(path, form, len(fields_of(second, of_second)))
            refuse_odd_header(path, form)
        return form
    if is_alone:
        command = with_names(path, names, TextForm.of(first))
        raise DataError(
            f"{path.name} has no line that names its columns",
            "where rows are read one by one the first line names them: write it into the file"
            + (f", {command}" if command else ""),
        )
    first = next((line for line in lines if line.strip() and not line.startswith("|")), "")
    form = TextForm.of(first, names)
    fields = fields_of(first, form)
    if len(fields) != len(names):
        raise DataError(
            f"--names gives {numbered(len(names), 'name')} and the first line of {path.name} has "
            f"{numbered(len(fields), 'field')}",
            "give one name for each field, the label's among them",
        )
    return form


def read_columns(source: TableFile, columns: Sequence[str], *, as_text: bool = False) -> pa.Table:
    """Read the named columns of a file, in that order.

    In a CSV the empty field alone is null, so a column is of numbers if all of its fields are;
    ``as_text`` keeps its columns as text.

    Raises:
        DataError: Damaged content, or no rows.
    """
    stored = source.stored(columns)
    with explained(source.path):
        if source.format != "csv":
            table = _typed_columns(source, stored)
        else:
            convert = pacsv.ConvertOptions(
                include_columns=stored,
                column_types=dict.fromkeys(stored, pa.string()) if as_text else None,
                null_values=[""],
                strings_can_be_null=True,
            )
            budget = MemoryBudget(source.path)
            table = _read_csv(source, convert)
            budget.charge(table.nbytes)
        # Arrow trusts offsets, codes and text of a file, and would follow them.
        table.validate(full=True)
        if source.format == "csv" and any(map(pa.types.is_binary, table.schema.types)):
            raise UnicodeError("not UTF-8")
    if not table.num_rows:
        raise DataError(f"{source.path.name} has columns but no rows")
    return source.with_parts(table, columns)


def read_stored(source: TableFile, columns: Sequence[str]) -> StoredColumns:
    """Read the named columns of a file, in that order, as the file stores them.

    Of a CSV every value is text. Of a source whose rows stand alone, what cannot be read is a row
    less or a missing value, and never an error.

    Raises:
        DataError: Damaged content; of other sources also a row of a CSV that cannot be read.
    """
    with explained(source.path):
        stored = source.stored(columns)
        if source.format == "csv":
            texts = _csv_texts(source, stored)
            return replace(texts, table=source.with_parts(texts.table, columns))
        table = _typed_columns(source, stored)
        table = pa.table({name: _as_bytes(of) for name, of in columns_of(table).items()})
        table.validate(full=True)  # offsets and codes; whether bytes are text shows later
        return StoredColumns(source.with_parts(table, columns), source.marks)


def _csv_texts(source: TableFile, columns: Sequence[str]) -> StoredColumns:
    """The named columns of a CSV file as text.

    Where rows stand alone, a line that cannot be read by itself, or has another number of fields,
    is left out and counted.
    """
    convert = pacsv.ConvertOptions(
        include_columns=list(columns),
        column_types=dict.fromkeys(columns, pa.large_string()),
        null_values=[],
    )
    if not source.is_alone:
        return StoredColumns(_read_csv(source, convert), source.marks)
    ragged = []  # lines with more or fewer fields than there are columns

    def leave_out(row: pacsv.InvalidRow) -> str:
        """Called by Arrow with such a line."""
        ragged.append(row.actual_columns)
        return "skip"

    content, lost = lone_lines(source.path, source.form)
    # Blocks of Arrow's reader hold any line that is kept, with its end.
    table = read_text(
        source.path,
        pa.BufferReader(content),
        read_options=pacsv.ReadOptions(block_size=2 * MOST_BYTES),
        parse_options=pacsv.ParseOptions(
            delimiter=source.form.delimiter, invalid_row_handler=lent(leave_out)
        ),
        convert_options=convert,
    )
    return StoredColumns(table, source.marks, lost + len(ragged))


def _read_csv(source: TableFile, convert: pacsv.ConvertOptions) -> pa.Table:
    """The columns of a CSV that is read as a whole.

    A file whose columns are named by an option often has blanks around texts, as those of UCI, and
    may end every row with a dot, as its ``adult.test`` does: neither is part of a value.
    """
    form = source.form
    with _footer_named(source.path, form):
        table = read_text(
            source.path,
            form.content(source.path),
            read_options=form.reading,
            parse_options=form.parsing,
            convert_options=convert,
        )
    if not form.names:
        return table
    columns = columns_of(table)
    for name, column in columns.items():
        if _is_text(column.type):
            columns[name] = pc.utf8_trim_whitespace(column)
    last = form.names[-1]
    if last in columns and _is_text(columns[last].type):
        values = columns[last]
        if pc.all(pc.ends_with(values, ".")).as_py():
            columns[last] = pc.utf8_trim_whitespace(pc.utf8_slice_codeunits(values, 0, -1))
    return pa.table(columns)


def _typed_columns(source: TableFile, columns: Sequence[str]) -> pa.Table:
    """The named columns of a file that stores types, in the types that it gives them."""
    typed = next(one for one in FORMATS if one.name == source.format)
    with _damage_of_any_library():
        return typed.read(source.path, columns)


def _as_bytes(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column of text as bytes, of which none need be UTF-8; any other column as it is."""
    if pa.types.is_dictionary(column.type) and _is_text(column.type.value_type):
        chunks = []
        for chunk in column.chunks:
            values = chunk.dictionary.cast(pa.large_binary())
            chunks.append(pa.DictionaryArray.from_arrays(chunk.indices, values))
        kind = pa.dictionary(column.type.index_type, pa.large_binary())
        return pa.chunked_array(chunks, type=kind)
    return column.cast(pa.large_binary()) if _is_text(column.type) else column


def _is_text(arrow_type: pa.DataType) -> bool:
    """Whether Arrow takes the values of a type for UTF-8 without looking at them."""
    return bool(pa.types.is_string(arrow_type) or pa.types.is_large_string(arrow_type))


def _header_of_lone_rows(path: Path, form: TextForm) -> bytes:
    """The line that names the columns of a CSV whose rows stand alone, with a line feed.

    The schema is read from it alone, so that no row is looked at (``TableFile.is_alone``).

    Raises:
        DataError: The line ends within quotes: where every line is a row, no name may hold a line
            break. Or the line is too long.
    """
    header = form.with_single_delimiters(header_of(path))
    if not is_closed(pa.array([header], pa.large_binary()), form.delimiter)[0].as_py():
        raise DataError(
            f"{path.name}: a column's name holds a line break",
            "where rows are read one by one, every line is a row: write the name in one line",
        )
    if len(header) >= MOST_BYTES:
        raise DataError(f"{path.name}: its first line is longer than {MOST_BYTES:,} bytes")
    return header + b"\n"


def is_table_name(path: Path) -> bool:
    """Whether a file is named like a table that can be read."""
    return ending_of(path) in _ENDINGS


def digest_of(path: Path) -> str:
    """sha256 of a file's content, in hexadecimal."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _first_bytes(path: Path) -> bytes:
    """The file's first bytes, which tell its format.

    Raises:
        DataError: The file is missing, cannot be read or is empty.
    """
    try:
        with unpacked(path) as stream:
            head = bytes(stream.read(_HEADER_BYTES))
    except FileNotFoundError:
        if not path.parent.is_dir():
            message = f"there is no folder {quoted(str(path.parent))}"
            raise DataError(message) from None
        neighbours: list[str] = []
        with suppress(PermissionError):  # a folder may be entered and yet not listed
            neighbours = sorted(p.name for p in path.parent.iterdir() if is_table_name(p))
        raise DataError(
            f"there is no file {quoted(str(path))}", nearest(path.name, neighbours)
        ) from None
    except UnicodeEncodeError:  # Arrow takes paths as UTF-8
        raise DataError(f"{quoted(path.name)} is no name in UTF-8", "rename the file") from None
    except OSError as error:
        hint = "give yourself the right to read it" if isinstance(error, PermissionError) else ""
        raise DataError(
            f"{path.name} cannot be read: {error.strerror or 'damaged'}", hint
        ) from None
    if not head.strip():
        raise DataError(f"{path.name} is empty")
    return head


@contextmanager
def _footer_named(path: Path, form: TextForm) -> Iterator[None]:
    """Where a CSV cannot be read within the block since its last line is a footer, say so."""
    try:
        yield
    except pa.ArrowInvalid:
        refuse_footer(path, form)
        raise


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn what reading the file raises within the block into a DataError that quotes no row.

    Arrow's own messages would show people's data.
    """
    try:
        yield
    except _DAMAGE as error:
        message = f"{path.name} cannot be read: it is damaged, or memory is short"
        row = re.search(r"(?:Row #(\d+): )?Expected (\d+) columns, got (\d+)", str(error))
        if row:
            where = f"row {int(row[1]):,}" if row[1] else "a row"
            message = f"{path.name}: {where} has {row[3]} fields where the header has {row[2]}"
        elif "UTF" in str(error) or "codec" in str(error):
            raise DataError(f"{path.name} is not UTF-8 text", "save it as UTF-8") from None
        raise DataError(message) from None


@contextmanager
def _damage_of_any_library() -> Iterator[None]:
    """Turn what a reader of ``FORMATS`` raises because of the file into what `explained` knows.

    Where a file is cut, a library raises a type of its own, or one of Python's for wrong values or
    an early end. A mistake of our own code with one of these types looks the same. Any other type
    of Python's stays what it is: a KeyError, a TypeError, a missing package.
    """
    try:
        yield
    except (FairauditError, *_DAMAGE):
        raise
    except Exception as error:
        is_of_library = type(error).__module__ != "builtins"
        if is_of_library or isinstance(error, (ValueError, EOFError, StopIteration)):
            raise OSError("damaged") from error
        raise
