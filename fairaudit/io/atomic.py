"""Files that appear whole or not at all, and what a full or read-only disk is called."""

import contextlib
import errno
import os
import re
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from fairaudit.errors import OutputError

# What a file is called while it is written.
TEMPORARY = re.compile(r"\.fairaudit-[0-9a-f]+\.tmp")
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_FORBIDDEN = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


def write_atomically(path: Path, content: bytes, *, mode: int = 0o666) -> None:
    """Write a file so that a reader, a crash or a full disk never sees half of it.

    The old file, if any, stays until the new one is complete and on the disk.

    Args:
        path: Where the file shall be; its directory exists.
        content: What it shall hold.
        mode: Permissions of a new file before the umask, as for ``os.open``.

    Raises:
        OutputError: The directory is not writable, or the disk is full.
    """
    with appearing(path, mode=mode, lasting=True) as file:
        file.write(content)


@contextlib.contextmanager
def appearing(path: Path, *, mode: int = 0o600, lasting: bool = False) -> Iterator[BinaryIO]:
    """Open a file to write, which gets its name when the block ends without an error.

    Until then it has a temporary name; after an error it is deleted, and an older file stays.

    Args:
        path, mode: As of :func:`write_atomically`.
        lasting: Whether the file is forced to the disk, to survive a power cut, and may replace
            nothing but a plain file. Without it, for what can be made again, a power cut may leave
            a damaged file.

    Raises:
        OutputError: The directory is not writable, or the disk is full.
    """
    if lasting and os.path.lexists(path) and not is_plain_file(path):
        raise OutputError(f"{path} exists and is no plain file", hint="name another file")
    # The same directory, because a rename is atomic only within one file system.
    temporary = _temporary_name(path.parent)
    try:
        try:
            with open(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode), "wb") as file:
                yield file
                if lasting:
                    file.flush()
                    os.fsync(file.fileno())  # the rename must not reach the disk before the content
            os.replace(temporary, path)
        except BaseException:  # also an interrupt, or an error in the caller's block
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise
        if lasting:
            descriptor = os.open(path.parent, os.O_RDONLY)
            try:  # the rename survives a power cut; some network file systems refuse
                with contextlib.suppress(OSError):
                    os.fsync(descriptor)
            finally:
                os.close(descriptor)
    except OSError as error:
        raise output_error(path, error) from error


def remove_temporaries(directory: Path) -> None:
    """Delete unfinished files of killed writers; call it only under the run directory's lock.

    Without the lock it could delete a file that another run is writing.
    """
    for path in directory.iterdir():
        if TEMPORARY.fullmatch(path.name) and is_plain_file(path):
            path.unlink(missing_ok=True)


def is_plain_file(path: Path) -> bool:
    """Whether there is a file of that name; a link is none, wherever it leads."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def refuse_unusable(out: Path) -> None:
    """Refuse an output folder to which no file can be written, or that cannot be made.

    A file is written there, or in the nearest folder above that exists, and removed again, so that
    a long run does not fail at its end.

    Raises:
        OutputError: ``out`` is a file or lies below one, is a link to nowhere, or not writable.
    """
    try:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            os.lstat(out)  # raises of a name that is too long, which could not be made
        nearest = next(path for path in (out, *out.absolute().parents) if os.path.lexists(path))
        if not nearest.is_dir():
            problem = "is a link to nowhere" if nearest.is_symlink() else "is not a folder"
            raise OutputError(f"{nearest} {problem}", hint="choose another --out")
        probe = _temporary_name(nearest)
        os.close(os.open(probe, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        probe.unlink()
    except OSError as error:
        raise output_error(out, error) from error


def output_error(path: Path, error: OSError) -> OutputError:
    """The error, of one line and a hint, that a user sees when the output cannot be written."""
    if error.errno in _FULL:
        return OutputError(
            f"no space left to write {path}", hint="free some space, or choose another --out"
        )
    if error.errno in _FORBIDDEN:
        return OutputError(f"{path} is not writable", hint="choose another --out")
    reason = (error.strerror or str(error)).lower()
    return OutputError(f"cannot write {path}: {reason}", hint="choose another --out")


def _temporary_name(folder: Path) -> Path:
    """A path for an unfinished file, which nobody else uses and ``TEMPORARY`` matches."""
    return folder / f".fairaudit-{secrets.token_hex(8)}.tmp"
