"""Findings of hand-made audits: which code, about whom, with which advice."""

from collections import defaultdict

import numpy as np
import pytest
from changed import replace
from handmade import (
    arm,
    built,
    comparison,
    dataset,
    estimate,
    gap,
    plan,
    privacy,
    resolved,
    results,
)
from reports import report_of
from several import PRIVATE, several

from fairaudit.analysis.family import family
from fairaudit.cli.lines_gate import verdict_lines
from fairaudit.gate.check import check, with_verdict
from fairaudit.gate.grammar import parse_rules
from fairaudit.methods.catalog import Guarantee, catalog
from fairaudit.planning.flow import Audit
from fairaudit.report.conditions import arms_with_harm, with_findings
from fairaudit.report.group_rows import group_tables
from fairaudit.report.messages.base import Subject
from fairaudit.report.messages.catalog import messages
from fairaudit.report.messages.health import RuleFailed
from fairaudit.report.model import Study
from fairaudit.report.parts import split_gap
from fairaudit.results.estimates import ClassShare, ConstantAnswer, Interval

COSTS = ("privacy_cost", "excess_risk")
# What the rules set for the two columns of the hand-made table, and for its noise.
BY_RULE = {"learning_rate": 0.667, "max_grad_norm": 2.449, "noise_multiplier": 0.001}
SGD = arm("sgd", reference=None, settings={"learning_rate": 0.667})
DPSGD = arm("dpsgd", settings=BY_RULE)


def report_with(*compared, arms=None, losses=None, baseline=1.0, **settings):
    """A report of these comparisons; ``losses``: arm -> training loss by epoch."""
    compared = compared or (comparison("dpsgd"),)
    if arms is None:
        own = {**BY_RULE, **settings}
        arms = [SGD]
        for key in dict.fromkeys(c.arm for c in compared):
            target = float(key.partition("@")[2] or 3.2)
            guarantee = privacy(target_epsilon=target)
            arms.append(arm(key, settings=own, privacy=guarantee))
    settled = resolved(method=["dpsgd"])
    made = plan(settled.config, tuple(arms))
    found = results(made, sklearn_baseline=baseline)
    for job in made.jobs:
        arrays = {
            name: a for name, a in found[job.id].arrays.items() if not name.startswith("trace")
        }
        if losses and job.arm in losses:
            series = [[[loss, loss]] for loss in losses[job.arm]]
            arrays |= {
                "trace.loss": np.array(series, np.float32),
                "trace_steps.loss": range(len(series)),
            }
        found[job.id] = replace(found[job.id], arrays=arrays)
    return built(Audit(settled, made, dataset(), found, {}, compared))


def risk(value, half=0.02):
    made = gap("F", "M", value, half, metric="excess_risk")
    return replace(made, signed=replace(made.signed, unit="nats"))


def laid(compared, **overall):
    """The comparison with these estimates of all rows."""
    known = {**compared.overall.estimates, **overall}
    return replace(compared, overall=replace(compared.overall, estimates=known))


def in_parts(key="dpsgd", half=0.005, reference="sgd", **parts):
    """A comparison whose cost over all rows, and its gap, have these parts."""
    total, overall = sum(parts.values()), {}
    if len(parts) == 3:
        parts["step_and_noise"] = parts["step"] + parts["noise"]
    for cost in COSTS:
        unit = "nats" if cost == "excess_risk" else "fraction"
        overall[cost] = estimate(total, half, unit)
        for part, value in parts.items():
            overall[f"{cost}.{part}"] = estimate(value, half, unit)
    made = comparison(key, (0.04 + total, 0.04), half=half, reference=reference)
    gaps = [made.gaps[0]]
    for part, value in parts.items():
        gaps.append(gap("F", "M", value, half, metric=f"privacy_cost.{part}"))
    return replace(laid(made, **overall), gaps=tuple(gaps))


def codes_of(report, arm=None):
    return [f.code for f in report.findings if arm is None or f.arm == arm]


def only(report, code):
    (finding,) = (f for f in report.findings if f.code == code)
    return finding


def knobs(report, code):
    return [f.advice and f.advice.knob for f in report.findings if f.code == code]


@pytest.mark.parametrize(("costs", "payer"), [((0.041, 0.012), "F"), ((0.012, 0.041), "M")])
def test_a_gap_names_first_who_pays_more_with_what_each_pays(costs, payer):
    finding = only(report_with(comparison("dpsgd", costs)), "gap")
    assert finding.groups[0] == payer
    assert (finding.arm, finding.grouping, finding.measure) == ("dpsgd", "sex", "privacy_cost")
    assert finding.numbers["size"].value == pytest.approx(0.029)
    assert finding.numbers["cost_a"].value == pytest.approx(0.041)
    assert finding.numbers["cost_b"].value == pytest.approx(0.012)
    other = {"F": "M", "M": "F"}[payer]
    assert finding.text == (
        f"{payer} pays 4.1 points of accuracy [2.7, 5.5], {other} 1.2 [-0.2, 2.6]: a gap of "
        "2.9 [1.2, 4.6]."
    )
    assert finding.short == f"2.9 points of accuracy [1.2, 4.6] more for {payer} than for {other}"


def test_groups_that_both_gain_do_not_pay():
    finding = only(report_with(comparison("dpsgd", (-0.012, -0.041))), "gap_gained")
    assert finding.groups == ("F", "M")
    assert finding.numbers["size"].value == pytest.approx(0.029)
    gains = finding.numbers["gain_a"], finding.numbers["gain_b"]
    assert [gain.value for gain in gains] == pytest.approx([0.012, 0.041])
    assert gains[1].low < gains[1].value < gains[1].high


