"""Gates on handmade reports: which number a rule reads, and what it says of it."""

import pytest
from changed import replace
from handmade import arm, comparison, estimate, findings, gap, metadata, privacy
from reports import report_of, stored, with_measure
from scipy import stats

from fairaudit.analysis.build import build_report
from fairaudit.errors import ConfigError
from fairaudit.gate.check import check, exit_code, judged, with_verdict
from fairaudit.gate.grammar import parse_rules
from fairaudit.gate.joint_interval import Variances
from fairaudit.gate.judge import shared_interval
from fairaudit.gate.targets import TargetReading
from fairaudit.methods.catalog import Guarantee
from fairaudit.report.types.facts import ClaimFacts
from fairaudit.report.types.verdicts import verdicts
from fairaudit.results.estimates import Interval


def gates(report, *rules, baseline=None):
    return check(report, parse_rules(rules), baseline).gates


def trained_otherwise(report, key, trainings):
    arms = [
        a.model_copy(update={"trainings": trainings}) if a.key == key else a for a in report.arms
    ]
    return report.model_copy(update={"arms": tuple(arms)})


def outcome(report, rule, **kept):
    return check(report, parse_rules([rule]), **kept).outcome


def places(gate):
    return [(t.arm, t.grouping, t.group) for t in gate.targets]


# The handmade audit: privacy costs F 0.041 and M 0.012 (halves 0.0141), the gap is 0.029 +- 0.0171.
@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("privacy_cost_gap > 0.01", "fail"),  # all of [0.0119, 0.0461] is above
        ("privacy_cost_gap > 0.02", "inconclusive"),
        ("privacy_cost_gap > 0.05", "pass"),
        ("privacy_cost_gap < 0.05", "fail"),
        ("privacy_cost_gap < 0.01", "pass"),
        ("privacy_cost_gap.mean > 0.02", "fail"),
        ("privacy_cost_gap.mean > 0.03", "pass"),
        ("privacy_cost_gap.ci_low > 0.01", "fail"),
        ("privacy_cost_gap.ci_low > 0.012", "pass"),
        ("privacy_cost_gap.ci_high > 0.046", "fail"),
        ("privacy_cost_gap.ci_high > 0.047", "pass"),
        ("privacy_cost@sex=F > 0.02", "fail"),
        ("privacy_cost@sex=F > 0.05", "inconclusive"),
        ("privacy_cost@sex=M > 0.05", "pass"),
        ("impact_ratio < 0.8", "fail"),
        ("impact_ratio@sex=M < 0.8", "pass"),
        ("accuracy@overall < 0.5", "pass"),
        ("accuracy:global-adapt < 0.5", "pass"),
        ("epsilon > 3", "fail"),
        ("epsilon > 3.13487", "fail"),
        ("epsilon > 3.13488", "pass"),  # the file holds 3.13488, rounded up
        ("epsilon >= 3.13488", "fail"),
        ("epsilon_rdp > 3.5", "pass"),
        ("epsilon_if_all_released > 9", "fail"),
        ("delta > 1e-5", "pass"),
        ("tpr < 0.5", "inconclusive"),  # undefined
        ("calibration_error > 0.5", "inconclusive"),  # the report holds none
        ("accuracy_gap > 0.5", "inconclusive"),
    ],
)
def test_a_rule_is_judged_by_the_number_it_names(rule, expected):
    assert outcome(report_of(), rule) == expected


@pytest.mark.parametrize(
    ("rule", "mapped", "code"),
    [
        ("privacy_cost_gap > 0.05", None, 0),
        ("privacy_cost_gap > 0.01", None, 1),
        ("privacy_cost_gap > 0.02", None, 3),
        ("privacy_cost_gap > 0.02", "fail", 1),
        ("privacy_cost_gap > 0.01", "pass", 1),
    ],
)
def test_each_outcome_has_its_exit_code(rule, mapped, code):
    verdict = check(report_of(), parse_rules([rule]))
    assert verdict.exit_code(mapped) == code
    assert exit_code(with_verdict(report_of(), verdict), mapped) == code
    assert exit_code(report_of(), mapped) == 0


def three_arms():
    arms = (arm("sgd", reference=None), arm("dpsgd"), arm("global-adapt"))
    return report_of(comparison("dpsgd", (0.08, 0.01)), comparison("global-adapt"), arms=arms)


