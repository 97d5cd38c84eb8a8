"""The import rules that keep the audit honest, checked on the syntax trees of the package.

Every rule is a function from a package (module name -> source) to complaints, and every rule is shown
a small broken package that it must complain about.
"""

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1] / "fairaudit"

# Strictly downward: what a module may import of the package, by its longest matching prefix. Modules
# of one package may import each other unless they are listed on their own here.
MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "progress": set(),
    "atomic": {"errors"},
    "config": {"errors"},
    "presets": {"errors"},
    "executor": {"errors"},
    "orphans": set(),
    "code_digest": set(),
    "scratch": {"errors"},
    "streams": set(),
    "pool": {"errors", "executor", "scratch", "streams"},
    "cluster": {"errors", "executor", "pool", "scratch"},
    "privacy": {"errors"},
    "tuning": {
        *("errors", "config", "methods.ablation", "methods.defaults", "methods.spec"),
        *("privacy.events", "privacy.selection", "privacy.streams"),
    },
    "layers": {"errors", "config", "presets", "models.names"},
    "jobs": {"errors", "atomic"},
    "results": set(),  # below metrics, which make these types, and the readers of reports: no numpy
    "data": {"errors", "atomic", "config", "privacy.streams"},
    "models": {"errors", "code_digest"},
    "engine": {"errors", "privacy"},
    "methods": {"errors", "engine", "models", "data", "privacy", "methods.rules"},
    "methods.ablation": {"methods.spec"},
    "methods.catalog": {"errors", "methods.ablation", "methods.spec", "methods.unsampled"},
    "methods.unsampled": {"methods.spec", "methods.defaults", "methods.mechanisms"},
    "methods.spec": {"methods.defaults", "methods.mechanisms", "privacy.events"},
    "methods.mechanisms": {"errors", "privacy.accounting", "privacy.events"},
    "methods.admission": {"methods.spec", "methods.defaults"},
    "methods.defaults": {"errors"},
    "methods.rules": {"errors", "engine"},
    "diagnostics": {"errors", "engine", "methods", "models", "privacy"},
    "metrics": {"errors", "data", "privacy.streams", "results"},
    "settings": {
        *("errors", "config", "methods.catalog", "methods.defaults", "methods.spec"),
    },
    "guarantees": {"methods.spec", "privacy", "tuning"},
    "arms": {
        *("errors", "config", "data", "guarantees", "privacy", "settings", "tuning"),
        *("methods.ablation", "methods.admission", "methods.catalog", "methods.defaults", "methods.spec"),
    },
    "plan": {
        *("errors", "arms", "code_digest", "config", "data", "guarantees", "jobs", "privacy", "settings"),
        "tuning.score",
        *("methods.catalog", "methods.defaults", "methods.spec", "models.names"),
    },
    "examine": {"errors", "config", "executor", "models.names", "pool"},
    "rundir": {"errors", "atomic", "config", "jobs", "plan"},
    "packed": {"errors", "data"},
    "prepared": {"errors", "config", "plan", "data", "models.names", "engine", "methods.base", "packed"},
    "start": {"errors", "config", "engine", "models", "prepared", "privacy"},
    "outcomes": {"data", "jobs", "methods.base", "metrics.risk", "prepared"},
    "trials": {
        *("errors", "arms", "data", "engine", "jobs", "methods", "outcomes", "prepared", "privacy", "tuning"),
    },
    "worker": {
        *("outcomes", "trials"),
        *("errors", "config", "jobs", "arms", "plan", "prepared", "start", "data", "engine", "methods"),
        *("diagnostics", "metrics", "models", "privacy"),
    },
    "execute": {
        *("errors", "plan", "jobs", "data", "executor", "pool", "cluster", "progress", "rundir"),
        *("worker", "methods", "diagnostics"),
    },
    "measure": {"errors", "data", "jobs", "methods.catalog", "metrics", "plan", "results"},
    "report": {
        *("errors", "atomic", "config", "presets", "layers", "jobs", "plan", "data", "metrics"),
        *("methods.catalog", "methods.spec", "methods.base", "models.names", "privacy.events"),
        *("privacy.accounting", "results"),
    },
    "gate": {"errors", "metrics.names", "report.facts", "report.gates", "report.model", "results"},
    "changes": {"errors", "gate", "report", "results"},
    "starter": {"errors", "atomic", "config", "data", "report.names"},
    "score": {
        *("", "errors", "atomic", "config", "layers", "data", "gate", "jobs", "metrics", "report", "results"),
    },
    "audit": {
        *("", "errors", "config", "layers", "presets", "data", "examine", "plan", "execute", "measure"),
        *("metrics", "models.names"),
        *("report", "rundir", "scratch", "pool", "cluster", "progress", "jobs", "gate"),
    },
    "cli": {
        *(
            "",
            "errors",
            "atomic",
            "config",
            "layers",
            "presets",
            "audit",
            "plan",
            "gate",
            "report",
            "progress",
            "data",
        ),
        *("methods.ablation", "methods.catalog", "models.names", "pool", "privacy.events", "rundir"),
        *("changes", "results", "score", "starter", "streams"),
    },
    "__main__": {"errors", "cli", "streams"},
    "api": {
        *("errors", "audit", "config", "layers", "plan", "progress", "scratch", "score"),
        *("gate.check", "gate.grammar", "report.model", "report.reproduce"),
    },
    # the top __init__, lazily
    "": {"api", "config", "errors", "report.model", "report.load"},
}