def test_a_group_that_gains_beside_one_that_pays_is_said_to_do_better():
    finding = only(report_with(comparison("dpsgd", (0.041, -0.012))), "gap_opposed")
    assert finding.text == (
        "F pays 4.1 points of accuracy [2.7, 5.5], M does better by 1.2 [-0.2, 2.6]: a gap of "
        "5.3 [3.6, 7.0]."
    )
    # What is written as 0 is no gain.
    assert only(report_with(comparison("dpsgd", (0.041, -0.0004))), "gap")


def test_a_rate_that_falls_for_one_group_and_rises_for_another_is_said_of_each():
    finding = only(report_with(in_rates((0.061, -0.012))), "rate_gap_opposed")
    assert finding.text == (
        "The true positive rate falls: F by 6.1 points [4.7, 7.5]; it rises: M by 1.2 [-0.2, 2.6] "
        "(difference 7.3 [5.6, 9.0])."
    )
    assert finding.short == (
        "the true positive rate falls, F by 6.1 points, and it rises, M by 1.2 (difference 7.3 "
        "[5.6, 9.0])"
    )


@pytest.mark.parametrize(
    ("costs", "most"), [((0.041, 0.012), "5.9"), ((0.012, 0.041), "5.9"), ((0.012, 0.012), "3")]
)
def test_where_no_gap_is_detected_what_lies_beyond_its_interval_is_ruled_out(costs, most):
    """The interval is the gap's own, whichever of its ends is the farther from zero."""
    report = report_with(comparison("dpsgd", costs, half=0.03))
    finding = only(report, "no_gap")
    assert finding.numbers["most"].value == pytest.approx(abs(costs[0] - costs[1]) + 0.03)
    assert finding.text == (
        "No difference in cost between F and M is detected; a gap of more than "
        f"{most} points of accuracy is ruled out."
    )
    assert finding.advice is None
    assert "not_certain" not in codes_of(report)


def uncertain():
    """A gap whose own interval excludes zero, by seeds that say little beside other tests."""
    made = comparison("dpsgd", half=0.027)
    signed = replace(made.gaps[0].signed, training_sd=0.0097, records_sd=0.0)
    return replace(made, gaps=(replace(made.gaps[0], signed=signed),))


def turned(f, m):
    """Clipping turns the steps away from F and M by so many degrees."""
    made = comparison("dpsgd")
    groups = []
    for group, degrees in zip(made.by_group, (f, m), strict=True):
        own = {"misalignment": estimate(degrees, 1.0, "degrees")}
        groups.append(replace(group, estimates=group.estimates | own))
    own = gap("F", "M", f - m, 1.5, metric="misalignment")
    own = replace(own, signed=estimate(f - m, 1.5, "degrees", training_sd=0.3, records_sd=0.4))
    return replace(made, by_group=tuple(groups), gaps=(*made.gaps, own))


@pytest.mark.parametrize(
    ("degrees", "said"),
    [
        ((26.8, 2.7), "away from F by 27 degrees, from M by 2.7: F is trained less than"),
        ((2.7, 26.8), "away from M by 27 degrees, from F by 2.7: M is trained less than"),
        ((8.2, -3.1), "away from F by 8.2 degrees and towards M by 3.1: F is trained less than"),
        ((3.0, 2.5), ""),  # less than a degree apart
        ((-2.0, -9.0), ""),  # no group is turned away from
    ],
)
def test_from_whom_clipping_turns_training_away_is_said_where_it_is_told(degrees, said):
    texts = [f.text for f in report_with(turned(*degrees)).findings if f.code.startswith("turned")]
    assert len(texts) == bool(said)
    assert all(said in text for text in texts)


def test_a_gap_by_its_own_interval_alone_is_not_certain():
    """Beside the other tests of the report it is not detected."""
    report = report_with(uncertain())
    finding = only(report, "not_certain")
    assert "gap" not in codes_of(report)
    assert finding.groups == ("F", "M")
    assert finding.text == (
        "Not certain, one of 1 comparisons: 2.9 points of accuracy [0.2, 5.6] more for F than for "
        "M."
    )


def test_without_an_interval_no_gap_is_told_and_none_excluded():
    made = comparison("dpsgd")
    one = estimate(0.029, reason="one seed")
    bare = replace(made.gaps[0], signed=one, direction="", gated=False, reason="x")
    finding = only(report_with(replace(made, gaps=(bare,))), "gap_unknown")
    assert finding.reason == "one seed"


def test_of_three_groups_the_pair_that_is_told_apart_stands_for_the_open_largest_gap():
    """The largest gap, A against C, is open; B is shown to pay more than C."""
    made = comparison("dpsgd", (0.05, 0.03, 0.0), names=("A", "B", "C"))
    pairs = [gap("A", "B", 0.02, 0.06), gap("A", "C", 0.05, 0.06), gap("B", "C", 0.03, 0.004)]
    made = replace(made, gaps=(*pairs, gap("A", "C", 0.05, 0.06, kind="max")))
    arms = (SGD, arm("dpsgd", settings=BY_RULE))
    report = report_of(made, arms=arms, names="ABC", method=["dpsgd"])
    assert only(report, "gap").groups == ("B", "C")


