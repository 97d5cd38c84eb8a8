"""A capability is its folder and its place in the tuple: without both, everything else works."""

import shutil
import sys
from pathlib import Path

import pytest
from places import LOANS
from processes import ended

import fairaudit
from fairaudit.capabilities.installed import CAPABILITIES

PACKAGE = Path(fairaudit.__file__).resolve().parent
OPTIONS = {"leakage": ["--leakage"], "disagreement": ["--again", "3"]}
AUDIT = f"--data {LOANS} --group sex --method dpsgd --seeds 2 --epochs 1".split()


@pytest.mark.slow
@pytest.mark.parametrize("added", CAPABILITIES, ids=lambda added: added.name)
def test_a_package_without_one_capability_plans_audits_and_gates(tmp_path, added):
    name, declared = added.__module__.split(".")[1], type(added).__name__
    # Times of files are copied, too, so that what was compiled before is not compiled again.
    shutil.copytree(PACKAGE, tmp_path / "fairaudit", ignore=shutil.ignore_patterns(name))
    table = tmp_path / "fairaudit" / "capabilities" / "installed.py"
    text = table.read_text()
    for part in (f"from fairaudit.{name}.capability import {declared}\n", f"{declared}(),"):
        assert text.count(part) == 1
        text = text.replace(part, "")
    table.write_text(text)

    def ends(*words):
        command = [sys.executable, "-m", "fairaudit", *words]
        done = ended(command, tmp_path, PYTHONPATH=str(tmp_path))
        return done.returncode, done.stderr

    if name in OPTIONS:
        code, said = ends("plan", *AUDIT, *OPTIONS[name])
        assert (code, f"has no {name}" in said) == (2, True)
    gated = ("--fail-on", "epsilon > 1000", "--workers", "1", "--out", "out")
    code, said = ends("run", *AUDIT, *gated)
    assert code == 0, said
    assert (tmp_path / "out" / "report.md").is_file()
