"""What SECURITY.md promises and no other test looks at."""

import os
import sys

import pytest
from places import LOANS, TOYS
from processes import ended

BLOCKED = TOYS / "blocked"


@pytest.mark.slow
def test_a_run_opens_no_socket_but_to_its_own_processes_and_writes_for_its_owner_alone(tmp_path):
    out, log = tmp_path / "out", tmp_path / "log"
    options = "--group sex --seeds 1 --epochs 1 --batch-size 512 --noise-multiplier 1 --twins off"
    command = [sys.executable, "-m", "fairaudit", "run", "--data", LOANS, "--out", out]
    command += ["--format", "json"]
    path = os.pathsep.join([str(BLOCKED), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    words = [*command, *options.split(), "--diagnostics", "off"]
    done = ended(words, PYTHONPATH=path, BLOCKED_LOG=str(log))
    assert done.returncode == 0, done.stderr
    assert (out / "report.json").exists()
    lines = log.read_text().splitlines()
    assert set(lines) == {"started"}
    assert len(lines) >= 2  # the run and its fork server, whose children inherit the block
    # And what it wrote is its owner's alone.
    assert out.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o077 for path in (out / "jobs").iterdir()} == {0}
