"""Scripts beside the package use what the program has today: no name or parameter that is gone.

Their text is read, and what they name is looked up. Of those that no other test runs and that are
fast one is run, too.
"""

import ast
import contextlib
import functools
import importlib
import inspect
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from places import ROOT, program

FOLDERS = ("benchmarks", "docs", "docs/examples", "sample_data")
SCRIPTS = sorted(path for folder in FOLDERS for path in (ROOT / folder).glob("*.py"))
# Names that a script can import from another: those of scripts and of modules of the tests.
BESIDE = {path.stem: path for path in [*(ROOT / "tests/support").glob("*.py"), *SCRIPTS]}


class Script:
    """What one script takes from the program, and how it is called.

    Args:
        text: The source of the script.

    Attributes:
        errors: What does not exist, or cannot be called so: a line and a sentence of each.
        taken: How many names are imported from the program.
        calls: How many calls were looked at.
    """

    def __init__(self, text: str) -> None:
        nodes = list(ast.walk(ast.parse(text)))
        self.errors: list[str] = []
        self.taken = self.calls = 0
        self._things: dict[str, object] = {}  # local name -> what it is
        for node in nodes:
            if isinstance(node, ast.Import | ast.ImportFrom):
                self._import(node)
        # A name that is also bound otherwise, say as a parameter, may be another thing.
        for name in bound(nodes):
            self._things.pop(name, None)
        for node in nodes:
            if isinstance(node, ast.Attribute):
                self._thing(node)
            if isinstance(node, ast.Call):
                self._call(node)

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        """Look up all names of a statement that imports."""
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "fairaudit":
                    module = importlib.import_module(alias.name)
                    top = importlib.import_module("fairaudit")
                    self._things[alias.asname or "fairaudit"] = module if alias.asname else top
            return
        source = node.module or ""
        for alias in node.names:
            if source.split(".")[0] == "fairaudit":
                self.taken += 1
                try:
                    self._things[alias.asname or alias.name] = looked_up(source, alias.name)
                except (ImportError, AttributeError) as error:
                    self.errors.append(f"{node.lineno}: {error}")
            elif source in BESIDE and alias.name not in defined(BESIDE[source]):
                self.errors.append(f"{node.lineno}: no {alias.name} in {source}.py")

    def _thing(self, node: ast.expr) -> object | None:
        """What a name or a chain of attributes stands for; None where that is not known."""
        if isinstance(node, ast.Name):
            return self._things.get(node.id)
        if not isinstance(node, ast.Attribute):
            return None
        owner = self._thing(node.value)
        if not inspect.ismodule(owner) and not inspect.isclass(owner):
            return None
        if not hasattr(owner, node.attr):
            error = f"{node.lineno}: no {node.attr} in {owner.__name__}"
            self.errors += [error] if error not in self.errors else []
        return getattr(owner, node.attr, None)

    def _call(self, node: ast.Call) -> None:
        """Hold the arguments of a call against the parameters of what is called."""
        thing = self._thing(node.func)
        if not inspect.isfunction(thing) and not inspect.isclass(thing):
            return
        try:
            signature = inspect.signature(thing)
        except ValueError:  # of a class that is not written in Python
            return
        self.calls += 1
        starred = [isinstance(argument, ast.Starred) for argument in node.args]
        given = node.args[: starred.index(True)] if any(starred) else node.args
        named = {keyword.arg: keyword for keyword in node.keywords if keyword.arg}
        is_whole = not any(starred) and len(named) == len(node.keywords)
        try:
            (signature.bind if is_whole else signature.bind_partial)(*given, **named)
        except TypeError as error:
            self.errors.append(f"{node.lineno}: {ast.unparse(node.func)}: {error}")


def looked_up(module: str, name: str) -> object:
    """What `from module import name` gives."""
    found = importlib.import_module(module)
    if not hasattr(found, name):
        with contextlib.suppress(ImportError):  # the name may be that of a module
            importlib.import_module(f"{module}.{name}")
    return getattr(found, name)


def bound(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Names that anything but an import binds."""
    for node in nodes:
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name


@functools.cache
def defined(path: Path) -> set[str]:
    """Names that a script has when it has been imported."""
    body = ast.parse(path.read_text("utf-8")).body
    imports = [node for node in body if isinstance(node, ast.Import | ast.ImportFrom)]
    names = {alias.asname or alias.name for node in imports for alias in node.names}
    assigned = [node for node in body if isinstance(node, ast.Assign | ast.AnnAssign)]
    inside = [node for statement in assigned for node in ast.walk(statement)]
    return names | set(bound([*body, *inside]))


@functools.cache
def script(path: Path) -> Script:
    """What is found in a file."""
    return Script(path.read_text("utf-8"))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_script_names_and_calls_what_there_is(path):
    assert script(path).errors == []


def test_most_of_what_scripts_take_is_looked_at():
    found = [script(path) for path in SCRIPTS]
    assert sum(one.taken for one in found) > 200
    assert sum(one.calls for one in found) > 200


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("from fairaudit.metrics.intervals import gone", "1: module 'fairaudit.metrics.i"),
        ("from fairaudit.gone import contrast", "1: No module named"),
        ("from places import gone", "1: no gone in places.py"),
        ("from fairaudit.metrics import intervals\nintervals.gone", "2: no gone in fairaudit"),
        (
            "from fairaudit.metrics.intervals import contrast\ncontrast(1, 2, 3, gone=4)",
            "2: contrast: got an unexpected keyword argument 'gone'",
        ),
        (
            "from fairaudit.metrics import intervals as own\nown.contrast(*pair, gone=4)",
            "2: own.contrast: got an unexpected keyword argument 'gone'",
        ),
        (
            "from fairaudit.metrics.intervals import contrast\ncontrast()",
            "2: contrast: missing a required argument",
        ),
        ("from fairaudit.metrics.intervals import contrast\ndef f(contrast): contrast()", ""),
    ],
)
def test_what_is_gone_is_found(text, error):
    errors = Script(text).errors
    assert len(errors) == bool(error)
    assert "".join(errors).startswith(error)


def test_intervals_of_one_file_hold_the_readings_of_its_population(monkeypatch):
    study = program("benchmarks/misalignment.py")
    monkeypatch.setattr(study, "SEEDS", 2)
    found = study.coverage(0, "")
    assert len(found) == 8
    held = [low <= true <= high for _, low, high, true in found.values()]
    assert sum(held) >= 7
    assert all(low < value < high for value, low, high, _ in found.values())
