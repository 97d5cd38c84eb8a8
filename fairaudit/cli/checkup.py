"""What `doctor` looks at, and under which licence each installed library comes."""

import importlib
import os
import platform
import re
import sys
from importlib.metadata import Distribution, PackageNotFoundError, distribution, entry_points, version
from typing import NamedTuple

from fairaudit import __version__
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
        declared = [line for line in own.requires or [] if "extra ==" not in line]
        checks += [
            _library(name) for name in sorted(match[0] for match in map(_NAME.match, declared) if match)
        ]
    return [*checks, _torch(), Check("cores", True, str(available_cores())), _memory()]


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


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_COMMAND = "fairaudit.__main__:main"
_DEV = "dev"  # the extra of those who change this program
_LONGEST = 100  # a field that holds the whole text names the licence in its first line
_UNKNOWN = "not stated; see the files of the package"


class Licence(NamedTuple):
    """One installed library."""

    name: str
    version: str
    licence: str


def own_distribution() -> Distribution | None:
    """What installed this program, whatever it is called there; None where it was not installed."""
    found = entry_points(group="console_scripts", name="fairaudit")
    return next((entry.dist for entry in found if entry.value == _COMMAND), None)


def installed_licences(start: str | None = None) -> list[Licence]:
    """This program, or ``start``, what it needs, and what those need, as far as it is installed; by name."""
    if start is None:
        own = own_distribution()
        start = "" if own is None else own.name
    start = _normal(start)
    found: dict[str, Licence] = {}
    queue = [start] if start else []
    while queue:
        name = _normal(queue.pop())
        if name in found:
            continue
        try:
            package = distribution(name)
        except PackageNotFoundError:  # another platform's, or an extra that nobody asked for
            continue
        found[name] = Licence(package.name, package.version, licence_of(package))
        lines = package.requires or []
        wanted = [line for line in lines if "extra ==" not in line or (name == start and _DEV not in line)]
        queue += [match[0] for match in map(_NAME.match, wanted) if match]
    return sorted(found.values(), key=lambda licence: licence.name.lower())


def licence_of(package: Distribution) -> str:
    """What its metadata say: the expression, else the classifiers, else the free field."""
    metadata = package.metadata
    if "License-Expression" in metadata:
        return metadata["License-Expression"]
    classifiers = metadata.get_all("Classifier") or []
    named = [c.split(" :: ")[-1] for c in classifiers if c.startswith("License :: ")]
    if named:
        return " AND ".join(named)
    text = metadata["License"] if "License" in metadata else ""  # noqa: SIM401 (it has no get)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0][:_LONGEST] if lines else _UNKNOWN


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
