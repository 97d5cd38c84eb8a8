"""Files of other kinds, each refused with the command that makes a table of it."""

import shlex
from pathlib import Path
from typing import Final, NamedTuple

from fairaudit.errors import DataError
from fairaudit.messages.names import quoted


class _Other(NamedTuple):
    """A kind of file that is not read.

    Args:
        what: It is, in words.
        endings: Of names of files.
        magic: First bytes, any of them.
        command: What to run; ``{file}`` and ``{stem}`` are the file's name and that without its
            ending.
    """

    what: str
    endings: tuple[str, ...]
    magic: tuple[bytes, ...]
    command: str


def _pandas(reader: str, needs: str = "") -> str:
    """The command that reads a file by a function of pandas and writes it as Parquet."""
    install = f"pip install {needs} && " if needs else ""
    script = f'import pandas as p; p.{reader}("{{file}}").to_parquet("{{stem}}.parquet")'
    return f"{install}python -c '{script}'"


_OTHERS: Final = (
    _Other("an Excel workbook", (".xlsx", ".xlsm", ".xltx"), (), _pandas("read_excel", "openpyxl")),
    _Other(
        "an old Excel workbook",
        (".xls",),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",),
        _pandas("read_excel", "xlrd"),
    ),
    _Other("an OpenDocument table", (".ods",), (), _pandas("read_excel", "odfpy")),
    _Other(
        "an SPSS file", (".sav", ".zsav"), (b"$FL2", b"$FL3"), _pandas("read_spss", "pyreadstat")
    ),
    _Other("a SAS file", (".sas7bdat",), (b"\0" * 12 + b"\xc2\xea\x81\x60",), _pandas("read_sas")),
    _Other("a SAS transport file", (".xpt",), (b"HEADER RECORD",), _pandas("read_sas")),
    _Other("a Stata file", (".dta",), (b"<stata_dta>",), _pandas("read_stata")),
    _Other(
        "a pickle, which may run code when it is read",
        (".pkl", ".pickle", ".joblib"),
        (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05"),
        _pandas("read_pickle"),
    ),
    _Other(
        "a numpy array",
        (".npy",),
        (b"\x93NUMPY",),
        "python -c 'import numpy as n, pandas as p; "
        'a = n.load("{file}"); p.DataFrame(a.reshape(len(a), -1)).to_csv("{stem}.csv", '
        "index=False)'",
    ),
    _Other(
        "lines of JSON",
        (".jsonl", ".ndjson"),
        (),
        _pandas("read_json").replace(")", ", lines=True)", 1),  # an argument of read_json
    ),
    _Other("a JSON file", (".json",), (), _pandas("read_json")),
    _Other("an HDF5 file", (".h5", ".hdf5", ".hdf"), (b"\x89HDF",), _pandas("read_hdf", "tables")),
    _Other("an ORC file", (".orc",), (b"ORC",), _pandas("read_orc")),
    _Other(
        "an Avro file",
        (".avro",),
        (b"Obj\x01",),
        "pip install polars && python -c 'import polars as p; "
        'p.read_avro("{file}").write_parquet("{stem}.parquet")\'',
    ),
    _Other(
        "an SQLite database",
        (".sqlite", ".sqlite3", ".db"),
        (b"SQLite format 3",),
        'sqlite3 -header -csv {file} "select * from TABLE" > {stem}.csv',
    ),
    _Other(
        "a DuckDB database", (".duckdb",), (), "duckdb {file} \"copy TABLE to '{stem}.parquet'\""
    ),
    _Other(
        "data of R",
        (".rds", ".rda", ".rdata"),
        (b"RDX2", b"RDX3"),
        'Rscript -e \'write.csv(readRDS("{file}"), "{stem}.csv", row.names = FALSE)\'',
    ),
    _Other("XML", (".xml",), (b"<?xml",), _pandas("read_xml", "lxml")),
    _Other(
        "a page of HTML",
        (".html", ".htm"),
        (b"<!DOCTYPE", b"<!doctype", b"<html"),
        "download the file itself; the address may lead to a page about it",
    ),
    _Other("a Feather file of version 1", (), (b"FEA1",), _pandas("read_feather")),
    _Other("a file packed by xz", (".xz",), (b"\xfd7zXZ",), "xz -dk {file}"),
    _Other("a zip archive", (".zip",), (b"PK\x03\x04",), "unzip {file}"),
    _Other("a tar archive", (".tar", ".tgz"), (), "tar -xf {file}"),
    _Other("a 7z archive", (".7z",), (b"7z\xbc\xaf",), "7z x {file}"),
    _Other("a RAR archive", (".rar",), (b"Rar!",), "unrar x {file}"),
    _Other("a PDF", (".pdf",), (b"%PDF",), "type its table into a CSV file"),
)


def other_kind(path: Path, head: bytes) -> DataError | None:
    """The error that a file is of a kind that is not read; None where no such kind is known.

    A name with the ending of one is of that kind, whatever its bytes; bytes come second.

    Args:
        path: The file.
        head: Its first bytes.
    """
    ending = path.suffix.lower()
    kind = next((other for other in _OTHERS if ending in other.endings), None)
    if kind is None and head.startswith(b"PK") and b"[Content_Types].xml" in head:
        kind = _OTHERS[0]  # an Excel workbook is a zip archive with that list in it
    if kind is None:
        # With no magic, (), a kind is never told by its bytes.
        kind = next((other for other in _OTHERS if head.startswith(other.magic)), None)
    if kind is None:
        return None
    name, stem = str(path), str(path.with_suffix(""))
    # A name that would end the quotes of a command, or that no terminal shows, is left to the user.
    if not name.isprintable() or set(name) & set("\"'\\"):
        name, stem = "FILE", "NEW"
    # Within a script of Python or R the name is in quotes already; elsewhere the shell needs them.
    is_bare = "'import" not in kind.command and "readRDS" not in kind.command
    command = kind.command.replace("{file}", shlex.quote(name) if is_bare else name)
    command = command.replace("{stem}", shlex.quote(stem) if is_bare else stem)
    return DataError(f"{quoted(path.name)} is {kind.what}, which is not read", command)
