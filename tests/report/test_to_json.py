import gzip
import json
import math
from pathlib import Path

import jsonschema
import pytest
from changed import replace
from golden import assert_golden
from handmade import comparison, findings, metadata
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from fairaudit.analysis.build import build_report
from fairaudit.errors import DataError
from fairaudit.gate.check import check
from fairaudit.gate.grammar import parse_rules
from fairaudit.report.load import load_report
from fairaudit.report.render.markdown import to_markdown
from fairaudit.report.to_json import read_report, schema_json, to_json
from fairaudit.results.estimates import Estimate, estimated

anything = st.one_of(st.none(), st.floats(allow_nan=True, allow_infinity=True))


@pytest.fixture
def report(monkeypatch):
    monkeypatch.setattr("fairaudit.analysis.build_facts.version", lambda name: "0.6.0")
    return build_report(findings(), metadata())


def refuse(literal):
    raise AssertionError(f"{literal} in JSON")


def test_the_report_is_as_reviewed(report):
    assert_golden("report.json", to_json(report))


def test_the_schema_is_as_reviewed():
    assert_golden("schema.json", schema_json())


def test_the_report_fits_its_own_schema(report):
    schema = json.loads(schema_json())
    jsonschema.Draft202012Validator.check_schema(schema)
    content = json.loads(to_json(report))
    jsonschema.validate(content, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**content, "surprise": 1}, schema)


def test_a_report_read_back_is_written_the_same(report):
    text = to_json(report)
    assert to_json(read_report(text, name="report.json")) == text


# Written by the program as it was before schema 2, from the sample table; not made anew.
OLDER = Path(__file__).resolve().parents[1] / "golden" / "report-1.json"
SECOND = OLDER.with_name("report-2.json.gz")


def test_a_stored_report_of_schema_1_is_read_as_one_of_today(tmp_path):
    """It held a p over seeds, took the positive value for the favourable one, and had no digest."""
    report = load_report(OLDER)
    stored = json.loads(OLDER.read_text("utf-8"))
    assert (stored["schema_version"], report.schema_version) == (1, 3)
    label = report.data.label
    assert (label.favourable, label.favourable_origin) == (stored["data"]["label"]["positive"], "assumed")
    assert [part.favourable for part in report.selection] == [p["positive"] for p in stored["selection"]]
    assert any(gap["wilcoxon_p"] for part in stored["comparisons"] for gap in part["gaps"])
    assert "wilcoxon" not in to_json(report) + schema_json()
    assert report.changed is None  # it did not judge changes together
    rules = [gate["rule"] for gate in stored["gates"]]
    outcomes = [check(report, [rule]).outcome for rule in parse_rules(rules)]
    assert outcomes == [gate["outcome"] for gate in stored["gates"]]
    (tmp_path / "now.json").write_text(to_json(report), "utf-8")
    again = load_report(tmp_path / "now.json")
    assert again.comparisons == report.comparisons
    assert to_markdown(again).startswith("# Cost of private training by group: loans.parquet")


def test_a_stored_report_of_schema_2_is_read_as_one_of_today(tmp_path):
    """It judged papers' claims by a p over seeds, and had names of its own for what it held."""
    path = tmp_path / "report.json"
    path.write_bytes(gzip.decompress(SECOND.read_bytes()))
    stored, report = json.loads(path.read_text("utf-8")), load_report(path)
    assert (stored["schema_version"], report.schema_version) == (2, 3)
    check = report.sklearn_baseline
    assert (check.baseline, check.baseline_accuracy) == tuple(
        stored["yardstick"][name] for name in ("yardstick", "yardstick_accuracy")
    )
    was, now = stored["diagnostics"]["decomposition"], report.diagnostics.decomposition
    assert now.arms["dpsgd"].groups[1].statistics["hessian_trace"].by_seed == pytest.approx(
        was["arms"]["dpsgd"]["groups"][1]["traits"]["hessian_trace"]["by_seed"]
    )
    assert was["claims"][0]["p"]
    assert stored["why"]["sentences"]
    assert (now.claims, report.why) == ((), None)
    (tmp_path / "now.json").write_text(to_json(report), "utf-8")
    assert load_report(tmp_path / "now.json").comparisons == report.comparisons
    stored["comparisons"][0]["by_group"][0]["n_test"] += 1
    path.write_text(json.dumps(stored), "utf-8")
    with pytest.raises(DataError, match="is not as it was written"):
        load_report(path)


