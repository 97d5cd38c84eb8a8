"""A capability is its folder and its line: without both, everything else works."""

import shutil
import sys
from pathlib import Path

import pytest
from places import LOANS
from processes import ended

import fairaudit
from fairaudit.capabilities import CAPABILITIES

PACKAGE = Path(fairaudit.__file__).resolve().parent
AUDIT = f"--data {LOANS} --group sex --method dpsgd --seeds 2 --epochs 1".split()


@pytest.mark.slow
@pytest.mark.parametrize("place", CAPABILITIES)
def test_a_package_without_one_capability_plans_audits_and_gates(tmp_path, place):
    name = place.split(".")[1]
    ignored = shutil.ignore_patterns("__pycache__", name)
    shutil.copytree(PACKAGE, tmp_path / "fairaudit", ignore=ignored)
    table = tmp_path / "fairaudit" / "capabilities.py"
    lines = table.read_text().splitlines(keepends=True)
    kept = [line for line in lines if f'"fairaudit.{name}.' not in line]
    assert len(kept) == len(lines) - 1
    table.write_text("".join(kept))

    def ends(*words):
        command = [sys.executable, "-m", "fairaudit", *words]
        done = ended(command, tmp_path, PYTHONPATH=str(tmp_path))
        return done.returncode, done.stderr

    if name == "leakage":
        code, said = ends("plan", *AUDIT, "--leakage")
        assert (code, "has no leakage" in said) == (2, True)
    gated = ("--fail-on", "epsilon > 1000", "--workers", "1", "--out", "out")
    code, said = ends("run", *AUDIT, *gated)
    assert code == 0, said
    assert (tmp_path / "out" / "report.md").is_file()
