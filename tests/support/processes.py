"""Programs in a process group of their own.

A mark in the environment finds all that they left behind.
"""

import contextlib
import os
import signal
import subprocess
import time
import uuid
from pathlib import Path

MARK = "TEST_OF_FAIRAUDIT"  # with the prefix FAIRAUDIT_ it would be an option


def ended(command, folder=None, given=None, seconds=600, **environment):
    """A command that has ended: its exit code and what it said."""
    return subprocess.run(
        command,
        cwd=folder,
        input=given,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
        env={**os.environ, **environment},
    )


class Program:
    """A command that runs until it ends or is killed, and the processes that it started."""

    def __init__(self, command, **options):
        self.mark = uuid.uuid4().hex
        self.process = subprocess.Popen(
            command,
            env={**os.environ, MARK: self.mark},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            **options,
        )

    def survivors(self):
        wanted = f"{MARK}={self.mark}".encode()
        found = []
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdigit() and wanted in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
        return found

    def wait_for(self, condition, what, seconds=400):
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, f"{what}; alive: {self.survivors()}"
            time.sleep(0.02)

    def end(self, seconds=900):
        """Exit status and what was written to standard error, once every process is gone."""
        output, errors = self.process.communicate(timeout=seconds)
        self.wait_for(lambda: not self.survivors(), "processes were left behind", seconds=400)
        assert output == ""
        return self.process.returncode, errors

    def destroy(self):
        for pid in self.survivors():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.communicate()
