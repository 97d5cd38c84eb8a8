"""Plan to results: workers train every job that has no result file yet, and each leaves one.

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

from fairaudit.data.inputs.shared import Inputs
from fairaudit.data.inputs.spool import Shared
from fairaudit.errors import FairauditError, OwnCodeError, TrainingError, is_out_of_memory
from fairaudit.execution.executor import Died, Executor, Raised, WorkerBug
from fairaudit.execution.local import PRELOAD, Pool, available_cores
from fairaudit.execution.progress import JobFailed, JobFinished, JobsCounted, Listener, silent
from fairaudit.execution.ray_cluster import Cluster, RayRequest
from fairaudit.execution.run_directory import RunDir
from fairaudit.planning.plan import Job, Plan
from fairaudit.results.jobs import JobResult

RUN_JOB = "fairaudit.execution.worker:run_job"
_ATTEMPTS = 3  # trainings of a job whose worker dies, before it counts as failed

Train = Callable[[Plan, Job, JobResult | None, Shared[Inputs]], JobResult]


@dataclass(frozen=True, slots=True)
class Results:
    """What became of every job of a plan.

    Args:
        by_job: Job id -> result, of the jobs that were finished, in the order of the plan.
        failures: Job id -> how it failed, of all others, in the order of the plan.
    """

    by_job: Mapping[str, JobResult]
    failures: Mapping[str, JobFailed]


@dataclass(frozen=True, slots=True)
class Execution:
    """How to run a plan; nothing here can change a result.

    Args:
        inputs: The data, as workers read them.
        workers: Trainings at a time, None for as many as there is room for.
        train: ``module:function`` of type `Train`.
        preload: Modules that are imported once, before local workers start.
        cluster: What to ask of Ray; None for processes of this machine.
    """

    inputs: Shared[Inputs]
    workers: int | None = None
    train: str = RUN_JOB
    preload: tuple[str, ...] = PRELOAD
    cluster: RayRequest | None = None


class TrainingTask(NamedTuple):
    """A worker's task: its job, and the result that the job reads (None: it reads none)."""

    job: Job
    source: JobResult | None


class WorkerAnswer(NamedTuple):
    """A worker's answer: the job's result, and the wall time of its training in s."""

    result: JobResult
    seconds: float


def execute(
    plan: Plan, rundir: RunDir, execution: Execution, *, listener: Listener = silent
) -> Results:
    """Train every job that is not finished, on this machine or on a cluster; return all results.

    Jobs are handed out in the plan's order, but a worker stays with its seed, so that the seed's
    data are encoded once. A job whose worker dies is tried three times. Any exception ends the
    workers at once; every result that was finished by then is kept.

    Args:
        plan: What to train.
        rundir: Where results are, and where new ones are kept.
        execution: How to run it.
        listener: Told how many jobs there are, then of every job that ends.

    Raises:
        ConfigError: The cluster cannot be used.
        OutputError: A result cannot be written.
        TrainingError: No worker can be started, or code of the user's own fails alike at every
            seed. Other failed trainings end in ``Results.failures``.
        FairauditError: A job raised one that is no TrainingError.
        WorkerBug: A job raised something else than a FairauditError.
    """
    board = _Board.of(plan, rundir, listener)
    listener(JobsCounted(total=len(board.jobs), finished=len(board.done)))
    if not board.waiting:
        return board.results()
    serve = functools.partial(_train_timed, plan, execution.train)
    inputs, workers = execution.inputs, execution.workers
    executor: Executor[TrainingTask, WorkerAnswer]
    if execution.cluster is not None:
        request = replace(execution.cluster, workers=workers)
        # The cluster stores the inputs once and passes them to ``serve`` itself.
        cluster = Cluster(serve, inputs, len(board.waiting), request)
        executor = cluster
    else:
        size = min(workers or available_cores(), len(board.waiting))
        executor = Pool(functools.partial(serve, inputs), size, preload=execution.preload)
    with executor:
        while board.waiting or board.running:
            for number in executor.idle:
                task = board.take(number)
                if task is not None:
                    executor.give(number, task)
            # With idle workers and nothing running, a job that still waits would wait for ever.
            is_stuck = bool(board.waiting and executor.idle and not board.running)
            assert not is_stuck, "a job reads the result of a job that is not in the plan"
            for number, answer in executor.wait():
                board.settle(number, answer)
    return board.results()


