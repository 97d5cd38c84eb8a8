"""What makes a cost that of a configuration.

Each warning at hand-made figures, or none where none is due.
"""

import numpy as np
import pytest
from changed import replace
from handmade import (
    arm,
    comparison,
    dataset,
    estimate,
    gap,
    metadata,
    plan,
    privacy,
    resolved,
    results,
)

from fairaudit.analysis.build import AuditResults, build_report
from fairaudit.cli.lines import result_lines
from fairaudit.gate.check import check
from fairaudit.gate.grammar import parse_rules
from fairaudit.report.parts import split_gap
from fairaudit.report.render.markdown import to_markdown
from fairaudit.report.to_json import read_report, to_json


def with_estimates(compared, **by_group):
    """Estimates laid over those of the groups, ``all`` for all rows."""

    def laid(measure):
        own = by_group.get(measure.group or "all", {})
        return replace(measure, estimates={**measure.estimates, **own})

    return replace(
        compared, overall=laid(compared.overall), by_group=tuple(map(laid, compared.by_group))
    )


def report_of(*compared, losses=None, keys=("dpsgd",), swept=False):
    settled = resolved(method=["dpsgd"], **({"epsilon": [1, 8]} if swept else {}))
    arms = [arm("sgd", reference=None)]
    for key in keys:
        target = float(key.partition("@")[2] or 3.2)
        arms.append(arm(key, privacy=privacy(pld=target - 0.01, target_epsilon=target)))
    made = plan(settled.config, tuple(arms))
    found = results(made)
    for job in made.jobs:
        arrays = {
            name: a for name, a in found[job.id].arrays.items() if not name.startswith("trace")
        }
        if losses and losses.get(job.arm):
            series = np.array([[[loss, loss]] for loss in losses[job.arm]], np.float32)
            arrays |= {"trace.loss": series, "trace_steps.loss": np.arange(len(series))}
        found[job.id] = replace(found[job.id], arrays=arrays)
    return build_report(AuditResults(settled, made, dataset(), found, {}, compared), metadata())


def codes(report):
    return [(warning.code, warning.arm) for warning in report.warnings if warning.arm]


def against_constant(cost, risk, half=0.01):
    return {
        "privacy_cost.constant": estimate(cost, half),
        "excess_risk.constant": estimate(risk, half, "nats"),
    }


@pytest.mark.parametrize(
    ("who", "cost", "risk", "half", "warns"),
    [
        ("all", -0.1, -0.2, 0.01, False),
        ("all", -0.1, 0.005, 0.01, True),  # over all rows any sign of it is one too many
        ("all", 0.004, -0.2, 0.01, True),
        ("F", -0.1, 0.025, 0.01, True),
        # Its own interval excludes zero, that for two groups and two metrics together, +- .0228,
        # does not.
        ("F", -0.1, 0.02, 0.01, False),
        ("F", 0.05, -0.1, 0.01, True),
    ],
)
def test_worse_than_a_constant_model(who, cost, risk, half, warns):
    compared = with_estimates(
        comparison("dpsgd", (0.001, 0.0)), **{who: against_constant(cost, risk, half)}
    )
    report = report_of(compared)
    assert codes(report) == ([("worse_than_constant", "dpsgd")] if warns else [])
    if not warns:
        return
    (told,) = (w for w in report.warnings if w.arm)
    is_shown = max(cost, risk) > half
    assert ("is worse on" in told.message) == is_shown  # no stronger than its interval
    assert list(report.configurations.values()) == [["dpsgd"]]


def test_a_group_that_is_too_small_to_be_compared_is_not_called_worse():
    compared = comparison("dpsgd", (0.001, 0.0))
    small = replace(compared.by_group[0], gated=False, reason="8 test records")
    compared = replace(compared, by_group=(small, *compared.by_group[1:]))
    assert codes(report_of(with_estimates(compared, F=against_constant(0.2, 0.5)))) == []


