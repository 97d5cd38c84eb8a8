"""A run of toy jobs as a program; arguments: scratch directory, mode, arms."""

import signal
import subprocess
import sys

import toy_training

from fairaudit.execution import local as pool

scratch, mode, *arms = sys.argv[1:]


def terminate(signum, frame):
    raise SystemExit(143)


def start_and_leak(serve, start=pool._fork):
    worker = start(serve)
    subprocess.Popen(["sleep", "60"], pass_fds=[worker.parent_pipe.fileno()])
    return worker


if mode == "leaky":
    pool._fork = start_and_leak
if mode == "handler":
    signal.signal(signal.SIGTERM, terminate)
if mode == "lock":
    with toy_training.open_rundir(toy_training.make_plan(scratch)):
        sys.stdout.write("locked\n")
        sys.stdout.flush()
        sys.stdin.read()
try:
    toy_training.run_plan(toy_training.make_plan(scratch, arms=arms))
except KeyboardInterrupt:
    raise SystemExit(130) from None