NEVER = [  # said apart from the table, because each is a security argument or a promise
    ("engine", "methods", "the engine knows no method"),
    ("privacy", "engine", "accounting and noise stand on nothing"),
    ("methods.rules", "privacy.noise", "a rule draws no noise"),
    ("methods.rules", "privacy.events", "a rule writes no ledger"),
    ("report", "execute", "a report is built from results"),
    ("", "cli", "only the entry point knows the command line"),
]

OWNERS = {  # third party -> the only places that may import it
    "dp_accounting": {"privacy.accounting", "privacy.renyi"},
    "ray": {"cluster"},
    "jinja2": {"report.to_html"},
    "markupsafe": {"report.to_html"},
    "markdown_it": {"report.to_html"},
    "vl_convert": {"report.to_html", "report.pictures"},
    "altair": set(),  # its schema checks the charts in tests; importing it costs half a second
    "rich": {"cli"},
    "typer": {"cli"},
    "opacus": {"engine"},
    "fairlearn": {"metrics"},
    "sklearn": {"metrics", "data"},
    "PIL": {"data.decode"},
    "pickle": {"engine.memory"},  # writes what a module holds, to compare it; nothing is ever loaded
    "cloudpickle": set(),
    "dill": set(),
    "joblib": set(),
    "shelve": set(),
    "marshal": set(),
    "random": {"privacy.borrowed"},
}

TORCH = {  # all else is imported by `plan`, `inspect`, `methods`, `schema` or `--help`
    *("engine", "models.zoo", "models.own", "models.convex", "models.linear"),
    *(
        "diagnostics",
        "outcomes",
        "packed",
        "prepared",
        "start",
        "trials",
        "worker",
        "privacy.noise",
        "privacy.borrowed",
    ),
    *("methods.base", "methods.gradient", "methods.published", "methods.rules", "methods.objectives"),
    *("methods.output_perturbation", "methods.pate", "methods.descent"),
}
LAZY = {"scipy", "fairlearn", "sklearn", "dp_accounting", "pandas", "torch", "opacus", "pyarrow", "PIL"}
NEVER_AT_START = {"dp_accounting", "sklearn", "fairlearn", "scipy", "opacus", "PIL"}  # most take 0.4 to 3 s
SLOW_FOR_HELP = NEVER_AT_START | {"torch", "pandas", "pyarrow", "jinja2", "markdown_it", "vl_convert"}
# What `gate`, `compare` and `report` stand on: a stored report and the standard library.
READERS_OF_REPORTS = {
    "changes",
    "gate.check",
    "report.load",
    "report.to_junit",
    "report.to_markdown",
    "report.write",
}
SLOW_FOR_READERS = SLOW_FOR_HELP | {"numpy"}
FIRST_PARTY_LOCALS = {"cli", "__main__", "", "execute", "worker", "report.write", "report.model"}

NOISE = {"normal_", "normal", "randn", "randn_like", "standard_normal", "log_normal_"}
DRAWS = {
    *("rand", "rand_like", "randint", "randint_like", "randperm", "multinomial", "bernoulli", "poisson"),
    *("bernoulli_", "uniform_", "exponential_", "geometric_", "random_", "cauchy_"),
}
LENDS_GENERATORS = {"privacy.borrowed"}  # to code that knows no other; puts them back
GLOBAL_GENERATOR = {"manual_seed", "seed", "set_rng_state", "get_rng_state", "initial_seed"}
NOISE_IN, INIT_IN = {"privacy.noise"}, {"models.zoo"}

MAX_FILE, MAX_FUNCTION = 400, 60


@dataclass(frozen=True)
class Import:
    """One imported module: dotted name, line, and whether inside a function."""

    target: str
    line: int
    local: bool


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
        inside = {id(node) for function in self.functions for node in ast.walk(function)}
        found = []
        for node in ast.walk(self.tree):
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