# step, clipping, noise; settings of the arm -> code and advice of the part
PARTS = {
    "clipping": (0.003, 0.05, 0.01, {}, "from_clipping", "bound up"),
    "noise and a step by rule, neither of which is half": (
        *(0.025, 0.022, 0.02, {"by rule": True}, "from_step_and_noise", "epsilon up"),
    ),
    "a short step that is given": (
        *(0.035, 0.02, 0.01, {"learning_rate": 0.1}, "from_step", "step by rule"),  # just over half
    ),
    "a given step that the rule would shorten": (
        *(0.05, 0.003, 0.01, {"learning_rate": 1.0}, "from_step", "epsilon up"),
    ),
    "a step that is far too long": (
        *(0.05, 0.003, 0.01, {"learning_rate": 50.0}, "from_step", "step by rule"),
    ),
    "a step by rule": (0.05, 0.003, 0.01, {"by rule": True}, "from_step_and_noise", "epsilon up"),
    "a step by rule that is short for a large bound": (
        0.05,
        0.003,
        0.01,
        {"by rule": True, "max_grad_norm": 30.0},
        "from_step_and_noise",
        "bound by rule",
    ),
    "noise": (0.003, 0.01, 0.05, {}, "from_noise", "epsilon up"),
    "noise of a long step": (
        *(0.003, 0.01, 0.05, {"learning_rate": 2.0}, "from_noise", "step by rule"),
    ),
    "noise of a long step by rule": (
        0.003,
        0.01,
        0.05,
        {"by rule": True, "learning_rate": 2.0},
        "from_step_and_noise",
        "epsilon up",
    ),
    "noise of a large bound": (
        *(0.003, 0.01, 0.05, {"max_grad_norm": 30.0}, "from_noise", "bound by rule"),
    ),
}


@pytest.mark.parametrize("case", PARTS)
def test_advice_follows_the_largest_part_and_who_chose_the_settings(case):
    step, clipping, noise, settings, code, knob = PARTS[case]
    by_rule = "by rule" in settings
    settings = {name: value for name, value in settings.items() if name != "by rule"}
    arms = (SGD, arm("dpsgd", settings={**BY_RULE, **settings}, step_by_rule=by_rule))
    report = report_with(in_parts(step=step, clipping=clipping, noise=noise), arms=arms)
    assert [c for c in codes_of(report) if c.startswith("from_")] == [code]
    finding = only(report, code)
    assert finding.groups == ("F", "M")
    numbers = {name: number.value for name, number in finding.numbers.items()}
    expected = {"step": step, "clipping": clipping, "noise": noise, "step_and_noise": step + noise}
    assert numbers == pytest.approx({"total": step + clipping + noise, **expected})
    assert (finding.advice and finding.advice.knob) == knob


def test_parts_that_are_not_told_from_zero_are_not_named():
    report = report_with(in_parts(step=0.05, clipping=0.0, noise=0.02, half=0.055))
    assert not [code for code in codes_of(report) if code.startswith("from_")]


class Searched(Study):
    """Of four settings."""

    @property
    def settings_tried(self):
        return 4


def test_arms_of_which_harm_is_told_are_those_whose_cost_is_split():
    """A gap, a cost of all rows, ill health; not an arm of which nothing is detected."""
    keys = ("dpsgd@1", "dpsgd@2", "dpsgd@3", "dpsgd@4")
    nothing = [comparison(key, (0.01, 0.01), half=0.05) for key in keys]
    assert arms_with_harm(report_with(*nothing)) == set()
    gap_told = comparison(keys[1])
    cost_told = laid(nothing[2], excess_risk=estimate(0.04, 0.01, "nats"))
    only_by_itself = laid(nothing[2], excess_risk=estimate(0.02, 0.015, "nats"))
    assert arms_with_harm(report_with(*nothing[:2], only_by_itself)) == set()
    constant = {"privacy_cost.constant": estimate(0.1, 0.01)}
    ill = laid(nothing[3], **constant)
    assert arms_with_harm(report_with(nothing[0], gap_told, cost_told, ill)) == set(keys[1:])


def test_parts_of_a_gap_have_their_own_intervals_in_the_order_of_the_gap():
    """The gap is held as M less F, its part of noise as F less M; that one is not told apart."""
    found = [gap("M", "F", -0.06, 0.01)]
    found.append(gap("M", "F", -0.05, 0.01, metric="privacy_cost.clipping"))
    found.append(gap("F", "M", 0.015, 0.01, metric="privacy_cost.noise", direction=""))
    compared = replace(in_parts(clipping=0.05, noise=0.01), gaps=tuple(found))
    split = split_gap(compared, "privacy_cost", found[0])
    clipping, noise = split.parts
    assert (split.a, split.b, split.total.value) == ("F", "M", 0.06)
    assert (clipping.number.low, clipping.number.high) == pytest.approx((0.04, 0.06))
    assert (noise.number.low, noise.number.high) == pytest.approx((0.005, 0.025))
    assert (clipping.is_above, noise.is_above) == (True, False)


PATE = ("pate-soft", "pate-soft-clean", {"teachers": 8.0, "queries": 100.0}, "partition")
MINIMISER = ("output-perturbation", "exact-minimiser", {"penalty": 0.0001}, "regularisation")


def own_settings(method, still, noise):
    key, reference, settings, name = method
    arms = [arm(each, reference=None, settings=settings) for each in ("sgd", reference)]
    arms.append(arm(key, reference=reference, settings=settings))
    parts = {name: still, "noise": noise}
    return report_with(in_parts(key, reference=reference, **parts), arms=arms)


