"""The import rules that keep the audit honest, checked on the syntax trees of the package.

Every rule is a function from a package (module name -> source) to complaints, and every rule is shown
a small broken package that it must complain about.
"""

import ast
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1] / "fairaudit"

TORCH = {  # all else is imported by `plan`, `inspect`, `methods`, `schema` or `--help`
    *("engine", "models.zoo", "models.convex"),
    *(
        "diagnostics",
        "execution.seed_data",
        "execution.seed_data",
        "execution.model_setup",
        "execution.own_code",
        "execution.outcomes",
        "execution.trials",
        "execution.worker",
        "release.search",
        "release.train",
        "release.loaded",
        "opacus.optimizer",
        "opacus.private",
        "privacy.noise",
        "privacy.borrowed",
    ),
    *("testing", "methods.published", "methods.minimiser", "methods.teachers"),
}
LAZY = {
    "scipy",
    "fairlearn",
    "sklearn",
    "dp_accounting",
    "pandas",
    "torch",
    "opacus",
    "pyarrow",
    "PIL",
    "rich",
    "cryptography",
}
NEVER_AT_START = {"dp_accounting", "sklearn", "fairlearn", "scipy", "opacus", "PIL"}  # most take 0.4 to 3 s
SLOW_FOR_HELP = NEVER_AT_START | {"torch", "pandas", "pyarrow", "jinja2", "markdown_it", "vl_convert"}
# What `gate`, `compare` and `report` stand on: a stored report and the standard library.
READERS_OF_REPORTS = {
    "gate.comparison",
    "gate.check",
    "report.load",
    "report.render.junit",
    "report.render.markdown",
    "report.write",
}
SLOW_FOR_READERS = SLOW_FOR_HELP | {"numpy"}
FIRST_PARTY_LOCALS = {
    "choosing.page",
    "cli",
    "__main__",
    "",
    "execution.scheduler",
    "execution.worker",
    "report.write",
    "report.model",
    "choosing.result",
    *("methods.base", "methods.gradient", "methods.sgd"),  # described without torch
}

NOISE = {"normal_", "normal", "randn", "randn_like", "standard_normal", "log_normal_"}
DRAWS = {
    *("rand", "rand_like", "randint", "randint_like", "randperm", "multinomial", "bernoulli", "poisson"),
    *("bernoulli_", "uniform_", "exponential_", "geometric_", "random_", "cauchy_"),
}
LENDS_GENERATORS = {"privacy.borrowed"}  # to code that knows no other; puts them back
GLOBAL_GENERATOR = {"manual_seed", "seed", "set_rng_state", "get_rng_state", "initial_seed"}
NOISE_IN, INIT_IN = {"privacy.noise"}, {"models.zoo"}

MAX_FILE, MAX_FUNCTION = 420, 60  # each parameter of a docstring has a line of its own


@dataclass(frozen=True)
class Import:
    """One imported module: dotted name, line, and whether inside a function."""

    target: str
    line: int
    local: bool


def is_for_types(node: ast.AST) -> bool:
    """Whether what is below is read by type checkers alone, as where a method is described without torch."""
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


