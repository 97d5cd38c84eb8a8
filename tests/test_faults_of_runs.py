"""Whole audits from the command line, disturbed in every way.

The next start ends in the same report.
"""

import json
import os
import resource
import shutil
import signal
import sys

import pytest
from people import earners
from places import trainings
from processes import Program

from fairaudit.report.model import VOLATILE
from fairaudit.results.jobs import read_result

pytestmark = [pytest.mark.faults, pytest.mark.slow]

TRAININGS = 8
COMMAND = (
    "run --data people.csv --out out --group sex --label approved --seeds 2 --epochs 6 "
    "--noise-multiplier 1 --method dpsgd --method global-adapt --method dpsgd-matched --workers 2"
)


def start(folder, *more, **options):
    command = [sys.executable, "-m", "fairaudit", *COMMAND.split(), *more]
    return Program(command, cwd=folder, **options)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    earners(1500).to_csv(folder / "people.csv", index=False)
    code, errors = start(folder).end()
    assert code == 0, errors
    return folder


@pytest.fixture
def disturbed(whole, tmp_path):
    """A folder with the same table and nothing else."""
    shutil.copy(whole / "people.csv", tmp_path)
    return tmp_path


def stable(folder):
    """A report without what tells time and place: in Markdown those are its head and foot line."""
    report = json.loads((folder / "out" / "report.json").read_text())
    kept = {name: value for name, value in report.items() if name not in VOLATILE}
    lines = (folder / "out" / "report.md").read_text().splitlines()
    assert sum(line.startswith("Made 20") for line in lines) == 1
    return json.dumps(kept), [line for line in lines if not line.startswith(("Made ", "Label "))]


def finished(folder):
    """The finished trainings and when they were; every one of them must be whole."""
    found = trainings(folder / "out")
    assert all(read_result(path.parent, path.stem) is not None for path in found)
    return found


def completes(folder, whole):
    """The next start ends well, in the same report, and without training what was finished."""
    before = finished(folder)
    code, errors = start(folder).end()
    assert code == 0, errors
    assert before.items() <= finished(folder).items()
    assert stable(folder) == stable(whole)


def wait_for_trainings(run, folder, count):
    run.wait_for(lambda: len(finished(folder)) >= count, f"{count} were not finished")


def is_one_line(errors):
    """Whether one line tells the end; the others tell progress."""
    endings = ("Error", "Interrupted", "Terminated", "Bug")
    lines = [line for line in errors.splitlines() if line.startswith(endings)]
    return len(lines) == 1 and "Traceback" not in errors


# The trainings that are finished when a process is killed, and whether it is a worker.
KILLS = ((0, False), (0, True), (3, False), (6, True), (TRAININGS, False))


def test_kills_lose_nothing_that_was_finished(whole, disturbed):
    for trained, is_worker in KILLS:
        before = finished(disturbed)
        run = start(disturbed)
        wait_for_trainings(run, disturbed, trained)
        run.wait_for(lambda run=run: len(run.survivors()) > 1, "no process started")
        workers = [pid for pid in run.survivors() if pid != run.process.pid]
        os.kill(workers[-1] if is_worker and workers else run.process.pid, signal.SIGKILL)
        code, errors = run.end()
        assert before.items() <= finished(disturbed).items()
        assert code in (0, -signal.SIGKILL), errors
        if code == 0:
            assert stable(disturbed) == stable(whole)
            for path in sorted((disturbed / "out" / "jobs").glob("*.safetensors"))[trained:]:
                path.unlink()  # or there would be nothing to train any more
    completes(disturbed, whole)


def test_a_signal_ends_a_run_with_one_line_and_the_next_goes_on(whole, disturbed):
    for trained, number, code in ((1, signal.SIGTERM, 143), (3, signal.SIGINT, 130)):
        run = start(disturbed)
        wait_for_trainings(run, disturbed, trained)
        os.killpg(run.process.pid, number) if code == 130 else run.process.send_signal(number)
        status, errors = run.end()
        assert status == code, errors
        assert is_one_line(errors), errors
    completes(disturbed, whole)


def test_a_full_disk_is_one_line_and_code_2(whole, disturbed):
    jobs = (whole / "out" / "jobs").glob("*.safetensors")
    job = max(path.stat().st_size for path in jobs)
    report = (whole / "out" / "report.json").stat().st_size
    assert job < report
    # No room for a training, then for every training but not for the report.
    for limit, trained in ((job // 2, 0), ((job + report) // 2, TRAININGS)):

        def bounded(limit=limit):
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

        code, errors = start(disturbed, preexec_fn=bounded).end()
        assert code == 2, errors
        assert is_one_line(errors), errors
        assert len(finished(disturbed)) == trained
        assert not (disturbed / "out" / "report.json").exists()
    completes(disturbed, whole)


def test_damaged_trainings_are_noticed_and_done_again(whole, disturbed):
    shutil.copytree(whole / "out", disturbed / "out")
    cut, flipped, *others = sorted((disturbed / "out" / "jobs").glob("*.safetensors"))
    os.truncate(cut, cut.stat().st_size - 1)
    content = bytearray(flipped.read_bytes())
    content[len(content) // 3] ^= 1
    flipped.write_bytes(content)
    assert [read_result(path.parent, path.stem) for path in (cut, flipped)] == [None, None]
    before = {path: path.stat().st_mtime_ns for path in others}
    code, errors = start(disturbed).end()
    assert code == 0, errors
    after = finished(disturbed)
    assert len(after) == TRAININGS
    assert before.items() <= after.items()
    assert stable(disturbed) == stable(whole)