@pytest.mark.parametrize(
    ("method", "still", "code", "advice"),
    [
        (PATE, 0.05, "from_partition", "pate-soft.teachers=4"),
        (PATE, 0.001, "from_noise", "epsilon"),
        (MINIMISER, 0.05, "from_regularisation", ""),  # a smaller penalty's noise would cost more
        (MINIMISER, 0.001, "from_noise", "epsilon"),
    ],
)
def test_methods_without_noised_steps_are_told_of_their_own_settings(method, still, code, advice):
    given = only(own_settings(method, still=still, noise=0.03), code).advice
    assert bool(given) == bool(advice)
    assert given is None or advice in given.text


def test_a_smaller_penalty_is_advised_where_its_noise_would_cost_less():
    report = own_settings(MINIMISER, still=0.05, noise=0.0003)
    given = only(report, "from_regularisation").advice
    assert "output-perturbation.penalty=1e-05" in given.text


def test_what_would_decide_an_open_rule_is_reckoned_from_its_interval():
    """Seeds where they are most of it, else rows; neither where it would take far too many."""
    made = comparison("dpsgd", half=0.02)

    def open_rule(training, records, limit=2):
        signed = replace(made.gaps[0].signed, training_sd=training, records_sd=records)
        report = report_with(replace(made, gaps=(replace(made.gaps[0], signed=signed),)))
        rules = parse_rules([f"privacy_cost_gap > {limit} points"])
        return only(with_verdict(report, check(report, rules)), "rule_open").advice

    # .009 from the limit: t of 9 degrees times .007 / sqrt 2 is .0112, t of 14 times .004 is .0087.
    assert open_rule(0.007, 0.0).text == "--seeds 15 would decide the rule"
    # The half width of .0225 must fall to .009: 382 rows times 6.27 are 2,393.
    assert open_rule(0.004, 0.01).text == "about 2,400 test rows would decide the rule"
    assert open_rule(0.004, 0.01, limit=2.899) is None


@pytest.mark.parametrize(
    ("cost", "added", "measure"),
    [(-0.1, -0.2, None), (-0.1, 0.005, "excess_risk"), (0.004, -0.2, "privacy_cost")],
)
def test_worse_than_a_constant_model(cost, added, measure):
    overall = {
        "privacy_cost.constant": estimate(cost, 0.01),
        "excess_risk.constant": estimate(added, 0.01, "nats"),
    }
    report = report_with(laid(comparison("dpsgd"), **overall))
    found = [f.measure for f in report.findings if f.code == "worse_than_constant"]
    assert found == ([] if measure is None else [measure])


@pytest.mark.parametrize(
    ("losses", "is_told"),
    [
        ([0.7, 0.6, 0.5, 0.4, 0.35, 0.33, 0.32, 0.31], False),
        ([0.7, 0.6, 0.5, 0.45, 0.5, 0.6, 0.65, 0.7], True),
        ([0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.502, 0.503], False),  # within the noise of batches
        ([0.5, 0.9, 0.9], False),  # too few readings to tell
    ],
)
def test_a_training_loss_that_rises(losses, is_told):
    assert ("loss_rises" in codes_of(report_with(losses={"dpsgd": losses}))) == is_told


def undertrained(losses, step=0.667):
    arms = (arm("sgd", reference=None, settings={"learning_rate": step}), arm("dpsgd"))
    report = report_with(arms=arms, losses={"sgd": losses}, baseline=1.0)
    check = report.sklearn_baseline.model_copy(
        update={"undertrained": True, "reference_accuracy": 0.7}
    )
    return with_findings(report.model_copy(update={"sklearn_baseline": check}))


@pytest.mark.parametrize(
    ("losses", "step", "knob"),
    [
        ([0.7, 0.6, 0.5, 0.4], 0.667, "epochs up"),
        ([0.4, 0.5, 0.6, 0.7], 0.667, "step down"),
        ([0.4, 0.5, 0.6, 0.7], 5.0, "step by rule"),
    ],
)
def test_an_undertrained_reference_is_advised_by_its_step_and_its_loss(losses, step, knob):
    assert knobs(undertrained(losses, step), "reference_undertrained") == [knob]


def beside_matched(matched):
    arms = (
        *(SGD, arm("global-adapt", settings={**BY_RULE, "threshold": 3.0})),
        arm("dpsgd-matched", source="global-adapt", settings=BY_RULE),
    )
    return report_with(
        comparison("global-adapt", (0.061, 0.012)), comparison("dpsgd-matched", matched), arms=arms
    )


@pytest.mark.parametrize(
    ("matched", "code"),
    [
        ((0.102, 0.012), "matched_worse"),
        ((0.061, 0.022), "matched_alike"),
        ((0.012, 0.012), "matched_better"),
    ],
)
def test_a_method_is_held_against_matched_clipping_by_the_intervals_of_the_gaps(matched, code):
    finding = only(beside_matched(matched), code)
    assert (finding.arm, finding.reference) == ("global-adapt", "dpsgd-matched")
    assert "control_not_run" not in [w.code for w in beside_matched(matched).warnings]


def ablation():
    keys = ("clipped", "magnitude-only", "direction-only")
    arms = (SGD, *(arm(key, privacy=privacy(Guarantee.NONE)) for key in keys))
    costs = ((0.05, 0.01), (0.04, 0.01), (0.012, 0.01))
    return report_with(*map(comparison, keys, costs), arms=arms)


def test_the_half_of_clipping_with_a_gap_of_its_own_is_named():
    assert only(ablation(), "clipping_halves").reason == "magnitude-only"


def self_check(costs=(0.041, 0.012)):
    arms = (SGD, arm("dpsgd"), arm("dpsgd#self-check", reference="dpsgd"))
    return report_with(
        comparison("dpsgd"), comparison(arms[2].key, costs, reference="dpsgd"), arms=arms
    )


