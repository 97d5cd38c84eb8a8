"""Plan to results: every job that has no file yet is trained by a worker and leaves one.

Workers answer with results and share no directory with this process, which alone writes. The file
is the result: a finished job is read back from it whether it was trained now, before a crash, or by
an earlier run, so that an interrupted run and an undisturbed one end in the same bytes.
"""

import functools
import importlib
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self

from fairaudit.data.public import Inputs
from fairaudit.data.spool import Shared
from fairaudit.errors import FairauditError, TrainerError, TrainingError
from fairaudit.execution.executor import Died, Executor, Raised
from fairaudit.execution.local import PRELOAD, Pool, available_cores
from fairaudit.execution.progress import JobFailed, JobFinished, JobsFound, Listener, silent
from fairaudit.execution.ray_cluster import Cluster, Request
from fairaudit.execution.run_directory import RunDir
from fairaudit.planning.plan import Job, Plan
from fairaudit.results.jobs import JobResult

RUN_JOB = "fairaudit.execution.worker:run_job"
_ATTEMPTS = 3  # of a job whose worker dies

Train = Callable[
    [
        Plan,
        Job,
        JobResult | None,
        Shared[Inputs],
    ],
    JobResult,
]


@dataclass(frozen=True, slots=True)
class JobFailure:
    """A job that ended without a result.

    Args:
        job_id, arm, seed: Which.
        message: One line.
        kind: Name of the error's class.
    """

    job_id: str
    arm: str
    seed: int
    message: str
    kind: str


@dataclass(frozen=True, slots=True)
class Results:
    """What the plan came to.

    Args:
        by_job: Job id -> result, in the order of the plan.
        failures: The other jobs, same order.
    """

    by_job: Mapping[str, JobResult]
    failures: tuple[JobFailure, ...]

    @property
    def messages(self) -> dict[str, str]:
        """Job id -> one line, for jobs without a result."""
        return {failure.job_id: failure.message for failure in self.failures}


@dataclass(frozen=True, slots=True)
class Execution:
    """How to run a plan; nothing here can change a result.

    Args:
        inputs: What workers read; the same numbers, however it comes to them.
        workers: Trainings at a time, None for as many as there is room for.
        train: ``module:function`` of type `Train`.
        preload: Modules that local workers find imported.
        cluster: What to ask of Ray; None for processes of this machine.
    """

    inputs: Shared[Inputs]
    workers: int | None = None
    train: str = RUN_JOB
    preload: tuple[str, ...] = PRELOAD
    cluster: Request | None = None


class TrainingTask(NamedTuple):
    """What a worker needs to know beyond the plan: its job, and the result that the job reads."""

    job: Job
    source: JobResult | None


class WorkerAnswer(NamedTuple):
    """A worker's answer, and how long it took in s."""

    result: JobResult
    seconds: float


class WorkerBug(Exception):
    """An exception in a worker that no user can act on; its text is the worker's traceback."""


def execute(
    plan: Plan, rundir: RunDir, execution: Execution, *, listener: Listener = silent
) -> Results:
    """Train what is not finished, on every core or on a cluster, and read everything back.

    The order is the plan's, a worker staying with its seed so that an encoding is made once. A
    job whose worker dies is tried three times. Leaving early, by any exception, ends the workers
    at once and keeps every finished file.

    Raises:
        ConfigError: The cluster cannot be used.
        OutputError: A result cannot be written.
        WorkerBug: A job raised something else than a FairauditError.
    """
    board = _Board.of(plan, rundir)
    listener(JobsFound(total=len(board.jobs), finished=len(board.done)))
    if board.waiting:
        with _executor(plan, len(board.waiting), execution) as executor:
            while board.waiting or board.running:
                for number in executor.idle:
                    job = board.take(number)
                    if job is not None:
                        executor.give(number, board.training(job))
                idle = board.waiting and executor.idle and not board.running
                assert not idle, "a job reads the result of a job that is not in the plan"
                for number, answer in executor.wait():
                    _settle(board, board.running.pop(number), answer, rundir, listener)
    return board.results()


def _executor(
    plan: Plan,
    jobs: int,
    execution: Execution,
) -> Executor[TrainingTask, WorkerAnswer]:
    serve = functools.partial(_train, plan, execution.train)
    if execution.cluster is not None:
        return Cluster(
            serve, execution.inputs, jobs, replace(execution.cluster, workers=execution.workers)
        )
    size = min(execution.workers or available_cores(), jobs)
    return Pool(
        functools.partial(serve, execution.inputs),
        size,
        preload=execution.preload,
    )


