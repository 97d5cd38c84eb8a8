"""The list of mistakes that tests must see is kept up with the code: each can still be made."""

import ast
from pathlib import Path

import mutants
import pytest
from mutants import MUTANTS, ROOT

FUNCTIONS: dict[str, set[str]] = {}


def functions(path: Path) -> set[str]:
    """Names of the tests in a file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mistake_can_be_made_and_its_tests_exist(mutant):
    """Its text stands exactly once, and what replaces it is another that can be compiled."""
    assert not mutants.obstacle(ROOT, mutant)
    for test in mutant.tests:
        file, _, name = test.partition("::")
        known = FUNCTIONS.setdefault(file, functions(ROOT / "tests" / file))
        assert not name or name.partition("[")[0] in known, test


def test_no_name_stands_twice():
    names = [mutant.name for mutant in MUTANTS]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"old": "no such text"}, "stands 0 times"),
        ({"old": "\n"}, "times in"),
        ({"file": "gone.py"}, "stands 0 times"),
        ({"tests": ("gone.py",)}, "there is no tests/gone.py"),
        ({"new": "def ("}, "cannot be compiled"),
        ({"new": MUTANTS[0].old}, "changes nothing"),
    ],
)
def test_what_can_no_longer_be_made_is_noticed(changed, said):
    assert said in mutants.obstacle(ROOT, MUTANTS[0]._replace(**changed))