def test_an_arm_that_differs_from_itself_is_told_and_not_shipped():
    assert codes_of(self_check(), "dpsgd#self-check") == ["self_check_failed"]
    assert codes_of(self_check((0.001, 0.0)), "dpsgd#self-check") == []


def judged(limit, half=0.017):
    report = report_with(comparison("dpsgd", half=half))
    rules = parse_rules([f"privacy_cost_gap > {limit} points"])
    return with_verdict(report, check(report, rules))


@pytest.mark.parametrize(
    ("limit", "code", "knob"),
    [(1, "rule_failed", None), (2, "rule_open", "rows up"), (5, "rule_met", None)],
)
def test_what_a_rule_says_stands_first_beside_its_number(limit, code, knob):
    report = judged(limit)
    first = report.findings[0]
    assert (first.code, first.arm) == (code, "dpsgd")
    assert knobs(report, code) == [knob]
    assert first.numbers["value"].value == pytest.approx(0.029)
    unit = "point" if limit == 1 else "points"
    assert first.text.startswith(f"gap of privacy cost at most {limit} {unit}: 2.9 [1.2, 4.6]")
    again = with_verdict(report, check(report, parse_rules(["privacy_cost_gap > 5 points"])))
    assert [f.code for f in again.findings if f.code.startswith("rule")] == ["rule_met"]


@pytest.mark.parametrize(
    ("before", "words"), [(0.05, "6.0 [4.3, 7.7]; 5.0 without privacy."), (0.01, "6.0 [4.3, 7.7].")]
)
def test_a_rule_that_fails_without_privacy_too_says_so(before, words):
    gaps = [
        replace(comparison(key), gaps=(gap("F", "M", of, 0.017, metric="accuracy"),))
        for key, of in (("sgd", before), ("dpsgd", 0.06))
    ]
    report = report_with(replace(gaps[0], reference=""), gaps[1])
    report = with_verdict(report, check(report, parse_rules(["accuracy_gap > 3 points"])))
    failed = [f for f in report.findings if (f.code, f.arm) == ("rule_failed", "dpsgd")]
    assert [f.text for f in failed] == [f"gap of accuracy at most 3 points: {words}"]


@pytest.mark.parametrize("others", [(), ("exact-minimiser",)])
def test_a_gap_within_a_model_is_told_with_the_sign_that_the_table_gives_it(others):
    # F gains 4 points, so M stands first in the table; beside another reference F pays more.
    within = gap("F", "M", 0.03, 0.01, metric="selection_rate")
    compared = [
        replace(made, gaps=(*made.gaps, within))
        for made in (
            *(comparison("dpsgd", (0.03, 0.0), reference=key) for key in others),
            comparison("dpsgd", (-0.04, 0.0)),
        )
    ]
    report = report_with(*compared, arms=(SGD, DPSGD, *(arm(o, reference=None) for o in others)))
    report = with_verdict(report, check(report, parse_rules(["selection_rate_gap > 1 points"])))
    (table,) = (t for t in group_tables(report) if t.arm == "dpsgd")
    assert [row.groups for row in table.rows if row.kind == "gap"] == [("M", "F")]
    (text,) = (f.text for f in report.findings if (f.code[:4], f.arm) == ("rule", "dpsgd"))
    assert text.startswith("gap of selection rate at most 1 point: -3.0 [-4.0, -2.0]")


def test_advice_of_an_open_rule_stands_with_the_rules_on_that_method():
    # One limit for two methods: dpsgd's gap of 2.9 points is open at 2, global's of .5 passes.
    report = report_with(
        comparison("dpsgd", half=0.017),
        comparison("global", (0.005, 0.0), half=0.001),
        arms=(SGD, DPSGD, arm("global")),
    )
    rules = [f"privacy_cost_gap:{key} > 2 points" for key in ("dpsgd", "global")]
    report = with_verdict(report, check(report, parse_rules(rules)))
    assert [gate.outcome for gate in report.gates] == ["inconclusive", "pass"]
    of_open, of_passed = " ".join(verdict_lines(report, None)).split("Gate pass")
    (advice,) = (f.advice.text for f in report.findings if f.code == "rule_open")
    assert advice in of_open
    assert advice not in of_passed


def test_both_numbers_of_a_rule_are_by_one_order_of_groups():
    # F gains 4 points, so M stands first; F is chosen more often, by 5 points without privacy.
    with_privacy = gap("F", "M", 0.03, 0.004, metric="selection_rate")
    without = gap("F", "M", 0.05, 0.004, metric="selection_rate")
    private = comparison("dpsgd", (-0.04, 0.0))
    reference = comparison("sgd", (0.0, 0.0), reference="")
    report = report_with(
        replace(reference, gaps=(without,)),
        replace(private, gaps=(*private.gaps, with_privacy)),
        arms=(SGD, DPSGD),
    )
    report = with_verdict(report, check(report, parse_rules(["selection_rate_gap > 1 points"])))
    (text,) = (f.text for f in report.findings if (f.code[:4], f.arm) == ("rule", "dpsgd"))
    assert "-3.0 [-3.4, -2.6]" in text
    assert "; -5.0 without privacy." in text


@pytest.mark.parametrize(
    ("groups", "place"), [(("ga", "co"), ", ga and co"), (("F", "M"), "")], ids=["letters", "words"]
)
def test_groups_whose_letters_occur_in_a_rule_are_named_beside_it(groups, place):
    rule = RuleFailed(
        Subject(arm="dpsgd", grouping="team", groups=groups, measure="privacy_cost"),
        value=Interval(value=0.05, low=None, high=None),
        reason="gap of privacy cost between F and M at most 3 points",
        is_one_of_many=True,
    )
    assert rule.own_words["place"] == place


