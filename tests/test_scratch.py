"""The temporary folder of a process: gone with it."""

import os
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


def test_the_folder_is_its_owners_alone_and_goes_with_the_process(short):
    process = started(short)
    assert process.stdout.readline() == "7\n"
    (folder,) = short.iterdir()
    assert folder.name.startswith("fairaudit-own-")
    assert folder.stat().st_mode & 0o777 == 0o700
    assert finished(process) == ""
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


def test_no_place_for_temporary_files_is_an_error_of_the_output(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    monkeypatch.setattr(scratch_module, "_SHORT", tmp_path / "gone")
    with pytest.raises(OutputError, match="set TMPDIR"):
        scratch_module.scratch.__wrapped__()
