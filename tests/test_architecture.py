"""What import-linter and ruff cannot say.

One place draws noise, none asks for a capability by its name, every hook is typed, a class name
stands for one thing, names are nouns of the field, and tests build people and audits in one place.
"""

import ast
import inspect
import re
from collections import defaultdict
from pathlib import Path

import mypy.api
import pytest

from fairaudit.capabilities.base import Capability
from fairaudit.capabilities.installed import CAPABILITIES

ROOT = Path(__file__).resolve().parents[1] / "fairaudit"
NOISE = {"normal_", "normal", "randn", "randn_like", "standard_normal", "log_normal_"}
BRANCHES = (ast.Compare, ast.Subscript, ast.MatchValue)
DRAWS = {
    "rand",
    "randint",
    "randperm",
    "multinomial",
    "bernoulli",
    "poisson",
    "uniform_",
    "random_",
}


def calls():
    """Every call of a method in the package: its module, its name and its arguments by name."""
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                of_torch = ast.unparse(node.func.value) == "torch" or node.func.attr.endswith("_")
                named = {keyword.arg for keyword in node.keywords}
                yield str(path.relative_to(ROOT)), node.func.attr, of_torch, named


def test_noise_is_drawn_in_one_place_and_every_other_draw_has_a_generator():
    drawn = [call for call in calls() if call[1] in NOISE | DRAWS]
    assert {where for where, name, *_ in drawn if name in NOISE} == {"privacy/noise.py"}
    unseeded = [
        (where, name)
        for where, name, of_torch, named in drawn
        if of_torch and "generator" not in named
    ]
    assert unseeded == []


def test_no_condition_asks_for_a_capability_by_its_name_outside_its_folder():
    capabilities = {capability.name for capability in CAPABILITIES}
    by_name = []
    for path in sorted(ROOT.rglob("*.py")):
        room = path.relative_to(ROOT).parts[0]
        for node in ast.walk(ast.parse(path.read_bytes())):
            asked = list(ast.iter_child_nodes(node)) if isinstance(node, BRANCHES) else []
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "capability":
                asked = node.args
            for part in asked:
                if isinstance(part, ast.Constant) and part.value in capabilities - {room}:
                    by_name.append((str(path.relative_to(ROOT)), ast.unparse(node)))
    assert by_name == []
    assert {"trainers", "leakage", "tuning"} <= capabilities


WRONG = """
from fairaudit.capabilities.base import Capability
from fairaudit.config.options import AuditConfig

class Wrong(Capability):
    name = "wrong"
    def validation_rows(self, config: AuditConfig, rows: int, share: float) -> int:
        return 0

def asks(one: Capability, config: AuditConfig) -> int:
    return one.validation_rows(config, "all of them")
"""


@pytest.mark.slow  # it checks the types of all rooms
def test_a_hook_of_another_signature_and_a_wrong_call_of_one_are_errors_of_types(tmp_path):
    program = tmp_path / "wrong.py"
    program.write_text(WRONG)
    options = ("--config-file", str(ROOT.parent / "pyproject.toml"), "--cache-dir", str(tmp_path))
    said, _, code = mypy.api.run([*options, str(program)])
    assert code == 1
    assert [line.rpartition(" ")[2] for line in said.splitlines() if ": error:" in line] == [
        "[override]",
        "[arg-type]",
    ]


def test_every_hook_says_its_types():
    for name, hook in vars(Capability).items():
        function = hook.fget if isinstance(hook, property) else hook
        if not name.startswith("_") and callable(function):
            parameters = list(inspect.signature(function).parameters.values())[1:]
            types = [p.annotation for p in parameters] + [function.__annotations__["return"]]
            assert not any("Any" in said or said == inspect.Parameter.empty for said in types), name


def test_no_class_name_stands_twice():
    homes = defaultdict(list)
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.ClassDef):
                homes[node.name].append(str(path.relative_to(ROOT)))
    assert len(homes) > 300
    assert {name: where for name, where in homes.items() if len(where) > 1} == {}


# Words that say nothing of what a thing is.
NO_NOUNS = {
    *("told", "untold", "beside", "besides", "laid", "outside", "ways", "apart", "sought", "found"),
    *("abreast", "yardstick", "hopeless", "unheard", "strange", "thing", "stuff", "misc", "utils"),
}
# Keys of files that users have: a declaration's ``outside``, a report's ``ways`` and ``found``.
KEYS_OF_FILES = {
    ("config/declared.py", "outside"),
    ("data/inputs/column.py", "outside"),
    ("leakage/messages.py", "found"),
    ("report/model.py", "ways"),
    ("report/types/decomposition.py", "found"),
}


def public_names(tree):
    """Every name that a class, function, parameter or attribute of a module is given, once."""
    names = set()
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.arg(arg=name):
                names.add(name)
            case ast.Attribute(attr=name, ctx=ast.Store()):
                names.add(name)
            case ast.AnnAssign(target=ast.Name(id=name)):
                names.add(name)
    return {name for name in names if not name.startswith("_")}


def test_no_public_name_holds_a_word_that_is_no_noun_of_the_field():
    seen, odd = set(), set()
    for path in sorted(ROOT.rglob("*.py")):
        for name in public_names(ast.parse(path.read_bytes())):
            seen.add(name)
            words = re.findall("[A-Z]?[a-z]+|[A-Z]+", name)
            if NO_NOUNS & {word.lower() for word in words}:
                odd.add((str(path.relative_to(ROOT)), name))
    assert {"ClippingRule", "output_gradient", "learning_rate", "mechanism"} <= seen
    assert odd == KEYS_OF_FILES


def test_rows_of_people_and_whole_audits_are_built_in_one_place():
    tests = ROOT.parent / "tests"
    shared = ("people.py", "audits.py")
    built = {
        node.name
        for name in shared
        for node in ast.parse((tests / "support" / name).read_bytes()).body
        if isinstance(node, ast.FunctionDef)
    }
    assert {"people", "applicants", "predicted", "audited", "reported"} <= built
    again = [
        (str(path.relative_to(tests)), node.name)
        for path in sorted(tests.rglob("*.py"))
        if path.name not in shared
        for node in ast.parse(path.read_bytes()).body
        if isinstance(node, ast.FunctionDef) and node.name in built
        if not node.decorator_list  # a fixture may hand on what was built there
    ]
    assert again == []