@pytest.mark.parametrize(
    ("losses", "warns"),
    [
        ([0.7, 0.6, 0.5, 0.4, 0.35, 0.33, 0.32, 0.31], False),
        ([0.7, 0.6, 0.5, 0.45, 0.5, 0.6, 0.65, 0.7], True),
        ([0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.502, 0.503], False),  # within the noise of batches
        ([0.5, 0.9, 0.9], False),  # too few readings to tell
        (None, False),
    ],
)
def test_a_training_loss_that_rises(losses, warns):
    report = report_of(comparison("dpsgd", (0.001, 0.0)), losses={"dpsgd": losses})
    assert codes(report) == ([("loss_rises", "dpsgd")] if warns else [])


def split(compared, metric, total, still, half):
    """A cost with its parts, of all rows; the other cost and the groups have none to speak of."""
    unit = "nats" if metric == "excess_risk" else "fraction"
    none = {
        f"{cost}{part}": estimate(0.0, 0.01)
        for cost in ("privacy_cost", "excess_risk")
        for part in ("", ".clipping", ".noise")
    }
    own = {"": total, ".clipping": still, ".noise": total - still}
    overall = none | {metric + part: estimate(value, half, unit) for part, value in own.items()}
    return with_estimates(compared, F=none, M=none, all=overall)


@pytest.mark.parametrize("metric", ["privacy_cost", "excess_risk"])
@pytest.mark.parametrize(
    ("total", "still", "half", "warns"),
    [
        (0.05, 0.045, 0.01, True),
        (0.05, 0.03, 0.01, False),  # more than half of it, but not as its interval shows
        (0.005, 0.004, 0.01, False),  # no cost is detected
        (0.02, 0.06, 0.01, True),  # the noise takes away from it
    ],
)
def test_most_of_a_cost_is_there_without_noise(metric, total, still, half, warns):
    report = report_of(split(comparison("dpsgd", (0.001, 0.0)), metric, total, still, half))
    assert codes(report) == ([("mostly_clipping", "dpsgd")] if warns else [])
    text, console = to_markdown(report), "\n".join(result_lines(report))
    for shown in (text, console):
        assert ("cost of this configuration" in shown) == warns


def in_parts(key):
    """A comparison whose cost and whose gap are mostly there without noise."""
    compared = split(comparison(key, (0.001, 0.0)), "privacy_cost", 0.05, 0.045, 0.01)
    found = [
        gap("F", "M", value, 0.01, metric=f"privacy_cost{part}")
        for part, value in (("", 0.06), (".clipping", 0.05), (".noise", 0.01))
    ]
    return replace(compared, gaps=tuple(found))


@pytest.mark.parametrize("shortened", [True, False])
def test_a_step_that_the_noise_shortens_is_told(shortened):
    """A larger epsilon comes with a longer step by rule.

    So "no epsilon" alone would say too much.
    """
    settled = resolved(method=["dpsgd"])
    settings = {"noise_multiplier": 1.0, "learning_rate": 0.1}
    own = arm("dpsgd", settings=settings, step_shortened=shortened)
    made = plan(settled.config, (arm("sgd", reference=None), own))
    findings = AuditResults(settled, made, dataset(), results(made), {}, (in_parts("dpsgd"),))
    report = build_report(findings, metadata())
    (warning,) = (w for w in report.warnings if w.code == "mostly_clipping")
    assert ("larger --epsilon" in warning.fix) == shortened


def at(key, risk, half):
    return with_estimates(
        comparison(key, (0.001, 0.0)), all={"excess_risk": estimate(risk, half, "nats")}
    )


@pytest.mark.parametrize(
    ("small", "large", "half", "warns"),
    [
        (0.05, 0.05, 0.01, True),  # as Adult's at C = 1
        (0.05, 0.001, 0.01, False),
        (0.05, 0.03, 0.004, False),  # it falls, as the intervals show
        (0.05, 0.05, 0.06, False),  # nothing could be seen
        (0.005, 0.005, 0.01, False),
    ],
)
def test_a_cost_that_does_not_fall_with_epsilon(small, large, half, warns):
    report = report_of(
        at("dpsgd@1", small, half),
        at("dpsgd@8", large, half),
        keys=("dpsgd@1", "dpsgd@8"),
        swept=True,
    )
    assert codes(report) == ([("cost_not_falling", "dpsgd@8")] if warns else [])


