"""Declared libraries: each that is imported is declared, and what is installed is within the bounds."""

import ast
import re
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
DECLARED = [Requirement(line) for line in PROJECT["dependencies"]]
EXTRAS = [Requirement(line) for lines in PROJECT["optional-dependencies"].values() for line in lines]


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def imported():
    """First names of all modules that the package imports, wherever in its files."""
    names = set()
    for path in (ROOT / "fairaudit").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names.add(node.module.split(".")[0])
    return names


@pytest.mark.parametrize("requirement", [*DECLARED, *EXTRAS], ids=lambda r: r.name)
def test_what_is_installed_is_within_the_declared_bounds(requirement):
    try:
        found = version(requirement.name)
    except PackageNotFoundError:
        assert requirement in EXTRAS, f"{requirement} is not installed"
        pytest.skip(f"{requirement.name} is not installed")
    assert requirement.specifier.contains(found.split("+")[0], prereleases=True)


@pytest.mark.parametrize("requirement", DECLARED, ids=lambda r: r.name)
def test_every_dependency_has_a_lower_bound_and_only_torch_an_upper_one(requirement):
    operators = sorted(bound.operator for bound in requirement.specifier)
    assert operators == (["<", ">="] if requirement.name == "torch" else [">="])


def test_every_library_that_is_imported_is_declared():
    owners = packages_distributions()
    declared = {normal(requirement.name) for requirement in [*DECLARED, Requirement("ray")]}
    foreign = imported() - set(sys.stdlib_module_names) - {"fairaudit"}
    assert {"torch", "numpy"} <= foreign
    for name in sorted(foreign):
        assert {normal(owner) for owner in owners[name]} & declared, f"{name} is imported and not declared"