def test_a_rule_without_selector_covers_every_private_arm_and_every_group():
    assert sorted(places(gates(three_arms(), "accuracy < 0.5")[0])) == [
        ("dpsgd", "sex", "F"),
        ("dpsgd", "sex", "M"),
        ("global-adapt", "sex", "F"),
        ("global-adapt", "sex", "M"),
    ]
    assert places(gates(three_arms(), "accuracy:dpsgd < 0.5")[0]) == [
        ("dpsgd", "sex", "F"),
        ("dpsgd", "sex", "M"),
    ]
    assert places(gates(three_arms(), "accuracy@sex=F < 0.5")[0]) == [
        ("dpsgd", "sex", "F"),
        ("global-adapt", "sex", "F"),
    ]


def test_to_fail_one_of_several_takes_the_interval_that_holds_for_all_of_them():
    alone = gates(report_of(), "privacy_cost@sex=F > 0.026")[0].targets[0]
    assert alone.outcome == "fail"  # [0.0269, ...] alone
    of = {target.group: target for target in gates(report_of(), "privacy_cost > 0.026")[0].targets}
    assert of["F"].outcome == "inconclusive"
    assert of["F"].low > 0.026
    # Its standard deviations are 0.004 over seeds and 0.006 over records, at five seeds.
    t, z = (law.ppf([0.975, 1 - 0.025 / 2]) for law in (stats.t(4), stats.norm))
    before, after = (0.004 * t) ** 2 + (0.006 * z) ** 2
    half = (after / before) ** 0.5 * (of["F"].high - of["F"].value)
    low, high = (f"{100 * (of['F'].value + sign * half):.2f}" for sign in (-1, 1))
    assert f"the interval [{low}, {high}] that all 2 numbers of the rule share" in of["F"].reason
    assert float(low) < 2.6


def test_a_method_beside_another_changes_nothing_of_what_is_said_of_it():
    """A failure of one stays a failure, whatever stands beside it.

    Fail beats inconclusive beats pass.
    """
    rule = "privacy_cost_gap > 0.01"
    alone = gates(report_of(), rule)[0].targets[0]
    assert (alone.arm, alone.outcome) == ("global-adapt", "fail")
    small = comparison("dpsgd", (0.012, 0.011), half=0.004)  # passes
    open_ = comparison("dpsgd", (0.025, 0.011))  # is inconclusive
    arms = (arm("sgd", reference=None), arm("dpsgd"), arm("global-adapt"))
    for beside, other in ((small, "pass"), (open_, "inconclusive")):
        both = report_of(beside, comparison("global-adapt"), arms=arms)
        (gate,) = gates(both, rule)
        of = {target.arm: target for target in gate.targets}
        assert of["global-adapt"] == alone
        assert gate.reason == ""  # what fails needs none, whatever is open beside it
        assert of["dpsgd"].outcome == other
        verdict = check(both, parse_rules([rule]))
        assert verdict.exit_code() == verdict.exit_code("pass") == 1
        outcomes = verdicts(with_verdict(both, verdict).gates)
        assert outcomes == {"global-adapt": "fail", "dpsgd": other}
    none_fails = report_of(open_, comparison("global-adapt", (0.012, 0.011), half=0.004), arms=arms)
    assert check(none_fails, parse_rules([rule])).exit_code() == 3


@pytest.mark.parametrize("costs", [(0.041, 0.012), (0.012, 0.041)])
def test_a_rule_on_a_gap_is_about_its_size_and_prints_the_signed_number(costs):
    """2.9 points [1.2, 4.6], whichever of the two pays more; as it is named, with its sign."""
    report = report_of(comparison(costs=costs))
    less = 1 if costs[0] > costs[1] else -1
    for limit, expected in ((1, "fail"), (3, "inconclusive"), (5, "pass")):
        for place, groups, sign in (
            ("", "F, M" if less > 0 else "M, F", 1),
            ("@sex=F,M", "F, M", less),
            ("@sex=M,F", "M, F", -less),
        ):
            (gate,) = gates(report, f"privacy_cost_gap{place} > {limit} points")
            (target,) = gate.targets
            assert (gate.outcome, target.group) == (expected, groups)
            assert target.value == pytest.approx(sign * 0.029)
            assert sorted(map(abs, target.ends)) == pytest.approx([0.0119, 0.0461], abs=1e-4)
    for rule, expected in (
        ("privacy_cost_gap.ci_high > 4.7 points", "pass"),
        ("privacy_cost_gap.ci_high > 4.5 points", "fail"),
        ("privacy_cost_gap.ci_low > 1.1 points", "fail"),
        ("privacy_cost_gap.mean@sex=M,F > 2.8 points", "fail"),
        ("privacy_cost_gap < 1 points", "pass"),
    ):
        assert outcome(report, rule) == expected, rule