@dataclass(frozen=True)
class Module:
    """A module by its name below ``fairaudit`` ("" is the package itself) and its source."""

    name: str
    source: str
    is_package: bool = False

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.source)

    @property
    def shown(self) -> str:
        return f"fairaudit.{self.name}".rstrip(".")

    @cached_property
    def functions(self) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
        return [n for n in ast.walk(self.tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]

    @cached_property
    def imports(self) -> list[Import]:
        """Both ``a`` and ``a.b`` for ``from a import b``: b may be a module."""
        unread = {id(n) for each in ast.walk(self.tree) if is_for_types(each) for n in ast.walk(each)}
        inside = {id(node) for function in self.functions for node in ast.walk(function)}
        found = []
        for node in ast.walk(self.tree):
            if id(node) in unread:
                continue
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                base = self.absolute(node)
                names = [base, *(f"{base}.{alias.name}" for alias in node.names)]
            else:
                continue
            found += [Import(name, node.lineno, id(node) in inside) for name in names]
        return found

    def absolute(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        here = self.shown.split(".")
        base = here[: len(here) - node.level + self.is_package]
        return ".".join([*base, *([node.module] if node.module else [])])


Package = dict[str, Module]
Complaints = Iterator[str]
Rule = Callable[[Package], Complaints]


def package_of(sources: Mapping[str, str], packages: set[str] = frozenset()) -> Package:
    return {name: Module(name, source, name in packages) for name, source in sources.items()}


@cache
def read_package() -> Package:
    modules = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if is_package else parts)
        modules[name] = Module(name, path.read_text(encoding="utf-8"), is_package)
    return modules


def within(name: str, prefix: str) -> bool:
    return name == prefix or name.startswith(f"{prefix}.")


def within_any(name: str, prefixes: set[str]) -> bool:
    return any(within(name, prefix) for prefix in prefixes)


def first_party(package: Package, module: Module) -> Iterator[tuple[str, Import]]:
    """The modules of the package that a module imports; the package itself only for what it defines."""
    for found in module.imports:
        if found.target == "fairaudit" or not within(found.target, "fairaudit"):
            continue
        target = found.target.removeprefix("fairaudit.")
        if target in package:
            yield target, found
        elif "." not in target:
            yield "", found  # from fairaudit import __version__


def place(module: Module, line: int) -> str:
    return f"{module.shown}:{line}"


def calls(module: Module) -> Iterator[tuple[ast.Call, str, str]]:
    """Every call, the last name of what is called, and its dotted receiver."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            yield node, node.func.attr, ast.unparse(node.func.value)


def randomness_is_named_and_noise_has_one_place(package: Package) -> Complaints:
    for module in package.values():
        for call, name, receiver in calls(module):
            seeded = any(keyword.arg == "generator" for keyword in call.keywords)
            where = place(module, call.lineno)
            noise_allowed = module.name in NOISE_IN or (module.name in INIT_IN and seeded)
            if name in NOISE and not noise_allowed:
                yield f"{where} calls {name}: noise is drawn in privacy.noise only"
            in_torch = receiver == "torch" or name.endswith("_")
            if name in DRAWS and in_torch and not seeded:
                yield f"{where} calls {name} without a generator: draws come from a named stream"
            if module.name in LENDS_GENERATORS:
                continue
            if name in GLOBAL_GENERATOR and receiver in ("torch", "torch.random", "torch.cuda"):
                yield f"{where} calls {receiver}.{name}: no stream is global"
            numpy_random = receiver in ("np.random", "numpy.random")
            if numpy_random and module.name != "privacy.streams":
                yield f"{where} calls {receiver}.{name}: generators come from privacy.streams"


def tensors_are_never_pickled(package: Package) -> Complaints:
    for module in package.values():
        for call, name, receiver in calls(module):
            if (receiver, name) in {
                ("torch", "save"),
                ("torch", "load"),
                ("np", "load"),
                ("pd", "read_pickle"),
            }:
                yield f"{place(module, call.lineno)} calls {receiver}.{name}, which may unpickle"
            if name == "to_pickle":
                yield f"{place(module, call.lineno)} calls to_pickle: use safetensors"


def package_files_import_nothing(package: Package) -> Complaints:
    for module in package.values():
        for found in module.imports:
            if module.is_package and not found.local and not within(found.target, "importlib"):
                yield f"{place(module, found.line)} imports {found.target}: __init__ files import nothing"


def local_imports_are_rare(package: Package) -> Complaints:
    for module in package.values():
        if within(module.name, "cli") or module.name == "":
            continue
        for found in module.imports:
            if not found.local:
                continue
            if within(found.target, "fairaudit"):
                if module.name not in FIRST_PARTY_LOCALS:
                    yield f"{place(module, found.line)} imports {found.target} inside a function"
            elif found.target.split(".")[0] not in LAZY:
                yield f"{place(module, found.line)} imports {found.target} inside a function"


def reached(package: Package, start: str) -> dict[str, list[str]]:
    """Everything that importing a module imports, third parties by first name, with the way there."""
    ways: dict[str, list[str]] = {start: [start]}
    queue = [start]
    while queue:
        name = queue.pop()
        module = package[name]
        parents = [".".join(name.split(".")[:depth]) for depth in range(1, name.count(".") + 1)]
        targets = [t for t, found in first_party(package, module) if not found.local]
        targets += [parent for parent in parents if parent in package]
        for found in module.imports:
            if not found.local and not within(found.target, "fairaudit"):
                ways.setdefault(f"<{found.target.split('.')[0]}>", [*ways[name], found.target])
        for target in targets:
            if target not in ways:
                ways[target] = [*ways[name], target]
                queue.append(target)
    return ways


def only_training_reaches_torch(package: Package) -> Complaints:
    for name, module in package.items():
        if not within_any(name, TORCH):
            way = reached(package, name).get("<torch>")
            if way:
                yield f"{module.shown} reaches torch at import: {' -> '.join(way)}"


def slow_libraries_wait_until_needed(package: Package) -> Complaints:
    for name, module in package.items():
        if within_any(name, TORCH - {"execution.worker", "execution.model_setup", "execution.seed_data"}):
            continue
        for found in module.imports:
            if not found.local and found.target.split(".")[0] in NEVER_AT_START:
                yield f"{place(module, found.line)} imports {found.target} at start, not where it is used"


def help_is_quick(package: Package) -> Complaints:
    if "cli.app" in package:
        ways = reached(package, "cli.app")
        for library in sorted(SLOW_FOR_HELP):
            if f"<{library}>" in ways:
                yield f"--help imports {library}: {' -> '.join(ways[f'<{library}>'])}"


def stored_reports_are_read_quickly(package: Package) -> Complaints:
    for name in READERS_OF_REPORTS & set(package):
        ways = reached(package, name)
        for library in sorted(SLOW_FOR_READERS):
            if f"<{library}>" in ways:
                yield f"reading a report imports {library}: {' -> '.join(ways[f'<{library}>'])}"


def files_and_functions_fit_a_screen(package: Package) -> Complaints:
    for module in package.values():
        lines = module.source.count("\n")
        if lines > MAX_FILE:
            yield f"{module.shown} has {lines} lines, over {MAX_FILE}"
        for function in module.functions:
            docstring = function.body[0] if ast.get_docstring(function) is not None else None
            described = docstring.end_lineno - docstring.lineno + 1 if docstring else 0
            length = function.end_lineno - function.lineno + 1 - described
            if length > MAX_FUNCTION:
                where = place(module, function.lineno)
                yield f"{where} {function.name} has {length} lines, over {MAX_FUNCTION}"


# rule -> (a package that breaks it, part of the complaint); one entry for every way to break it
BROKEN: list[tuple[Rule, dict[str, str], str]] = [
    (
        randomness_is_named_and_noise_has_one_place,
        {"engine.loop": "x.normal_(generator=g)"},
        "privacy.noise only",
    ),
    (
        randomness_is_named_and_noise_has_one_place,
        {"methods.dpsgd": "torch.randn(3)"},
        "privacy.noise only",
    ),
    (
        randomness_is_named_and_noise_has_one_place,
        {"metrics.within_model": "rng.standard_normal(3)"},
        "privacy.noise only",
    ),
    (randomness_is_named_and_noise_has_one_place, {"models.zoo": "w.normal_()"}, "privacy.noise only"),
    (randomness_is_named_and_noise_has_one_place, {"models.zoo": "w.uniform_(-1, 1)"}, "without a generator"),
    (
        randomness_is_named_and_noise_has_one_place,
        {"engine.sampling": "torch.rand(3)"},
        "without a generator",
    ),
    (
        randomness_is_named_and_noise_has_one_place,
        {"execution.worker": "torch.manual_seed(0)"},
        "no stream is global",
    ),
    (
        randomness_is_named_and_noise_has_one_place,
        {"data.split": "np.random.permutation(3)"},
        "privacy.streams",
    ),
    (
        randomness_is_named_and_noise_has_one_place,
        {"data.split": "np.random.default_rng(0)"},
        "privacy.streams",
    ),
    (tensors_are_never_pickled, {"results.jobs": "torch.load(path)"}, "unpickle"),
    (tensors_are_never_pickled, {"results.jobs": "frame.to_pickle(path)"}, "to_pickle"),
    (package_files_import_nothing, {"data": "from fairaudit.data.split import Split"}, "import nothing"),
    (package_files_import_nothing, {"": "from fairaudit.api import run_audit"}, "import nothing"),
    (local_imports_are_rare, {"data.split": "def f():\n    import fairaudit.errors"}, "inside a function"),
    (local_imports_are_rare, {"data.split": "class A:\n    def f(self):\n        import json"}, "import"),
    (only_training_reaches_torch, {"metrics.within_model": "import torch"}, "reaches torch"),
    (
        only_training_reaches_torch,
        {"planning.plan": "import fairaudit.methods.base", "methods.base": "from torch import Tensor"},
        "plan -> methods.base -> torch",
    ),
    (only_training_reaches_torch, {"data": "import torch", "data.split": ""}, "data.split"),
    (
        slow_libraries_wait_until_needed,
        {"metrics.within_model": "from scipy.stats import norm"},
        "not where it is used",
    ),
    (
        help_is_quick,
        {"cli.app": "import fairaudit.audit", "audit": "import pandas as pd"},
        "--help imports pandas",
    ),
    (
        stored_reports_are_read_quickly,
        {"gate.check": "import fairaudit.report.model", "report.model": "import numpy as np"},
        "reading a report imports numpy: gate.check -> report.model",
    ),
    (files_and_functions_fit_a_screen, {"planning.plan": "x = 1\n" * 421}, "421 lines"),
    (
        files_and_functions_fit_a_screen,
        {"planning.plan": "def f():\n" + "    x = 1\n" * 61},
        "f has 62 lines",
    ),
]
RULES = list(dict.fromkeys(rule for rule, _, _ in BROKEN))


def rule_name(value: object) -> str | None:
    return getattr(value, "__name__", None)


@pytest.mark.parametrize("rule", RULES, ids=rule_name)
def test_the_package_keeps_the_rule(rule):
    complaints = list(rule(read_package()))
    assert not complaints, "\n" + "\n".join(complaints)


@pytest.mark.parametrize(("rule", "sources", "expected"), BROKEN, ids=rule_name)
def test_a_package_that_breaks_the_rule_is_caught(rule, sources, expected):
    complaints = list(rule(package_of(sources, packages={"", "data"})))
    assert any(expected in complaint for complaint in complaints), complaints


def test_the_whole_package_was_read():
    names = set(read_package())
    assert {"", "errors", "privacy", "privacy.noise", "methods.dpsgd"} <= names
    assert len(names) >= len(list(ROOT.rglob("*.py")))


# What import-linter and ruff say (pyproject.toml), shown a package that breaks all of it.
BAD_IMPORTS = [
    (
        "engine/loop.py",
        "import fairaudit.methods.base",
        "fairaudit.engine is not allowed to import fairaudit.m",
    ),
    (
        "privacy/noise.py",
        "import fairaudit.engine.loop",
        "fairaudit.privacy is not allowed to import fairaudit.e",
    ),
    (
        "analysis/measure.py",
        "import fairaudit.execution.local",
        "fairaudit.analysis.measure -> fairaudit.execution.local",
    ),
    (
        "report/write.py",
        "import fairaudit.planning.plan",
        "fairaudit.report is not allowed to import fairaudit.p",
    ),
    (
        "metrics/gaps.py",
        "import fairaudit.metrics.compare",
        "No cycles are allowed in fairaudit.metrics",
    ),
    (
        "methods/dpsgd.py",
        "import fairaudit.privacy.noise",
        "methods.dpsgd -> fairaudit.privacy.noise",
    ),
    (
        "methods/dpsgd.py",
        "import fairaudit.privacy.events",
        "methods.dpsgd -> fairaudit.privacy.events",
    ),
    ("audit.py", "def f():\n    import rich.text", "fairaudit.audit -> rich"),
    ("leftovers.py", "", "leftovers"),
]


def contracts(folder: Path) -> subprocess.CompletedProcess[str]:
    """What import-linter says of a copy of the package."""
    shutil.copy(ROOT.parent / "pyproject.toml", folder)
    program = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    command = [sys.executable, "-c", program, "--no-cache", "--config", "pyproject.toml"]
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONUTF8": "1"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_the_contracts_on_imports_hold_and_a_package_that_breaks_one_is_caught(tmp_path):
    package = tmp_path / "fairaudit"
    shutil.copytree(ROOT, package, ignore=shutil.ignore_patterns("__pycache__"))
    kept = contracts(tmp_path)
    assert kept.returncode == 0, kept.stdout + kept.stderr
    for name, source, _ in BAD_IMPORTS:
        with (package / name).open("a", encoding="utf-8") as file:
            file.write(f"\n{source}\n")
    broken = contracts(tmp_path)
    assert broken.returncode == 1
    said = " ".join(broken.stdout.split())
    for name, source, expected in BAD_IMPORTS:
        assert expected in said, (name, source, broken.stdout)


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("planning/plan.py", "def f():\n    import dp_accounting\n"),
        ("analysis/build.py", "from vl_convert import vegalite_to_png\n"),
        ("results/jobs.py", "import pickle\n"),
        ("results/jobs.py", "import shelve\n"),
        ("results/jobs.py", "import torch\n\ntorch.load('a')\n"),
        ("data/split.py", "from random import shuffle\n"),
        ("data/split.py", "import numpy as np\n\nnp.random.default_rng(0)\n"),
        ("methods/dpsgd.py", "import torch\n\ntorch.randn(3)\n"),
        ("planning/plan.py", "from typing import TYPE_CHECKING\n"),
    ],
)
def test_what_has_an_owner_is_imported_by_nobody_else(name, source):
    command = [sys.executable, "-m", "ruff", "check", "--select", "TID251", "--no-cache"]
    file = f"fairaudit/{name}"
    found = subprocess.run(
        [*command, "--stdin-filename", file, "-"],
        cwd=ROOT.parent,
        input=source,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "TID251" in found.stdout, found.stdout + found.stderr
