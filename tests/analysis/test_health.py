"""What makes a cost that of a configuration: each warning at hand-made figures, or none where none is due."""

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
from fairaudit.report.render.markdown import to_markdown
from fairaudit.report.to_json import read_report, to_json

PARTS = ("clipping", "noise")


def with_estimates(compared, **by_group):
    """Estimates laid over those of the groups, ``all`` for all rows."""

    def laid(measure):
        own = by_group.get(measure.group or "all", {})
        return replace(measure, estimates={**measure.estimates, **own})

    return replace(compared, overall=laid(compared.overall), by_group=tuple(map(laid, compared.by_group)))


def report_of(*compared, losses=None, sklearn_baseline=1.0, keys=("dpsgd",), swept=False):
    settled = resolved(method=["dpsgd"], **({"epsilon": [1, 8]} if swept else {}))
    arms = [arm("sgd", reference=None)]
    for key in keys:
        target = float(key.partition("@")[2] or 3.2)
        arms.append(arm(key, privacy=replace(privacy(), target_epsilon=target, epsilon_pld=target - 0.01)))
    made = plan(settled.config, tuple(arms))
    found = results(made, sklearn_baseline=sklearn_baseline)
    for job in made.jobs:
        arrays = {name: a for name, a in found[job.id].arrays.items() if not name.startswith("trace")}
        if losses and losses.get(job.arm):
            series = np.array([[[loss, loss]] for loss in losses[job.arm]], np.float32)
            arrays |= {"trace.loss": series, "trace_steps.loss": np.arange(len(series))}
        if job.arm == "sgd" and sklearn_baseline < 0:  # every prediction the wrong way round
            arrays["probabilities"] = 1 - arrays["probabilities"]
        found[job.id] = replace(found[job.id], arrays=arrays)
        if "sklearn_baseline" in found[job.id].facts:
            facts = {**found[job.id].facts, "sklearn_baseline": {"accuracy": 0.9, "train_accuracy": 0.9}}
            found[job.id] = replace(found[job.id], facts=facts)
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
        # Its own interval excludes zero, that for two groups and two metrics together, +- .0228, does not.
        ("F", -0.1, 0.02, 0.01, False),
        ("F", -0.1, 0.02, 0.03, False),  # not shown by its interval
        ("F", 0.05, -0.1, 0.01, True),
    ],
)
def test_worse_than_a_constant_model(who, cost, risk, half, warns):
    compared = with_estimates(comparison("dpsgd", (0.001, 0.0)), **{who: against_constant(cost, risk, half)})
    report = report_of(compared)
    assert codes(report) == ([("worse_than_constant", "dpsgd")] if warns else [])
    if not warns:
        return
    (told,) = (w for w in report.warnings if w.arm)
    assert ("all test rows" if who == "all" else "on F") in told.message
    assert ("points of accuracy less" in told.message) == (cost > 0)
    assert ("nats more loss" in told.message) == (risk > 0)
    is_shown = max(cost, risk) > half
    assert ("is worse on" in told.message) == is_shown  # no stronger than its interval
    assert ("is not shown to be better on" in told.message) == (not is_shown)
    assert report.configurations == {"not shown to be better than a constant model": ["dpsgd"]}


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
        ([0.5] * 8, False),
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
    none = {f"{cost}{part}": estimate(0.0, 0.01) for cost in ("privacy_cost", "excess_risk")
            for part in ("", ".clipping", ".noise")}  # fmt: skip
    own = {"": total, ".clipping": still, ".noise": total - still}
    overall = none | {metric + part: estimate(value, half, unit) for part, value in own.items()}
    return with_estimates(compared, F=none, M=none, all=overall)


