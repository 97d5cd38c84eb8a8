"""The temporary folder of a process: gone with it, or with the next one where it was killed."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from fairaudit.errors import OutputError
from fairaudit.io import scratch as scratch_module

POOL = """
import os, sys
from fairaudit.execution.local import Pool
def main():
    with Pool(abs, 1, preload=()) as pool:
        pool.give(0, -7)
        (_, answer), = pool.wait()
        print(answer, flush=True)
        sys.stdin.readline()
main()
"""


@pytest.fixture
def short():
    """A folder with room for sockets; pytest's own have long names."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        yield Path(folder)


def started(temporary, program=POOL):
    return subprocess.Popen(
        [sys.executable, "-c", program],
        env={**os.environ, "TMPDIR": str(temporary)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finished(process):
    output, errors = process.communicate("\n", timeout=600)
    assert (process.returncode, errors) == (0, "")
    return output


def killed(temporary):
    process = started(temporary)
    assert process.stdout.readline() == "7\n"
    process.send_signal(signal.SIGKILL)
    process.communicate()


def test_what_a_killed_process_left_goes_with_the_next_one_and_what_is_in_use_stays(short):
    other = started(short)
    assert other.stdout.readline() == "7\n"
    (in_use,) = short.iterdir()
    assert in_use.stat().st_mode & 0o777 == 0o700
    killed(short)
    killed(short)
    assert len(list(short.iterdir())) == 2  # of the one that lives, and of the last
    assert all(path.name.startswith("fairaudit-tmp-") for path in short.iterdir())
    assert finished(started(short)) == "7\n"
    assert list(short.iterdir()) == [in_use]
    assert finished(other) == ""
    assert not list(short.iterdir())


@pytest.mark.parametrize("length", [*range(60, 108, 6), 140])
def test_every_socket_has_room(monkeypatch, tmp_path_factory, length):
    base = tmp_path_factory.mktemp("b")
    base = base / ("y" * max(1, length - len(str(base)) - 1))
    base.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(base))
    monkeypatch.setattr(scratch_module, "Finalize", lambda *arguments, **options: None)
    folder = scratch_module.scratch.__wrapped__()
    folder.rmdir()
    assert len(os.fsencode(folder / "pymp-abcdefgh" / "listener-abcdefgh")) < 104
    assert folder.parent in (base, Path("/tmp"))


def test_what_is_not_a_processs_own_folder_is_never_removed(tmp_path, monkeypatch):
    precious = tmp_path / "precious"
    precious.mkdir(mode=0o700)
    (precious / "thesis.txt").touch()
    (tmp_path / "fairaudit-tmp-thesis").mkdir(mode=0o700)
    (tmp_path / "fairaudit-tmp-abcdefgh").mkdir(mode=0o755)
    (tmp_path / "fairaudit-tmp-ijklmnop").symlink_to(precious)
    (tmp_path / "fairaudit-tmp-qrstuvwx").touch(mode=0o700)
    before = sorted(tmp_path.rglob("*"))
    scratch_module._remove_abandoned(tmp_path)
    assert sorted(tmp_path.rglob("*")) == before
    (tmp_path / "fairaudit-tmp-yz012345").mkdir(mode=0o700)  # but this looks like one
    scratch_module._remove_abandoned(tmp_path)
    assert sorted(tmp_path.rglob("*")) == before


def test_no_place_for_temporary_files_is_an_error_of_the_output(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    monkeypatch.setattr(scratch_module, "_SHORT", tmp_path / "gone")
    with pytest.raises(OutputError, match="set TMPDIR"):
        scratch_module.scratch.__wrapped__()
