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
AUDIT += ["--epochs", "1", "--workers", "1", "--out", "out", "--fail-on", "epsilon > 1000"]


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
    done = subprocess.run(
        [sys.executable, "-m", "fairaudit", *AUDIT],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "report.md").is_file()