def test_the_size_of_a_gap_that_may_be_0_reaches_to_the_farther_end():
    """-0.8 points [-2.5, 0.9]."""
    report = report_of(comparison(costs=(0.012, 0.02)))
    for limit, expected in ((2.4, "inconclusive"), (2.6, "pass")):
        assert outcome(report, f"privacy_cost_gap@sex=F,M > {limit} points") == expected
    assert outcome(report, "privacy_cost_gap.ci_low@sex=F,M >= 0") == "fail"  # of the size it is 0
    assert outcome(report, "privacy_cost_gap.ci_low@sex=F,M < 0.001 points") == "fail"


def test_a_method_names_all_its_arms_and_a_key_only_one():
    keys = ("dpsgd@1", "dpsgd@3", "global:as-published@3")
    arms = (arm("sgd", reference=None), *(arm(key) for key in keys))
    report = report_of(*(comparison(key) for key in keys), arms=arms)

    def named(rule):
        return [target.arm for target in gates(report, rule)[0].targets]

    assert named("privacy_cost_gap:dpsgd > 0.9") == ["dpsgd@1", "dpsgd@3"]
    assert named("privacy_cost_gap:dpsgd@3 > 0.9") == ["dpsgd@3"]
    assert named("privacy_cost_gap:global > 0.9") == ["global:as-published@3"]
    assert named("privacy_cost_gap:global:as-published > 0.9") == ["global:as-published@3"]
    assert named("privacy_cost_gap > 0.9") == list(keys)


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("accuracy:global-adpt < 0.5", "did you mean 'global-adapt'"),
        ("accuracy:pate < 0.5", "known: sgd, global-adapt"),
        ("accuracy@sx=F < 0.5", "did you mean 'sex'"),
        ("accuracy@sex=f < 0.5", "did you mean 'F'"),
        ("accuracy@age < 0.5", "no grouping .age'"),
        ("accuracy.delta > 0", "add --baseline"),
    ],
)
def test_a_name_that_is_not_in_the_report_is_refused(rule, said):
    with pytest.raises(ConfigError, match=said):
        check(report_of(), parse_rules([rule]))


def test_a_group_that_is_too_small_is_left_out_and_named_unless_a_rule_asks_for_it():
    small = with_measure(
        comparison(), "F", gated=False, reason="group 'F' has 7 test records; 30 are needed"
    )
    gate, of_gap = gates(report_of(small), "accuracy < 0.5", "privacy_cost_gap > 0.5")
    assert gate.outcome == "pass"
    assert places(gate) == [("global-adapt", "sex", "M")]
    assert gate.left_out == ("sex = F: group 'F' has 7 test records; 30 are needed",)
    assert of_gap.left_out == gate.left_out
    asked = gates(report_of(small), "accuracy@sex=F < 0.5")[0]
    assert asked.outcome == "inconclusive"
    assert "7 test records" in asked.reason


def split(key, part):
    """A comparison whose costs are in two parts, of the groups and of all rows."""
    compared = comparison(key)
    for group in ("", "F", "M"):
        parts = {f"privacy_cost.{name}": estimate(0.01, 0.001) for name in (part, "noise")}
        compared = with_measure(compared, group, estimates=parts)
    return compared


def test_a_rule_about_a_part_leaves_out_who_has_another_and_is_open_for_who_has_none():
    compared = (
        split("dpsgd", "clipping"),
        split("output-perturbation", "regularisation"),
        comparison(),
    )
    arms = (arm("sgd", reference=None), *(arm(each.arm) for each in compared))
    (gate,) = gates(report_of(*compared, arms=arms), "privacy_cost.clipping > 0.05")
    outcomes = {(target.arm, target.group): target.outcome for target in gate.targets}
    assert outcomes == {
        ("dpsgd", "F"): "pass",
        ("dpsgd", "M"): "pass",
        ("global-adapt", "F"): "inconclusive",
        ("global-adapt", "M"): "inconclusive",
    }


