"""Data of other machines and of pipes, read once into a file of this process.

A store is read as pyarrow reads it (``pyarrow.fs``), with the credentials and the endpoint that
its libraries find in the environment. The copy lies in a folder for this user alone, which goes
with the process, so that everything that an audit reads is one file and has one digest. Workers
are handed what was read of it.
"""

import errno
import fnmatch
import re
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import BinaryIO, Final

import pyarrow as pa
import pyarrow.fs as fs

from fairaudit.config.addresses import STDIN, Address
from fairaudit.errors import DataError, OutputError
from fairaudit.io.scratch import scratch
from fairaudit.messages.names import quoted

_PIECE: Final = 1 << 22  # bytes that are copied at once
# Seconds that Google's library may try again; without this it would be a quarter of an hour.
_PATIENCE: Final = 30
_PATTERN: Final = re.compile(r"[*?\[]")
_TEXT: Final = "stdin.csv"  # a pipe has no ending, so what is no other format is taken for CSV


def at_hand(path: Path) -> Path:
    """A path of this machine that holds the data: the path itself, or that of a copy made once.

    Args:
        path: A path, an address, or ``-``.

    Raises:
        DataError: The store or the pipe cannot be read, or nothing lies there.
        OutputError: The copy finds no room.
    """
    if isinstance(path, Address):
        return _copy_of(str(path))
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):  # whoever reads it says that it is missing
        return path
    is_pipe = not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))
    return _copy_of(str(path)) if is_pipe else path


def is_copy(path: Path) -> bool:
    """Whether a path is that of such a copy, which goes with this process."""
    return _copy_of.cache_info().currsize > 0 and path.is_relative_to(scratch())


def is_pattern(path: Path) -> bool:
    """Whether a path stands for several files, as ``parts/*.parquet``, and for none of its own."""
    return bool(_PATTERN.search(path.name)) and not path.exists()


@cache
def _copy_of(address: str) -> Path:
    """The copy of what lies at an address; made once in a process, as a pipe is read once.

    ``address``: that of a store, ``-``, or the path of a pipe. Raises: as :func:`at_hand`.
    """
    with _copy_errors():
        folder = Path(tempfile.mkdtemp(dir=scratch()))
    try:
        if "://" in address:
            return _copy_of_store(address, folder)
        return _copy_of_pipe(address, folder)
    except BaseException:  # an interrupt, too, leaves no piece of a copy behind
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _copy_of_pipe(address: str, folder: Path) -> Path:
    """What a pipe holds, as a file; ``address``: its path, or ``-``.

    Raises:
        DataError: The pipe cannot be opened, or reading it failed; or nothing comes, since a
            terminal is no pipe.
        OutputError: The copy finds no room.
    """
    if address == STDIN:
        return _copy_of_stream(sys.stdin.buffer, folder, "the standard input")
    try:
        with open(address, "rb") as pipe:
            return _copy_of_stream(pipe, folder, quoted(address))
    except OSError as error:  # of opening it: those of reading and writing have been told apart
        why = (error.strerror or "failed").lower()
        raise DataError(f"{quoted(address)} cannot be read: {why}") from None


def _copy_of_stream(stream: BinaryIO, folder: Path, named: str) -> Path:
    """What comes from an open pipe, as a file; ``named``: the pipe in messages.

    Raises:
        DataError: Reading failed; or nothing comes, since a terminal is no pipe.
        OutputError: The copy finds no room.
    """
    if stream.isatty():
        raise DataError("nothing is piped in", "for example: cat loans.csv | fairaudit inspect -")
    copy = folder / _TEXT
    try:
        _write(stream, copy)
    except _BrokenOff:
        raise DataError(f"reading {named} broke off", "try again") from None
    return copy