@dataclass(slots=True)
class _Board:
    """Which jobs wait, run, are done or have failed.

    Keys are job ids, in the order of the plan, where nothing else is said.
    """

    rundir: RunDir
    listener: Listener
    jobs: Mapping[str, Job]
    waiting: dict[str, Job]
    done: dict[str, JobResult]
    running: dict[int, Job] = field(default_factory=dict)  # worker number -> its job
    failed: dict[str, JobFailed] = field(default_factory=dict)
    deaths: Counter[str] = field(default_factory=Counter)  # how often a job's worker has died
    last_seed: dict[int, int] = field(default_factory=dict)  # worker number -> seed it has encoded

    @classmethod
    def of(cls, plan: Plan, rundir: RunDir, listener: Listener) -> Self:
        """The board at the start of a run: jobs whose results are stored are done, others wait."""
        jobs, waiting, done = {}, {}, {}
        for job in plan.every_job:
            jobs[job.id] = job
            result = rundir.load(job.id)
            if result is None:
                waiting[job.id] = job
            else:
                done[job.id] = result
        return cls(rundir, listener, jobs, waiting, done)

    def take(self, worker: int) -> TrainingTask | None:
        """Take the next job for a worker off the waiting ones; None where none can start yet.

        A job can start when the result that it reads is there. A job of the worker's own seed comes
        first, then one of a seed that no other worker has encoded, then any.
        """
        ready = []
        for job in self.waiting.values():
            if job.source_id is None or job.source_id in self.done:
                ready.append(job)
        if not ready:
            return None
        # Removed, so that the seeds that are left are those of other workers.
        own_seed = self.last_seed.pop(worker, None)
        seeds_of_others = self.last_seed.values()
        # False sorts before True, and min() keeps the plan's order among equals.
        job = min(ready, key=lambda job: (job.seed != own_seed, job.seed in seeds_of_others))
        del self.waiting[job.id]
        self.running[worker] = job
        self.last_seed[worker] = job.seed
        return TrainingTask(job, self.done[job.source_id] if job.source_id else None)

    def settle(self, worker: int, answer: WorkerAnswer | Raised | Died) -> None:
        """Record what became of the job that a worker had: done, waiting again, or failed.

        A job whose worker died waits again, until ``_ATTEMPTS`` workers have died of it. A failed
        training does not stop the others.

        Args:
            worker: The worker's number.
            answer: Its answer; ``Raised``: the job raised an error; ``Died``: the worker is gone.

        Raises:
            FairauditError: An error that ends the run: no TrainingError, or one that the arm has at
                every seed.
            WorkerBug: The job raised something else than a FairauditError.
        """
        job = self.running.pop(worker)
        if isinstance(answer, WorkerAnswer):
            result, seconds = answer
            assert result.job_id == job.id, f"job {job.id} was answered with {result.job_id}"
            self.done[job.id] = self.rundir.keep(result)
            finished = JobFinished(job.name, job.seed, seconds, len(self.done), len(self.jobs))
            return self.listener(finished)
        if isinstance(answer, Died):
            self.deaths[job.id] += 1
            if self.deaths[job.id] < _ATTEMPTS:
                # The job waits again at its place in the plan, not behind all others.
                ids = {*self.waiting, job.id}
                self.waiting = {key: planned for key, planned in self.jobs.items() if key in ids}
                return None
            died = f"the training process died {_ATTEMPTS} times, at last of {answer.cause}"
            return self.fail(job, TrainingError(died, hint="out of memory? try fewer --workers"))
        error = answer.error
        if error is None:
            raise WorkerBug(f"{job.name}, seed {job.seed}\n{answer.report}")
        if not isinstance(error, TrainingError):
            raise error
        logged = self.rundir.logged(job.id, error)
        if isinstance(logged, OwnCodeError) and self.fails_alike(job, error):
            message = f"{job.name} fails alike at every seed: {logged.message}"
            raise TrainingError(message, logged.hint)
        return self.fail(job, logged)

    def fail(self, job: Job, error: FairauditError) -> None:
        """Record that a job failed, and with it the jobs that would have read its result."""
        detail = error.detail if isinstance(error, OwnCodeError) else ""
        self.failed[job.id] = JobFailed(job.name, job.seed, str(error), detail)
        self.listener(self.failed[job.id])
        orphans = [waiting for waiting in self.waiting.values() if waiting.source_id == job.id]
        for orphan in orphans:
            del self.waiting[orphan.id]
            because = f"not trained: {job.name}, whose result it reads, failed at this seed"
            self.fail(orphan, TrainingError(because))

    def fails_alike(self, job: Job, error: FairauditError) -> bool:
        """Whether the same arm failed with this error at another seed too, and succeeded at none.

        Then the user's own code is at fault, and training the other seeds is pointless. Messages
        are compared by how they begin: that of a recorded failure may end in a hint.
        """
        if any(self.jobs[job_id].name == job.name for job_id in self.done):
            return False
        for failure in self.failed.values():
            is_alike = failure.message.startswith(error.message)
            if failure.arm == job.name and failure.seed != job.seed and is_alike:
                return True
        return False

    def results(self) -> Results:
        """Results and failures in the order of the plan, whatever order the jobs ended in."""
        return Results(
            {job_id: self.done[job_id] for job_id in self.jobs if job_id in self.done},
            {job_id: self.failed[job_id] for job_id in self.jobs if job_id in self.failed},
        )


def _train_timed(
    plan: Plan, train: str, inputs: Shared[Inputs], training: TrainingTask
) -> WorkerAnswer:
    """Runs in a worker: train one job by ``train`` ("module:function", see `Train`), and time it.

    Raises:
        TrainingError: Out of memory, or as the function of ``train`` says.
    """
    start = time.perf_counter()
    module, _, function = train.partition(":")
    run: Train = getattr(importlib.import_module(module), function)
    try:
        result = run(plan, training.job, training.source, inputs)
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        raise TrainingError(
            "out of memory", hint="try fewer --workers or a smaller --batch-size"
        ) from error
    return WorkerAnswer(result, time.perf_counter() - start)