def test_too_few_seeds_are_inconclusive_for_every_statistic():
    why = "3 seeds are too few; use 5"
    few = comparison()
    for name in ("F", "M", ""):
        few = with_measure(few, name, gated=False, reason=why)
    few = replace(few, gaps=tuple(replace(g, gated=False, reason=why) for g in few.gaps))
    for rule in (
        "accuracy < 0.5",
        "accuracy.mean < 0.5",
        "privacy_cost_gap.mean > 0.9",
        "accuracy@overall < 0.5",
    ):
        gate = gates(report_of(few), rule)[0]
        assert gate.outcome == "inconclusive", rule
        assert why in gate.reason


def test_a_metric_that_gates_do_not_read_is_inconclusive_though_its_group_is_large_enough():
    few = with_measure(comparison(), "F", ungated={"excess_risk": "a gate on a loss needs 200"})
    assert outcome(report_of(few), "excess_risk@sex=F > 5") == "inconclusive"
    assert outcome(report_of(few), "privacy_cost@sex=F > 0.9") == "pass"


def test_whatever_is_asked_of_an_arm_with_a_failed_seed_is_inconclusive():
    report = report_of(failures=("global-adapt-3",))
    assert report.status == "partial"
    gate = gates(report, "privacy_cost_gap > 0.9")[0]
    assert gate.outcome == "inconclusive"
    assert "1 of 5 seeds of global-adapt have no result" in gate.reason
    for rule in (
        "epsilon > 4",
        "epsilon < 3",
        "epsilon_rdp > 9",
        "epsilon_if_all_released > 99",
        "delta > 0.1",
    ):
        gate = gates(report, rule)[0]
        assert gate.outcome == "inconclusive", rule
        assert "no result" in gate.reason


def test_an_epsilon_that_is_not_proved_is_inconclusive_and_one_without_privacy_is_not_asked():
    broken = arm(
        "dpsgd:as-published", privacy=privacy(Guarantee.NOT_ESTABLISHED, "divides by the batch")
    )
    report = report_of(comparison("dpsgd:as-published"), arms=(arm("sgd", reference=None), broken))
    gate = gates(report, "epsilon > 100")[0]
    assert [(t.arm, t.outcome, t.reason) for t in gate.targets] == [
        ("dpsgd:as-published", "inconclusive", "guarantee: not established")
    ]
    assert outcome(report_of(), "epsilon:sgd > 3") == "inconclusive"


@pytest.mark.parametrize(
    ("status", "trusted"),
    [
        (Guarantee.CONDITIONAL, "pass"),
        (Guarantee.CHECKED_CONDITIONAL, "pass"),
        (Guarantee.ONE_BY_ONE, "pass"),
        (Guarantee.CHECKED_ONE_BY_ONE, "pass"),
        (Guarantee.UNCHECKED, "inconclusive"),
    ],
)
def test_an_epsilon_that_rests_on_a_module_is_judged_where_the_module_is_trusted(status, trusted):
    resting = arm("dpsgd", privacy=privacy(status))
    arms = (arm("sgd", reference=None), resting, arm("global"))
    report = report_of(comparison("dpsgd"), comparison("global"), arms=arms)
    rules = parse_rules(["epsilon > 100", "epsilon_rdp > 100", "delta > 0.5"])
    for gate in check(report, rules).gates:
        outcomes = {target.arm: target.outcome for target in gate.targets}
        assert outcomes == {"dpsgd": "inconclusive", "global": "pass"}
        said = {target.arm: "--trust-module judges it" in target.reason for target in gate.targets}
        assert said == {"dpsgd": status is not Guarantee.UNCHECKED, "global": False}
        assert status.value in gate.reason
    assert check(report, rules, trust_module=True).outcome == trusted


