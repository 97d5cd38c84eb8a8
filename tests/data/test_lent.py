"""What Arrow's threads use is dropped before the program ends."""

import bz2
import sys

import pyarrow as pa
import pyarrow.csv as pacsv
import pytest
from processes import ended

from fairaudit.data.reading import lent
from fairaudit.data.reading.tables import open_source, read_columns, read_stored

# A thread that ends with the program drops its stream .3 s later than everybody else.
PROGRAM = """
import threading, time
from io import BytesIO
from fairaudit.data.reading.lent import lent

class Stream(BytesIO):
    pass

def use(streams):
    time.sleep(.3)
    streams.clear()
    print("dropped")

streams = [{}(Stream()), lent(Stream())]
begun = threading.Thread(target=use, args=[[streams.pop(0)]], daemon=True)
streams.clear()
begun.start()
"""
CSV = "a,b\n1,2\n3,4\n"
TABLES = {
    "plain.csv": CSV.encode(),
    "packed.csv.bz2": bz2.compress(CSV.encode()),
    "blanks.txt": b"a    b\n1    2\n 3  4\n",
    "weka.arff": b"@relation r\n@attribute a numeric\n@attribute b numeric\n@data\n1,2\n3,4\n",
}


def test_a_program_ends_after_the_last_thread_has_dropped_what_it_was_lent():
    waited = ended([sys.executable, "-c", PROGRAM.format("lent")])
    assert (waited.stdout, waited.stderr, waited.returncode) == ("dropped\n", "", 0)
    assert ended([sys.executable, "-c", PROGRAM.format("")]).stdout == ""


@pytest.fixture
def given(monkeypatch):
    """The objects of Python that Arrow is given to read from or to call."""
    given = []

    def spied(function, handles):
        def spy(*args, **options):
            given.extend(handles(*args, **options))
            assert set(given) <= {one() for one in lent._LENT}
            return function(*args, **options)

        return spy

    def of_table(stream, parse_options=None, **options):
        streams = [] if isinstance(stream, pa.NativeFile) else [stream]
        handler = parse_options and parse_options.invalid_row_handler
        return streams if handler is None else [*streams, handler]

    monkeypatch.setattr(pa, "PythonFile", spied(pa.PythonFile, lambda stream, mode: [stream]))
    for name in ("read_csv", "open_csv"):
        monkeypatch.setattr(pacsv, name, spied(getattr(pacsv, name), of_table))
    return given


@pytest.mark.parametrize("name", TABLES)
def test_every_object_of_python_that_arrow_is_given_is_lent(tmp_path, given, name):
    (tmp_path / name).write_bytes(TABLES[name])
    source = open_source(tmp_path / name)
    table = read_columns(source, ["b"])
    assert table["b"].to_pylist() == [2, 4]
    assert len(given) >= 1


def test_what_arrow_is_given_where_rows_are_read_one_by_one_is_lent(tmp_path, given):
    (tmp_path / "plain.csv").write_bytes(TABLES["plain.csv"] + b"5\n")
    source = open_source(tmp_path / "plain.csv", is_alone=True)
    stored = read_stored(source, ["b"])
    assert stored.table["b"].to_pylist() == ["2", "4"]
    assert len(given) == 3  # the header, the rows, and what is called with a ragged one
