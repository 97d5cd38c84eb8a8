"""A process that throws cases of one kind at the program.

Run as ``python fuzz_child.py KIND FIRST COUNT``. Prints a JSON line per broken case and one
at the end. A case that hangs ends the process with the stack on stderr; the line before it names
the case.
"""

import contextlib
import faulthandler
import io
import json
import os
import random
import resource
import signal
import sys
import tempfile
import traceback
from pathlib import Path

HANG = 10.0  # s of processor time: on a busy machine the clock says nothing
STUCK = 600.0  # s by the clock, for what waits
MEMORY = 2 << 30  # of data, so that what asks for more fails here and not by the machine
EXPECTED = {0, 1, 2, 3, 4, 5}


def run(arguments: list[str]) -> tuple[int, str]:
    """Exit code and stderr of a command line, in this process."""
    from fairaudit.cli import app

    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.TextIOWrapper(io.BytesIO(), "utf-8")
    # The log of a bug would be lost with the folder of the case; its traceback is what is wanted.
    app._log = lambda error: "".join(traceback.format_exception(error))[-3000:]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = app.main(arguments)
    err.flush()
    return code, err.buffer.getvalue().decode("utf-8", "replace")


def complaint(code: int, said: str) -> str:
    """What is wrong with an answer, or nothing."""
    if code not in EXPECTED:
        return f"exit code {code}"
    errors = [line for line in said.splitlines() if line.startswith("Error:")]
    if code in (2, 4, 5) and len(errors) != 1:
        return f"exit code {code} with {len(errors)} lines of error"
    if any(len(line) > 2000 for line in errors):
        return "an error of more than 2,000 characters"
    if "Traceback" in said:
        return "a traceback"
    return ""


def say(found: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(found) + "\n")
    sys.stdout.flush()


def main(kind: str, first: int, count: int) -> None:
    from fuzz_cases import KINDS

    faulthandler.enable()
    faulthandler.register(signal.SIGPROF, chain=True)  # says where, then ends the process
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    done = 0
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        os.chdir(home)
        for seed in range(first, first + count):
            say({"seed": seed})
            faulthandler.dump_traceback_later(STUCK, exit=True)
            signal.setitimer(signal.ITIMER_PROF, HANG)
            place = home / str(seed)
            place.mkdir()
            arguments = KINDS[kind](random.Random(f"{kind} {seed}"), place)
            code, said = run(arguments)
            wrong = complaint(code, said)
            if wrong:
                found = {"seed": seed, "wrong": wrong, "arguments": arguments, "said": said[-3000:]}
                say(found)
            signal.setitimer(signal.ITIMER_PROF, 0)
            faulthandler.cancel_dump_traceback_later()
            done += 1
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    say({"done": done, "peak": peak})


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
