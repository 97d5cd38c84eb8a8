"""Memory and processor time of a process and of everything that it started."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


def family(process: int) -> Iterator[int]:
    """A process and everything that it started."""
    yield process
    for task in Path(f"/proc/{process}/task").glob("*/children"):
        try:
            found = task.read_text().split()
        except OSError:
            continue
        for child in found:
            yield from family(int(child))


def anonymous_mib(process: int | str = "self") -> float:
    """RssAnon of a process, 0 where it is gone."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0.0
    found = re.search(r"RssAnon:\s+(\d+) kB", status)
    return int(found[1]) / 1024 if found else 0.0


def processor_seconds(process: int) -> float:
    """Processor time of a process and of those that it started and waited for; 0 if it is gone."""
    try:
        text = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return 0.0
    fields = text[text.rindex(")") + 2 :].split()
    return sum(int(field) for field in fields[11:15]) / TICKS