@pytest.mark.parametrize("metric", ["privacy_cost", "excess_risk"])
@pytest.mark.parametrize(
    ("total", "still", "half", "warns"),
    [
        (0.05, 0.045, 0.01, True),
        (0.05, 0.03, 0.01, False),  # more than half of it, but not as its interval shows
        (0.05, 0.01, 0.005, False),
        (0.005, 0.004, 0.01, False),  # no cost is detected
        (-0.05, -0.045, 0.01, False),
        (0.02, 0.06, 0.01, True),  # the noise takes away from it
    ],
)
def test_most_of_a_cost_is_there_without_noise(metric, total, still, half, warns):
    report = report_of(split(comparison("dpsgd", (0.001, 0.0)), metric, total, still, half))
    assert codes(report) == ([("mostly_clipping", "dpsgd")] if warns else [])
    text, console = to_markdown(report), "\n".join(result_lines(report))
    for shown in (text, console):
        assert ("cost of this configuration" in shown) == warns


@pytest.mark.parametrize(
    ("clipping", "noise", "said"),
    [
        (
            0.05,
            0.001,
            ["without any noise the gap is", "no epsilon removes that at these settings; a larger"],
        ),
        (0.001, 0.05, ["the noise adds", "falls as epsilon grows", "not shown to be there"]),
        (0.03, 0.03, ["are there without any noise, which no epsilon removes", "fall as epsilon grows"]),
        (0.004, 0.004, []),  # no gap, no words about it
    ],
)
@pytest.mark.parametrize("flipped", [False, True])
def test_would_a_larger_epsilon_remove_the_gap(clipping, noise, said, flipped):
    """The same words whichever group pays."""
    compared = split(comparison("dpsgd", (0.001, 0.0)), "privacy_cost", 0.001, 0.0, 0.01)
    sign = -1 if flipped else 1
    found = [
        gap("F", "M", sign * value, 0.01, metric=f"privacy_cost{part}")
        for part, value in (("", clipping + noise), (".clipping", clipping), (".noise", noise))
    ]
    report = report_of(replace(compared, gaps=tuple(found)))
    lines = [line for line in to_markdown(report).splitlines() if line.startswith("- dpsgd: ")]
    assert len(lines) == bool(said)
    for words in said:
        assert words in lines[0]
    if said:
        assert f"{100 * clipping:.1f} [" in lines[0]
        assert f"{100 * noise:.1f} [" in lines[0]


def test_which_part_makes_a_gap_is_open_where_neither_is_told_from_zero():
    compared = split(comparison("dpsgd", (0.001, 0.0)), "privacy_cost", 0.001, 0.0, 0.01)
    figures = {"": (0.02, 0.01), ".clipping": (0.01, 0.02), ".noise": (0.01, 0.02)}
    found = [gap("F", "M", *figure, metric=f"privacy_cost{part}") for part, figure in figures.items()]
    report = report_of(replace(compared, gaps=tuple(found)))
    (line,) = (line for line in to_markdown(report).splitlines() if line.startswith("- dpsgd: "))
    assert "cannot tell whether a larger epsilon removes it" in line
    assert "no epsilon" not in line


@pytest.mark.parametrize("swept", [True, False])
def test_settings_that_follow_epsilon_are_named_for_what_is_left_without_noise(swept):
    compared = [
        split(comparison(key, (0.001, 0.0)), "privacy_cost", 0.0, 0.0, 0.01) for key in ("dpsgd@1", "dpsgd@8")
    ]
    report = report_of(*compared, keys=("dpsgd@1", "dpsgd@8"), swept=True)
    arms = []
    for each in report.arms:
        last = each.key == "dpsgd@8"
        own = {"learning_rate": 0.1 * swept * last, "max_grad_norm": 1.0, "noise_multiplier": 1.0 + last}
        arms.append(each.model_copy(update={"settings": own}))
    text = to_markdown(report.model_copy(update={"arms": tuple(arms)}))
    lines = [line for line in text.splitlines() if "follows epsilon" in line]
    assert [line.partition(" follow")[0] for line in lines] == (["- dpsgd: learning_rate"] if swept else [])


