"""A file of any format that stores types, cut or emptied, is refused in one line."""

import struct
from dataclasses import replace

import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.ipc as ipc
import pyarrow.parquet as pq
import pytest
from refusals import refused_in_one_line

from fairaudit.data.reading import tables
from fairaudit.data.reading.formats import FORMATS
from fairaudit.data.reading.tables import open_source, read_columns, read_stored
from fairaudit.errors import DataError

ROWS = 50
TABLE = pa.table({"a": [float(k) for k in range(ROWS)], "b": [f"SECRET{k}" for k in range(ROWS)]})


def write_stream(table, path):
    with ipc.new_stream(path, table.schema) as stream:
        stream.write_table(table)


def write_arff(table, path):
    rows = "\n".join(f"{row['a']},'{row['b']}'" for row in table.to_pylist())
    path.write_text(f"@relation r\n@attribute a numeric\n@attribute b string\n@data\n{rows}\n")


# Name of a format -> what writes a file of it. A format that is added needs its own here.
WRITERS = {
    "parquet": pq.write_table,
    "feather": feather.write_feather,
    "arrow stream": write_stream,
    "arff": write_arff,
}


@pytest.fixture(params=[one.name for one in FORMATS])
def whole(request, tmp_path):
    """A file of the format that can be read."""
    (ending,) = {min(one.endings) for one in FORMATS if one.name == request.param}
    path = tmp_path / f"whole{ending}"
    WRITERS[request.param](TABLE, path)
    source = open_source(path)
    assert source.format == request.param
    assert read_columns(source, ["b", "a"]).equals(TABLE.select(["b", "a"]))
    return path


def test_a_cut_file_of_any_format_is_refused_or_has_fewer_rows(whole):
    """Wherever the file ends, reading it gives rows of the table, or one line that quotes none."""
    content = whole.read_bytes()
    cut = whole.with_stem("cut")
    step = max(1, len(content) // 97)
    said = []
    for size in sorted({*range(0, len(content), step), *range(min(64, len(content)))}):
        cut.write_bytes(content[:size])
        for reads in (read_columns, read_stored):
            try:
                found = reads(open_source(cut), ["a", "b"])
            except DataError as error:
                said.append(str(error))
            else:
                rows = found if isinstance(found, pa.Table) else found.table
                assert rows.num_rows <= ROWS
                if reads is read_columns:  # as the file stores them, numbers may be text
                    entire = max(0, rows.num_rows - 1)  # the last row may be cut
                    assert rows.cast(TABLE.schema)[:entire].equals(TABLE[:entire])
    assert said
    assert not [line for line in said if "SECRET" in line or "\n" in line]


def test_a_file_that_ends_after_it_was_opened_is_refused(whole):
    """What the schema promised is not there any more when rows are read."""
    source = open_source(whole)
    for content in (b"", whole.read_bytes()[:16]):
        whole.write_bytes(content)
        with refused_in_one_line(DataError):
            read_columns(source, ["a", "b"])


def raised_by_a_library(error):
    def reads(*_):
        raise error

    return reads


@pytest.mark.parametrize(
    "error",
    [
        ValueError("SECRET"),
        OSError("SECRET"),
        EOFError("SECRET"),
        StopIteration("SECRET"),
        struct.error("SECRET"),
    ],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("field", ["schema", "read"])
def test_whatever_a_reader_of_another_library_raises_is_damage(whole, monkeypatch, field, error):
    changed = [replace(one, **{field: raised_by_a_library(error)}) for one in FORMATS]
    monkeypatch.setattr(tables, "FORMATS", tuple(changed))
    whole = whole.rename(whole.with_stem("UTF"))  # the name says nothing of what is wrong
    with refused_in_one_line(DataError, "cannot be read: it is damaged") as caught:
        read_columns(open_source(whole), ["a", "b"])
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize("error", [KeyError("x"), TypeError("x"), ImportError("x")])
def test_a_mistake_of_code_and_a_missing_package_are_no_damage(whole, monkeypatch, error):
    changed = [replace(one, read=raised_by_a_library(error)) for one in FORMATS]
    monkeypatch.setattr(tables, "FORMATS", tuple(changed))
    source = open_source(whole)
    with pytest.raises(type(error)):
        read_columns(source, ["a", "b"])
