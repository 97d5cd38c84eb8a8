"""Whole audits from the command line, disturbed in every way.

The next start ends in the same report.

FAULTS_KILLS says how many runs are killed at a moment drawn by FAULTS_SEED.
"""

import importlib.util
import json
import os
import random
import resource
import signal
import sys
import time
from collections import Counter
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
from processes import Program

from fairaudit.report.model import VOLATILE
from fairaudit.results.jobs import read_result

pytestmark = [pytest.mark.faults, pytest.mark.slow]

KILLS = int(os.environ.get("FAULTS_KILLS", "9"))
SEED = int(os.environ.get("FAULTS_SEED", "0"))
TRAININGS = 8
OPTIONS = (
    *(
        "--group",
        "sex",
        "--label",
        "approved",
        "--seeds",
        "2",
        "--epochs",
        "6",
        "--noise-multiplier",
        "1",
    ),
    *(
        "--method",
        "dpsgd",
        "--method",
        "global-adapt",
        "--method",
        "dpsgd-matched",
        "--workers",
        "2",
    ),
)


def people(rows=1500):
    draw = np.random.default_rng(0)
    sex = np.where(draw.random(rows) < 0.3, "F", "M")
    income = draw.normal(size=rows)
    approved = (income + draw.normal(size=rows) > 0).astype(int)
    return pd.DataFrame({"income": income.round(6), "sex": sex, "approved": approved})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The table, and in `out` what must come out."""
    folder = tmp_path_factory.mktemp("runs")
    people().to_csv(folder / "people.csv", index=False)
    run = audit(folder)
    code, errors = run.end()
    assert code == 0, errors
    return folder


@pytest.fixture
def disturbed(folder, tmp_path):
    """A folder with the same table and nothing else."""
    (tmp_path / "people.csv").write_bytes((folder / "people.csv").read_bytes())
    return tmp_path


def audit(folder, out="out", *more, **options):
    command = [
        sys.executable,
        "-m",
        "fairaudit",
        "run",
        "--data",
        "people.csv",
        "--out",
        out,
        *OPTIONS,
        *more,
    ]
    return Program(command, cwd=folder, **options)


def stable(out):
    """A report without what tells time and place."""
    report = json.loads((out / "report.json").read_text())
    kept = {name: value for name, value in report.items() if name not in VOLATILE}
    return json.dumps(kept), (out / "report.md").read_text()


def finished(out):
    """Names of the finished trainings; every one of them must be whole."""
    names = (
        {path.stem for path in (out / "jobs").glob("*.safetensors")}
        if (out / "jobs").is_dir()
        else set()
    )
    assert all(read_result(out / "jobs", name) is not None for name in names)
    return names


def trainings(errors):
    return [
        line for line in errors.splitlines() if line.startswith("  ") and f"/{TRAININGS} " in line
    ]


def completes(folder, reference, out="out"):
    """The next start ends well, in the same report, and without training what was finished."""
    before = finished(folder / out)
    code, errors = audit(folder, out).end()
    assert code == 0, errors
    assert len(trainings(errors)) == TRAININGS - len(before)
    assert before <= finished(folder / out)
    assert stable(folder / out) == stable(reference / "out")


def wait_for_trainings(run, folder, count=1):
    run.wait_for(
        lambda: len(finished(folder / "out")) >= count, f"{count} were not finished", seconds=400
    )


def one_line(errors):
    """The only line that is not progress."""
    lines = [
        line
        for line in errors.splitlines()
        if line.startswith(("Error", "Interrupted", "Terminated", "Bug"))
    ]
    assert len(lines) == 1, errors
    assert "Traceback" not in errors
    return lines[0]


PARTS = {"start": "the start", "trainings": "the trainings", "report": "the report"}


class Pace(NamedTuple):
    """How long an undisturbed run took, in s, to its first training, to its last.

    And to its end.
    """

    trainings: float
    report: float
    end: float


@pytest.fixture(scope="module")
def pace(folder, tmp_path_factory):
    """Of a run that trains everything, on the machine as it is now."""
    again = tmp_path_factory.mktemp("pace")
    (again / "people.csv").write_bytes((folder / "people.csv").read_bytes())
    began = time.monotonic()
    run = audit(again)
    moments = []
    for there in (is_locked, is_trained):
        run.wait_for(lambda there=there: there(again / "out", 0.0), "it did not go on", seconds=400)
        moments.append(time.monotonic() - began)
    assert run.end()[0] == 0
    return Pace(moments[0], moments[1], time.monotonic() - began)


def is_locked(out, since):
    """Whether a run that began then is at its trainings, or further."""
    manifest = out / "jobs" / "run.json"
    return manifest.is_file() and manifest.stat().st_mtime >= since


def is_trained(out, since):
    """Whether such a run is at its report, or further."""
    return is_locked(out, since) and len(list((out / "jobs").glob("*.safetensors"))) == TRAININGS


def wait_for_a_moment(run, out, draw, pace):
    """Let a run come to a random moment of one of its three parts, or to its end.

    The name of the part.
    """
    began = time.time()
    part = draw.choice(list(PARTS))
    there, span = {
        "start": (lambda out, since: True, pace.trainings),
        "trainings": (is_locked, pace.report - pace.trainings),
        "report": (is_trained, pace.end - pace.report),
    }[part]
    end = time.monotonic() + 400
    while not there(out, began) and run.process.poll() is None:
        assert time.monotonic() < end, "it did not go on"
        time.sleep(0.005)
    time.sleep(draw.uniform(0.0, span))
    return part


def test_kills_at_random_moments_lose_nothing_that_was_finished(
    folder, disturbed, pace, record_property
):
    draw, completed, parts = random.Random(SEED), 0, Counter()
    out = disturbed / "out"
    while parts.total() < KILLS:
        before = finished(out)
        run = audit(disturbed)
        part = wait_for_a_moment(run, out, draw, pace)
        alive = run.survivors()
        parent = run.process.pid
        victim = parent if draw.random() < 0.6 or len(alive) < 2 else draw.choice(alive)
        if victim in alive:
            os.kill(victim, signal.SIGKILL)
            parts[part] += 1
        code, errors = run.end()
        where = f"seed {SEED}, kill {parts.total()}, {part}"
        assert before <= finished(out), where
        if code == 0:  # killed too late, or it was a worker
            completed += 1
            assert stable(out) == stable(folder / "out"), where
        else:
            assert (code, victim) == (-signal.SIGKILL, parent), f"{where}: {errors}"
        if len(finished(out)) == TRAININGS:  # or there would be nothing to train any more
            for path in draw.sample(
                sorted((out / "jobs").glob("*.safetensors")), draw.randrange(TRAININGS)
            ):
                path.unlink()
    completes(disturbed, folder)
    told = ", ".join(f"{parts[part]} during {name}" for part, name in PARTS.items())
    record_property(
        "seen",
        f"faults: {parts.total()} kills from seed {SEED} ({told}), "
        f"{completed} runs completed all the same",
    )


@pytest.mark.parametrize(
    ("number", "code", "said"),
    [
        (signal.SIGTERM, 143, "Terminated; finished trainings are kept"),
        (signal.SIGINT, 130, "Interrupted; finished"),
    ],
)
def test_a_signal_ends_a_run_with_one_line_and_the_next_goes_on(
    folder, disturbed, number, code, said
):
    run = audit(disturbed)
    wait_for_trainings(run, disturbed)
    os.killpg(run.process.pid, number) if number == signal.SIGINT else run.process.send_signal(
        number
    )
    found, errors = run.end()
    assert found == code
    assert one_line(errors).startswith(said)
    completes(disturbed, folder)


@pytest.mark.parametrize("largest", ["a training", "a report"])
def test_a_full_disk_is_one_line_and_code_2(folder, disturbed, largest):
    job = max(path.stat().st_size for path in (folder / "out" / "jobs").glob("*.safetensors"))
    report = (folder / "out" / "report.json").stat().st_size
    limit = {"a training": job // 2, "a report": (job + report) // 2}[largest]
    assert job < report

    def bounded():
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    code, errors = audit(disturbed, preexec_fn=bounded).end()
    assert code == 2
    assert one_line(errors).startswith("Error: no space left to write ")
    assert len(finished(disturbed / "out")) == (0 if largest == "a training" else TRAININGS)
    assert not (disturbed / "out" / "report.json").exists()
    completes(disturbed, folder)


def test_damaged_trainings_are_noticed_and_done_again(folder, disturbed):
    assert audit(disturbed).end()[0] == 0
    cut, flipped, *_ = sorted((disturbed / "out" / "jobs").glob("*.safetensors"))
    os.truncate(cut, cut.stat().st_size - 1)
    content = bytearray(flipped.read_bytes())
    position = random.Random(SEED).randrange(8 * len(content))
    content[position // 8] ^= 1 << position % 8
    flipped.write_bytes(content)
    assert [read_result(path.parent, path.stem) for path in (cut, flipped)] == [None, None]
    code, errors = audit(disturbed).end()
    assert code == 0
    assert len(trainings(errors)) == 2
    assert stable(disturbed / "out") == stable(folder / "out")


@pytest.mark.skipif(
    importlib.util.find_spec("ray") is None, reason="Ray is not installed (the extra `ray`)"
)
def test_a_cluster_that_loses_a_worker_gives_the_same_report(folder, disturbed):
    run_on_a_cluster_that_loses_a_worker(disturbed)
    assert stable(disturbed / "out") == stable(folder / "out")


def run_on_a_cluster_that_loses_a_worker(folder, *options):
    """Run to the end, one of two workers killed when two trainings are finished."""
    run = audit(folder, "out", *options, "--executor", "ray")
    wait_for_trainings(run, folder, 2)
    names = {}
    for pid in run.survivors():
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            names[pid] = file.read()
    workers = [pid for pid, name in names.items() if name.startswith(b"ray::_Worker")]
    assert len(workers) == 2
    assert len(finished(folder / "out")) < TRAININGS
    os.kill(workers[0], signal.SIGKILL)
    code, errors = run.end()
    assert code == 0, errors
