"""The run directory ``<out>/jobs``: it keeps finished trainings, and one run at a time uses it.

It holds a file for each finished job, a log of each training that failed in code of the user's own,
``run.json`` (the *manifest*: which data the trainings are of) and ``lock``. It is checked before
any training, so that hours of work never end at a read-only folder.
"""

import contextlib
import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from fairaudit.config.options import AuditConfig, data_name
from fairaudit.errors import FairauditError, OutputError, OwnCodeError
from fairaudit.io.atomic import (
    is_plain_file,
    output_error,
    refuse_unusable,
    remove_temporaries,
    write_atomically,
)
from fairaudit.io.reading import LARGEST_REPORT, read_file
from fairaudit.planning.plan import Plan
from fairaudit.results.jobs import (
    JOBS,
    JobResult,
    canonical_json,
    is_job_file,
    job_path,
    read_result,
    write_result,
)

_MANIFEST = "run.json"
LOG = ".log"  # of a training that failed in code of the user's own
_LOCK = "lock"


@dataclass(frozen=True, slots=True)
class RunDir:
    """Where one run keeps its finished jobs: in ``jobs`` of the user's output directory."""

    out: Path

    @property
    def jobs(self) -> Path:
        """The directory of job files."""
        return self.out / JOBS

    def load(self, job_id: str) -> JobResult | None:
        """The stored result; None where there is none, or its file is damaged."""
        return read_result(self.jobs, job_id)

    def keep(self, result: JobResult) -> JobResult:
        """Store a result, read it back and return what was read: what the next run will find.

        Raises:
            OutputError: The disk is full, or does not keep what it was given.
        """
        write_result(self.jobs, result)
        (self.jobs / f"{result.job_id}{LOG}").unlink(missing_ok=True)  # of an attempt that failed
        kept = self.load(result.job_id)
        if kept is None:
            raise OutputError(
                f"{self.jobs} does not keep what is written to it",
                hint="choose an --out on a local disk",
            )
        return kept

    def logged(self, job_id: str, error: FairauditError) -> FairauditError:
        """The error as it is to be reported.

        What a trainer of the user's own printed before it failed is written to the job's log, which
        the error's hint then names; any other error is returned as it is.

        Raises:
            OutputError: The disk is full.
        """
        if not isinstance(error, OwnCodeError) or not error.log:
            return error
        path = self.jobs / f"{job_id}{LOG}"
        write_atomically(path, error.log.encode(errors="replace"), mode=0o600)
        where = f"log: {JOBS}/{path.name} in the output folder"
        hint = "; ".join(filter(None, (error.hint, where)))
        return OwnCodeError(error.message, hint, detail=error.detail)


class StoredTrainings(NamedTuple):
    """How many finished trainings a run directory holds, and bytes of their files and of logs."""

    trainings: int
    size: int


@contextlib.contextmanager
def open_rundir(plan: Plan) -> Iterator[RunDir]:
    """Make, check and lock the plan's run directory for the time of a run (the ``with`` block).

    Reports that lie beside it are not touched. Without ``resume``, finished trainings are deleted.

    Raises:
        OutputError: Not writable, in use by another run, not a run directory, or of other data.
    """
    config, rundir = plan.config, RunDir(plan.config.out)
    with _locked(rundir) as lock:
        refuse_other_data(config)
        try:
            _clear(rundir, with_trainings=not config.resume)
            # The process id, so that a second run that finds the lock held can name this process.
            os.ftruncate(lock, 0)
            os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
        except OSError as error:
            raise output_error(rundir.jobs, error) from error
        content = {"data": config.data.name, "name": data_name(config.data)}
        manifest = (canonical_json(content) + "\n").encode()
        write_atomically(rundir.jobs / _MANIFEST, manifest, mode=0o600)
        refuse_unusable(rundir.out)  # where the reports go once all is trained
        yield rundir


def share_trainings(source: Path, target: Path) -> None:
    """Let a run find the finished trainings of another run on the same data.

    Trainings that do not fit the run's plan are shared too, and the run ignores them.

    Args:
        source: The other run's output folder.
        target: The run's own; the files are links where the disk has them.

    Raises:
        OutputError: ``target`` holds a folder ``jobs`` that is no run directory.
    """
    (target / JOBS).mkdir(parents=True, exist_ok=True)
    _refuse_foreign(target / JOBS)
    (target / JOBS / _LOCK).touch(mode=0o600)  # by this file a run knows a folder as its own
    for path in (source / JOBS).iterdir():
        place = target / JOBS / path.name
        if place.exists() or not (is_job_file(path) or path.name == _MANIFEST):
            continue
        try:
            os.link(path, place)
        except OSError:  # another disk, or one without links
            shutil.copyfile(path, place)


def refuse_unusable_rundir(out: Path) -> None:
    """Refuse an output folder in which a run could not keep its trainings; nothing is left in it.

    Raises:
        OutputError: Not writable, or not a run directory.
    """
    refuse_unusable(out)
    if os.path.lexists(out / JOBS):
        refuse_unusable(out / JOBS)
        _refuse_foreign(out / JOBS)


