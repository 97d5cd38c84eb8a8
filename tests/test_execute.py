import importlib
from multiprocessing import forkserver

import numpy as np
import pytest
from places import TOYS

from fairaudit.errors import DataError
from fairaudit.execution import scheduler as execute_module
from fairaudit.execution.executor import WorkerBug
from fairaudit.execution.progress import JobFailed, JobFinished
from fairaudit.results.jobs import job_path


@pytest.fixture(autouse=True, scope="module")
def own_fork_server():
    """The next tests may want one that has torch imported."""
    yield
    forkserver._forkserver._stop()


@pytest.fixture
def toys(monkeypatch):
    monkeypatch.syspath_prepend(str(TOYS))
    return importlib.import_module("toy_training")


def numbers(results):
    return {key: result.arrays["probabilities"].tobytes() for key, result in results.by_job.items()}


def test_neither_workers_nor_completion_order_change_a_result(toys, tmp_path):
    arms = ("late", "plain", "brief")
    runs, orders = [], []
    for workers in (1, 2, 4):
        plan = toys.make_plan(
            tmp_path / str(workers), arms=arms, seeds=2, sources={"brief": "late"}
        )
        events = []
        results = toys.run_plan(plan, workers=workers, listener=events.append)
        runs.append((list(results.by_job), numbers(results)))
        log = toys.runs(plan)
        for late, job in zip(plan.jobs[::3], plan.jobs[2::3], strict=True):
            assert log.index(("late", job.seed)) < log.index(("brief", job.seed))
            drawn = np.random.default_rng([job.seed, *b"brief"]).random((2, 5)).astype(np.float32)
            source, found = (results.by_job[one.id].arrays["probabilities"] for one in (late, job))
            np.testing.assert_array_equal(found, drawn + source)
        orders.append([(e.arm, e.seed) for e in events if isinstance(e, JobFinished)])
    assert orders[0] == [(job.arm, job.seed) for job in plan.jobs]
    assert sorted(orders[0]) == sorted(orders[2])
    assert orders[2] != orders[0]  # or the next line would compare nothing
    assert runs[0] == runs[1] == runs[2]


def test_a_finished_plan_starts_no_process(toys, tmp_path, monkeypatch):
    plan = toys.make_plan(tmp_path)
    first = toys.run_plan(plan)
    monkeypatch.setattr(execute_module, "Pool", None)
    second = toys.run_plan(plan)
    assert numbers(first) == numbers(second)
    assert [r.facts for r in first.by_job.values()] == [r.facts for r in second.by_job.values()]


def test_a_failed_job_is_recorded_and_the_others_go_on(toys, tmp_path):
    plan = toys.make_plan(tmp_path, arms=("plain", "diverges", "other"))
    events = []
    results = toys.run_plan(plan, listener=events.append)
    assert [(f.arm, f.seed) for f in results.failures.values()] == [
        ("diverges", 0),
        ("diverges", 1),
    ]
    message = "the loss is not finite (lower --learning-rate)"
    assert {f.message for f in results.failures.values()} == {message}
    assert len(results.by_job) == 4
    assert JobFailed("diverges", 0, message) in events
    assert {e.finished for e in events if isinstance(e, JobFinished)} == {1, 2, 3, 4}


def test_jobs_that_read_a_failed_job_fail_with_it(toys, tmp_path):
    sources = {"plain": "diverges", "other": "plain"}
    plan = toys.make_plan(tmp_path, arms=("other", "plain", "diverges"), seeds=1, sources=sources)
    results = toys.run_plan(plan)
    other, plain, diverges = results.failures.values()
    assert (other.arm, plain.arm, diverges.arm) == ("other", "plain", "diverges")
    assert "plain, whose result it reads, failed" in other.message
    assert "diverges, whose result it reads, failed" in plain.message
    assert toys.runs(plan) == [("diverges", 0)]


def test_a_job_without_memory_fails_as_training(toys, tmp_path):
    arms = ("no-memory", "no-memory-in-torch", "no-memory-on-gpu", "plain")
    results = toys.run_plan(toys.make_plan(tmp_path, arms=arms, seeds=1))
    assert [failure.arm for failure in results.failures.values()] == list(arms[:3])
    assert {failure.message[:13] for failure in results.failures.values()} == {"out of memory"}
    assert len(results.by_job) == 1
    (tmp_path / "hurry").touch()  # there is more memory now
    assert (
        len(toys.run_plan(toys.make_plan(tmp_path, arms=("no-memory", "plain"), seeds=1)).by_job)
        == 2
    )


@pytest.mark.parametrize(
    ("arm", "error", "text"),
    [
        ("buggy", WorkerBug, "ZeroDivisionError: a toy bug"),
        ("exits", WorkerBug, "SystemExit: 3"),
        ("unreadable", DataError, "the file is gone"),
    ],
)
def test_whatever_is_no_training_error_stops_the_run(toys, tmp_path, arm, error, text):
    plan = toys.make_plan(tmp_path, arms=("plain", arm, "slow"), seeds=1, sources={arm: "plain"})
    with pytest.raises(error, match=text):
        toys.run_plan(plan)
    jobs = plan.config.out / "jobs"
    stored = {job.arm for job in plan.jobs if job_path(jobs, job.id).exists()}
    assert stored == {"plain"}  # the slow one was ended


def test_a_listener_that_raises_ends_the_run_and_the_lock(toys, tmp_path):
    def raises(event):
        if isinstance(event, JobFinished):
            raise KeyError("a broken listener")

    plan = toys.make_plan(tmp_path)
    with pytest.raises(KeyError):
        toys.run_plan(plan, listener=raises)
    assert len(toys.run_plan(plan).by_job) == 4


@pytest.mark.faults
def test_a_job_whose_worker_dies_is_trained_again_twice_and_costs_no_other_job(toys, tmp_path):
    plan = toys.make_plan(tmp_path, arms=("late", "killed", "killed-once"), seeds=1)
    results = toys.run_plan(plan)
    (failure,) = results.failures.values()
    assert failure.arm == "killed"
    assert "died 3 times" in failure.message
    tries = {arm: len(toys.runs(plan, arm)) for arm in ("late", "killed", "killed-once")}
    assert tries == {"late": 1, "killed": 3, "killed-once": 2}
    assert list(results.by_job) == [plan.jobs[0].id, plan.jobs[2].id]
