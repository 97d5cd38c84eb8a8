"""Holds the lock of a run's folder until it is told to go on; argument: scratch directory."""

import sys

import toy_training

with toy_training.open_rundir(toy_training.make_plan(sys.argv[1])):
    sys.stdout.write("locked\n")
    sys.stdout.flush()
    sys.stdin.read()