@pytest.mark.parametrize(("delta", "expected"), [(1e-6, "pass"), (0.9, "inconclusive")])
def test_a_claim_at_a_larger_delta_than_asked_says_nothing_of_epsilon(delta, expected):
    words = dict.fromkeys(("unit", "neighbouring", "accountant"), "")
    claim = ClaimFacts(asked_delta=1e-6, epsilon=3, delta=delta, **words, trainings=1, claiming=1)
    made = arm("dpsgd", privacy=replace(privacy(), claim=claim))
    report = report_of(comparison("dpsgd"), arms=(arm("sgd", reference=None), made))
    assert outcome(report, "epsilon > 3", trust_claims=True) == expected


def test_an_arm_that_only_checks_the_audit_is_judged_only_by_name():
    arms = (arm("sgd", reference=None), arm("dpsgd"), arm("dpsgd#self-check", reference="dpsgd"))
    report = report_of(
        comparison("dpsgd"),
        comparison("dpsgd#self-check", (0.9, 0.1), reference="dpsgd"),
        arms=arms,
    )
    assert outcome(report, "privacy_cost_gap > 0.5") == "pass"
    assert outcome(report, "privacy_cost_gap:dpsgd#self-check > 0.5") == "fail"
    lone = replace(comparison("sgd"), reference="", gaps=())
    assert outcome(report_of(lone, arms=arms[:1]), "accuracy < 0.5") == "pass"


def test_what_two_comparisons_of_an_arm_share_is_judged_once_and_costs_against_both():
    arms = (
        arm("sgd", reference=None),
        arm("pate-hard-clean", reference=None),
        arm("pate-hard", reference="pate-hard-clean", settings={"teachers": 3, "queries": 9}),
    )
    report = report_of(
        comparison("pate-hard", reference="pate-hard-clean"),
        comparison("pate-hard", (0.3, 0.1)),
        arms=arms,
    )
    assert len(gates(report, "accuracy@sex=F < 0.5")[0].targets) == 1
    costs = gates(report, "privacy_cost@sex=F > 0.5")[0].targets
    assert [t.reference for t in costs] == [
        "sgd",
        "pate-hard-clean",
    ]  # the one nearest to failing first


def three_groups(unpredicted=0):
    pairs = [gap("a", "b", 0.03), gap("a", "c", 0.01), gap("b", "c", -0.02)]
    largest = gap("a", "b", 0.03, kind="max")
    population = [gap("a", "", 0.35, kind="population"), gap("c", "", -0.25, kind="population")]
    made = comparison(costs=(0.04, 0.01, 0.03), names=("a", "b", "c"))
    made = replace(made, gaps=(*pairs, largest, *population))
    report = report_of(made, names=("a", "b", "c"))
    lacking = with_measure(report.comparisons[0], "a", unpredicted=unpredicted)
    return replace(report, comparisons=(lacking,))


@pytest.mark.parametrize(
    ("rule", "value", "group"),
    [
        ("privacy_cost_gap > 0.9", 0.03, "a, b"),
        ("privacy_cost_gap@sex > 0.9", 0.03, "a, b"),
        ("privacy_cost_gap@sex=c,b > 0.9", 0.02, "c, b"),
        ("privacy_cost_gap@sex=b,c > 0.9", -0.02, "b, c"),
        ("privacy_cost_gap@sex=c > 0.9", -0.25, "c"),
        ("privacy_cost@overall > 0.9", 0.0266667, ""),  # of equally large groups
    ],
)
def test_a_gap_is_the_largest_or_the_one_between_the_groups_named(rule, value, group):
    target = gates(three_groups(), rule)[0].targets[0]
    assert (target.value, target.group) == (value, group)
    # A row of group a without a prediction leaves open what a may have part in.
    is_open = group not in ("b, c", "c, b", "")
    assert outcome(three_groups(unpredicted=1), rule) == ("inconclusive" if is_open else "pass")


def test_the_only_pair_of_three_groups_is_not_the_largest_gap():
    report = three_groups()
    (made,) = report.comparisons
    report = replace(report, comparisons=(replace(made, gaps=made.gaps[2:]),))
    assert gates(report, "privacy_cost_gap > 0.9")[0].targets[0].value == 0.03


def test_the_change_since_a_baseline_is_judged_by_an_interval_of_its_own():
    now, before = report_of(comparison(costs=(0.141, 0.012))), report_of()
    gate = gates(now, "privacy_cost_gap.delta > 0.05", baseline=before)[0]
    target = gate.targets[0]
    assert target.value == pytest.approx(0.1)
    assert target.high - target.low == pytest.approx(4 * 0.0171235, abs=1e-5)  # the widths of both
    assert gate.outcome == "fail"
    assert outcome(now, "privacy_cost_gap.delta > 0.08", baseline=before) == "inconclusive"
    assert outcome(now, "privacy_cost_gap.delta.mean > 0.11", baseline=before) == "pass"
    assert outcome(now, "privacy_cost_gap.delta > 0.2", baseline=before) == "pass"


