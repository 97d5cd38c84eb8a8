"""Every parameter of a docstring stands on a line of its own, so that editors show it; none is invented."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1] / "fairaudit"
SECTION = re.compile(r"^ *Args:\n((?:(?: {4,}.*)?\n)*?)(?=^\S|^ {0,3}\S|\Z)", re.MULTILINE)
ENTRY = re.compile(r"^ {4}(\*{0,2}\w+(?:, \*{0,2}\w+)*): ", re.MULTILINE)


def parameters(node):
    """What may be described: a function's parameters, a class's fields and those of its ``__init__``."""
    if isinstance(node, ast.ClassDef):
        fields = [s.target.id for s in node.body if isinstance(s, ast.AnnAssign)]
        inits = [s for s in node.body if isinstance(s, ast.FunctionDef) and s.name == "__init__"]
        return {*fields, *(name for init in inits for name in parameters(init))}
    a = node.args
    every = [*a.posonlyargs, *a.args, *a.kwonlyargs, *([a.vararg] if a.vararg else [])]
    return {each.arg for each in [*every, *([a.kwarg] if a.kwarg else [])]}


def faults(source):
    """Complaints about the ``Args:`` sections of a module."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        text = ast.get_docstring(node) or ""
        for section in SECTION.findall(f"{text}\n"):
            known = parameters(node)
            described = [n.strip(" *") for entry in ENTRY.findall(section) for n in entry.split(",")]
            for name in described:
                if name not in known:
                    yield f"{node.name}: {name} is no parameter"
            beside = re.findall(r"(?<=\. )(\w+): ", section)
            for name in set(beside) & known:
                yield f"{node.name}: {name} shares a line"
            if not described:
                yield f"{node.name}: nothing is described under Args"


def test_each_parameter_has_a_line_of_its_own():
    modules = sorted(ROOT.rglob("*.py"))
    found = [
        f"{p.relative_to(ROOT)}: {fault}" for p in modules for fault in faults(p.read_text(encoding="utf-8"))
    ]
    assert found == []
    assert len(modules) > 100


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("        a: One. b: Two.\n", "f: b shares a line"),
        ("        c: None such.\n", "f: c is no parameter"),
        ("        nothing\n", "f: nothing is described under Args"),
        ("        a: One.\n        b: Two, and\n            more.\n", None),
        ("        a, b: Both.\n", None),
    ],
)
def test_a_docstring_that_breaks_the_rule_is_caught(body, expected):
    found = list(faults(f'def f(a, b):\n    """Do it.\n\n    Args:\n{body}    """\n'))
    assert found == ([expected] if expected else [])
