"""Whole runs in a process of their own, killed in every way.

The mark in the environment finds survivors.
"""

import importlib
import os
import signal
import sys
from multiprocessing import forkserver
from pathlib import Path

import pytest
from processes import Program

pytestmark = pytest.mark.faults

TOYS = Path(__file__).parent / "toys"


@pytest.fixture(autouse=True, scope="module")
def own_fork_server():
    """The next tests may want one that has torch imported."""
    yield
    forkserver._forkserver._stop()


@pytest.fixture
def toys(monkeypatch):
    monkeypatch.syspath_prepend(str(TOYS))
    return importlib.import_module("toy_training")


class Run(Program):
    """A run of toy jobs."""

    def __init__(self, scratch, mode, *arms):
        super().__init__(
            [sys.executable, str(TOYS / "interrupted_run.py"), str(scratch), mode, *arms]
        )


@pytest.fixture
def start():
    runs = []

    def begin(*arguments):
        runs.append(Run(*arguments))
        return runs[-1]

    yield begin
    for run in runs:
        run.destroy()


def started(toys, scratch, arm="slow"):
    return lambda: len(toys.runs(toys.make_plan(scratch), arm)) >= 2


def test_nothing_survives_a_parent_killed_while_workers_start(toys, tmp_path, start):
    run = start(tmp_path, "plain", "slow")
    run.wait_for(lambda: len(run.survivors()) > 1, "no process started")
    run.process.kill()
    assert run.end() == (-signal.SIGKILL, "")


@pytest.mark.parametrize(("mode", "code"), [("plain", -signal.SIGTERM), ("handler", 143)])
def test_sigterm_ends_the_run_at_once(toys, tmp_path, start, mode, code):
    run = start(tmp_path, mode, "brief", "slow")
    run.wait_for(started(toys, tmp_path), "no job started")
    run.process.send_signal(signal.SIGTERM)
    assert run.end() == (code, "")
    plan = toys.make_plan(tmp_path, arms=("brief", "slow"))
    (tmp_path / "hurry").touch()
    toys.run_plan(plan)
    assert len(toys.runs(plan, "brief")) == 2  # what was finished stayed
    assert len(toys.runs(plan, "slow")) == 4


def test_ctrl_c_is_the_parents_business(toys, tmp_path, start):
    run = start(tmp_path, "plain", "slow")
    run.wait_for(started(toys, tmp_path), "no job started")
    os.killpg(run.process.pid, signal.SIGINT)
    assert run.end() == (130, "")
