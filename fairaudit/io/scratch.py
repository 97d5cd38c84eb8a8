"""A temporary folder of this process that goes with it, or with the next run where it was killed.

Each process holds a lock on its folder, which the kernel drops however the process dies. So whoever
makes the next one knows which folders are nobody's any more.
"""

import contextlib
import fcntl
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from functools import cache
from multiprocessing.util import Finalize
from pathlib import Path

from fairaudit.errors import OutputError

_PREFIX = "fairaudit-tmp-"
_NAME = re.compile(_PREFIX + "[a-z0-9_]{8}")  # as tempfile makes them
# The address of a socket has 104 bytes on macOS and 108 on Linux; multiprocessing adds two names, C
# a zero.
_LONGEST = 104 - len("/pymp-abcdefgh/listener-abcdefgh") - 1
_SHORT = Path("/tmp")


@cache
def scratch() -> Path:
    """This process's folder, for its owner only; short enough for the sockets of multiprocessing.

    Raises:
        OutputError: There is no place for temporary files.
    """
    try:
        base = Path(tempfile.gettempdir())
        for place in {base, _SHORT}:
            _remove_abandoned(place)
        if len(os.fsencode(base / f"{_PREFIX}abcdefgh")) > _LONGEST and os.access(
            _SHORT, os.W_OK | os.X_OK
        ):
            base = _SHORT
        while True:
            folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=base))
            if _lock(folder) is not None:  # else another process took it for abandoned before
                break
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise OutputError(
            f"no temporary folder can be made: {reason}",
            hint="set TMPDIR to a folder that can be written",
        ) from error
    # After what multiprocessing does at its end, for it wants to remove its own folder itself.
    Finalize(
        None,
        shutil.rmtree,
        (folder,),
        {"ignore_errors": True},
        exitpriority=-1000,
    )
    return folder


@contextlib.contextmanager
def temporary_files_in(folder: Path) -> Iterator[None]:
    """Let the standard library make its temporary files there meanwhile."""
    before = tempfile.tempdir
    tempfile.tempdir = str(folder)
    try:
        yield
    finally:
        tempfile.tempdir = before


def _remove_abandoned(base: Path) -> None:
    """Remove what killed processes of this user left."""
    for folder in base.glob(f"{_PREFIX}*"):
        lock = _lock(folder) if _NAME.fullmatch(folder.name) else None
        if lock is not None:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)


def _lock(folder: Path) -> int | None:
    """The lock of a private folder of this user.

    None where somebody holds it, or there is no such folder.
    """
    try:
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    with contextlib.suppress(OSError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        found = folder.lstat()  # there is none where its owner has just removed it
        if (found.st_uid, stat.S_IMODE(found.st_mode)) == (os.geteuid(), 0o700):
            return lock
    os.close(lock)
    return None