PATE = ("pate-soft", "pate-soft-clean", {"teachers": 8.0, "queries": 100.0}, "partition")
MINIMISER = ("output-perturbation", "exact-minimiser", {"penalty": 0.0001}, "regularisation")


@pytest.mark.parametrize(
    ("method", "still", "fix"),
    [
        (PATE, 0.05, "pate-soft.teachers=4"),
        (PATE, 0.01, "pate-soft.queries=25"),
        (MINIMISER, 0.05, "output-perturbation.penalty=1e-05"),
        (MINIMISER, 0.01, "output-perturbation.penalty=0.001"),
    ],
)
def test_methods_without_noised_steps_are_told_of_their_own_settings(method, still, fix):
    """By the arm's own values: 50 teachers are no fewer than 8."""
    key, reference, settings, part = method
    worse = against_constant(-0.1, 0.3)
    own = with_estimates(comparison(key, (0.001, 0.0), reference=reference), all=worse)
    whole = split(comparison(key, (0.001, 0.0)), "excess_risk", 0.06, still, 0.2)
    renamed = {name.replace("clipping", part): e for name, e in whole.overall.estimates.items()}
    whole = replace(whole, overall=replace(whole.overall, estimates=renamed | worse))
    settled = resolved(method=[key])
    arms = [arm(name, reference=None, settings=settings) for name in ("sgd", reference)]
    made = plan(settled.config, (*arms, arm(key, reference=reference, settings=settings)))
    findings = AuditResults(settled, made, dataset(), results(made), {}, (own, whole))
    (told,) = (w for w in build_report(findings, metadata()).warnings if w.arm)
    assert fix in told.fix


def test_of_three_groups_the_parts_of_the_largest_gap_have_the_intervals_that_hold_for_all_pairs():
    """Else the sentence would show an interval without 0 beside "is not told from zero"."""
    compared = comparison("dpsgd", (0.001, 0.0))
    found = []
    for name, value in (("", 0.06), (".clipping", 0.05), (".noise", 0.015)):
        pair = gap("F", "M", value, 0.01, metric=f"privacy_cost{name}")
        shared = replace(pair.simultaneous, low=max(0.0, value - 0.03), high=value + 0.03)
        found.append(
            replace(pair, simultaneous=shared, direction="" if name == ".noise" else pair.direction)
        )
    compared = split(compared, "privacy_cost", 0.001, 0.0, 0.01)
    parts = split_gap(replace(compared, gaps=tuple(found)), "privacy_cost", found[0])
    assert (parts.still.low, parts.still.high) == pytest.approx((0.02, 0.08))
    assert (parts.noise.low, parts.noise.high) == pytest.approx((-0.015, 0.045))
    assert (parts.is_still, parts.is_noise) == (True, False)


def rule(text, report):
    return check(read_report(to_json(report), name="report.json"), parse_rules([text])).outcome


def test_gates_read_the_parts():
    report = report_of(in_parts("dpsgd"))
    assert rule("privacy_cost_gap.clipping > 0.02", report) == "fail"
    assert rule("privacy_cost_gap.noise > 0.03", report) == "pass"
    assert rule("privacy_cost_gap.noise > 0.015", report) == "inconclusive"
    assert rule("privacy_cost.clipping@overall > 3pt", report) == "fail"
    assert rule("privacy_cost.noise@overall > 3pt", report) == "pass"
    assert rule("privacy_cost_gap.noise.mean > 0.02", report) == "pass"
    assert (
        rule("privacy_cost_gap.regularisation > 0.02", report) == "inconclusive"
    )  # it has no such part
    assert (
        rule("privacy_cost_gap.clipping > 0.02", report_of(comparison("dpsgd"))) == "inconclusive"
    )
