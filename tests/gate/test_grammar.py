import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairaudit.errors import ConfigError
from fairaudit.gate.grammar import GroupSelector, parse_rule, parse_rules
from fairaudit.gate.vocabulary import metric_names
from fairaudit.metrics.registry import spec_of


def parts(text):
    rule = parse_rule(text)
    return (
        rule.metric.name,
        rule.statistic,
        rule.is_change,
        rule.group,
        rule.arm,
        rule.operator,
        rule.number,
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("accuracy_gap > 0.05", ("accuracy_gap", "interval", False, None, "", ">", 0.05)),
        (
            "privacy_cost_gap.ci_high>0.05",
            ("privacy_cost_gap", "ci_high", False, None, "", ">", 0.05),
        ),
        ("impact_ratio < .8", ("impact_ratio", "interval", False, None, "", "<", 0.8)),
        ("epsilon >= 3", ("epsilon", "interval", False, None, "", ">=", 3.0)),
        ("epsilon:dpsgd@3 > 3", ("epsilon", "interval", False, None, "dpsgd@3", ">", 3.0)),
        ("accuracy_gap.delta > 1e-2", ("accuracy_gap", "interval", True, None, "", ">", 0.01)),
        ("accuracy_gap.delta.mean > 0", ("accuracy_gap", "mean", True, None, "", ">", 0.0)),
        ("reference.tpr_gap.max <= .1", ("reference.tpr_gap", "max", False, None, "", "<=", 0.1)),
        ("accuracy.delta < -1e-2", ("accuracy", "interval", True, None, "", "<", -0.01)),
        (
            "accuracy@sex=F < 0.70",
            ("accuracy", "interval", False, GroupSelector("sex", ("F",), ""), "", "<", 0.7),
        ),
        (
            "accuracy@F:global:as-published@3 < 0.7",
            (
                "accuracy",
                "interval",
                False,
                GroupSelector("", (), "F"),
                "global:as-published@3",
                "<",
                0.7,
            ),
        ),
        (
            'tpr[2].mean@"marital status"="never, ever" > 0',
            (
                "tpr[2]",
                "mean",
                False,
                GroupSelector("marital status", ("never, ever",), ""),
                "",
                ">",
                0.0,
            ),
        ),
        (
            r"""loss@'a:b'="c\"d" > 0""",
            ("loss", "interval", False, GroupSelector("a:b", ('c"d',), ""), "", ">", 0.0),
        ),
        (
            "excess_risk_gap@digit=2,8 > 0",
            (
                "excess_risk_gap",
                "interval",
                False,
                GroupSelector("digit", ("2", "8"), ""),
                "",
                ">",
                0.0,
            ),
        ),
    ],
)
def test_every_part_of_a_rule_is_read(text, expected):
    assert parts(text) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("accuracy_gap", "the shell|a shell takes an unquoted >"),
        ("accuracy_gap 0.05", "no operator"),
        ("0.1 < accuracy_gap < 0.5", "more than one operator"),
        ("accuracy_gap >", "one number"),
        ("accuracy_gap > 5 nats", "not counted in nats"),
        ("accuracy_gap > 5p", "is not a number"),
        ("accuracy_gap > nan", "is not a number"),
        ("accuracy_gap > 1e999", "finite"),
        ("accuracy_gap > \u0660.\u0665", "is not a number"),  # Arabic digits, which float() reads
        ("excess_risk_gap > 2pt", "not counted in"),
        ("epsilon > 3%", "not counted in"),
        ("impact_ratio < 80pt", "not counted in pt"),
        ("accuracy gap > 0.05", "begin with one metric"),
        ("acuracy_gap > 0.05", "did you mean 'accuracy_gap'"),
        ("accuracy_gap.high > 0.05", "unknown metric 'accuracy_gap.high'"),
        ("train.accuracy_gap > 0.05", "unknown metric"),
        ("change.accuracy > 0.05", "unknown metric"),
        ("epsilon@sex=F > 3", "not of a group"),
        ("accuracy@sex=F,,M > 0.7", "is not a group"),
        ("accuracy@never married > 0.7", "is not a group"),
        ('accuracy@"sex > 0.7', "is not a group"),
        ("accuracy_gap@sex=a,b,c > 0.7", "between two groups"),
        ("privacy_cost_mean_gap@sex=F > 0", "over all groups"),
        ("accuracy: > 0.7", "names no method"),
        ("accuracy > 0." + "1" * 3000, "too long"),
    ],
)
def test_a_rule_that_cannot_be_read_is_refused_in_one_line(text, said):
    with pytest.raises(ConfigError) as caught:
        parse_rule(text)
    assert any(part in str(caught.value) for part in said.split("|"))
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize("name", metric_names())
def test_every_metric_that_is_offered_can_be_used_and_is_said_in_words(name):
    rule = parse_rule(f"{name} > 0.5")
    assert rule.metric.name == name
    assert rule.words().startswith("fails if the ")
    said = rule.words().partition(" is above ")[2]
    by_unit = {
        "nats": {"0.5"},
        "fraction": {"0.5 (50 %)", "0.5 (50 points)"},
        "ratio": {"0.5"},
        "": {"0.5"},
    }
    assert said in by_unit[rule.metric.unit]
    if rule.metric.kind != "arm":
        assert rule.metric.unit == spec_of(rule.metric.key).unit  # as the audit itself counts it


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "privacy_cost_gap.ci_high > 0.02",
            "fails if the gap between groups in accuracy lost in private training, upper end of "
            "the 95 % interval, under any private method is above 0.02 (2 points)",
        ),
        (
            "accuracy@sex=F:dpsgd < 0.7",
            "fails if the accuracy for sex = F under dpsgd is below 0.7 (70 %)",
        ),
        (
            "accuracy@sex=F:dpsgd < 70%",
            "fails if the accuracy for sex = F under dpsgd is below 0.7 (70 %)",
        ),
        (
            "privacy_cost@F > 1pt",
            "fails if the accuracy lost in private training for F under any private method is "
            "above 0.01 (1 point)",
        ),
        (
            "accuracy.delta@F < -2pts",
            "fails if the change since the baseline of the accuracy for F under any private method "
            "is below -0.02 (-2 points)",
        ),
        (
            "loss@overall >= 1",
            "fails if the loss (nats) for all test rows under any private method is at least 1",
        ),
        (
            "accuracy_gap.delta <= 0",
            "fails if the change since the baseline of the gap between groups in accuracy "
            "under any private method is at most 0 (0 points)",
        ),
        ("epsilon > 3", "fails if the epsilon under any private method is above 3"),
    ],
)
def test_a_rule_is_echoed_in_words(text, words):
    assert parse_rule(text).words() == words


