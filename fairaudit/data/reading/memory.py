"""Whether a table fits into the memory at hand, before it fills it.

A file of some kilobytes can hold billions of equal values.
"""

from pathlib import Path

from fairaudit.errors import DataError

_KERNEL = Path("/proc/meminfo")
_GROUP = Path("/sys/fs/cgroup")


def at_hand() -> int | None:
    """Bytes that this process can still take; None where the system does not say.

    What the kernel calls available, or less where the container has a limit.
    """
    try:
        lines = _KERNEL.read_text(encoding="ascii").splitlines()
        free = next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable"))
    except (OSError, ValueError, IndexError, StopIteration):
        return None
    try:
        most, used = (
            int((_GROUP / name).read_text(encoding="ascii"))
            for name in ("memory.max", "memory.current")
        )
    except (OSError, ValueError):  # no container, or no limit (it is then "max")
        return free
    return min(free, max(0, most - used))


class Room:
    """The memory at hand when reading begins, and what of it pieces of a table have taken."""

    def __init__(self, path: Path) -> None:
        self.path, self.free, self.taken = path, at_hand(), 0

    def take(self, size: int) -> None:
        """Count ``size`` bytes, of what is read or about to be read.

        Raises:
            DataError: Together they are more than there was.
        """
        self.taken += size
        if self.free is not None and self.taken > self.free:
            raise DataError(
                f"{self.path.name} holds {self.taken / 2**30:.1f} GiB or more of values, and "
                f"{self.free / 2**30:.1f} GiB of memory are at hand",
                "leave columns out with --drop, or save a sample of the rows",
            )
