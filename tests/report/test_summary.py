"""The summary of hand-made audits: every branch, and no sentence without an interval behind it."""

import numpy as np
import pytest
from changed import replace
from handmade import (
    arm,
    comparison,
    estimate,
    findings,
    gap,
    metadata,
    plan,
    privacy,
    resolved,
    results,
)
from reports import report_of

from fairaudit.analysis.arm_readings import ArmReadings, misalignment
from fairaudit.analysis.build import build_report
from fairaudit.gate.check import check, with_verdict
from fairaudit.gate.grammar import parse_rules
from fairaudit.methods.catalog import Guarantee
from fairaudit.report.document import Table
from fairaudit.report.facts import ReportWarning
from fairaudit.report.sections.costs import gaps as gaps_section
from fairaudit.report.summarize import summarize, summarized, worst_off
from fairaudit.report.to_json import read_report, to_json
from fairaudit.results.estimates import read_size


@pytest.mark.parametrize(
    ("low", "high", "limit", "expected"),
    [
        (None, None, None, "cannot tell"),
        (None, None, 0.02, "cannot tell"),
        (0.0, 0.004, None, "at most"),
        (0.0, 0.004, 0.02, "within tolerance"),
        (0.0, 0.02, 0.02, "within tolerance"),
        (0.0, 0.2, 0.02, "cannot tell"),
        (0.003, 0.004, 0.02, "difference detected"),
        (0.003, 0.004, None, "difference detected"),
        (0.03, 0.04, 0.02, "difference detected"),
    ],
)
def test_a_size_has_one_of_three_readings(low, high, limit, expected):
    assert read_size(low, high, limit) == expected


def risk(a, b, value, half):
    made = gap(a, b, value, half, metric="excess_risk")
    sizes = {
        name: replace(getattr(made, name), unit="nats")
        for name in ("signed", "absolute", "simultaneous")
    }
    return replace(made, **sizes)


def with_parts(group, still, noise, name="clipping"):
    costs = ("privacy_cost", "excess_risk")
    parts = {f"{m}.{part}": e for m in costs for part, e in ((name, still), ("noise", noise))}
    return replace(group, estimates={**group.estimates, **parts})


def audited(
    key="dpsgd",
    costs=(0.041, 0.012),
    half=0.017,
    *,
    risks=None,
    parts=None,
    name="clipping",
    **kept,
):
    """``risks``: gap and half width. ``parts``: of the gap, ((still, half), (noise, half))."""
    made = comparison(key, costs, half=half)
    gaps = [g for g in made.gaps if g.metric == "privacy_cost"]
    if risks is not None:
        gaps.append(risk("F", "M", *risks))
    if parts is not None:
        gaps += [
            gap("F", "M", *part, metric=f"privacy_cost.{which}")
            for which, part in zip((name, "noise"), parts, strict=True)
        ]
        split = [estimate(value / 2, width) for value, width in parts]
        made = replace(made, overall=with_parts(made.overall, *split, name))
    return replace(made, gaps=tuple(gaps), **kept)


def summary_of(*compared, rules=(), **kept):
    arms = (arm("sgd", reference=None), *(arm(c.arm) for c in compared))
    report = replace(report_of(*compared, arms=arms), **kept)
    rules = parse_rules(rules)
    return (with_verdict(report, check(report, rules)) if rules else summarized(report)).summary


def only(*compared, **kept):
    (method,) = summary_of(*compared, **kept).methods
    return method


def test_who_pays_is_named_with_its_cost_and_the_other_group_beside_it():
    method = only(audited(risks=(0.05, 0.02)))
    assert method.accuracy.worst_off == method.excess_risk.worst_off == ("F",)
    assert (method.accuracy.a, method.accuracy.b) == ("F", "M")
    assert method.line("who pays") == "F loses 4.1 [2.7, 5.5] points of accuracy, M: none detected."
    assert "Accuracy 2.9 [1.2, 4.6] points: worse for F" in method.line("gap")
    assert "excess risk 0.050 [0.030, 0.070] nats: worse for F" in method.line("gap")
    assert method.epsilon == 3.13488
    assert method.verdict is None


def test_the_group_that_pays_is_found_whichever_is_named_first():
    method = only(audited(costs=(0.012, 0.041), risks=(-0.05, 0.02)))
    assert method.accuracy.worst_off == method.excess_risk.worst_off == ("M",)
    assert (method.accuracy.a, method.excess_risk.a) == ("M", "M")
    assert method.line("who pays").startswith("M loses 4.1")