def test_the_same_trainings_have_not_changed():
    assert outcome(report_of(), "privacy_cost_gap.delta > 0", baseline=report_of()) == "pass"
    assert outcome(report_of(), "epsilon.delta > 0", baseline=report_of()) == "pass"
    other = report_of(comparison("dpsgd"), arms=(arm("sgd", reference=None), arm("dpsgd")))
    assert outcome(report_of(), "privacy_cost_gap.delta > 0.9", baseline=other) == "inconclusive"
    gone = report_of(with_measure(comparison(), "F", estimates={"accuracy": estimate(None)}))
    assert outcome(report_of(), "accuracy.delta@sex=F > 0.9", baseline=gone) == "inconclusive"
    bare = report_of(with_measure(comparison(), "F", estimates={"accuracy": estimate(0.8)}))
    for now, before in ((report_of(), bare), (bare, report_of())):
        assert outcome(now, "accuracy.delta@sex=F > 0.9", baseline=before) == "inconclusive"


@pytest.mark.parametrize("other", ["global-adapt", "sgd"])
@pytest.mark.parametrize("digest", ["another", ""])
def test_other_trainings_whose_numbers_are_equal_by_chance_may_have_changed(other, digest):
    """A gap of two equal gaps is known no better than each of them.

    Which is 0.0171235 to either side.
    """
    now, before = report_of(), trained_otherwise(report_of(), other, digest)
    (target,) = gates(now, "privacy_cost_gap.delta > 0", baseline=before)[0].targets
    assert (target.outcome, target.value) == ("inconclusive", 0.0)
    assert (target.low, target.high) == pytest.approx((-2 * 0.0171235, 2 * 0.0171235), abs=1e-6)
    assert outcome(now, "privacy_cost_gap.delta > 0.035", baseline=before) == "pass"
    if not digest:  # as in two reports of earlier versions
        now = trained_otherwise(now, other, digest)
        assert outcome(now, "privacy_cost_gap.delta > 0", baseline=before) == "inconclusive"
    # An accuracy is the arm's own, whatever it is compared with.
    own = outcome(now, "accuracy.delta@sex=F > 0", baseline=before)
    assert own == ("pass" if other == "sgd" else "inconclusive")


@pytest.mark.parametrize(
    ("earlier", "later", "outcomes"),
    [(3.0, 3.1, ("pass", "fail")), (3.006, 3.126, ("fail", "fail"))],
)
def test_the_change_of_an_epsilon_is_that_of_the_decimals_that_people_read(
    earlier, later, outcomes
):
    """In binary 3.1 - 3.0 is above 0.1, and 3.126 - 3.006 above 0.12."""
    now, before = (
        report_of(arms=(arm("sgd", reference=None), arm("global-adapt", privacy=held)))
        for held in (privacy(pld=later), privacy(pld=earlier))
    )
    rules = parse_rules(["epsilon.delta > 0.1", "epsilon.delta >= 0.1"])
    found = judged(now, rules, before)
    assert tuple(gate.outcome for gate in found.gates) == outcomes
    target = found.gates[0].targets[0]
    assert target.value == target.low == target.high == {3.1: 0.1, 3.126: 0.12}[later]
    assert target == stored(found).gates[0].targets[0]


def test_a_number_that_is_not_compared_is_not_said_to_be():
    for rule, reference in (
        ("privacy_cost@sex=F > 0.02", "sgd"),
        ("impact_ratio@sex=F < 0.8", ""),
        ("accuracy_gap > 0.2", ""),
    ):
        (target,) = gates(report_of(), rule)[0].targets
        assert target.reference == reference


