"""A run of toy jobs as a program; arguments: scratch directory, mode, arms."""

import signal
import sys

import toy_training

scratch, mode, *arms = sys.argv[1:]


def terminate(signum, frame):
    raise SystemExit(143)


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
