"""The run directory: finished jobs in ``<out>/jobs``, used by one run at a time.

It is checked before any training, so that hours of work never end at a read-only folder.
"""

import contextlib
import fcntl
import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from fairaudit.atomic import output_error, remove_temporaries, write_atomically
from fairaudit.config import EXECUTION, GATES
from fairaudit.errors import OutputError
from fairaudit.jobs import (
    JOBS,
    NUMERICS_VERSION,
    RECORDS,
    JobResult,
    canonical_json,
    is_job_file,
    job_path,
    read_result,
    write_result,
)
from fairaudit.plan import Plan

_MANIFEST = "run.json"
_LOCK = "lock"
_NOT_IN_RESULTS = ("out", "format", *GATES, *EXECUTION)


@dataclass(frozen=True, slots=True)
class RunDir:
    """Where one run keeps its finished jobs.

    Args:
        out: The user's output directory. jobs: The directory of job files inside it.
    """

    out: Path
    jobs: Path

    def load(self, job_id: str) -> JobResult | None:
        """The stored result, or None when the job is not done."""
        return read_result(self.jobs, job_id)

    def is_complete(self, plan: Plan) -> bool:
        """Whether there is a file for every job, whatever is in it."""
        return all(job_path(self.jobs, job.id).is_file() for job in plan.jobs)

    def drop_records(self, but: Path | None = None) -> None:
        """Remove the records that runs left for their workers; they can be made again."""
        for path in _record_files(self.jobs):
            if path != but:
                path.unlink(missing_ok=True)

    def keep(self, result: JobResult) -> JobResult:
        """Store a result and read it back: what counts is what the next run will find.

        Raises:
            OutputError: The disk is full, or does not keep what it was given.
        """
        write_result(self.jobs, result)
        kept = self.load(result.job_id)
        if kept is None:
            raise OutputError(
                f"{self.jobs} does not keep what is written to it", hint="choose an --out on a local disk"
            )
        return kept


class Kept(NamedTuple):
    """Finished trainings in a run directory; their size in bytes, with what else they left there."""

    trainings: int
    size: int


@contextlib.contextmanager
def open_rundir(plan: Plan) -> Iterator[RunDir]:
    """Make, check and lock the plan's run directory for the time of a run.

    Reports that lie beside it are not touched. Without ``resume``, finished jobs are forgotten.

    Raises:
        OutputError: Not writable, in use by another run, not a run directory, or of other data.
    """
    out = plan.config.out
    rundir = RunDir(out, out / JOBS)
    with _held(rundir) as lock:
        try:
            _clear(rundir, fresh=not plan.config.resume)
            os.ftruncate(lock, 0)
            os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
        except OSError as error:
            raise output_error(rundir.jobs, error) from error
        _refuse_other_data(rundir, plan.digest)
        write_atomically(rundir.jobs / _MANIFEST, _manifest(plan), mode=0o600)
        _probe(out)
        yield rundir


@contextlib.contextmanager
def hold(out: Path) -> Iterator[None]:
    """Keep other runs out of an output directory, which is made where there is none.

    Raises:
        OutputError: Not writable, in use by another run, or not a run directory.
    """
    with _held(RunDir(out, out / JOBS)):
        yield


def kept_trainings(out: Path) -> Kept:
    """What the run directory of that output holds now."""
    trainings, records = _job_files(out / JOBS), _record_files(out / JOBS)
    return Kept(len(trainings), sum(path.stat().st_size for path in (*trainings, *records)))


def clean(out: Path) -> Kept:
    """Remove the finished trainings of a run directory; reports and anything else stay.

    The lock stays too: a run that starts at this moment must find the one that is held here.

    Returns:
        What was removed.

    Raises:
        OutputError: Not an output directory of a run, in use by one, or not writable.
    """
    rundir = RunDir(out, out / JOBS)
    if not (rundir.jobs / _LOCK).is_file():
        raise OutputError(f"{out} holds no finished trainings", hint="name the --out of a run")
    with _held(rundir):
        kept = kept_trainings(out)
        try:
            _clear(rundir, fresh=True)
        except OSError as error:
            raise output_error(rundir.jobs, error) from error
    return kept


@contextlib.contextmanager
def _held(rundir: RunDir) -> Iterator[int]:
    """The lock of the directory; the kernel drops it when its holder dies, however it dies."""
    try:
        lock = _open_lock(rundir)
    except OSError as error:
        raise output_error(rundir.out, error) from error
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.pread(lock, 32, 0).decode(errors="replace").strip()
            by = f" (process {holder})" if holder.isdigit() else ""
            raise OutputError(
                f"another run{by} is using {rundir.out}", hint="wait for it, or choose another --out"
            ) from error
        except OSError as error:
            raise OutputError(
                f"{rundir.out} is on a file system without locks", hint="choose an --out on a local disk"
            ) from error
        yield lock
    finally:
        os.close(lock)


def _open_lock(rundir: RunDir) -> int:
    jobs = rundir.jobs
    rundir.out.mkdir(mode=0o700, parents=True, exist_ok=True)  # reports are not private: opening is a choice
    jobs.mkdir(mode=0o700, exist_ok=True)
    if not (jobs / _LOCK).exists() and any(jobs.iterdir()):
        raise OutputError(f"{jobs} exists and is not a run directory", hint="choose another --out")
    jobs.chmod(0o700)  # predictions on single records: nobody else's business
    return os.open(jobs / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)


def _clear(rundir: RunDir, *, fresh: bool) -> None:
    """Delete what crashed runs left and, on request, the finished jobs; never a file of the user."""
    remove_temporaries(rundir.out)
    remove_temporaries(rundir.jobs)
    if fresh:
        for path in (*_job_files(rundir.jobs), *_record_files(rundir.jobs)):
            path.unlink()
        (rundir.jobs / _MANIFEST).unlink(missing_ok=True)


def _record_files(jobs: Path) -> list[Path]:
    return sorted(jobs.glob(f"*{RECORDS}"))


def _job_files(jobs: Path) -> list[Path]:
    return [path for path in jobs.iterdir() if is_job_file(path)] if jobs.is_dir() else []


def _manifest(plan: Plan) -> bytes:
    """What the directory holds, for the next run and for whoever looks into it."""
    options = canonical_json(plan.config.model_dump(mode="json", exclude=set(_NOT_IN_RESULTS)))
    content = {
        "config_sha256": hashlib.sha256(options.encode()).hexdigest(),
        "digest": plan.digest,
        "numerics_version": NUMERICS_VERSION,
    }
    return (canonical_json(content) + "\n").encode()


def _refuse_other_data(rundir: RunDir, digest: str) -> None:
    try:
        manifest = json.loads((rundir.jobs / _MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return  # no manifest, or not readable: job ids hold the digest too, so nothing can be mixed
    if isinstance(manifest, dict) and manifest.get("digest") not in (None, digest):
        raise OutputError(
            f"data changed on resume: {rundir.out} holds trainings on other data",
            hint="start over with --fresh, or choose another --out",
        )


def _probe(out: Path) -> None:
    """Write where the reports will be written; a writable ``jobs`` says nothing about its parent."""
    probe = out / f".fairaudit-{os.getpid()}.tmp"
    try:
        probe.touch(mode=0o600)
        probe.unlink()
    except OSError as error:
        raise output_error(out, error) from error
