"""A capability is its folder and its line: without both, everything else works."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import fairaudit

HERE = Path(fairaudit.__file__).resolve().parent
GOLDEN = Path(__file__).parent / "golden" / "report.json"


@pytest.fixture(scope="module", params=["leakage", "papers"])
def without(request, tmp_path_factory):
    """A copy of the package without a capability; runs one of its commands."""
    home = tmp_path_factory.mktemp(request.param)
    ignored = shutil.ignore_patterns("__pycache__", request.param)
    shutil.copytree(HERE, home / "fairaudit", ignore=ignored)
    listed = home / "fairaudit" / "capabilities.py"
    lines = listed.read_text().splitlines(keepends=True)
    kept = [line for line in lines if f'"fairaudit.{request.param}.' not in line]
    assert len(kept) == len(lines) - 1
    listed.write_text("".join(kept))
    rows = [f"{row % 7},{row % 3},{'FM'[row % 2]},{row % 5 > 1}" for row in range(60)]
    (home / "people.csv").write_text("\n".join(["age,debt,sex,label", *rows]))

    def run(*words):
        return subprocess.run(
            [sys.executable, "-m", "fairaudit", *words],
            cwd=home,
            env={**os.environ, "PYTHONPATH": str(home)},
            capture_output=True,
            text=True,
            check=False,
        )

    return request.param, run


AUDITED = ("--data", "people.csv", "--group", "sex", "--method", "dpsgd", "--seeds", "1")


def test_help_gates_and_plans_do_without_it(without):
    name, run = without
    assert run("run", "--help").returncode == 0
    assert run("gate", str(GOLDEN), "--fail-on", "epsilon > 100").returncode == 0
    planned = run("plan", *AUDITED)
    assert planned.returncode == 0, planned.stderr
    asked = run("plan", *AUDITED, "--leakage")
    assert asked.returncode == 2  # too few rows, or no such capability
    assert ("has no leakage" in asked.stderr) == (name == "leakage")
