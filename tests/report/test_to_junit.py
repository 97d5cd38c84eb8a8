from pathlib import Path
from xml.etree import ElementTree

import pytest
from handmade import comparison
from reports import report_of, with_measure
from xmlschema import XMLSchema10

from fairaudit.gate.check import judged
from fairaudit.gate.grammar import parse_rules
from fairaudit.report.render.junit import gates_to_junit, to_junit

RULES = ["privacy_cost_gap > 0.01", "privacy_cost_gap > 0.02", "privacy_cost_gap > 0.05"]

SCHEMA = XMLSchema10(Path(__file__).parents[1] / "support" / "junit.xsd")


def validate(text):
    """Raise where the XML is not JUnit, or where its sums are not those of its cases."""
    root = ElementTree.fromstring(text.encode())
    SCHEMA.validate(root)
    for suite in root:
        assert int(suite.get("tests")) == len(suite)
        for tag, attribute in (
            ("failure", "failures"),
            ("error", "errors"),
            ("skipped", "skipped"),
        ):
            assert int(suite.get(attribute)) == len(suite.findall(f"testcase/{tag}"))
    return root


def xml(*rules, inconclusive=None, **options):
    return gates_to_junit(judged(report_of(**options), parse_rules(rules)), inconclusive)


def test_every_rule_is_one_test_case_of_a_valid_file():
    root = validate(xml(*RULES))
    cases = root.findall("testsuite/testcase")
    assert [case.get("name") for case in cases] == RULES
    assert [[child.tag for child in case] for case in cases] == [["failure"], ["error"], []]
    assert "global-adapt · sex = F, M against sgd: 2.90 points [1.19, 4.61]" in cases[0][0].text


@pytest.mark.parametrize(
    ("counts_as", "tag"), [("fail", "failure"), ("pass", "skipped"), (None, "error")]
)
def test_an_inconclusive_rule_is_what_it_is_said_to_count_as(counts_as, tag):
    root = validate(xml(RULES[1], inconclusive=counts_as))
    assert [child.tag for child in root.find("testsuite/testcase")] == [tag]


def test_the_reports_own_option_says_what_an_inconclusive_rule_counts_as():
    report = judged(report_of(inconclusive="pass"), parse_rules(RULES[1:2]))
    assert validate(to_junit(report)).find("testsuite/testcase/skipped") is not None


def test_a_group_that_a_rule_leaves_out_is_told():
    small = with_measure(comparison(), "F", gated=False, reason="too small")
    report = judged(report_of(small), parse_rules(["accuracy < 0.5"]))
    told = validate(to_junit(report)).find("testsuite/testcase/system-out").text
    assert told == "not judged: sex = F: too small"


def test_a_report_without_gates_has_no_test_case():
    root = validate(to_junit(report_of()))
    assert root.find("testsuite").get("tests") == "0"
