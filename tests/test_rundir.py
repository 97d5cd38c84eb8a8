import importlib
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from places import TOYS
from refusals import refused_in_one_line

from fairaudit.errors import EXIT_INPUT, OutputError
from fairaudit.execution.run_directory import (
    clean,
    kept_trainings,
    open_rundir,
    refuse_unusable_rundir,
)
from fairaudit.io.atomic import write_atomically
from fairaudit.results.jobs import JobResult, write_result


@pytest.fixture
def make_plan(monkeypatch):
    monkeypatch.syspath_prepend(str(TOYS))
    return importlib.import_module("toy_training").make_plan


@pytest.fixture
def plan(make_plan, tmp_path):
    return make_plan(tmp_path)


@pytest.fixture
def begun(plan):
    """The run directory of the plan, closed again, in which one training is finished."""
    with open_rundir(plan) as rundir:
        finish(rundir, plan.jobs[0].id)
    return rundir


def finish(rundir, job_id):
    write_result(rundir.jobs, JobResult(job_id, {"x": np.zeros(2)}, {}))


def refused(plan, *parts):
    with refused_in_one_line(OutputError) as caught, open_rundir(plan):
        pytest.fail("the run directory was opened")
    assert caught.value.exit_code == EXIT_INPUT
    assert caught.value.hint
    for part in parts:
        assert part in str(caught.value)


def test_a_new_output_directory_is_private_and_one_that_was_there_stays_as_it_was(
    make_plan, tmp_path
):
    with open_rundir(make_plan(tmp_path / "new")) as rundir:
        assert rundir.out.stat().st_mode & 0o777 == 0o700
        assert (rundir.jobs / "run.json").stat().st_mode & 0o777 == 0o600
    shared = tmp_path / "old" / "out"
    shared.mkdir(parents=True, mode=0o755)
    with open_rundir(make_plan(tmp_path / "old")) as rundir:
        assert rundir.out.stat().st_mode & 0o777 == 0o755
        assert rundir.jobs.stat().st_mode & 0o777 == 0o700


def test_clean_and_fresh_remove_what_is_named_like_a_training_and_no_file_of_somebody_else(
    make_plan, tmp_path
):
    plan = make_plan(tmp_path)
    precious = tmp_path / "precious.safetensors"
    precious.write_text("mine")
    with open_rundir(plan) as rundir:
        for job in plan.jobs[:2]:
            finish(rundir, job.id)
    log = rundir.jobs / f"{plan.jobs[2].id}.log"
    log.write_text("what a training left to say")
    linked = rundir.jobs / f"{plan.jobs[2].id}.safetensors"  # a link
    linked.symlink_to(precious)
    foreign = {
        rundir.jobs / "mine.log",
        rundir.jobs / "mine.safetensors",
        rundir.jobs / ".fairaudit-notes.tmp",
        rundir.out / ".fairaudit-notes.tmp",
        rundir.out / "notes.txt",
    }
    for path in foreign:
        path.write_text("mine")
    (rundir.jobs / ".fairaudit-00ff.tmp").symlink_to(precious)
    for folder in (rundir.jobs, rundir.out):
        (folder / ".fairaudit-11ee.tmp").write_text("half")
    (rundir.jobs / "run.json").unlink()
    (rundir.jobs / "run.json").symlink_to(precious)
    (rundir.jobs / "notes.txt").write_text("mine")
    assert kept_trainings(rundir.out).trainings == 2
    assert clean(rundir.out).trainings == 2
    left = foreign | {linked, rundir.jobs / "notes.txt", rundir.jobs / ".fairaudit-00ff.tmp"}
    assert all(path.read_text() == "mine" for path in left)
    assert {*rundir.jobs.iterdir(), *rundir.out.iterdir()} == left | {
        rundir.jobs,
        rundir.jobs / "lock",
    }
    linked.unlink()
    with open_rundir(make_plan(tmp_path, digest="e" * 64, resume=False)):
        assert all(path.read_text() == "mine" for path in left - {linked})
    assert precious.read_text() == "mine"


@pytest.mark.parametrize("name", ["lock", "."])
def test_a_link_in_the_place_of_a_runs_own_folder_or_lock_is_not_followed(
    make_plan, tmp_path, name
):
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o755)
    (outside / "lock").write_text("a line that is somebody else's\n")
    jobs = tmp_path / "out" / "jobs"
    if name == ".":
        jobs.parent.mkdir()
        jobs.symlink_to(outside)
    else:
        jobs.mkdir(parents=True)
        (jobs / "lock").symlink_to(outside / "lock")
    refused(make_plan(tmp_path), "is a link")
    refused_early(jobs.parent, "link")
    assert (outside / "lock").read_text() == "a line that is somebody else's\n"
    assert outside.stat().st_mode & 0o777 == 0o755
    with pytest.raises(OutputError):
        clean(jobs.parent)


def refused_early(out, said):
    with refused_in_one_line(OutputError, said):
        refuse_unusable_rundir(out)


