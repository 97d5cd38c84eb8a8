import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairaudit.errors import ConfigError
from fairaudit.gate.grammar import GroupSelector, parse_rule, parse_rules
from fairaudit.gate.vocabulary import metric_names
from fairaudit.metrics.registry import spec_of


@pytest.mark.parametrize(
    ("text", "metric", "limit", "differing"),
    [
        ("accuracy_gap > 0.05", "accuracy_gap", 0.05, {}),
        ("impact_ratio < .8", "impact_ratio", 0.8, {"operator": "<"}),
        (
            "privacy_cost_gap.ci_high>=0.05",
            "privacy_cost_gap",
            0.05,
            {"statistic": "ci_high", "operator": ">="},
        ),
        ("epsilon:dpsgd@3 > 3", "epsilon", 3, {"arm": "dpsgd@3"}),
        (
            "reference.tpr_gap.delta.mean <= -1e-1",
            "reference.tpr_gap",
            -0.1,
            {"statistic": "mean", "is_change": True, "operator": "<="},
        ),
        ("accuracy@overall > 0", "accuracy", 0, {"group": GroupSelector("overall")}),
        (
            "loss@sex=F:global:as-published@3 > 0",
            "loss",
            0,
            {"group": GroupSelector("sex", ("F",)), "arm": "global:as-published@3"},
        ),
        (
            'tpr[2]@"marital status"="never, ever" > 0',
            "tpr[2]",
            0,
            {"group": GroupSelector("marital status", ("never, ever",))},
        ),
        (
            r"""loss_gap@'a:b'="c\"d",e > 0""",
            "loss_gap",
            0,
            {"group": GroupSelector("a:b", ('c"d', "e"))},
        ),
    ],
)
def test_every_part_of_a_rule_is_read(text, metric, limit, differing):
    rule = parse_rule(text)
    assert (rule.metric.name, rule.number) == (metric, limit)
    plain = {"statistic": "interval", "is_change": False, "group": None, "arm": "", "operator": ">"}
    assert {name: getattr(rule, name) for name in plain} == {**plain, **differing}


@pytest.mark.parametrize(
    "text",
    [
        *("accuracy_gap", "accuracy_gap 0.05", "0.1 < accuracy_gap < 0.5", "accuracy_gap >"),
        *("accuracy_gap > 5p", "accuracy_gap > nan", "accuracy_gap > 1e999", "tpr > 0.1 0.2"),
        "accuracy_gap > \u0660.\u0665",  # Arabic digits, which float() reads
        *("accuracy_gap > 5 nats", "excess_risk_gap > 2pt", "epsilon > 3%", "impact_ratio < 80pt"),
        *("accuracy gap > 0.05", "accuracy_gap.high > 0.05", "accuracy_gap.max > 0.05"),
        *("train.accuracy > 0.05", "change.accuracy > 0.05", "accuracy[1] > 0.1"),
        *("epsilon@sex=F > 3", "privacy_cost_mean_gap > 0", "tpr_gap@sex=a,b,c > 0.7"),
        *("accuracy@sex=F,,M > 0.7", "accuracy@sex= > 0.7", "accuracy@ > 0.7", "accuracy: > 0.7"),
        *("accuracy@sex=F=M > 0.7", "accuracy@sex=F@M > 0.7", "accuracy@overall=F > 0.7"),
        "accuracy_gap@overall > 0.7",
        *("accuracy@never married > 0.7", 'accuracy@"sex > 0.7'),
    ],
)
def test_a_rule_that_cannot_be_read_is_refused(text):
    with pytest.raises(ConfigError):
        parse_rule(text)


def test_the_nearest_metric_is_named_and_a_long_rule_is_cut():
    with pytest.raises(ConfigError, match="did you mean 'accuracy_gap'"):
        parse_rule("acuracy_gap > 0.05")
    with pytest.raises(ConfigError) as caught:
        parse_rule("accuracy > 0." + "1" * 3000 + "p")
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize("name", metric_names())
def test_every_metric_that_is_offered_can_be_used_and_is_counted_as_the_audit_counts_it(name):
    rule = parse_rule(f"{name} > 0.5")
    assert rule.metric.name == name
    if rule.metric.kind == "arm":
        assert (rule.words().rpartition(" ")[2], rule.metric.unit) == ("0.5", "")
    else:
        assert rule.metric.unit == spec_of(rule.metric.key).unit


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("accuracy@sex=F:dpsgd < 70%", "below 0.7 (70 %)"),
        ("privacy_cost@sex=F > 1pt", "above 0.01 (1 point)"),
        ("accuracy.delta@sex < -2pts", "below -0.02 (-2 points)"),
        ("loss@overall >= 1", "at least 1"),
        ("accuracy_gap.ci_low <= 0", "at most 0 (0 points)"),
        ("epsilon > 3", "above 3"),
    ],
)
def test_the_limit_is_said_in_points_or_per_cent(text, limit):
    assert parse_rule(text).words().endswith(f" is {limit}")


