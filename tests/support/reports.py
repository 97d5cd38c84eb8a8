"""Stored reports for tests of what reads them: gates, compare, report."""

import json

from changed import replace
from handmade import built, comparison, dataset, plan, resolved, results

from fairaudit.planning.flow import Audit
from fairaudit.report.to_json import SEAL, content_sha256, read_report, to_json


def stored(report):
    """The report as it comes back from its file."""
    return read_report(to_json(report), name="report.json")


def sealed(content):
    """A report's content as text, as the program writes it: whoever edits so leaves no trace."""
    return json.dumps({**content, SEAL: content_sha256(content)})


def report_of(*comparisons, arms=None, names=("F", "M"), failures=(), **options):
    """A report with these comparisons.

    By default the handmade one of ``global-adapt`` against ``sgd``.
    """
    settled = resolved(**options)
    made = plan(settled.config, arms)
    compared = comparisons or (comparison(names=names),)
    kept = {key: result for key, result in results(made).items() if key not in failures}
    found = Audit(
        settled, made, dataset(names), kept, dict.fromkeys(failures, "diverged"), tuple(compared)
    )
    return stored(built(found))


def with_measure(compared, group, **changes):
    """The comparison with one group's measure changed; ``estimates`` are laid over those it has."""

    def changed(measure):
        if measure.group != group:
            return measure
        estimates = {**measure.estimates, **changes.get("estimates", {})}
        return replace(measure, **{**changes, "estimates": estimates})

    overall = changed(compared.overall) if group == "" else compared.overall
    return replace(compared, overall=overall, by_group=tuple(map(changed, compared.by_group)))