def area(name: str) -> str | None:
    """The longest entry of the table that covers a module."""
    covering = [key for key in MAY_IMPORT if (within(name, key) if key else name == "")]
    return max(covering, key=len) if covering else None


def imports_go_strictly_downward(package: Package) -> Complaints:
    for module in package.values():
        here = area(module.name)
        if here is None:
            yield f"{module.shown} has no place in MAY_IMPORT: say what it may import"
            continue
        for target, found in first_party(package, module):
            if module.is_package and within(target, module.name) and module.name:
                continue
            allowed = MAY_IMPORT[here]
            sideways = target != "" and area(target) == here
            if not sideways and not ({target} & allowed or within_any(target, allowed - {""})):
                yield f"{place(module, found.line)} imports fairaudit.{target}, which {here!r} may not"


def forbidden_pairs_never_meet(package: Package) -> Complaints:
    for module in package.values():
        for target, found in first_party(package, module):
            for source, forbidden, why in NEVER:
                is_source = (
                    within(module.name, source)
                    if source
                    else not within_any(module.name, {"cli", "__main__"})
                )
                if is_source and within(target, forbidden):
                    yield f"{place(module, found.line)} imports fairaudit.{target}: {why}"


def imports_form_no_cycle(package: Package) -> Complaints:
    edges = {
        name: {t for t, found in first_party(package, module) if not found.local and t not in ("", name)}
        for name, module in package.items()
    }
    done: set[str] = set()

    def visit(name: str, path: list[str]) -> Complaints:
        if name in path:
            yield "import cycle: " + " -> ".join([*path[path.index(name) :], name])
        elif name not in done:
            for target in sorted(edges[name]):
                yield from visit(target, [*path, name])
            done.add(name)

    for name in sorted(edges):
        yield from visit(name, [])


def libraries_stay_with_their_owners(package: Package) -> Complaints:
    for module in package.values():
        for found in module.imports:
            owners = OWNERS.get(found.target.split(".")[0])
            if owners is not None and not within_any(module.name, owners):
                where = f"only {', '.join(sorted(owners))} may" if owners else "nothing may"
                yield f"{place(module, found.line)} imports {found.target}; {where}"


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


def types_need_no_second_set_of_imports(package: Package) -> Complaints:
    for module in package.values():
        for node in ast.walk(module.tree):
            name = (
                node.id
                if isinstance(node, ast.Name)
                else node.attr
                if isinstance(node, ast.Attribute)
                else ""
            )
            if name == "TYPE_CHECKING":
                yield f"{place(module, node.lineno)} hides an import behind TYPE_CHECKING"


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
        if within_any(name, TORCH - {"worker", "start", "prepared"}):
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