def test_a_rule_given_twice_is_judged_once():
    assert [r.text for r in parse_rules(["epsilon > 3", "epsilon  >  3", "delta > 1e-5"])] == [
        "epsilon > 3",
        "delta > 1e-5",
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("privacy_cost_gap > 2", "lies between 0 and 1 (for 2 in a hundred write 0.02 or 2%"),
        ("privacy_cost_gap > 1", "write 0.01 or 1%"),
        ("privacy_cost_gap >= 1", "between 0 and 1"),
        ("privacy_cost_gap < -0.1", "between 0 and 1"),
        ("privacy_cost < -1.5", "between -1 and 1"),
        ("privacy_cost_mean_gap > 5", "write 0.05 or 5%"),
        ("accuracy < 70", "write 0.7 or 70%"),
        ("impact_ratio < 80", "write 0.8 or 80%"),
        ("loss < -1", "is not below 0"),
        ("epsilon <= 0", "is not below 0"),
        ("delta > 1", "between 0 and 1"),
        ("accuracy_gap.delta > 2", "the change in accuracy_gap lies between -1 and 1"),
    ],
)
def test_a_limit_outside_of_what_its_number_can_be_is_refused(text, said):
    with pytest.raises(ConfigError) as caught:
        parse_rule(text)
    assert said in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    "text",
    [
        *("accuracy >= 1", "accuracy <= 0", "privacy_cost < 0", "privacy_cost_gap > 0.99"),
        *("impact_ratio < 1", "excess_risk < -3", "loss > 104", "delta < 1e-6", "epsilon > 1e6"),
        *("epsilon.delta < 0", "accuracy.delta < -0.5"),
    ],
)
def test_a_rule_that_some_model_meets_and_another_does_not_is_kept(text):
    assert parse_rule(text).text == text


@pytest.mark.parametrize(
    "given_text", ["2pt", "2pts", "2%", "2 pt", "2 %", "0.02", "2e-2", "+.02", "2.0pt"]
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
    assert rule.group == GroupSelector(grouping, (group,), "")


def test_every_rule_that_the_pages_show_can_be_read():
    root = Path(__file__).resolve().parents[2]
    table = re.findall(
        r"^\| `([^`]+)` \|", (root / "docs" / "ci.md").read_text("utf-8"), re.MULTILINE
    )
    given = [
        rule
        for page in (root / "README.md", root / "docs" / "ci.md")
        for rule in re.findall(r"--fail-on '([^']+)'", page.read_text("utf-8"))
    ]
    assert len(table) >= 7
    assert len(given) >= 5
    assert len(parse_rules([*table, *given])) >= 7
