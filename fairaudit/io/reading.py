"""Small files that are read whole: reports, options, declarations, manifests."""

import errno
import os
import stat
import tomllib
from pathlib import Path

from fairaudit.errors import ConfigError

LARGEST_REPORT = 128 * 2**20  # bytes; a report of a hundred arms has ten million
LARGEST_OPTIONS = 16 * 2**20


def read_file(path: Path, most: int, *, follow: bool = True) -> bytes:
    """The content of a regular file; a pipe or a device is neither waited for nor read.

    Args:
        path: The file.
        most: How many bytes it may have.
        follow: Whether the path may be a link.

    Raises:
        OSError: The file cannot be read, is no regular file, or has more bytes.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW)
    with open(os.open(path, flags), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        if status.st_size > most:
            raise OSError(errno.EFBIG, f"larger than {most:,} bytes")
        return file.read(status.st_size)


def read_toml(path: Path) -> dict[str, object]:
    """The content of a TOML file as a dict.

    Raises:
        ConfigError: The file cannot be read or is not TOML.
    """
    try:
        return tomllib.loads(read_file(path, LARGEST_OPTIONS).decode())
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        # The name of the current folder, as a path, is empty.
        raise ConfigError(f"{path.name or path} cannot be read: {reason}") from None
    except RecursionError:
        raise ConfigError(f"{path.name} is nested too deeply") from None
    except ValueError as error:
        raise ConfigError(f"{path.name} is not valid TOML: {error}") from None