def test_an_output_that_cannot_be_used_is_refused_early_and_one_that_can_is_left_as_it_was(
    tmp_path,
):
    (tmp_path / "file").write_text("mine")
    (tmp_path / "nowhere").symlink_to(tmp_path / "gone")
    (tmp_path / "round").symlink_to(tmp_path / "round")
    (tmp_path / "somewhere").symlink_to(tmp_path)
    (tmp_path / "own" / "jobs").mkdir(parents=True)
    (tmp_path / "own" / "jobs" / "thesis.txt").touch()
    (tmp_path / "file-jobs").mkdir()
    (tmp_path / "file-jobs" / "jobs").touch()
    before = sorted(tmp_path.rglob("*"))
    for name, said in {
        "file": "is not a folder",
        "file/below": "is not a folder",
        "nowhere": "is a link to nowhere",
        "nowhere/below": "is a link to nowhere",
        "round": "link",
        "own": "not a run directory",
        "file-jobs": "is not a folder",
        "/dev/null": "is not a folder",
        "/proc/fairaudit": "cannot write",
        "x" * 300: "too long",
    }.items():
        refused_early(tmp_path / name, said)
    for name in ("new", "new/below/further", "somewhere", "somewhere/new", "."):
        refuse_unusable_rundir(tmp_path / name)
    assert sorted(tmp_path.rglob("*")) == before


def test_clean_waits_for_no_run(plan):
    with open_rundir(plan) as rundir:
        finish(rundir, plan.jobs[0].id)
        with pytest.raises(OutputError, match="another run"):
            clean(rundir.out)
        assert rundir.load(plan.jobs[0].id) is not None


@pytest.mark.faults
def test_the_lock_dies_with_its_holder(make_plan, tmp_path):
    command = [sys.executable, str(TOYS / "locking_run.py"), str(tmp_path)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout.readline() == "locked\n"
        refused(make_plan(tmp_path), f"process {holder.pid}")
        holder.send_signal(signal.SIGKILL)
        holder.wait(600)
    with open_rundir(make_plan(tmp_path)):
        pass


def test_finished_jobs_of_other_data_are_refused_and_kept(make_plan, tmp_path, plan, begun):
    other = make_plan(tmp_path)
    config = other.config.model_copy(update={"data": tmp_path / "flats.csv"})
    object.__setattr__(other, "config", config)  # even of the same content
    refused(other, f"holds an audit of {tmp_path.name}, not of flats.csv (", "--fresh")
    with open_rundir(plan) as rundir:
        assert rundir.load(plan.jobs[0].id) is not None


def test_data_of_the_same_name_may_follow(make_plan, tmp_path, plan, begun):
    with open_rundir(make_plan(tmp_path, digest="e" * 64)):
        pass
    with open_rundir(plan) as rundir:
        assert rundir.load(plan.jobs[0].id) is not None
    assert clean(rundir.out).trainings == 1


def test_leftovers_of_killed_writers_are_removed_by_the_next_run(plan):
    with open_rundir(plan) as rundir:
        pass
    (rundir.jobs / ".fairaudit-0123.tmp").touch()
    (rundir.out / ".fairaudit-0123.tmp").touch()
    with open_rundir(plan):
        assert not [*rundir.jobs.glob(".*"), *rundir.out.glob(".*")]


@pytest.mark.parametrize("locked_part", [".", "jobs"])
def test_a_read_only_output_is_refused_before_training(plan, tmp_path, locked_part):
    with open_rundir(plan):
        pass
    unwritable = plan.config.out / locked_part
    if os.geteuid() != 0:
        unwritable.chmod(0o500)
        refused(plan, "not writable", str(plan.config.out))
        unwritable.chmod(0o700)
        return
    for directory in (tmp_path, *list(tmp_path.parents)[:2]):
        directory.chmod(0o755)
    (plan.config.out / "jobs").chmod(0o700)
    if locked_part == ".":
        for path in (plan.config.out / "jobs", *(plan.config.out / "jobs").iterdir()):
            os.chown(path, 65534, 65534)
    os.seteuid(65534)  # for root no directory is read-only
    try:
        refused(plan, "not writable", str(plan.config.out))
    finally:
        os.seteuid(0)


def test_a_damaged_manifest_does_not_stop_a_run(plan, begun):
    for content in ("{", "[]", "{}"):
        (begun.jobs / "run.json").write_text(content)
        with open_rundir(plan) as rundir:
            assert rundir.load(plan.jobs[0].id) is not None


@pytest.mark.parametrize("kind", ["fifo", "link", "folder"])
def test_nothing_but_a_plain_file_is_replaced(tmp_path, kind):
    """A device, a pipe or a link at the place of a report stays what it is."""
    path, target = tmp_path / "report.xml", tmp_path / "target"
    target.write_text("kept")
    {
        "fifo": lambda: os.mkfifo(path),
        "link": lambda: path.symlink_to(target),
        "folder": path.mkdir,
    }[kind]()
    before = path.lstat().st_mode
    with pytest.raises(OutputError, match="no plain file"):
        write_atomically(path, b"new")
    assert path.lstat().st_mode == before
    assert target.read_text() == "kept"
