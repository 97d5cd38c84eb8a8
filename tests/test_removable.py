"""A capability is its folder and one line: without them everything else works."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import fairaudit
from fairaudit.capabilities import CAPABILITIES

PACKAGE = Path(fairaudit.__file__).parent
LOANS = PACKAGE.parent / "sample_data" / "loans.parquet"
AUDIT = ["run", "--data", str(LOANS), "--group", "sex", "--method", "dpsgd", "--seeds", "2"]


@pytest.mark.slow
@pytest.mark.parametrize("place", CAPABILITIES)
def test_a_package_without_one_capability_audits_and_gates(tmp_path, place):
    folder = place.split(".")[1]
    copy = tmp_path / "fairaudit"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.rmtree(copy / folder)
    table = copy / "capabilities.py"
    table.write_text(re.sub(rf'^    "{re.escape(place)}",\n', "", table.read_text(), flags=re.M))
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    for words, code in (
        (["--help"], 0),
        ([*AUDIT, "--epochs", "1", "--out", "out"], 0),
        (["gate", "out/report.json", "--fail-on", "epsilon > 1000"], 0),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "fairaudit", *words],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == code, done.stderr
        assert "Bug" not in done.stderr