@pytest.mark.parametrize(
    ("still", "fix"),
    [(0.05, "a larger --max-grad-norm"), (0.01, "a smaller --learning-rate"), (None, "a smaller")],
)
def test_what_may_help_a_method_that_is_worse_than_a_constant_follows_what_makes_it_so(still, fix):
    """At Adult's published settings the loss rises without any noise; a smaller step would not help it."""
    compared = comparison("dpsgd", (0.001, 0.0))
    if still is not None:
        compared = split(compared, "excess_risk", 0.06, still, 0.1)
    (told,) = (
        w for w in report_of(with_estimates(compared, all=against_constant(-0.1, 0.3))).warnings if w.arm
    )
    assert told.fix.startswith(fix)


@pytest.mark.parametrize(
    ("options", "settings", "told"),
    [
        ({}, {"learning_rate": 0.1}, True),
        ({}, {"learning_rate": 0.2}, False),  # the reference's
        ({"learning_rate": 0.1}, {"learning_rate": 0.1}, False),  # it was given, so no epsilon moves it
        ({"settings": {"dpsgd": {"learning_rate": 0.1}}}, {"learning_rate": 0.1}, False),
        ({}, {"learning_rate": 0.1, "noise_multiplier": 0.0}, False),
        ({"key": "global"}, {"learning_rate": 1.0, "threshold": 10.0, "max_grad_norm": 1.0}, True),
        ({"key": "global"}, {"learning_rate": 2.0, "threshold": 10.0, "max_grad_norm": 1.0}, False),
    ],
)
def test_a_step_that_the_noise_shortens_is_told_beside_what_no_epsilon_removes(options, settings, told):
    """A larger epsilon comes with a longer step by rule, so "no epsilon" alone would say too much."""
    options = dict(options)
    key = options.pop("key", "dpsgd")
    settled = resolved(method=[key], **options)
    own = arm(key, settings={"noise_multiplier": 1.0, **settings})
    made = plan(settled.config, (arm("sgd", reference=None), own))
    compared = split(comparison(key, (0.001, 0.0)), "privacy_cost", 0.05, 0.045, 0.01)
    found = [gap("F", "M", value, 0.01, metric=f"privacy_cost{part}")
             for part, value in (("", 0.06), (".clipping", 0.05), (".noise", 0.01))]  # fmt: skip
    findings = AuditResults(
        settled, made, dataset(), results(made), {}, (replace(compared, gaps=tuple(found)),)
    )
    report = build_report(findings, metadata())
    (line,) = (line for line in to_markdown(report).splitlines() if line.startswith(f"- {key}: without"))
    assert ("default step is longer" in line) == told
    assert ("no epsilon removes" in line) == (not told)
    (warning,) = (w for w in report.warnings if w.code == "mostly_clipping")
    assert ("larger --epsilon" in warning.fix) == told


def at(key, risk, half):
    return with_estimates(comparison(key, (0.001, 0.0)), all={"excess_risk": estimate(risk, half, "nats")})


@pytest.mark.parametrize(
    ("small", "large", "half", "warns"),
    [
        (0.05, 0.05, 0.01, True),  # as Adult's at C = 1
        (0.05, 0.048, 0.01, True),
        (0.05, 0.001, 0.01, False),
        (0.05, 0.03, 0.004, False),  # it falls, as the intervals show
        (0.05, 0.05, 0.06, False),  # nothing could be seen
        (0.005, 0.005, 0.01, False),
    ],
)
def test_a_cost_that_does_not_fall_with_epsilon(small, large, half, warns):
    report = report_of(
        at("dpsgd@1", small, half), at("dpsgd@8", large, half), keys=("dpsgd@1", "dpsgd@8"), swept=True
    )
    assert codes(report) == ([("cost_not_falling", "dpsgd@8")] if warns else [])
    assert all("not shown to fall" in w.message for w in report.warnings if w.code == "cost_not_falling")


def test_a_cost_against_two_references_that_does_not_fall_is_told_once():
    found = [
        replace(at(key, 0.05, 0.01), reference=reference)
        for reference in ("sgd", "other")
        for key in ("dpsgd@1", "dpsgd@8")
    ]
    report = report_of(*found, keys=("dpsgd@1", "dpsgd@8"), swept=True)
    assert codes(report) == [("cost_not_falling", "dpsgd@8")]