def test_a_rule_given_twice_is_judged_once():
    assert [r.text for r in parse_rules(["epsilon > 3", "epsilon  >  3", "delta > 1e-5"])] == [
        "epsilon > 3",
        "delta > 1e-5",
    ]


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("privacy_cost_gap > 2", "write 0.02 or 2%"),
        ("privacy_cost_gap > 1", "write 0.01 or 1%"),
        ("privacy_cost_gap < -0.1", "between 0 and 1"),
        ("privacy_cost < -1.5", "between -1 and 1"),
        ("accuracy < 70", "write 0.7 or 70%"),
        ("impact_ratio < 80", "write 0.8 or 80%"),
        ("loss < -1", "between 0 and inf"),
        ("epsilon < -1", "between 0 and inf"),
        ("delta > 2", "between 0 and 1"),
        ("accuracy_gap.delta > 2", "the change in accuracy_gap lies between -1 and 1"),
        ("accuracy < 0", "cannot fail: accuracy lies between 0 and 1"),
        ("accuracy@sex=F:dpsgd > 100%", "cannot fail: accuracy lies between 0 and 1"),
        ("accuracy.ci_high > 1", "cannot fail"),
        ("accuracy_gap < 0", "cannot fail: accuracy_gap lies between 0 and 1"),
        ("tpr[2] < 0", "cannot fail"),
        ("privacy_cost > 1", "cannot fail: privacy_cost lies between -1 and 1"),
        ("privacy_cost < -100%", "cannot fail"),
        ("loss < 0", "cannot fail: loss lies between 0 and inf"),
        ("epsilon < 0", "cannot fail: epsilon lies between 0 and inf"),
        ("delta > 1", "cannot fail"),
        ("accuracy.delta < -1", "cannot fail: the change in accuracy lies between -1 and 1"),
        ("epsilon > 1e99", "no report holds such a number as 1e+99"),
        ("epsilon_if_all_released >= 1e9", "no report holds such a number"),
        ("excess_risk < -1e12", "no report holds such a number"),
        ("loss_gap > 1e30", "no report holds such a number"),
        ("epsilon.delta > 1e50", "no report holds such a number"),
        ("accuracy_gap@sex=F,F > 1%", "compares 'F' with itself"),
        ("""tpr_gap@"a b"=F,'F':dpsgd > 1%""", "compares 'F' with itself"),
    ],
)
def test_a_limit_outside_of_what_its_number_can_be_is_refused(text, hint):
    with pytest.raises(ConfigError) as caught:
        parse_rule(text)
    assert hint in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        *("accuracy >= 1", "accuracy <= 0", "privacy_cost < 0", "privacy_cost_gap > 0.99"),
        *("impact_ratio < 1", "excess_risk < -3", "loss > 104", "delta < 1e-6", "epsilon > 1e6"),
        *("accuracy_gap <= 0", "privacy_cost >= 1", "epsilon <= 0", "accuracy@sex=F,F < 50%"),
        *("epsilon.delta < 0", "accuracy.delta < -0.5"),
    ],
)
def test_a_rule_that_some_model_meets_and_another_does_not_is_kept(text):
    assert parse_rule(text).text == text


@pytest.mark.parametrize(
    "given_text", ["2pt", "2pts", "2%", "2 points", "2 %", "0.02", "2e-2", "+.02", "2.0pt"]
)
def test_points_and_per_cent_are_hundredths(given_text):
    assert parse_rule(f"privacy_cost_gap > {given_text}").number == 0.02


@given(st.integers(-9999, 9999))
def test_a_number_in_points_is_the_same_number_as_its_fraction(hundredths):
    number = f"{hundredths / 100:.2f}"
    assert parse_rule(f"accuracy.delta > {number}pt").number == float(f"{hundredths}e-4")


@given(st.text(max_size=60) | st.text("accuracy_gap@sex=F:dpsgd><.,'\"\\ 0", max_size=60))
def test_no_text_does_more_than_parse_or_be_refused(text):
    try:
        rule = parse_rule(text)
    except ConfigError:
        return
    assert rule.metric.name in metric_names() or "[" in rule.metric.name


@given(grouping=st.text(min_size=1), group=st.text(min_size=1))
def test_any_name_can_be_given_in_quotes(grouping, group):
    def quoted(name):
        return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'

    rule = parse_rule(f"accuracy@{quoted(grouping)}={quoted(group)} < 0.5")
    assert rule.group == GroupSelector(grouping, (group,))


def test_every_rule_that_the_pages_show_can_be_read():
    root = Path(__file__).resolve().parents[2]
    pages = [(root / name).read_text("utf-8") for name in ("README.md", "docs/ci.md")]
    table = re.findall(r"^\| `([^`]+)` \|", pages[1], re.MULTILINE)
    given = [rule for page in pages for rule in re.findall(r"--fail-on '([^']+)'", page)]
    assert len(table) >= 7
    assert len(given) >= 5
    assert len(parse_rules([*table, *given])) >= 7


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("privacy_cost_gap > 2 points", "gap of privacy cost at most 2 points"),
        ("tpr_cost_gap > 5 points", "gap of true positive rate lost at most 5 points"),
        ("selection_cost@sex=F > 1 point", "selection rate lost"),
        ("excess_risk_gap.noise > 0.1", "gap of excess risk.noise at most 0.1 nats"),
    ],
)
def test_what_must_hold_is_said_in_the_words_of_the_table(text, said):
    assert parse_rule(text).promise.startswith(said)