def test_a_rule_that_other_groups_could_decide_names_those_that_do():
    report = report_with(comparison("dpsgd", (0.08, 0.012)))
    rules = parse_rules(["privacy_cost > 3 points", "privacy_cost@sex=F > 2 points"])
    report = with_verdict(report, check(report, rules))
    first, second = (f.text for f in report.findings if f.code.startswith("rule"))
    assert first.endswith("], F.")
    assert "F" in second  # whom the rule itself names
    assert second.endswith("].")


def test_a_rule_on_a_rate_says_on_how_few_rows_it_rests():
    made = in_rates((0.061, 0.012))
    groups = []
    for group, rows in zip(made.by_group, (36, 35), strict=True):
        rate = group.estimates["tpr_cost"].model_copy(update={"n_test": rows})
        groups.append(replace(group, estimates={**group.estimates, "tpr_cost": rate}))
    report = report_with(replace(made, by_group=tuple(groups)))
    report = with_verdict(report, check(report, parse_rules(["tpr_cost_gap > 3 points"])))
    (text,) = (f.text for f in report.findings if f.code.startswith("rule"))
    assert text.endswith("4.9 [3.2, 6.6], from 36 and 35 rows.")


def test_only_what_could_be_shipped_is_told_what_it_costs():
    unproved = privacy(Guarantee.NOT_ESTABLISHED, "as published")
    arms = (
        *(SGD, arm("global-adapt", settings={**BY_RULE, "threshold": 3.0})),
        arm("dpsgd-matched", source="global-adapt"),
        arm("dpsgd:as-published", privacy=unproved),
    )
    compared = [comparison(each.key, reference=each.reference) for each in arms[1:]]
    report = report_with(*compared, arms=arms)
    assert {f.arm for f in report.findings if f.code == "gap"} == {"global-adapt"}
    alone = report_with(compared[2], arms=(arms[0], arms[3]))
    assert {f.arm for f in alone.findings if f.code == "gap"} == {"dpsgd:as-published"}


def in_rates(costs, half=0.017):
    """A true positive rate that falls or rises so by group."""
    made = comparison("dpsgd", costs, half=half)
    known = [
        group.estimates | {"tpr_cost": group.estimates["privacy_cost"]} for group in made.by_group
    ]
    groups = [replace(group, estimates=of) for group, of in zip(made.by_group, known, strict=True)]
    own = gap("F", "M", costs[0] - costs[1], half, metric="tpr_cost")
    return replace(made, by_group=tuple(groups), gaps=(gap("F", "M", 0.0, half), own))


@pytest.mark.parametrize(
    ("costs", "code"), [((0.061, 0.012), "rate_gap"), ((-0.012, -0.061), "rate_gap_risen")]
)
def test_a_rate_falls_or_rises_and_is_not_paid(costs, code):
    finding = only(report_with(in_rates(costs)), code)
    assert (finding.groups, finding.measure) == (("F", "M"), "tpr_cost")
    assert finding.numbers["size"].value == pytest.approx(0.049)


def in_opposite_measures():
    """Accuracy is lost by F, a true positive rate by M; both detected."""
    made = in_rates((0.012, 0.061))
    return replace(made, gaps=(gap("F", "M", 0.05, 0.017), made.gaps[1]))


def test_measures_that_differ_in_who_pays_more_are_set_side_by_side():
    report = report_with(in_opposite_measures())
    assert only(report, "payers_differ").text == (
        "Measures differ in who pays more: by accuracy F, by true positive rate M."
    )
    gained = in_rates((-0.061, -0.012))  # nobody pays in the rate
    gained = report_with(replace(gained, gaps=(gap("F", "M", 0.05, 0.017), gained.gaps[1])))
    assert "payers_differ" not in codes_of(gained, "dpsgd")
    alike = in_rates((0.061, 0.012))
    alike = report_with(replace(alike, gaps=(gap("F", "M", 0.05, 0.017), alike.gaps[1])))
    assert "payers_differ" not in codes_of(alike, "dpsgd")


def in_ratios(before, after):
    """F's impact ratio without and with privacy: value, half of the interval; M's is 1."""
    made = comparison("dpsgd", (0.01, 0.01))
    ratios = {
        "reference.impact_ratio": estimate(*before, "ratio"),
        "impact_ratio": estimate(*after, "ratio"),
    }
    first, *others = (
        replace(group, estimates={**group.estimates, "impact_ratio": estimate(1.0, 0.0, "ratio")})
        for group in made.by_group
    )
    first = replace(first, estimates={**first.estimates, **ratios})
    return replace(made, by_group=(first, *others))


def rate_fell():
    costs = dict.fromkeys((*COSTS, "tpr_cost"), estimate(0.05, 0.01))
    return report_with(laid(in_rates((0.01, 0.01), 0.05), **costs))