def with_hidden_rows(without_group, dropped):
    """A report of trainings, and one of given predictions that leaves some rows unjudged."""
    names = ("a", "c", "(missing)")
    pairs = (gap("a", "c", 0.029), gap("a", "c", 0.029, kind="max"))
    pairs += (gap("a", "", 0.029, kind="population"),)
    pairs += (gap("a", "c", 0.029, metric="change.accuracy", kind="max"),)
    compared = replace(comparison(costs=(0.04, 0.011, 0.02), names=names), gaps=pairs)
    few = {name: replace(e, n_test=90) for name, e in compared.by_group[2].estimates.items()}
    compared = with_measure(
        compared, "(missing)", gated=False, reason="rows without a group", estimates=few
    )
    report = report_of(compared, names=names)
    grouping = report.data.groupings[0]
    rows = [g.model_copy(update={"is_missing": g.name == "(missing)"}) for g in grouping.groups]
    rows[2] = rows[2].model_copy(update={"rows": without_group})
    data = report.data.model_copy(
        update={
            "dropped_rows": {"label missing": dropped},
            "groupings": (grouping.model_copy(update={"groups": tuple(rows)}),),
        }
    )
    return report, report.model_copy(update={"training": None, "data": data})


@pytest.mark.parametrize(
    ("rule", "dropped", "without_group", "expected"),
    [
        ("accuracy@sex=a < 0.1", {}, 0, "pass"),
        ("accuracy@sex=a < 0.1", {"a": 0, "c": 3}, 0, "inconclusive"),
        ("accuracy@sex=a < 0.1", {"a": 5, "c": None}, 0, "inconclusive"),
        ("accuracy@sex=a < 0.1", {}, 90, "inconclusive"),
        ("accuracy@overall < 0.1", {}, 90, "pass"),  # all rows are judged, whatever their group
        ("accuracy@overall < 0.1", {"a": 5}, 90, "inconclusive"),
        ("privacy_cost_gap > 0.9", {}, 90, "inconclusive"),
        ("accuracy@sex=a < 0.99", {"a": 5}, 90, "fail"),
    ],
)
def test_no_rule_on_given_predictions_passes_beside_rows_that_nobody_judged(
    rule, dropped, without_group, expected
):
    """Given predictions alone: fairaudit trained nothing and cannot know what was left out."""
    report, given = with_hidden_rows(without_group, dropped)
    assert outcome(given, rule) == expected
    assert outcome(report, rule) == ("fail" if expected == "fail" else "pass")


def test_rows_that_the_baseline_did_not_judge_leave_a_change_open():
    _, hiding = with_hidden_rows(90, {"a": 5, "c": 3})
    _, whole = with_hidden_rows(0, {})
    rule = "accuracy.delta@sex=a < -0.2"
    assert outcome(whole, rule, baseline=whole) == "pass"
    assert outcome(whole, rule, baseline=hiding) == "inconclusive"
    assert outcome(hiding, rule, baseline=whole) == "inconclusive"


@pytest.mark.parametrize("variances", [None, Variances(4e-4, 9e-4)])
def test_several_numbers_of_a_rule_share_its_interval(variances):
    """With variances of its own by the formula, else by the growth of t alone."""
    number = Interval(value=0.3, low=0.2, high=0.4)
    reading = TargetReading(number, 5, variances, is_size=True, reason="")
    joint = shared_interval(reading, n_joint=3)
    t = stats.t.ppf([0.975, 1 - 0.025 / 3], 4)
    if variances is None:
        factor = t[1] / t[0]
        assert joint.high == pytest.approx(0.4 * factor)
    else:
        z = stats.norm.ppf([0.975, 1 - 0.025 / 3])
        before, after = t**2 * 4e-4 + z**2 * 9e-4
        factor = (after / before) ** 0.5
        assert joint.high == pytest.approx(0.3 + 0.1 * factor)
    assert joint.low == pytest.approx(0.3 - 0.1 * factor)


def test_a_fresh_report_and_its_file_get_the_same_verdict():
    fresh = build_report(findings(), metadata())
    rules = parse_rules(
        ["epsilon > 3.13488", "privacy_cost_gap > 0.02", "privacy_cost.mean@sex=F > 0"]
    )
    found = judged(fresh, rules)
    assert found.privacy["global-adapt"].epsilon.pld == 3.1348761234  # full precision is kept
    assert (
        found.gates[0].outcome == "pass"
    )  # and yet the file's number is judged, which is rounded up
    assert found.gates == check(stored(fresh), rules).gates
    assert (found.verdict, stored(found).verdict) == ("fail", "fail")
