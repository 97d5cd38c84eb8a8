import json
import math
from pathlib import Path

import jsonschema
import pytest
from changed import replace
from golden import assert_golden
from handmade import built, comparison, findings
from hypothesis import given
from hypothesis import strategies as st
from places import ROOT
from refusals import refused_in_one_line
from reports import sealed

from fairaudit.cli import app
from fairaudit.errors import DataError
from fairaudit.report.model import VOLATILE
from fairaudit.report.to_json import read_report, schema_json, to_json
from fairaudit.results.estimates import estimated

anything = st.one_of(st.none(), st.floats(allow_nan=True, allow_infinity=True))


GOLDEN = ROOT / "tests" / "golden" / "report.json"


def refuse(literal):
    raise AssertionError(f"{literal} in JSON")


def test_the_report_is_as_reviewed(report):
    assert_golden("report.json", to_json(report))


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


def test_bounds_and_epsilon_are_rounded_outward_and_the_object_keeps_every_digit(report):
    content = json.loads(to_json(report))
    epsilon = next(a for a in content["arms"] if a["key"] == "global-adapt")["privacy"]["epsilon"]
    assert (epsilon["pld"], epsilon["rdp"]) == (3.13488, 3.4436)
    assert report.privacy["global-adapt"].epsilon.pld == 3.1348761234
    assert content["training"]["epsilon_if_all_released"] == 9.87655
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
        value,
        low,
        high,
        training_sd=value,
        records_sd=low,
        n_seeds=1,
        n_test=1,
        unit="nats",
        by_seed=seeds,
    )
    group = replace(comparison().overall, estimates={"privacy_cost": wild})
    found = replace(findings(), comparisons=(replace(comparison(), overall=group),))
    content = json.loads(to_json(built(found)), parse_constant=refuse)
    written = content["comparisons"][0]["overall"]["estimates"]["privacy_cost"]
    if value is None or not math.isfinite(value):
        assert written["value"] is None
        assert written["reason"]
        assert written["low"] is None
    elif written["low"] is not None:
        assert written["low"] <= low
        assert written["high"] >= high


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is not JSON"),
        ('{"schema_version": 99}', "newer than this tool's 2"),
        ("{}", "is not a fairaudit report"),
        ("[]", "is not a fairaudit report"),
    ],
)
def test_what_is_not_a_report_is_refused_in_one_line(text, said):
    with refused_in_one_line(DataError, said):
        read_report(text, name="r.json")


def leaves(tree, path=()):
    for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
        if isinstance(value, dict | list):
            yield from leaves(value, (*path, key))
        else:
            yield (*path, key)


def altered(value):
    """Another value of the same type."""
    if isinstance(value, bool):
        return not value
    return value + 1 if isinstance(value, int | float) else f"{value}x"


def test_a_changed_number_word_or_list_is_refused_until_the_digest_is_made_anew():
    text = GOLDEN.read_text("utf-8")
    apart = {*VOLATILE, "schema_version"}  # a later version is refused as such
    paths = [path for path in leaves(json.loads(text)) if path[0] not in apart]
    for path in paths[::31]:
        content = json.loads(text)
        *above, last = path
        parent = content
        for key in above:
            parent = parent[key]
        parent[last] = altered(parent[last])
        with pytest.raises(DataError, match=r"is not as it was written|is not a fairaudit report"):
            read_report(json.dumps(content), name="r.json")
    content = json.loads(text)
    content["arms"][1]["privacy"]["epsilon"]["rdp"] = 9.0
    assert read_report(sealed(content), name="r.json").privacy["global-adapt"].epsilon.rdp == 9.0
    del content["content_sha256"]
    with pytest.raises(DataError, match="is not as it was written"):
        read_report(json.dumps(content), name="r.json")


def test_a_type_is_not_taken_for_another_even_under_a_new_digest():
    content = json.loads(GOLDEN.read_text("utf-8"))
    content["arms"][1]["privacy"]["epsilon"]["pld"] = True
    with pytest.raises(DataError, match="not a fairaudit report"):
        read_report(sealed(content), name="r.json")


@pytest.mark.parametrize("key", ['"status"', '"pld"'])
def test_a_key_that_stands_there_twice_is_refused(key):
    text = GOLDEN.read_text("utf-8")
    place = text.index(f"{key}:")
    value = text[place : text.index("\n", place)].rstrip(",")
    with pytest.raises(DataError, match="stands there twice"):
        read_report(f"{text[:place]}{value}, {text[place:]}", name="r.json")


@pytest.mark.parametrize(
    "command",
    [
        ["gate", "good.json", "--fail-on", "epsilon.delta > 0", "--baseline", "bad.json"],
        ["report", "bad.json", "--out", "-"],
    ],
)
def test_every_command_that_reads_a_report_refuses_an_edited_one(
    tmp_path, monkeypatch, capsys, command
):
    monkeypatch.chdir(tmp_path)
    text = GOLDEN.read_text("utf-8")
    Path("good.json").write_text(text, "utf-8")
    Path("bad.json").write_text(text.replace('"rdp": 3.4436', '"rdp": 9.0'), "utf-8")
    assert app.main(command) == 2
    assert "bad.json is not as it was written" in capsys.readouterr().err
