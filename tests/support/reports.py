"""Stored reports for tests of what reads them: gates, compare, report."""

import json

from changed import replace
from handmade import arm, built, comparison, dataset, plan, privacy, resolved, results

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


def swept():
    """A report of one method at three epsilons, which the options do not give in order."""
    arms = [arm("sgd", reference=None)]
    arms += [arm(f"dpsgd@{e}", privacy=privacy(target_epsilon=float(e))) for e in (8, 1, 3)]
    costs = {"dpsgd@1": (0.06, 0.02), "dpsgd@3": (0.03, 0.01), "dpsgd@8": (0.01, 0.0)}
    compared = [comparison(key, costs[key]) for key in ("dpsgd@8", "dpsgd@1", "dpsgd@3")]
    return report_of(*compared, arms=tuple(arms), method=["dpsgd"], epsilon=[1, 3, 8])