@pytest.mark.parametrize(
    ("losses", "advice"),
    [
        ([0.7, 0.6, 0.55, 0.5, 0.47, 0.44, 0.42, 0.40], "more --epochs or a larger --learning-rate"),
        ([0.7, 0.6, 0.6, 0.61, 0.6, 0.62, 0.61, 0.62], "a smaller --learning-rate"),
        (None, "another --learning-rate, or more --epochs"),
    ],
)
def test_a_reference_that_has_not_learned_and_what_would_help(losses, advice):
    report = report_of(comparison("dpsgd", (0.001, 0.0)), comparison("sgd", reference=""),
                       losses={"sgd": losses}, sklearn_baseline=-1.0)  # fmt: skip
    (told,) = (w for w in report.warnings if w.code == "reference_undertrained")
    assert "cannot be read" in told.message
    assert told.fix.startswith(advice)
    assert "understated" not in to_markdown(report)


@pytest.mark.parametrize(
    ("losses", "fix"),
    [
        ([9.0, 8.0, 7.0, 6.0], "a smaller --learning-rate"),  # overshoots: that it falls says nothing
        ([0.693, 0.69, 0.685, 0.68], "more --epochs or a larger --learning-rate"),  # hardly began
    ],
)
def test_both_warnings_about_a_reference_that_has_not_learned_advise_the_same(losses, fix):
    own = with_estimates(comparison("sgd", reference=""), all=against_constant(-0.1, 0.1))
    private = with_estimates(comparison("dpsgd", (0.0, 0.0)), all=against_constant(-0.1, 0.1))
    report = report_of(own, private, losses={"sgd": losses, "dpsgd": losses}, sklearn_baseline=-1.0)
    fixes = {w.code: w.fix for w in report.warnings if w.arm == "sgd"}
    assert fixes["reference_undertrained"].startswith(fix)
    (told,) = (w for w in report.warnings if w.arm == "dpsgd")
    assert told.fix.startswith(fix)  # whatever its parts, which are nothing
    assert fixes["worse_than_constant"] == fixes["reference_undertrained"]


@pytest.mark.parametrize("rises", [True, False])
def test_more_epochs_are_not_advised_where_the_loss_rises(rises):
    compared = split(comparison("dpsgd", (0.001, 0.0)), "excess_risk", 0.05, 0.045, 0.01)
    report = report_of(compared, losses={"dpsgd": [0.4, 0.5, 0.6, 0.7] if rises else [0.7, 0.6, 0.5, 0.4]})
    fixes = {w.code: w.fix for w in report.warnings if w.arm}
    assert ("loss_rises" in fixes) == rises
    assert ("more --epochs" in fixes["mostly_clipping"]) == (not rises)
    assert all("--max-grad-norm" in fix for fix in fixes.values())


def test_without_twins_a_clipped_method_is_told_of_its_bound_too():
    compared = with_estimates(comparison("dpsgd", (0.001, 0.0)), all=against_constant(-0.1, 0.3))
    arms = (arm("sgd", reference=None), arm("dpsgd", settings={"learning_rate": 0.2, "max_grad_norm": 1.0}))
    settled = resolved(method=["dpsgd"])
    made = plan(settled.config, arms)
    report = build_report(AuditResults(settled, made, dataset(), results(made), {}, (compared,)), metadata())
    (told,) = (w for w in report.warnings if w.arm)
    assert "--max-grad-norm" in told.fix
    assert "--learning-rate" in told.fix


@pytest.mark.parametrize(
    ("key", "reference", "settings", "part", "still", "fix"),
    [
        ("pate-soft", "pate-soft-clean", {"teachers": 8.0, "queries": 100.0}, "partition", 0.05,
         "fewer teachers, as --settings pate-soft.teachers=4"),
        ("pate-soft", "pate-soft-clean", {"teachers": 8.0, "queries": 100.0}, "partition", 0.01,
         "a larger --epsilon, or fewer queries, as --settings pate-soft.queries=25"),
        ("output-perturbation", "exact-minimiser", {"penalty": 0.0001}, "regularisation", 0.05,
         "a smaller penalty, as --settings output-perturbation.penalty=1e-05"),
        ("output-perturbation", "exact-minimiser", {"penalty": 0.0001}, "regularisation", 0.01,
         "a larger --epsilon, or a larger penalty, as --settings output-perturbation.penalty=0.001"),
    ],
)  # fmt: skip
def test_methods_without_noised_steps_are_told_of_their_own_settings(
    key, reference, settings, part, still, fix
):
    """By the arm's own values: 50 teachers are no fewer than 8, and .001 is no smaller than .0001."""
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
    assert told.fix.startswith(fix)


