"""What ``fairaudit doctor`` looks at: Python, libraries and the machine."""

import importlib
import os
import platform
import re
import sys
from importlib.metadata import Distribution, PackageNotFoundError, entry_points, version
from typing import NamedTuple

from fairaudit import __version__
from fairaudit.execution.local import available_cores

_COMMAND = "fairaudit.__main__:main"  # what the command `fairaudit` runs
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")  # of a package, at the start of a requirement


class Check(NamedTuple):
    """One thing looked at, whether it is good enough to run, and what was found."""

    name: str
    ok: bool
    result: str


def examine() -> list[Check]:
    """Check Python, every required library, PyTorch, cores and memory."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    python = f"{platform.python_version()} on {platform.platform()}"
    return [
        Check("fairaudit", True, __version__),
        Check("python", sys.version_info >= (3, 11), python),
        *_libraries(),
        _torch(),
        Check("cores", True, str(available_cores())),
        Check("memory", True, f"{memory / 2**30:.1f} GiB"),
    ]


def own_distribution() -> Distribution | None:
    """The installed package that the command ``fairaudit`` came with; None where there is none.

    The package is found by its command, since it may have another name than the program.
    """
    for entry in entry_points(group="console_scripts", name="fairaudit"):
        if entry.value == _COMMAND:
            return entry.dist
    return None


def _libraries() -> list[Check]:
    """A check of every required library: whether it is installed, and its version."""
    installed = own_distribution()
    if installed is None:
        return [Check("libraries", False, "not known: this program is not installed")]
    checks = []
    for line in sorted(installed.requires or []):
        match = _NAME.match(line)
        if match is None or "extra ==" in line:  # a library of an extra is not required
            continue
        name = match[0]
        try:
            checks.append(Check(name, True, version(name)))
        except PackageNotFoundError:
            checks.append(Check(name, False, f"not installed: pip install {name}"))
    return checks


def _torch() -> Check:
    """Check that torch can be imported and multiplies: a build may be installed and broken."""
    try:
        torch = importlib.import_module("torch")
        value = float(torch.ones(2, 2).matmul(torch.ones(2, 2)).sum())
        devices = ["cpu", *(f"cuda:{i}" for i in range(torch.cuda.device_count()))]
    except (ImportError, OSError, RuntimeError) as error:
        return Check("torch works", False, " ".join(str(error).split())[:120])
    return Check("torch works", value == 8.0, f"devices: {', '.join(devices)}")