def test_what_schema_1_said_beyond_its_evidence_is_dropped():
    """Claims judged by a p over the seeds of one file, and sentences on who pays and why."""
    stored = json.loads(OLDER.read_text("utf-8"))
    claim = {"statement": "the bound is negative", "source": "a paper", "expected": "-", "found": ["-"] * 5,
             "values": [-1.0] * 5, "held": 5, "p": 0.03125, "verdict": "held"}  # fmt: skip
    read = {"steps": 8, "batches": 8, "hessian_records": 9, "optimizer": "sgd", "arms": {}, "claims": [claim]}
    said = {"kind": "finding", "text": "F pays", "rests_on": ["comparisons"]}
    stored["diagnostics"]["decomposition"] = read
    stored["why"] = {"headline": "F pays", "sentences": [said]}
    report = read_report(json.dumps(stored), name="report.json")
    assert report.diagnostics.decomposition.claims == ()
    assert report.diagnostics.decomposition.steps == 8
    assert report.why is None
    assert "F pays" not in to_markdown(report)


def test_no_p_value_over_seeds_is_a_field():
    names = {
        name for part in json.loads(schema_json())["$defs"].values() for name in part.get("properties", ())
    }
    assert not names & {"p", "wilcoxon_p", "p_value"}
    assert "SignClaim" in json.loads(schema_json())["$defs"]


@pytest.mark.parametrize("place", ["data", "selection", "comparisons", "diagnostics"])
def test_what_only_calls_itself_schema_1_is_no_report(place):
    stored = json.loads(OLDER.read_text("utf-8"))
    for content in ({**stored, place: None}, {**stored, place: [1]}, {**stored, "surprise": 1}):
        with pytest.raises(DataError, match="is not a fairaudit report"):
            read_report(json.dumps(content), name="report.json")


def test_keys_are_sorted_so_that_two_reports_can_be_compared(report):
    def check(content):
        if isinstance(content, dict):
            assert list(content) == sorted(content)
            for value in content.values():
                check(value)
        if isinstance(content, list):
            for value in content:
                check(value)

    check(json.loads(to_json(report)))


def test_bounds_and_epsilon_are_rounded_outward_and_the_object_keeps_every_digit(report):
    content = json.loads(to_json(report))
    epsilon = content["privacy"]["global-adapt"]["epsilon"]
    assert (epsilon["pld"], epsilon["rdp"]) == (3.13488, 3.4436)
    assert report.privacy["global-adapt"].epsilon.pld == 3.1348761234
    assert content["privacy"]["global-adapt"]["epsilon_if_all_released"] == 9.87655
    written = content["comparisons"][0]["by_group"][0]["estimates"]["privacy_cost"]
    exact = report.comparisons[0].by_group[0].estimates["privacy_cost"]
    assert written["low"] <= exact.low < exact.high <= written["high"]
    assert written["high"] == 0.0551235


@given(
    value=anything,
    low=anything,
    high=anything,
    seeds=st.lists(anything.filter(lambda x: x is not None), max_size=3),
)
def test_no_number_can_put_nan_into_the_json(value, low, high, seeds):
    wild = estimated(
        value, low, high, training_sd=value, records_sd=low, n_seeds=1, n_test=1, unit="nats", by_seed=seeds
    )
    group = replace(comparison().overall, estimates={"privacy_cost": wild})
    found = replace(findings(), comparisons=(replace(comparison(), overall=group),))
    content = json.loads(to_json(build_report(found, metadata())), parse_constant=refuse)
    written = content["comparisons"][0]["overall"]["estimates"]["privacy_cost"]
    if value is None or not math.isfinite(value):
        assert written["value"] is None
        assert written["reason"]
        assert written["low"] is None
    elif written["low"] is not None:
        assert written["low"] <= low
        assert written["high"] >= high


def test_a_nan_that_slips_past_the_builder_is_refused_by_the_model():
    fields = {
        "low": None, "high": None, "training_sd": None, "records_sd": None, "n_seeds": 1, "n_test": 1,
        "unit": "fraction", "reason": "", "by_seed": (),
    }  # fmt: skip
    assert Estimate(value=0.5, **fields).value == 0.5
    with pytest.raises(ValidationError):
        Estimate(value=math.nan, **fields)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is not JSON"),
        ('{"schema_version": 99}', "newer than this tool's 3"),
        ("{}", "is not a fairaudit report"),
        ("[]", "is not a fairaudit report"),
    ],
)
def test_what_is_not_a_report_is_refused_in_one_line(text, said):
    with pytest.raises(DataError) as caught:
        read_report(text, name="r.json")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