WORLDS = {
    "gap": lambda: judged(1),
    "gain": lambda: report_with(comparison("dpsgd", (-0.012, -0.041))),
    "open": lambda: judged(2),
    "met": lambda: judged(5),
    "rate gap": lambda: report_with(in_rates((0.061, 0.012))),
    "payers differ": lambda: report_with(in_opposite_measures()),
    "gap both ways": lambda: report_with(comparison("dpsgd", (0.041, -0.012))),
    "rates both ways": lambda: report_with(in_rates((0.061, -0.012))),
    "rates rise": lambda: report_with(in_rates((-0.012, -0.061))),
    "rate fell": rate_fell,
    "step by rule": lambda: report_with(
        in_parts(step=0.05, clipping=0.003, noise=0.01),
        arms=(SGD, arm("dpsgd", settings=BY_RULE, step_by_rule=True)),
    ),
    "no gap": lambda: report_with(comparison("dpsgd", half=0.03)),
    "unknown": lambda: report_with(replace(comparison("dpsgd"), gaps=(ungated(),))),
    "lost": lambda: report_with(losing(("F", 0, -0.06, 2), ("M", 1, -0.06, 3), ("M", 0, -1e-3, 3))),
    "step": lambda: report_with(in_parts(step=0.05, clipping=0.003, noise=0.01)),
    "clipping": lambda: report_with(in_parts(step=0.003, clipping=0.05, noise=0.01)),
    "both": lambda: report_with(in_parts(step_and_clipping=0.05, noise=0.01)),
    "own code": lambda: report_with(in_parts(without_noise=0.05, noise=0.01)),
    "noise": lambda: report_with(in_parts(step=0.003, clipping=0.01, noise=0.05)),
    "partition": lambda: own_settings(PATE, still=0.05, noise=0.02),
    "penalty": lambda: own_settings(MINIMISER, still=0.05, noise=0.02),
    "sick": lambda: report_with(sick(), losses={"dpsgd": [0.4, 0.4, 0.5, 0.6]}),
    "undertrained": lambda: undertrained([0.7, 0.6, 0.5, 0.4]),
    "worse": lambda: beside_matched((0.102, 0.012)),
    "alike": lambda: beside_matched((0.061, 0.022)),
    "better": lambda: beside_matched((0.012, 0.012)),
    "halves": ablation,
    "self-check": self_check,
    "not certain": lambda: report_with(uncertain()),
    "one answer": lambda: one_answer(("F", True, True), ("M", True, False), reference=("F",)),
    "perhaps one answer": lambda: one_answer(("F", False, False)),
    "ratio rises": lambda: report_with(in_ratios((0.6, 0.05), (0.95, 0.05))),
    "ratio perhaps": lambda: report_with(in_ratios((0.95, 0.05), (0.75, 0.08))),
    "turned": lambda: report_with(turned(26.8, 2.7)),
    "turned apart": lambda: report_with(turned(8.2, -3.1)),
}


def losing(*lost):
    """Groups, classes, how far the share lies below a fifth, how many classes are given."""
    shares = []
    for group, answer, kept, given in lost:
        share = ClassShare(
            group=group,
            answer=answer,
            private=estimate(0.0, 0.001),
            reference=estimate(0.3, 0.02),
            kept=estimate(kept, 0.002),
            given=given,
            looked_at=6,
        )
        shares.append(share)
    return replace(comparison("dpsgd"), doubtful=tuple(shares))


def one_answer(*found, reference=()):
    """Groups that the arm, and the reference by itself, give one answer: certain, every row."""
    made = []
    for group, is_certain, is_every in found:
        one = ConstantAnswer(
            group=group,
            answer=0,
            other=estimate(0.0 if is_every else 0.02, 0.01),
            truth=0.4,
            is_every_row=is_every,
            is_certain=is_certain,
        )
        made.append(one)
    alone = [one for one in made if one.group in reference]
    beside = replace(comparison("sgd", reference=""), gaps=(), constant=tuple(alone))
    return report_with(
        replace(comparison("dpsgd"), constant=tuple(made)), beside, arms=(SGD, DPSGD)
    )


def test_one_answer_for_everybody_is_a_fact_about_one_model():
    report = one_answer(("F", True, True), ("M", False, False), reference=("F",))
    assert codes_of(report, "sgd") == ["constant_reference"]
    assert only(report, "constant").text == (
        "Gives every F the answer approved = 0; so does the model without privacy."
    )
    assert only(report, "constant_unknown").text == (
        "Cannot tell whether M get another answer than approved = 0: 2.0 % of them do, where "
        "40.0 % would be right."
    )
    alone = one_answer(("F", True, False))
    assert "so does" not in only(alone, "nearly_constant").text
    assert codes_of(alone, "sgd") == []


def test_no_heading_is_healthy_where_a_rule_on_lost_classes_would_fail():
    """Of a control, and beside a reference that is not sgd, too."""
    lost = losing(("F", 0, -0.06, 2))
    control = arm("dpsgd-matched", source="global-adapt", settings=BY_RULE)
    first = arm("global-adapt", settings={**BY_RULE, "threshold": 3.0})
    report = report_with(
        comparison("global-adapt"), replace(lost, arm="dpsgd-matched"), arms=(SGD, first, control)
    )
    assert "one_answer" in codes_of(report, "dpsgd-matched")
    own = own_settings(MINIMISER, still=0.001, noise=0.03)
    (beside,) = (c for c in own.costs if c.reference == "exact-minimiser")
    judged_so = family((replace(beside, doubtful=lost.doubtful),)).comparisons
    others = tuple(c for c in own.comparisons if c is not beside)
    again = with_findings(replace(own, comparisons=(*others, *judged_so)))
    assert "one_answer" in codes_of(again, "output-perturbation")


def ungated():
    return replace(comparison("dpsgd").gaps[0], direction="", gated=False, reason="too few rows")


def sick():
    """Noise is most of the cost over all rows, clipping of the gap; a constant is better."""
    made = in_parts(step=0.003, clipping=0.05, noise=0.01)
    worse = {f"{cost}.constant": estimate(0.05, 0.01) for cost in COSTS}
    noisy = {"excess_risk.clipping": estimate(0.01, 0.005), "excess_risk.noise": estimate(0.05)}
    return laid(made, **worse, **noisy)