@pytest.mark.parametrize("half", [0.03, 0.0291])
def test_nobody_is_named_where_the_gap_is_not_detected(half):
    method = only(audited(half=half, risks=(0.05, 0.06)))
    assert method.accuracy.worst_off == method.excess_risk.worst_off == ()
    assert method.accuracy.reading == method.excess_risk.reading == "at most"
    for text in (method.headline, *(line.text for line in method.lines)):
        assert "worse for" not in text
        assert "F " not in text
    assert "2.5 points" in method.line("next")  # the minimum detectable gap


def test_a_group_that_pays_in_loss_alone_or_whose_own_cost_is_open_is_said_to():
    in_loss = only(audited(half=0.03, risks=(0.05, 0.02)))
    assert (in_loss.accuracy.worst_off, in_loss.excess_risk.worst_off) == ((), ("F",))
    assert "in loss, F pays 0.082" in in_loss.line("who pays")
    still_open = only(audited(costs=(0.01, -0.03)))
    assert still_open.accuracy.worst_off == ("F",)
    assert "open (1.0 [-0.4, 2.4])" in still_open.line("who pays")
    assert "M gains 3.0" in still_open.line("who pays")


def test_without_an_interval_nothing_can_be_told():
    made = audited()
    one = estimate(0.029, reason="one seed: training randomness cannot be estimated")
    sizes = dict.fromkeys(("signed", "absolute", "simultaneous"), one)
    bare = replace(made.gaps[0], **sizes, direction="", gated=False, reason="x")
    method = only(replace(made, gaps=(bare,)))
    assert method.accuracy.reading == "cannot tell"
    assert method.accuracy.worst_off == ()
    for topic in ("who pays", "next"):
        assert "one seed" in method.line(topic)


def test_of_many_groups_those_pay_who_are_shown_to_pay_more_than_one_and_less_than_none():
    made = audited()
    names = ("A", "B", "C", "D")

    def pairs(*shown):
        gaps = [gap(a, b, value, half) for a, b, value, half in shown]
        groups = tuple(replace(made.by_group[0], group=name) for name in names)
        return worst_off(replace(made, gaps=tuple(gaps), by_group=groups))

    assert pairs(("A", "B", 0.03, 0.01), ("B", "C", -0.03, 0.01)) == ("A", "C")
    assert pairs(("A", "B", 0.03, 0.01), ("B", "C", 0.03, 0.01), ("A", "C", 0.06, 0.1)) == ("A",)
    assert pairs(("A", "B", 0.03, 0.04), ("C", "D", 0.01, 0.02)) == ()


def test_of_three_groups_nobody_is_said_to_pay_and_no_gap_detected_in_one_breath():
    """The largest gap, A against C, is open; B is shown to pay more than C."""
    made = comparison("dpsgd", (0.05, 0.03, 0.0), names=("A", "B", "C"))
    pairs = [gap("A", "B", 0.02, 0.06), gap("A", "C", 0.05, 0.06), gap("B", "C", 0.03, 0.004)]
    largest = gap("A", "C", 0.05, 0.06, kind="max")
    parts = [
        gap("B", "C", *part, metric=f"privacy_cost.{name}")
        for name, part in (("clipping", (0.029, 0.004)), ("noise", (0.001, 0.002)))
    ]
    overall = with_parts(made.overall, estimate(0.02), estimate(0.0))
    made = replace(made, gaps=(*pairs, largest, *parts), overall=overall)
    dataset_of_three = replace(
        report_of(made, arms=(arm("sgd", reference=None), arm("dpsgd")), names="ABC")
    )
    (method,) = summarized(dataset_of_three).summary.methods
    assert method.accuracy.worst_off == ("B",)
    assert not method.accuracy.is_detected
    assert "not detected between A and C" in method.line("gap")
    assert (method.parts.of, method.parts.a, method.parts.b) == ("gap", "B", "C")
    assert method.line("clipping or noise").startswith("Of the gap between B and C of 3.0")


def test_summary_and_tables_give_a_gap_of_too_few_rows_no_interval():
    made = audited()
    why = "group 'F' has 12 test records; 30 are needed"
    size = estimate(0.029, reason=why)
    few = replace(made.gaps[0], simultaneous=size, direction="", gated=False, reason=why)
    report = report_of(replace(made, gaps=(few,)), arms=(arm("sgd", reference=None), arm("dpsgd")))
    assert "Gap 2.9 (no interval) points" in report.summary.methods[0].headline
    (shown,) = (b for b in gaps_section(report).blocks if isinstance(b, Table))
    assert shown.rows[0][2].number.ends is None
    assert "cannot tell" in shown.rows[0][-1]