def _copy_of_store(address: str, folder: Path) -> Path:
    """Copy the files at an address: one, those of a folder, or those that a pattern fits.

    Returns:
        The copy of the one file, or the folder of the copies.

    Raises:
        DataError: As :func:`at_hand`.
    """
    scheme = address.partition("://")[0]
    place, mark, parameters = address.partition("?")
    pattern = ""  # of the names of files; then `place` is their folder
    if _PATTERN.search(place.rpartition("/")[2]):
        place, _, pattern = place.rpartition("/")
    address = place + mark + parameters
    if scheme in ("gs", "gcs") and "retry_limit_seconds" not in address:
        address += f"{'&' if '?' in address else '?'}retry_limit_seconds={_PATIENCE}"
    with _explained(address):
        store, path = fs.FileSystem.from_uri(address)
        at_place = store.get_file_info(path)
        if at_place.type == fs.FileType.NotFound:
            raise DataError(f"there is nothing at {_quoted_address(address)}")
        if at_place.type == fs.FileType.File:
            return _copy_file(store, at_place, folder / Path(path).name)
        inside = store.get_file_info(fs.FileSelector(path, recursive=True))
    base = path.rstrip("/")
    root = folder / Path(base).name
    copied = 0
    for info in sorted(inside, key=lambda info: info.path):
        within = info.path[len(base) :].lstrip("/")
        is_part = info.type == fs.FileType.File and not _leads_out(within)
        fits = not pattern or ("/" not in within and fnmatch.fnmatch(within, pattern))
        if is_part and fits:
            with _explained(address):
                _copy_file(store, info, root / within)
            copied += 1
    if not copied:
        asked_for = f"/{pattern}" if pattern else ""
        raise DataError(f"there are no files at {_quoted_address(address)}{asked_for}")
    return root


def _leads_out(within: str) -> bool:
    """Whether a name in a store would lead out of the folder that its files are copied to."""
    return ".." in Path(within).parts or within.startswith("/")


def _copy_file(store: fs.FileSystem, info: fs.FileInfo, copy: Path) -> Path:
    """Copy a file of a store.

    Raises:
        _BrokenOff: Reading failed, or gave another number of bytes than the store says there are.
        OutputError: The copy finds no room.
    """
    # Not unpacked here, which pyarrow would do by the ending: whoever reads the copy does.
    with store.open_input_stream(info.path, compression=None) as stream:
        with _copy_errors():
            copy.parent.mkdir(parents=True, exist_ok=True)
        _write(stream, copy)
    if info.size is not None and copy.stat().st_size != info.size:
        raise _BrokenOff
    return copy


def _write(stream: BinaryIO | pa.NativeFile, copy: Path) -> None:
    """Write what comes from a stream to a new file.

    Raises:
        _BrokenOff: Reading failed.
        OutputError: The copy finds no room.
    """
    # A failure to read is no OSError here, so it is not taken for one of the disk.
    with _copy_errors(), copy.open("wb") as file:
        while piece := _next_piece(stream):
            file.write(piece)


class _BrokenOff(Exception):
    """Reading a store or a pipe failed, which is no failure of the disk that is written to."""


def _next_piece(stream: BinaryIO | pa.NativeFile) -> bytes:
    """The next bytes of a stream, none at its end; _BrokenOff where it fails."""
    try:
        return bytes(stream.read(_PIECE))
    except (OSError, pa.ArrowException) as error:
        raise _BrokenOff from error


@contextmanager
def _copy_errors() -> Iterator[None]:
    """Turn the failure of writing a copy within the block into an OutputError."""
    try:
        yield
    except OSError as error:
        why = "the disk is full" if error.errno == errno.ENOSPC else (error.strerror or "failed")
        raise OutputError(
            f"the data cannot be copied to {scratch()}: {why}",
            "set TMPDIR to a folder with more room",
        ) from None


@contextmanager
def _explained(address: str) -> Iterator[None]:
    """Turn what a store raises within the block into a DataError of one line.

    The store's own message may hold credentials.
    """
    named = _quoted_address(address)
    scheme = address.partition("://")[0]
    try:
        yield
    except FileNotFoundError:
        raise DataError(f"there is nothing at {named}") from None
    except _BrokenOff:
        raise DataError(f"reading {named} broke off", "try again") from None
    except (pa.ArrowNotImplementedError, ImportError):
        raise DataError(f"this pyarrow cannot read {scheme} addresses") from None
    except (OSError, pa.ArrowException, ValueError) as error:
        text = str(error).upper()
        denied = ("ACCESS_DENIED", "ACCESS DENIED", "FORBIDDEN", "403", "401", "CREDENTIAL")
        if isinstance(error, PermissionError) or any(word in text for word in denied):
            raise DataError(
                f"{named} may not be read", "credentials are those of the environment"
            ) from None
        if scheme in ("hdfs", "viewfs") and ("JVM" in text or "LIBHDFS" in text):
            raise DataError(
                f"{scheme} addresses need Java and libhdfs here", "copy the data: hdfs dfs -get"
            ) from None
        raise DataError(
            f"{named} cannot be read", "is the address right, and the store to be reached?"
        ) from None


def _quoted_address(address: str) -> str:
    """An address in quotes, without its parameters."""
    return quoted(address.partition("?")[0])
