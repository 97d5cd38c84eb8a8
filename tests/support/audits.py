"""Whole audits in this process: small ones, for tests of what is made of a stored report."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from jobs import run_here

from fairaudit.analysis.build import RunMetadata, build_report
from fairaudit.analysis.measure import measured
from fairaudit.audit import prepare
from fairaudit.config.value_sources import resolve_config
from fairaudit.data.dataset import Dataset
from fairaudit.gate.check import judged
from fairaudit.planning.flow import Audit
from fairaudit.planning.plan import Job, Plan
from fairaudit.report.load import load_report
from fairaudit.report.model import Report
from fairaudit.report.write import write_report
from fairaudit.results.jobs import JobResult


@dataclass(frozen=True)
class Audited:
    """An audit that was carried out: where its report lies, and what that was made of.

    Args:
        path: Of ``report.json``.
        results: Of every training, by its job's id.
    """

    path: Path
    plan: Plan
    dataset: Dataset
    results: Mapping[str, JobResult]

    @cached_property
    def report(self) -> Report:
        """The report as it comes back from its file."""
        return load_report(self.path)


def audited(
    folder: Path,
    *,
    kept: dict[str, JobResult] | None = None,
    fails: Callable[[Job], bool] = lambda job: False,
    **options: object,
) -> Audited:
    """An audit with these options; its report is in ``folder``, its trainings in this process.

    Without diagnostics and other files than ``report.json``, unless options ask for them.

    Args:
        folder: Where the report is put.
        kept: Trainings by job id, for audits that have some in common: what is there is taken, what
            is not is trained and added. Not where the claim is that two trainings are alike.
        fails: Whether a job counts as one that ended without a result.
        options: Of the audit, as ``fairaudit.run_audit`` takes them.
    """
    resolved = resolve_config({"out": folder, "format": ["json"], "diagnostics": "off", **options})
    ready = prepare(resolved)
    known = {} if kept is None else kept
    for job in ready.plan.every_job:
        if job.id not in known:
            known[job.id] = run_here(ready.plan, job, known.get(job.source_id))
    results = {job.id: known[job.id] for job in ready.plan.every_job if not fails(job)}
    failures = {job.id: "diverged at step 3" for job in ready.plan.every_job if fails(job)}
    path = reported(ready, results, failures)
    return Audited(path, ready.plan, ready.dataset, results)


def reported(
    ready: Audit, results: Mapping[str, JobResult], failures: Mapping[str, str] | None = None
) -> Path:
    """The path of the report of a prepared audit with these results; failed is what has none.

    ``failures``: Job id -> why it has no result, where warnings are to say it.
    """
    told = RunMetadata(
        version="0", created_utc="", command=(), environment={}, workers=1, seconds={}
    )
    out = ready.resolved.config.out
    report = build_report(measured(replace(ready, results=results, failures=failures or {})), told)
    write_report(judged(report, ready.rules), out, ["json"])
    return out / "report.json"