def test_of_three_groups_the_parts_of_the_largest_gap_have_the_intervals_that_hold_for_all_pairs():
    """Else the sentence would show an interval without 0 beside "is not told from zero"."""
    compared = comparison("dpsgd", (0.001, 0.0))
    found = []
    for name, value in (("", 0.06), (".clipping", 0.05), (".noise", 0.015)):
        pair = gap("F", "M", value, 0.01, metric=f"privacy_cost{name}")
        shared = replace(pair.simultaneous, low=max(0.0, value - 0.03), high=value + 0.03)
        found.append(replace(pair, simultaneous=shared, direction="" if name == ".noise" else pair.direction))
    compared = split(compared, "privacy_cost", 0.001, 0.0, 0.01)
    (line,) = (
        line
        for line in to_markdown(report_of(replace(compared, gaps=tuple(found)))).splitlines()
        if line.startswith("- dpsgd: ")
    )
    assert "the gap is 5.0 [2.0, 8.0], of 6.0 [3.0, 9.0] points" in line
    assert "What the noise adds, 1.5 [-1.5, 4.5], is not told from zero" in line


def rule(text, report):
    return check(read_report(to_json(report), name="report.json"), parse_rules([text])).outcome


def test_gates_read_the_parts():
    compared = split(comparison("dpsgd", (0.001, 0.0)), "privacy_cost", 0.05, 0.045, 0.01)
    found = [gap("F", "M", value, 0.01, metric=f"privacy_cost{part}")
             for part, value in (("", 0.06), (".clipping", 0.05), (".noise", 0.01))]  # fmt: skip
    report = report_of(replace(compared, gaps=tuple(found)))
    assert rule("privacy_cost_gap.clipping > 0.02", report) == "fail"
    assert rule("privacy_cost_gap.noise > 0.03", report) == "pass"
    assert rule("privacy_cost_gap.noise > 0.015", report) == "inconclusive"
    assert rule("privacy_cost.clipping@overall > 3pt", report) == "fail"
    assert rule("privacy_cost.noise@overall > 3pt", report) == "pass"
    assert rule("privacy_cost_gap.noise.mean > 0.02", report) == "pass"
    assert rule("privacy_cost_gap.regularisation > 0.02", report) == "inconclusive"  # it has no such part
    assert rule("privacy_cost_gap.clipping > 0.02", report_of(comparison("dpsgd"))) == "inconclusive"
    for text in ("privacy_cost_gap.clipping > 0.02", "privacy_cost.noise@F > 0.02"):  # says why
        judged = check(
            read_report(to_json(report_of(comparison("dpsgd"))), name="r.json"), parse_rules([text])
        )
        assert "--no-twins" in str(judged)


def test_a_rule_about_a_part_leaves_out_methods_that_have_another():
    """As with `--method all`: output perturbation is split into regularisation and noise."""
    first, other = (
        split(comparison(key, (0.001, 0.0)), "privacy_cost", 0.05, 0.045, 0.01)
        for key in ("dpsgd", "output-perturbation")
    )
    renamed = {name.replace("clipping", "regularisation"): e for name, e in other.overall.estimates.items()}
    other = replace(other, overall=replace(other.overall, estimates=renamed))
    own = comparison("output-perturbation", (0.001, 0.0), reference="exact-minimiser")
    report = report_of(first, other, own, keys=("dpsgd", "output-perturbation"))
    for part, outcome in (("clipping", "fail"), ("regularisation", "fail"), ("noise", "pass")):
        assert rule(f"privacy_cost.{part}@overall > 2pt", report) == outcome