IMPORT_CLI = "from fairaudit.cli.streams import answer\n"
# rule -> (a package that breaks it, part of the complaint); one entry for every way to break it
BROKEN: list[tuple[Rule, dict[str, str], str]] = [
    (
        imports_go_strictly_downward,
        {"errors": "", "plan": "", "config": "from fairaudit.plan import Plan"},
        "config",
    ),
    (
        imports_go_strictly_downward,
        {"metrics.risk": "", "data.split": "import fairaudit.metrics.risk"},
        "metrics",
    ),
    (
        imports_go_strictly_downward,
        {"methods.base": "", "plan": "from fairaudit.methods import base"},
        "'plan' may",
    ),
    (
        imports_go_strictly_downward,
        {"engine.tape": "", "methods.catalog": "from ..engine import tape"},
        "engine.tape",
    ),
    (imports_go_strictly_downward, {"leftovers": ""}, "no place in MAY_IMPORT"),
    (
        imports_go_strictly_downward,
        {"": "", "data.split": "from fairaudit import __version__"},
        "'data' may not",
    ),
    (
        forbidden_pairs_never_meet,
        {"methods.base": "", "engine.loop": "import fairaudit.methods.base"},
        "no method",
    ),
    (
        forbidden_pairs_never_meet,
        {"engine.loop": "", "privacy.noise": "import fairaudit.engine.loop"},
        "nothing",
    ),
    (
        forbidden_pairs_never_meet,
        {"privacy.noise": "", "methods.rules.flat": "from fairaudit.privacy.noise import noise_stream"},
        "draws no noise",
    ),
    (
        forbidden_pairs_never_meet,
        {"privacy.events": "", "methods.rules.flat": "from fairaudit.privacy import events"},
        "writes no ledger",
    ),
    (forbidden_pairs_never_meet, {"execute": "", "report.build": "import fairaudit.execute"}, "from results"),
    (forbidden_pairs_never_meet, {"cli.streams": "", "audit": IMPORT_CLI}, "entry point"),
    (forbidden_pairs_never_meet, {"cli.streams": "", "": f"def f():\n    {IMPORT_CLI}"}, "entry point"),
    (
        imports_form_no_cycle,
        {
            "engine.a": "import fairaudit.engine.b",
            "engine.b": "from fairaudit.engine import c",
            "engine.c": "from . import a",
        },
        "engine.a -> engine.b -> engine.c -> engine.a",
    ),
    (
        libraries_stay_with_their_owners,
        {"plan": "def f():\n    import dp_accounting"},
        "privacy.accounting, privacy.renyi may",
    ),
    (libraries_stay_with_their_owners, {"report.build": "from rich.text import Text"}, "only cli may"),
    (libraries_stay_with_their_owners, {"audit": "import typer"}, "only cli may"),
    (libraries_stay_with_their_owners, {"jobs": "import pickle"}, "only engine.memory may"),
    (libraries_stay_with_their_owners, {"data.split": "from random import shuffle"}, "privacy.borrowed may"),
    (libraries_stay_with_their_owners, {"jobs": "import shelve"}, "nothing may"),
    (
        randomness_is_named_and_noise_has_one_place,
        {"engine.loop": "x.normal_(generator=g)"},
        "privacy.noise only",
    ),
    (
        randomness_is_named_and_noise_has_one_place,
        {"methods.rules.a": "torch.randn(3)"},
        "privacy.noise only",
    ),
    (
        randomness_is_named_and_noise_has_one_place,
        {"metrics.risk": "rng.standard_normal(3)"},
        "privacy.noise only",
    ),
    (randomness_is_named_and_noise_has_one_place, {"models.zoo": "w.normal_()"}, "privacy.noise only"),
    (randomness_is_named_and_noise_has_one_place, {"models.zoo": "w.uniform_(-1, 1)"}, "without a generator"),
    (
        randomness_is_named_and_noise_has_one_place,
        {"engine.sampling": "torch.rand(3)"},
        "without a generator",
    ),
    (randomness_is_named_and_noise_has_one_place, {"worker": "torch.manual_seed(0)"}, "no stream is global"),
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
    (tensors_are_never_pickled, {"jobs": "torch.load(path)"}, "unpickle"),
    (tensors_are_never_pickled, {"jobs": "frame.to_pickle(path)"}, "to_pickle"),
    (
        types_need_no_second_set_of_imports,
        {"plan": "import typing\nif typing.TYPE_CHECKING:\n    import torch"},
        "TYPE_CHECKING",
    ),
    (package_files_import_nothing, {"data": "from fairaudit.data.split import Split"}, "import nothing"),
    (package_files_import_nothing, {"": "from fairaudit.api import run_audit"}, "import nothing"),
    (local_imports_are_rare, {"data.split": "def f():\n    import fairaudit.errors"}, "inside a function"),
    (local_imports_are_rare, {"data.split": "class A:\n    def f(self):\n        import json"}, "import"),
    (only_training_reaches_torch, {"metrics.risk": "import torch"}, "reaches torch"),
    (
        only_training_reaches_torch,
        {"plan": "import fairaudit.methods.base", "methods.base": "from torch import Tensor"},
        "plan -> methods.base -> torch",
    ),
    (only_training_reaches_torch, {"data": "import torch", "data.split": ""}, "data.split"),
    (
        slow_libraries_wait_until_needed,
        {"metrics.risk": "from scipy.stats import norm"},
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
    (files_and_functions_fit_a_screen, {"plan": "x = 1\n" * 401}, "401 lines"),
    (files_and_functions_fit_a_screen, {"plan": "def f():\n" + "    x = 1\n" * 61}, "f has 62 lines"),
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


def test_the_table_of_imports_has_no_cycle_of_its_own():
    levels: dict[str, int] = {}

    def level(name: str, below: tuple[str, ...] = ()) -> int:
        assert name not in below, f"{' -> '.join([*below, name])} go round"
        if name not in levels:
            targets = {area(target) for target in MAY_IMPORT[name]} - {name, None, ""}
            levels[name] = 1 + max((level(target, (*below, name)) for target in targets), default=-1)
        return levels[name]

    for name in MAY_IMPORT:
        level(name)
    assert levels["errors"] == 0
    assert (
        levels["privacy"]
        < levels["engine"]
        < levels["methods"]
        < levels["execute"]
        < levels["audit"]
        < levels["cli"]
    )


def test_the_whole_package_was_read():
    names = set(read_package())
    assert {"", "errors", "privacy", "privacy.noise", "methods.rules"} <= names
    assert len(names) >= len(list(ROOT.rglob("*.py")))