PARTS = {
    # (still, half), (noise, half) of a gap of .029 -> advice, what must not be said
    "no noise": (((0.028, 0.005), (0.001, 0.003)), "epsilon would not help", "cannot tell"),
    "open noise": (((0.020, 0.005), (0.009, 0.010)), "cannot tell", "would not"),
    "both": (((0.015, 0.005), (0.014, 0.005)), "epsilon lowers what noise adds", "cannot tell"),
    "noise": (((0.001, 0.005), (0.028, 0.005)), "A larger epsilon, or more rows", "clipping bound"),
    "neither": (((0.015, 0.02), (0.014, 0.02)), "Say how large a gap is tolerable", "epsilon"),
}


@pytest.mark.parametrize("case", PARTS)
def test_what_to_do_follows_from_the_parts_that_are_shown(case):
    parts, said, unsaid = PARTS[case]
    method = only(audited(parts=parts))
    assert said in method.line("next")
    assert unsaid not in method.line("next")
    assert method.parts.is_still == (parts[0][0] > parts[0][1])
    assert method.parts.is_noise == (parts[1][0] > parts[1][1])
    has_remedy = "a larger clipping bound" in method.line("next")
    assert has_remedy == method.parts.is_still


def test_a_larger_epsilon_is_not_ruled_out_where_its_step_is_longer():
    made = audited(parts=((0.028, 0.005), (0.001, 0.003)))
    report = report_of(made, arms=(arm("sgd", reference=None), arm("dpsgd")))
    arms = tuple(a.model_copy(update={"step_shortened": a.key == "dpsgd"}) for a in report.arms)
    (method,) = summarize(report.model_copy(update={"arms": arms})).methods
    assert "so may a larger epsilon" in method.line("next")
    assert "would not help" not in method.line("next")


RULE = "privacy_cost_gap > {} points"


@pytest.mark.parametrize(
    ("half", "limit", "verdict", "met"),
    [
        (0.017, 1, "fail", False),
        (0.017, 2, "inconclusive", None),
        (0.017, 5, "pass", True),
        (0.03, 2, "inconclusive", None),
        (0.03, 6, "pass", True),
    ],
)
def test_limit_and_verdict_stand_in_the_headline(half, limit, verdict, met):
    method = only(audited(half=half), rules=[RULE.format(limit)])
    assert (method.verdict, method.accuracy.limit_met) == (verdict, met)
    plural = "s" * (limit != 1)
    assert method.headline.endswith(f"points, limit {limit} point{plural}: {verdict.upper()}.")
    assert method.accuracy.reading == (
        "difference detected" if half < 0.029 else "within tolerance" if met else "cannot tell"
    )


@pytest.mark.parametrize(
    "code", ["worse_than_constant", "loss_rises", "reference_undertrained", "at_edge"]
)
def test_a_sick_training_is_to_be_repaired_first(code):
    warning = ReportWarning(
        code=code, level="warning", message="it is", fix="a smaller step", arm="dpsgd"
    )
    told = only(audited(parts=((0.028, 0.005), (0.001, 0.003))), warnings=(warning,)).line("next")
    assert told.startswith("Repair the training first")
    assert "a smaller step" in told
    assert "clipping" not in told


def test_each_method_of_a_sweep_and_each_grouping_has_its_own_answer_and_verdict():
    keys = ("dpsgd@1", "dpsgd@3")
    compared = [
        replace(audited(key, half=half), grouping=grouping)
        for key, half in zip(keys, (0.017, 0.03), strict=True)
        for grouping in ("sex", "region")
    ]
    arms = (arm("sgd", reference=None), *(arm(key) for key in keys))
    report = report_of(*compared, arms=arms)
    rules = parse_rules([RULE.format(1)])
    summary = with_verdict(report, check(report, rules)).summary
    assert [(m.arm, m.grouping, m.accuracy.worst_off) for m in summary.methods] == [
        *(("dpsgd@1", grouping, ("F",)) for grouping in ("sex", "region")),
        *(("dpsgd@3", grouping, ()) for grouping in ("sex", "region")),
    ]
    assert summary.verdicts == {m.arm: m.verdict for m in summary.methods}
    assert summary.verdicts["dpsgd@3"] == "inconclusive"
    for method in summary.methods:
        if method.grouping == "region":
            assert method.misalignment is None


