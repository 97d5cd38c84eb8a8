"""Every library that is imported is declared."""

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
DECLARED = [Requirement(line) for line in PROJECT["dependencies"]]


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def imported():
    """First names of all modules that the package imports, wherever in its files."""
    names = set()
    for path in (ROOT / "fairaudit").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Import):
                names |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names.add(node.module.split(".")[0])
    return names


def test_every_library_that_is_imported_is_declared():
    owners = packages_distributions()
    declared = {normal(requirement.name) for requirement in [*DECLARED, Requirement("ray")]}
    foreign = imported() - set(sys.stdlib_module_names) - {"fairaudit"}
    assert {"torch", "numpy"} <= foreign
    for name in sorted(foreign):
        assert {normal(owner) for owner in owners[name]} & declared, name
