"""What import-linter and ruff cannot say: noise is drawn in one place."""

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1] / "fairaudit"
NOISE = {"normal_", "normal", "randn", "randn_like", "standard_normal", "log_normal_"}
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