def test_only_what_could_be_shipped_is_summed_up():
    unproved = privacy(Guarantee.NOT_ESTABLISHED, "as published")
    arms = (
        arm("sgd", reference=None),
        arm("global-adapt"),
        arm("dpsgd-matched", source="global-adapt"),
        arm("dpsgd:as-published", privacy=unproved),
        arm("global-adapt#self-check", reference="global-adapt"),
    )
    compared = [audited(a.key, reference=a.reference) for a in arms[1:]]
    report = report_of(*compared, arms=arms)
    assert [m.arm for m in summarize(report).methods] == ["global-adapt"]
    rules = parse_rules([RULE.format(1)])
    verdicts = with_verdict(report, check(report, rules)).summary.verdicts
    assert set(verdicts) >= {"dpsgd-matched", "dpsgd:as-published"}  # rules judge them as well
    alone = (arms[0], arms[3])
    unproved_only = report_of(compared[2], arms=alone)
    assert [m.arm for m in summarize(unproved_only).methods] == ["dpsgd:as-published"]


def test_the_summary_is_stored_and_read_again():
    made = audited(parts=((0.028, 0.005), (0.001, 0.003)), risks=(0.05, 0.02))
    report = summarized(report_of(made, arms=(arm("sgd", reference=None), arm("dpsgd"))))
    again = read_report(to_json(report), name="report.json")
    assert to_json(again) == to_json(report)
    assert again.summary.methods[0].headline == report.summary.methods[0].headline


def angles(*by_seed):
    values = {"angle_turned": np.array(by_seed, dtype=float)[:, None, :]}
    return ArmReadings(
        steps=(0,),
        total_steps=1,
        seeds=tuple(range(len(by_seed))),
        values=values,
        hessian_records=0,
    )


def test_the_group_that_is_turned_most_is_named_only_where_paired_seeds_show_it():
    clear = misalignment(angles((10, 1), (12, 3), (11, 2)), ("F", "M"), ())
    assert clear.most == "F"
    assert clear.groups["F"].value == pytest.approx(11)
    half = 4.302652729911275 / 3**0.5  # Student's t at two degrees; a standard deviation of 1
    assert clear.groups["F"].ends == pytest.approx((11 - half, 11 + half))
    assert misalignment(angles((10, 1), (1, 10), (11, 2)), ("F", "M"), ()).most == ""
    assert misalignment(angles((10, 1)), ("F", "M"), ()).most == ""  # one seed
    three = misalignment(angles((10, 1, 9.9), (12, 3, 12.2), (11, 2, 11)), ("F", "M", "X"), ())
    assert three.most == ""
    hidden = misalignment(angles((10, 1), (12, 3), (11, 2)), ("F", "M"), ("F",))
    assert (set(hidden.groups), hidden.most) == ({"M"}, "")


@pytest.mark.parametrize(("second", "most"), [(2.0, "F"), (11.9, "")])
def test_angles_of_trainings_stand_in_the_summary(second, most):
    """What the workers leave at checkpoints reaches the first section.

    With an interval over seeds.
    """
    settled = resolved(diagnostics="basic")
    made = plan(settled.config)
    found = results(made)
    for job in made.jobs:
        if job.arm != "global-adapt":
            continue
        shift = job.seed / 10 * (-1) ** job.seed
        values = np.array([[[11.0 + shift, second - shift]], [[13.0 + shift, second - shift]]])
        arrays = {"cause_steps": np.array([0, 9]), "cause.angle_turned": values}
        facts = {"causes": {"hessian_records": 0}}
        found[job.id] = replace(
            found[job.id],
            arrays={**found[job.id].arrays, **arrays},
            facts={**found[job.id].facts, **facts},
        )
    report = build_report(
        replace(findings(), resolved=settled, plan=made, results=found), metadata()
    )
    (method,) = report.summary.methods
    assert method.misalignment.groups["F"].value == pytest.approx(12.0, abs=0.2)
    assert method.misalignment.most == most
    assert ("most for F" in method.line("misalignment")) == bool(most)
    undetected = comparison(half=0.03)
    unshown = replace(
        findings(), resolved=settled, plan=made, results=found, comparisons=(undetected,)
    )
    (method,) = build_report(unshown, metadata()).summary.methods
    assert method.misalignment.most == ""  # coin-flip groups of one file differ in it as well
    plain = build_report(findings(diagnostics="off"), metadata())
    assert plain.summary.methods[0].misalignment is None
