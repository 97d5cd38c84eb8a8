"""A temporary folder of this process, which goes with it."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from functools import cache
from multiprocessing.util import Finalize
from pathlib import Path

from fairaudit.errors import OutputError

_PREFIX = "fairaudit-own-"
# Most bytes of the folder's path. Multiprocessing puts sockets into a folder below it. The path of
# a socket has at most 104 bytes on macOS and 108 on Linux, with a zero byte at its end.
_LONGEST = 104 - len("/pymp-abcdefgh/listener-abcdefgh") - 1
_SHORT = Path("/tmp")


@cache
def scratch() -> Path:
    """This process's folder, for its owner only; short enough for the sockets of multiprocessing.

    The folder is made once and removed when the process ends, but stays if that is killed.

    Raises:
        OutputError: There is no place for temporary files.
    """
    try:
        base = Path(tempfile.gettempdir())
        # Eight letters in the place of those that `mkdtemp` draws.
        is_long = len(os.fsencode(base / f"{_PREFIX}abcdefgh")) > _LONGEST
        if is_long and os.access(_SHORT, os.W_OK | os.X_OK):
            base = _SHORT
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=base))
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise OutputError(
            f"no temporary folder can be made: {reason}",
            hint="set TMPDIR to a folder that can be written",
        ) from error
    # The priority is lower than multiprocessing's, which removes its own folder inside this one.
    Finalize(None, shutil.rmtree, (folder,), {"ignore_errors": True}, exitpriority=-1000)
    return folder


@contextlib.contextmanager
def temporary_files_in(folder: Path) -> Iterator[None]:
    """Let ``tempfile``, and libraries that use it, put temporary files there within the block."""
    before = tempfile.tempdir
    tempfile.tempdir = str(folder)
    try:
        yield
    finally:
        tempfile.tempdir = before
