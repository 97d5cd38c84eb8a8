"""What `doctor` looks at."""

import importlib
import os
import platform
import sys
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from typing import NamedTuple

from fairaudit import __version__
from fairaudit.cli.licences import own_distribution
from fairaudit.execution.local import available_cores


class Check(NamedTuple):
    """One thing looked at, whether it will do, and what was found."""

    name: str
    ok: bool
    found: str


def examine() -> list[Check]:
    """Python, every declared library, cores, memory and devices."""
    checks = [
        Check("fairaudit", True, __version__),
        Check("python", sys.version_info >= (3, 11), f"{platform.python_version()} on {platform.platform()}"),
    ]
    own = own_distribution()
    if own is None:
        checks.append(
            Check("libraries", False, "not known: this program is not installed, only its files lie here")
        )
    else:
        checks += [_library(name) for name in _declared(own.requires or [])]
    checks.append(_torch())
    checks.append(Check("cores", True, str(available_cores())))
    checks.append(_memory())
    return checks


def _declared(requirements: Iterable[str]) -> list[str]:
    """The libraries that a project declares, extras left out."""
    lines = [line for line in requirements if "extra ==" not in line]
    return sorted("".join(c if c.isalnum() or c in "-_." else " " for c in line).split()[0] for line in lines)


def _library(name: str) -> Check:
    try:
        return Check(name, True, version(name))
    except PackageNotFoundError:
        return Check(name, False, f"not installed: pip install {name}")


def _torch() -> Check:
    """Whether torch can be loaded and multiplied with; a broken build is installed all the same."""
    try:
        torch = importlib.import_module("torch")
        value = float(torch.ones(2, 2).matmul(torch.ones(2, 2)).sum())
        devices = ["cpu", *(f"cuda:{i}" for i in range(torch.cuda.device_count()))]
    except (ImportError, OSError, RuntimeError) as error:
        return Check("torch works", False, " ".join(str(error).split())[:120])
    return Check("torch works", value == 8.0, f"devices: {', '.join(devices)}")


def _memory() -> Check:
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return Check("memory", True, "unknown")
    return Check("memory", True, f"{total / 2**30:.1f} GiB")
