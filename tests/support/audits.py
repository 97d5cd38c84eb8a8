"""Whole audits in this process: small ones, for tests of what is made of a stored report."""

from dataclasses import replace

from jobs import run_here

from fairaudit.analysis.build import RunMetadata, build_report
from fairaudit.analysis.measure import measured
from fairaudit.audit import prepare
from fairaudit.config.value_sources import resolve_config
from fairaudit.gate.check import judged
from fairaudit.report.write import write_report


def audit_here(folder, **options):
    """The path of a report in ``folder``; every training in this process."""
    return audited_here(folder, **options)[0]


def audited_here(folder, **options):
    """The path of a report in ``folder``.

    With the plan, the data and the results that it was made of.
    """
    resolved = resolve_config({"out": folder, "format": ["json"], "diagnostics": "off", **options})
    made = prepare(resolved)
    plan, results = made.plan, {}
    for job in plan.every_job:
        results[job.id] = run_here(plan, job, results.get(job.source_id))
    return reported(made, results), plan, made.dataset, results


def reported(made, results):
    """The path of the report of an audit that is prepared, of these results.

    Failed is what has none.
    """
    audit = measured(replace(made, results=results))
    told = RunMetadata(
        version="0", created_utc="", command=(), environment={}, workers=1, seconds={}
    )
    out = made.resolved.config.out
    write_report(judged(build_report(audit, told), made.rules), out, ["json"])
    return out / "report.json"