def refuse_other_data(config: AuditConfig) -> None:
    """Refuse to resume in a folder that holds trainings of other data, so that none are mixed up.

    Data are told apart by their name alone (:func:`data_name`): the next version of a file, or the
    same table in another format, may use the same folder. A training is found by the digest of its
    data, so those of both versions stay apart.

    Raises:
        OutputError: The folder holds trainings of data of another name.
    """
    manifest = _read_manifest(config.out / JOBS)
    # Without ``resume`` the trainings there are deleted, whatever data they are of.
    if config.resume and manifest.get("name", data_name(config.data)) != data_name(config.data):
        raise OutputError(
            f"{config.out} holds an audit of {manifest.get('data')}, not of {config.data.name}",
            hint="choose another --out, or start over there with --fresh",
        )


def kept_trainings(out: Path) -> StoredTrainings:
    """What the run directory in the output folder ``out`` holds now."""
    files = _trainings(out / JOBS)
    return StoredTrainings(sum(map(is_job_file, files)), sum(path.stat().st_size for path in files))


def clean(out: Path) -> StoredTrainings:
    """Remove what runs left in a run directory; reports and other files stay.

    Removed are, by their names, finished trainings, logs, ``run.json``, and unfinished files, these
    in ``out`` as well. What is a link stays, but for one named ``run.json``: that is removed, and
    what it leads to stays. The lock file stays: a run that starts at this moment must meet the lock
    that is held here.

    Returns:
        How many trainings were removed, and bytes of their files and of logs.

    Raises:
        OutputError: Not an output directory of a run, in use by one, or not writable.
    """
    rundir = RunDir(out)
    if not is_plain_file(rundir.jobs / _LOCK):
        raise OutputError(f"{out} holds no finished trainings", hint="name the --out of a run")
    with _locked(rundir):
        kept = kept_trainings(out)
        try:
            _clear(rundir, with_trainings=True)
        except OSError as error:
            raise output_error(rundir.jobs, error) from error
    return kept


@contextlib.contextmanager
def _locked(rundir: RunDir) -> Iterator[int]:
    """Make the run directory where it is missing, and hold its lock for the ``with`` block.

    The kernel drops the lock when this process dies, however it dies.

    Yields:
        Descriptor of the lock file.

    Raises:
        OutputError: Another run holds the lock, or the directory cannot be used.
    """
    jobs = rundir.jobs
    try:
        # Reports are not differentially private: a new folder is closed to other users, and opening
        # it is its owner's choice.
        rundir.out.mkdir(mode=0o700, parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            jobs.mkdir(mode=0o700)
        _refuse_foreign(jobs)
        jobs.chmod(0o700)  # predictions on single records: nobody else's business
        lock = os.open(jobs / _LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise output_error(rundir.out, error) from error
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.pread(lock, 32, 0).decode(errors="replace").strip()
            by = f" (process {holder})" if holder.isdigit() else ""
            raise OutputError(
                f"another run{by} is using {rundir.out}",
                hint="wait for it, or choose another --out",
            ) from error
        except OSError as error:
            raise OutputError(
                f"{rundir.out} is on a file system without locks",
                hint="choose an --out on a local disk",
            ) from error
        yield lock
    finally:
        os.close(lock)


def _refuse_foreign(jobs: Path) -> None:
    """Refuse a ``jobs`` folder that is no run directory, or a link where a run would write.

    Raises:
        OutputError: The folder or its lock file is a link, or it has files and no lock file.
    """
    if jobs.is_symlink() or (jobs / _LOCK).is_symlink():
        linked = jobs if jobs.is_symlink() else jobs / _LOCK
        raise OutputError(f"{linked} is a link", hint="remove it, or choose another --out")
    if not (jobs / _LOCK).exists() and any(jobs.iterdir()):
        raise OutputError(f"{jobs} exists and is not a run directory", hint="choose another --out")


def _clear(rundir: RunDir, *, with_trainings: bool) -> None:
    """Delete temporary files of crashed runs.

    ``with_trainings``: whether finished trainings, logs and the manifest are deleted, too.
    """
    remove_temporaries(rundir.out)
    remove_temporaries(rundir.jobs)
    if with_trainings:
        for path in _trainings(rundir.jobs):
            path.unlink()
        (rundir.jobs / _MANIFEST).unlink(missing_ok=True)


def _trainings(jobs: Path) -> list[Path]:
    """Files of finished trainings and logs of failed ones, known by their names; no links."""
    kept = []
    for path in jobs.glob("*"):
        result = job_path(jobs, path.stem)  # a log has the stem of its job's file
        if path.suffix in (result.suffix, LOG) and is_job_file(result) and is_plain_file(path):
            kept.append(path)
    return kept


def _read_manifest(jobs: Path) -> dict[str, object]:
    """The content of ``run.json``; empty where there is none that can be read."""
    path = jobs / _MANIFEST
    try:
        manifest = json.loads(read_file(path, LARGEST_REPORT, follow=False))
    except (OSError, ValueError, RecursionError):
        return {}
    if isinstance(manifest, dict):
        return manifest
    return {}
