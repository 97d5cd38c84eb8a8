"""What SECURITY.md promises and no other test looks at."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LOANS = ROOT / "sample_data" / "loans.parquet"
BLOCKED = Path(__file__).parent / "toys" / "blocked"
QUICK = ("--group", "sex", "--seeds", "2", "--epochs", "1", "--batch-size", "512", "--noise-multiplier", "1")


def run(command, tmp_path, **variables):
    path = os.pathsep.join(
        [str(BLOCKED), *([os.environ["PYTHONPATH"]] if "PYTHONPATH" in os.environ else [])]
    )
    environment = {**os.environ, "PYTHONPATH": path, "BLOCKED_LOG": str(tmp_path / "log"), **variables}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    return done, (tmp_path / "log").read_text().splitlines()


@pytest.mark.parametrize(
    "code", ["socket.socket()", "socket.create_connection(('localhost', 9))", "urlopen('http://x')"]
)
def test_the_block_catches_who_reaches_for_the_network(tmp_path, code):
    program = f"import socket; from urllib.request import urlopen; {code}"
    done, log = run([sys.executable, "-c", program], tmp_path)
    assert done.returncode == 1
    assert "the network is blocked" in done.stderr
    assert len(log) == 2


def test_the_block_holds_in_forked_processes(tmp_path):
    program = "import os, socket; os.fork() or socket.socket()"
    log = run([sys.executable, "-c", program], tmp_path)[1]
    assert [line.split()[0] for line in log] == ["started", "socket"]


def test_a_run_opens_no_socket_but_to_its_own_processes_and_writes_for_its_owner_alone(tmp_path):
    out = tmp_path / "out"
    command = [sys.executable, "-m", "fairaudit", "run", "--data", str(LOANS), "--out", str(out), *QUICK]
    done, log = run(command, tmp_path)
    assert done.returncode == 0, done.stderr
    assert (out / "report.json").exists()
    assert set(log) == {"started"}
    assert len(log) >= 2  # the run and its fork server, whose children inherit the block
    # And what it wrote is its owner's alone.
    assert out.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o077 for path in (out / "jobs").iterdir()} == {0}


@pytest.mark.slow
def test_a_run_needs_no_network_at_all(tmp_path):
    alone = ["unshare", "--net"]
    if shutil.which("unshare") is None or subprocess.run([*alone, "true"], capture_output=True).returncode:
        pytest.skip("this user may not make a network namespace")
    command = [sys.executable, "-m", "fairaudit", "run", "--data", str(LOANS), "--out", str(tmp_path / "out")]
    done, _ = run([*alone, *command, *QUICK], tmp_path)
    assert done.returncode == 0, done.stderr