@pytest.fixture(scope="module")
def worlds():
    return {name: make() for name, make in WORLDS.items()}


def test_every_finding_is_reached(worlds):
    reached = {code for report in worlds.values() for code in codes_of(report)}
    elsewhere = {"at_edge", "search_raised_loss", "above_ceiling"}  # tests/tuning, tests/leakage
    elsewhere |= {"chance_gap", "chance_added"}  # tests/disagreement
    of_findings = {code for code, message in messages().items() if message.level == "finding"}
    assert reached == of_findings - elsewhere


NORMALISED = "dpsgd-matched"  # made to be one that sets all gradients to the bound
# advice on options that all arms share, of which a report may give one of a pair
OPPOSED = [("bound up", "bound by rule"), ("step down", "step by rule")]
BESIDE = ("seeds up", "rows up", "search wider")  # more to see, whatever the remedy


def drawn(seed):
    """An audit of three arms: settings, parts, losses, rule and search are drawn."""
    rng = np.random.default_rng(seed)
    by_rule, is_searched = bool(rng.integers(2)), rng.random() < 0.6
    step, bound = rng.choice([0.1, 0.667, 3.0]), rng.choice([0.3, 2.449, 30.0])
    settings = BY_RULE | {"learning_rate": float(step), "max_grad_norm": float(bound)}
    arms = [replace(SGD, settings={"learning_rate": float(step)}, step_by_rule=by_rule)]
    compared, losses = [], {}
    for key in ("dpsgd@1", "dpsgd@8", NORMALISED):
        arms.append(arm(key, settings=settings, step_by_rule=by_rule))
        largest = rng.integers(3)
        step, clipping, noise = np.where(np.arange(3) == largest, 0.05, 0.004)
        compared.append(in_parts(key, step=step, clipping=clipping, noise=noise))
    for one in arms:
        losses[one.key] = np.sort(rng.uniform(0.3, 0.7, 4))[:: rng.choice([-1, 1])]
    report = report_with(*compared, arms=arms, losses=losses)
    check_up = {"undertrained": True, "reference_accuracy": 0.7}
    update = {"sklearn_baseline": report.sklearn_baseline.model_copy(update=check_up)}
    if is_searched:
        update["studies"] = {"tuning": Searched(name="tuning", comparisons=())}
    report = with_findings(replace(report, **update))
    rules = parse_rules([f"privacy_cost_gap > {rng.choice([1, 6, 20])} points"])
    return with_verdict(report, check(report, rules))


def contradictions(report):
    """What the advice of a report breaks of the law."""
    advised = defaultdict(set)
    for finding in report.findings:
        if finding.advice is not None and finding.advice.knob not in BESIDE:
            advised[finding.arm].add(finding.advice.knob)
    broken = [(key, pair) for key in advised for pair in OPPOSED if advised[key].issuperset(pair)]
    for one in report.arms:
        options = {knob.partition(" ")[0] for knob in advised[one.key]}
        if len(advised[one.key]) > 1:
            broken.append((one.key, "two remedies"))
        if "bound" in options and (one.method == NORMALISED or report.settings_tried):
            broken.append((one.key, "bound"))
        if "step" in options and (one.step_by_rule or report.settings_tried):
            broken.append((one.key, "step"))
    return broken


def test_no_advice_contradicts_another_for_one_method(worlds, monkeypatch):
    known = catalog()
    normalised = replace(known[NORMALISED], is_normalised=True)
    monkeypatch.setitem(known, NORMALISED, normalised)
    reports = {**worlds, **{seed: drawn(seed) for seed in range(30)}}
    assert not {name: broken for name in reports if (broken := contradictions(reports[name]))}
    given = {f.advice.knob for report in reports.values() for f in report.findings if f.advice}
    assert given.issuperset({"rows up", *OPPOSED[0], *OPPOSED[1], "epochs up", "epsilon up"})


def test_findings_of_arms_stand_in_the_order_of_the_arms():
    """Four methods: an order that follows from a set would be another in most processes."""
    arms = [finding.arm for finding in several().findings if finding.code in ("gap", "no_gap")]
    assert tuple(dict.fromkeys(arms)) == PRIVATE


@pytest.mark.parametrize(
    ("before", "after", "code"),
    [
        ((0.95, 0.05), (0.6, 0.05), "ratio_falls"),
        ((0.6, 0.05), (0.95, 0.05), "ratio_rises"),
        ((0.95, 0.05), (0.75, 0.08), "ratio_unsure"),
        ((0.82, 0.05), (0.6, 0.05), "ratio_unsure"),
        ((0.95, 0.05), (0.85, 0.08), None),
        ((0.7, 0.05), (0.6, 0.05), None),
        ((0.95, 0.05), (None, None), None),
    ],
)
def test_an_impact_ratio_that_privacy_takes_across_four_fifths_is_told(before, after, code):
    made = in_ratios(before, after)
    report = report_with(made)
    codes = [f.code for f in report.findings if f.code.startswith("ratio_")]
    assert codes == ([code] if code else [])
    if code:
        finding = only(report, code)
        assert finding.groups == ("F",)
        assert f"{after[0]:.1g}" in finding.text
        assert finding.advice is None
    first, *others = made.by_group
    few = replace(first, gated=False, reason="12 test rows")
    report = report_with(replace(made, by_group=(few, *others)))
    assert not any(f.code.startswith("ratio_") for f in report.findings)
