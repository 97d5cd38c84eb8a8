"""Command lines with a bound on memory, each in a process that has everything imported already.

Run as ``python bounded.py`` with a JSON list of command lines on standard input; prints a JSON line
for each.
"""

import json
import os
import resource
import sys
import tempfile

MEMORY = 2 << 30  # bytes of data, so that what asks for more fails here
SECONDS = 60  # of processor time, after which a case is ended


def outcome(arguments: list[str]) -> dict[str, object]:
    """What became of a command line.

    Exit code, standard error, processor time in s, peak memory in bytes.
    """
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as said:
        child = os.fork()
        if not child:
            _run(arguments, said.fileno())
        _, status, used = os.wait4(child, 0)
        said.seek(0)
        return {
            "code": os.waitstatus_to_exitcode(status),
            "said": said.read(),
            "seconds": used.ru_utime + used.ru_stime,
            "peak": used.ru_maxrss * 1024,
        }


def _run(arguments: list[str], said: int) -> None:
    from fairaudit.cli import app

    os.dup2(said, 2)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    code = 70
    try:
        code = app.main(arguments)
        sys.stderr.flush()
    finally:
        os._exit(code)


def main() -> None:
    # Before any thread is started: what comes after this is forked.
    import fairaudit.cli.app
    import fairaudit.data.tabular
    import fairaudit.planning.plan  # noqa: F401

    for arguments in json.load(sys.stdin):
        sys.stdout.write(json.dumps(outcome(arguments)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
