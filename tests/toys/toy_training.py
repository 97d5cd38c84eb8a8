"""Trainings of a few microseconds for the tests of execution.

Each arm's name says how it behaves.
"""

import os
import signal
import sys
import time
from pathlib import Path

import numpy as np

from fairaudit.config.options import AuditConfig
from fairaudit.data.inputs.spool import Shared
from fairaudit.errors import DataError, TrainingError
from fairaudit.execution.progress import silent
from fairaudit.execution.run_directory import open_rundir
from fairaudit.execution.scheduler import Execution, execute
from fairaudit.planning.plan import Job, Plan
from fairaudit.report.types.facts import TrainingFacts
from fairaudit.results.jobs import job_id

LIGHT = ("numpy", "safetensors.numpy", "fairaudit.execution.scheduler")
RUN = "toy_training:run"


def training():
    """A schedule that no toy reads."""
    return TrainingFacts(
        n_public=100,
        steps_per_epoch=10,
        epochs=1,
        model="toy",
        parameters=None,
        gradients="",
        own_model="",
        public_data=None,
        student_pool=0,
        delta=1e-5,
        seeds=2,
        repeats=1,
        rules={},
        epsilon_if_all_released=None,
        accountant="",
    )


def make_plan(
    scratch, arms=("plain", "other"), seeds=2, sources=None, digest="d" * 64, resume=True
):
    """A plan of toy jobs, seed-major; `sources` maps an arm to the arm whose result it reads."""
    scratch = Path(scratch)
    scratch.mkdir(exist_ok=True)
    config = AuditConfig(data=scratch, out=scratch / "out", resume=resume)
    jobs = []
    for seed in range(seeds):
        ids = {arm: job_id({"arm": arm, "seed": seed, "digest": digest}) for arm in arms}
        jobs += [Job(ids[arm], arm, seed, 1, ids.get((sources or {}).get(arm))) for arm in arms]
    return Plan(config, digest, training(), (), tuple(jobs))


def run_plan(plan, workers=2, listener=silent, train=RUN, cluster=None):
    inputs = Shared(lambda: None)  # a toy reads nothing
    execution = Execution(inputs, workers=workers, train=train, preload=LIGHT, cluster=cluster)
    with open_rundir(plan) as rundir:
        return execute(plan, rundir, execution, listener=listener)


def runs(plan, arm=None):
    """The trainings that were started, as (arm, seed), in order."""
    log = plan.config.data / "log"
    lines = log.read_text().splitlines() if log.exists() else []
    started = [(line.split()[0], int(line.split()[1])) for line in lines]
    return [entry for entry in started if arm in (None, entry[0])]


def run(plan, job, source, inputs):
    """Train: a few numbers that depend on the job and its source only."""
    from fairaudit.results.jobs import (
        JobResult,
    )  # here, so that the test sees workers resolve by name

    with open(plan.config.data / "log", "a") as log:
        log.write(f"{job.arm} {job.seed} {os.getpid()}\n")
    _misbehave(plan, job)
    values = np.random.default_rng([job.seed, *job.arm.encode()]).random((2, 5)).astype(np.float32)
    if source is not None:
        values += source.arrays["probabilities"]
    return JobResult(job.id, {"probabilities": values}, {"seed": job.seed, "tuple": (1, 2)})


def _misbehave(plan, job):
    arm = job.arm
    first = len([entry for entry in runs(plan) if entry == (arm, job.seed)]) == 1
    if arm == "diverges":
        raise TrainingError("the loss is not finite", hint="lower --learning-rate")
    if arm == "no-memory" and not (plan.config.data / "hurry").exists():
        np.empty(1 << 60, np.uint8)  # more than any address space
    if arm == "no-memory-in-torch":
        raise RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 1 byte")
    if arm == "no-memory-on-gpu":
        raise RuntimeError("CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total")
    if arm == "buggy":
        raise ZeroDivisionError("a toy bug")
    if arm == "unreadable":
        raise DataError("the file is gone", hint="put it back")
    if arm == "exits":
        sys.exit(3)
    if arm == "killed" or (arm == "killed-once" and first):
        os.kill(os.getpid(), signal.SIGKILL)
    if arm == "slow" and not (plan.config.data / "hurry").exists():
        time.sleep(6000)
    if arm in ("late", "brief"):
        time.sleep(0.3 if arm == "late" else 0.03)
    if arm == "prints":
        sys.stdout.write("noise of a library\n")
        sys.stdout.flush()


def no_main_guard_result(scratch):
    return sorted(r.facts["seed"] for r in run_plan(make_plan(scratch)).by_job.values())


def serve_shared(shared, task):
    """Serve a worker of a cluster: add, or misbehave as the task says."""
    with open(shared["log"], "a") as log:
        log.write(
            f"threads={os.environ['OMP_NUM_THREADS']} "
            f"{os.environ.get('RAY_SESSION_DIR', sys.argv)}\n"
        )
    if task == "fail":
        raise TrainingError("the toy failed", hint="try again")
    if task == "bug":
        raise ZeroDivisionError
    if task == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    return shared["offset"] + task