@dataclass(slots=True)
class _Board:
    """Which jobs wait, run, are done or have failed; keys are job ids in the order of the plan."""

    jobs: Mapping[str, Job]
    waiting: dict[str, Job]
    done: dict[str, JobResult]
    running: dict[int, Job] = field(default_factory=dict)  # worker number -> its job
    failed: dict[str, JobFailure] = field(default_factory=dict)
    deaths: Counter[str] = field(default_factory=Counter)
    last_seed: dict[int, int] = field(default_factory=dict)  # worker number -> seed it has encoded

    @classmethod
    def of(cls, plan: Plan, rundir: RunDir) -> Self:
        """The board at the start, with what earlier runs finished."""
        jobs = {job.id: job for job in plan.every_job}
        stored = {job_id: rundir.load(job_id) for job_id in jobs}
        done = {job_id: result for job_id, result in stored.items() if result is not None}
        waiting = {job_id: job for job_id, job in jobs.items() if job_id not in done}
        return cls(jobs, waiting, done)

    def take(self, worker: int) -> Job | None:
        """The next job for that worker: of its own seed, else of a seed nobody is at, else any."""
        ready = [
            job
            for job in self.waiting.values()
            if job.source_id is None or job.source_id in self.done
        ]
        if not ready:
            return None
        own = self.last_seed.get(worker)
        others = {seed for number, seed in self.last_seed.items() if number != worker}
        job = min(
            ready, key=lambda job: (job.seed != own, job.seed in others)
        )  # ties: the plan's order
        del self.waiting[job.id]
        self.running[worker] = job
        self.last_seed[worker] = job.seed
        return job

    def training(self, job: Job) -> TrainingTask:
        """The job with what it reads, which is finished."""
        return TrainingTask(job, None if job.source_id is None else self.done[job.source_id])

    def put_back(self, job: Job) -> None:
        """Let a job wait again, at its place in the plan."""
        ids = {*self.waiting, job.id}
        self.waiting = {job_id: other for job_id, other in self.jobs.items() if job_id in ids}

    def fail(self, job: Job, error: FairauditError) -> list[JobFailure]:
        """Record a failure, and that of the jobs which would have read its result."""
        failures = [
            JobFailure(
                job.id,
                job.name,
                job.seed,
                str(error),
                type(error).__name__,
            )
        ]
        orphans = [other for other in self.waiting.values() if other.source_id == job.id]
        self.failed[job.id] = failures[0]
        for orphan in orphans:
            del self.waiting[orphan.id]
            because = TrainingError(
                f"not trained: {job.name}, whose result it reads, failed at this seed"
            )
            failures += self.fail(orphan, because)
        return failures

    def fails_alike(self, job: Job, error: FairauditError) -> bool:
        """Whether another seed of its arm ended in this error, and none ended well."""
        if any(self.jobs[job_id].name == job.name for job_id in self.done):
            return False
        for failure in self.failed.values():
            is_alike = failure.message.startswith(error.message)
            if failure.arm == job.name and failure.seed != job.seed and is_alike:
                return True
        return False

    def results(self) -> Results:
        """Everything in the order of the plan, whatever the order of completion was."""
        return Results(
            {job_id: self.done[job_id] for job_id in self.jobs if job_id in self.done},
            tuple(self.failed[job_id] for job_id in self.jobs if job_id in self.failed),
        )


def _settle(
    board: _Board,
    job: Job,
    answer: WorkerAnswer | Raised | Died,
    rundir: RunDir,
    listener: Listener,
) -> None:
    """Enter what became of a job.

    One at which its worker died is tried again, for it may have been killed by mistake, but not for
    ever.
    """
    if isinstance(answer, WorkerAnswer):
        assert answer.result.job_id == job.id, (
            f"job {job.id} was answered with {answer.result.job_id}"
        )
        board.done[job.id] = rundir.keep(answer.result)
        listener(
            JobFinished(
                job.name,
                job.seed,
                answer.seconds,
                len(board.done),
                len(board.jobs),
            )
        )
        return
    if isinstance(answer, Died):
        board.deaths[job.id] += 1
        if board.deaths[job.id] < _ATTEMPTS:
            board.put_back(job)
            return
        error: FairauditError = TrainingError(
            f"the training process died {_ATTEMPTS} times, at last of {answer.cause}",
            hint="out of memory? try fewer --workers",
        )
    elif answer.error is None:
        raise WorkerBug(f"{job.name}, seed {job.seed}\n{answer.report}")
    elif isinstance(answer.error, TrainingError):
        error = rundir.logged(job.id, answer.error)
        if isinstance(error, TrainerError) and board.fails_alike(job, answer.error):
            raise TrainingError(
                f"{job.name} fails alike at every seed: {error.message}", error.hint
            )
    else:
        raise answer.error
    for failure in board.fail(job, error):
        listener(JobFailed(failure.arm, failure.seed, failure.message))


def _train(
    plan: Plan,
    train: str,
    inputs: Shared[Inputs],
    training: TrainingTask,
) -> WorkerAnswer:
    """In a worker: train one job."""
    start = time.perf_counter()
    module, _, function = train.partition(":")
    run: Train = getattr(importlib.import_module(module), function)
    try:
        result = run(plan, training.job, training.source, inputs)
    except MemoryError as error:
        raise TrainingError(
            "out of memory", hint="try fewer --workers or a smaller --batch-size"
        ) from error
    return WorkerAnswer(result, time.perf_counter() - start)
