"""What import-linter and ruff cannot say: one place draws noise, none asks for a capability."""

import ast
from pathlib import Path

from fairaudit.capabilities import capabilities as capabilities_of_the_house

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
    capabilities = {capability.name for capability in capabilities_of_the_house()}
    by_name = []
    for path in sorted(ROOT.rglob("*.py")):
        room = path.relative_to(ROOT).parts[0]
        for node in ast.walk(ast.parse(path.read_bytes())):
            asked = list(ast.iter_child_nodes(node)) if isinstance(node, BRANCHES) else []
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "part_of":
                asked = node.args
            for part in asked:
                if isinstance(part, ast.Constant) and part.value in capabilities - {room}:
                    by_name.append((str(path.relative_to(ROOT)), ast.unparse(node)))
    assert by_name == []
    assert {"trainers", "leakage", "tuning"} <= capabilities
