"""Edits of a report by hand: a contradiction is named, any other change noticed, and neither passes."""

import copy
import json
from itertools import islice
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from edits import at, edits
from reports import sealed

from fairaudit.cli import app
from fairaudit.config.value_sources import resolve_config
from fairaudit.errors import DataError, FairauditError
from fairaudit.gate.check import check
from fairaudit.gate.grammar import parse_rules
from fairaudit.report.load import load_report, vetted
from fairaudit.score import ScoreConfig, score

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "report.json"
# What fails or is open in each report, so that any edit that makes it pass shows.
OPEN = ("privacy_cost_gap > 2pt", "epsilon > 3", "accuracy < 85%", "impact_ratio < 0.8", "delta > 1e-7")
ONE_OF = 97  # of all edits, in the fast suite


def golden():
    return json.loads(GOLDEN.read_text("utf-8"))


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    """A report on predictions of five models and five baselines, cut by two columns."""
    folder = tmp_path_factory.mktemp("given")
    draw = np.random.default_rng(3)
    frame = pd.DataFrame({"sex": draw.choice(["F", "M"], 300), "race": draw.choice(["a", "b", "c"], 300)})
    frame["paid"] = draw.integers(0, 2, 300)
    for name in (f"{kind}{seed}" for kind in "pb" for seed in range(5)):
        frame[name] = np.clip(frame["paid"] * 0.3 + 0.7 * draw.random(300), 0, 1)
    frame.to_parquet(folder / "scores.parquet")
    options = {"data": folder / "scores.parquet", "label": "paid", "group": ["sex", "race"], "out": folder}
    shared = resolve_config({**options, "favourable": "1", "format": ["json"]}).config
    columns = (tuple(f"{kind}{seed}" for seed in range(5)) for kind in "pb")
    score(ScoreConfig(shared, *columns))
    return json.loads((folder / "report.json").read_text("utf-8"))


def outcomes(report, rules):
    return [check(report, parse_rules([rule])).outcome for rule in rules]


def edited(*changes):
    """The golden report with some places changed; a change is a path and what stands there then."""
    tree = golden()
    for path, value in changes:
        *above, last = path
        parent = at(tree, above)
        parent[last] = value(copy.deepcopy(parent.get(last) if isinstance(parent, dict) else parent[last]))
    return tree


def to(value):
    return lambda _: value


PRIVACY = ("privacy", "global-adapt")
MEASURED = ("comparisons", 0)
WOMEN = (*MEASURED, "by_group", 0)
COST = (*WOMEN, "estimates", "privacy_cost")
GAP = (*MEASURED, "gaps", 0)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ([((*PRIVACY, "epsilon", "pld"), to(-3.0))], "an epsilon is below 0"),
        ([((*PRIVACY, "epsilon", "rdp"), to(-3.0))], "an epsilon is below 0"),
        ([((*PRIVACY, "epsilon", "pld"), to(3.9))], "above its target 3.2"),
        ([((*PRIVACY, "epsilon_if_all_released"), to(1.0))], "above that of all of them"),
        ([((*PRIVACY, "delta"), to(0.0))], "delta is 0"),
        ([((*PRIVACY, "delta"), to(1.0))], "delta is 1"),
        ([((*PRIVACY, "delta"), to(None))], "no epsilon or no delta"),
        ([((*PRIVACY, "epsilon"), to(None))], "no epsilon or no delta"),
        ([((*PRIVACY, "guarantee"), to("none"))], "an epsilon stands beside a guarantee that is none"),
        ([((*PRIVACY, "guarantee"), to("not established"))], "not established"),
        ([((*PRIVACY, "sample_rate"), to(1.5))], "the sample rate is 1.5"),
        ([((*PRIVACY, "steps"), to(0))], "there are 0 steps"),
        ([((*PRIVACY, "releases", 0, "noise_multiplier"), to(0.0))], "released without noise"),
        ([(("privacy",), lambda p: {"sgd": p["sgd"]})], "what is guaranteed of 'global-adapt'"),
        ([(("privacy",), lambda p: {**p, "dpsgd": p["sgd"]})], "what is guaranteed of 'dpsgd'"),
        ([(("arms",), lambda arms: [arms[0], arms[0]])], "no names of their own"),
        ([(("arms",), lambda arms: arms[:1])], "is said without an arm"),
        ([(("arms", 1, "reference"), to("gone"))], "'gone', which is no other arm"),
        ([(("arms", 1, "reference"), to("global-adapt"))], "which is no other arm"),
        ([(("arms", 1, "seeds_finished"), to(4))], "4 finished and failed seeds of 5"),
        ([(("arms", 1, f"seeds_{end}"), to(3)) for end in ("planned", "finished")], "the training with 5"),
        (
            [
                (("arms", 1, "seeds_finished"), to(4)),
                (("arms", 1, "failed"), to([{"seed": 0, "message": "diverged"}])),
            ],
            "its status is 'complete'",
        ),
        ([(("status",), to("partial"))], "its status is 'partial'"),
        ([(("comparisons",), to([]))], "'global-adapt' is not measured by 'sex'"),
        ([(("comparisons",), lambda c: [*c, *c])], "measured twice"),
        ([((*MEASURED, "arm"), to("dpsgd"))], "is not measured by 'sex'"),
        ([((*MEASURED, "by_group"), lambda g: g[:1])], "not of the groups of this report"),
        ([((*MEASURED, "by_group"), lambda g: g[::-1])], "not of the groups of this report"),
        ([((*WOMEN, "group"), to("X"))], "not of the groups of this report"),
        ([((*WOMEN, "gated"), to(False))], "not gated without one"),
        ([((*WOMEN, "reason"), to("too few"))], "gated with a reason why not"),
        ([((*WOMEN, "n_test"), to(-1))], "below 0"),
        ([((*WOMEN, "n_test"), to(None))], "hidden and yet it is gated"),
        ([((*WOMEN, "unpredicted"), to(-2))], "below 0"),
        ([((*COST, "value"), to(0.001))], "0.001 is not between"),
        ([((*COST, "value"), to(0.03))], "0.03 is not the mean over its seeds"),
        ([((*COST, "low"), to(0.05))], "is not between"),
        ([((*COST, "high"), to(0.0))], "is not between"),
        ([((*COST, "low"), to(None))], "one end"),
        ([((*COST, "value"), to(None))], "none of its own number"),
        ([((*COST, key), to(None)) for key in ("value", "low", "high")], "nothing says why"),
        ([((*COST, "records_sd"), to(-0.1))], "a standard deviation is below 0"),
        ([((*COST, "records_sd"), to(1e300))], "its interval is narrower"),
        ([((*COST, "n_seeds"), to(50))], "50 seeds of 5"),
        ([((*COST, "by_seed"), lambda s: s[:3])], "3 values stand for 5 seeds"),
        ([((*COST, "by_seed", 2), to(0.0))], "is not the mean over its seeds"),
        ([((*GAP, "absolute", "value"), to(0.02))], "is not the mean over its seeds"),
        ([((*GAP, "signed", "value"), to(-0.029))], "is not between"),
        ([((*GAP, "a"), to("X"))], "'X' and 'M' are no two groups"),
        ([((*GAP, "a"), to("M"))], "'M' and 'M' are no two groups"),
        ([((*GAP, "kind"), to("population"))], "which its groups contradict"),
        ([((*GAP, "gated"), to(False))], "not gated without one"),
        ([((*MEASURED, "gaps"), lambda gaps: [*gaps, gaps[0]])], "told twice"),
        ([(("data", "rows"), to(19))], "do not add up to 19 rows"),
        ([(("data", "rows_read"), to(3))], "more rows are used than were read"),
        ([(("data", "label", "classes", 0, "rows"), to(9))], "do not add up"),
        ([(("data", "label", "favourable"), to("2"))], "no class of it"),
        ([(("data", "label", "favourable_origin"), to(""))], "is not told"),
        ([(("data", "groupings", 0, "groups", 0, "rows"), to(9))], "do not add up"),
        ([(("data", "groupings", 0, "groups", 0, "name"), to("M"))], "no names of their own"),
        ([(("data", "groupings", 0, "steers"), to(False))], "no names of their own"),
        ([(("verdict",), to("pass"))], "its verdict is not that of its gates"),
        ([(("sklearn_baseline", "arm"), to("gone"))], "no arm of it"),
        ([(("selection", 0, "grouping"), to("age"))], "not of the groups"),
    ],
)  # fmt: skip
def test_a_contradiction_is_named_even_where_the_digest_was_made_anew(tmp_path, changes, said):
    text = sealed(edited(*changes))
    with pytest.raises(DataError) as caught:
        vetted(text, name="report.json")
    assert said in str(caught.value)
    assert "report.json is damaged" in str(caught.value)
    assert caught.value.exit_code == 2


def test_the_largest_of_several_gaps_may_have_an_interval_of_another_pair(tmp_path):
    """Of two gaps of 1 the first is of few rows, and the end of its interval that of the other's many."""
    group = np.repeat(["a", "b", "c"], [1000, 30, 1000])
    frame = pd.DataFrame({"group": group, "paid": np.arange(len(group)) % 2})
    for seed in range(2):
        frame[f"p{seed}"] = np.where(group == "a", 0.1, 0.9 - seed / 100)
    frame.to_parquet(tmp_path / "scores.parquet")
    options = {"data": tmp_path / "scores.parquet", "label": "paid", "group": ["group"], "out": tmp_path}
    shared = resolve_config({**options, "favourable": "1", "format": ["json"]}).config
    score(ScoreConfig(shared, ("p0", "p1"), ()))
    report = load_report(tmp_path / "report.json")
    largest = next(g for g in report.comparisons[0].gaps if (g.metric, g.kind) == ("tpr", "max"))
    assert {largest.a, largest.b} == {"a", "b"}
    assert largest.absolute.value == 1.0
    assert largest.absolute.value - largest.absolute.low < largest.absolute.records_sd


def test_what_gates_said_must_be_what_their_findings_say():
    from fairaudit.gate.check import judged
    from fairaudit.report.to_json import to_json

    report = judged(vetted(json.dumps(golden()), name="x"), parse_rules(["epsilon > 3"]))
    tree = json.loads(to_json(report))
    assert vetted(json.dumps(tree), name="x").verdict == "fail"
    tree["verdict"] = tree["gates"][0]["outcome"] = "pass"
    with pytest.raises(DataError, match="another outcome than its findings"):
        vetted(sealed(tree), name="x")


def test_a_type_is_not_taken_for_another():
    for path, value in ((("privacy", "global-adapt", "epsilon", "pld"), True), (("data", "rows"), "20")):
        with pytest.raises(DataError, match="not a fairaudit report"):
            vetted(sealed(edited((path, to(value)))), name="x")


@pytest.mark.parametrize("key", ['"status"', '"pld"', '"gated"', '"low"'])
def test_a_key_that_stands_there_twice_is_refused(key):
    text = GOLDEN.read_text("utf-8")
    place = text.index(f"{key}:")
    value = text[place : text.index("\n", place)].rstrip(",")
    doubled = f"{text[:place]}{value if not value.endswith('{') else key + ': null'}, {text[place:]}"
    with pytest.raises(DataError, match="stands there twice"):
        vetted(doubled, name="x")


def test_another_layout_is_no_edit_and_volatile_fields_are_judged_by_nobody():
    tree = golden()
    for text in (json.dumps(tree), json.dumps(dict(reversed(tree.items())), indent=7)):
        assert vetted(text, name="x").content_sha256 == tree["content_sha256"]
    assert vetted(json.dumps({**tree, "created_utc": "later"}), name="x").created_utc == "later"


def test_without_its_digest_a_report_is_refused():
    tree = golden()
    del tree["content_sha256"]
    with pytest.raises(DataError, match="not as it was written"):
        vetted(json.dumps(tree), name="x")


@pytest.mark.parametrize("command", ["gate", "report", "compare"])
def test_every_command_that_reads_a_report_refuses_a_damaged_one(tmp_path, capsys, command):
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    good.write_text(GOLDEN.read_text("utf-8"), "utf-8")
    bad.write_text(json.dumps(edited(((*PRIVACY, "epsilon", "rdp"), to(9.0)))), "utf-8")
    rest = {"gate": ["--fail-on", "epsilon > 3"], "report": ["--out", "-"], "compare": [str(good)]}[command]
    assert app.main([command, str(good), *rest]) in (0, 1)
    capsys.readouterr()
    assert app.main([command, str(bad), *rest]) == 2
    assert "bad.json is not as it was written" in capsys.readouterr().err
    if command == "gate":
        baseline = ["--fail-on", "epsilon.delta > 0", "--baseline", str(bad)]
        assert app.main(["gate", str(good), *baseline]) == 2


def passing(tree, rules, every, start=5):
    """Edits whose report is read, without a new digest and with one, and passes what did not pass before."""
    before = outcomes(vetted(json.dumps(tree), name="x"), rules)
    assert "pass" not in before
    read, passed = [], []
    for what, path, make in islice(edits(tree), start, None, every):
        made = make()
        if content_is_read(json.dumps(made)):
            read.append((what, path))
        try:
            report = vetted(sealed(made), name="x")
            passed += [(what, path) for found in outcomes(report, rules) if found == "pass"]
        except FairauditError:
            continue
    return read, passed


def content_is_read(text):
    try:
        vetted(text, name="x")
    except DataError:
        return False
    return True


def is_claim(path):
    """A number of the guarantee that stands in one place only, so that nothing contradicts another."""
    return path[0] == "privacy" and path[2:] in (("delta",), ("epsilon", "pld"))


def laws_of_edits(tree, rules, every):
    read, passed = passing(tree, rules, every)
    assert read == []
    assert [edit for edit in passed if not is_claim(edit[1])] == []


def test_an_edit_of_one_place_is_noticed_and_passes_nothing():
    laws_of_edits(golden(), OPEN, ONE_OF)


@pytest.mark.slow
def test_every_edit_of_one_place_is_noticed_and_passes_nothing():
    laws_of_edits(golden(), OPEN, 1)


def test_an_edit_of_a_report_on_given_predictions_passes_nothing(given):
    rules = ("accuracy < 0.9", "accuracy_gap > 1pt", "privacy_cost_gap@race=a,b > 1pt", "impact_ratio < 0.99")
    laws_of_edits(given, rules, 8009)


def test_the_law_sees_a_loader_that_checks_nothing(monkeypatch):
    """Without the digest and the contradictions, edits of one place do pass."""
    from fairaudit.report import load

    monkeypatch.setattr(load, "incoherence", lambda report: "")
    monkeypatch.setattr(load, "content_sha256", lambda content: content.get("content_sha256"))
    with pytest.raises(AssertionError):
        laws_of_edits(golden(), OPEN, ONE_OF)


@pytest.mark.parametrize(
    "change",
    [
        {"worst_off": ["M"]},
        {"worst_off": []},
        {"reading": "at most"},
        {"a": "M", "b": "F"},
        {"limit": 0.5},
        {"size": {"value": 0.001, "low": 0.0, "high": 0.002}},
    ],
)
def test_a_summary_that_its_figures_do_not_bear_out_is_refused(change):
    content = golden()
    method = content["summary"]["methods"][0]
    assert all(method["accuracy"][key] != value for key, value in change.items())
    vetted(sealed(content), name="report.json")
    method["accuracy"].update(change)
    with pytest.raises(DataError, match="damaged: its summary is not what"):
        vetted(sealed(content), name="report.json")


def test_a_summary_of_another_verdict_or_without_one_of_its_methods_is_refused():
    for key, value in (("methods", []), ("verdicts", {"global-adapt": "pass", "dpsgd": "fail"})):
        content = golden()
        assert content["summary"][key] != value
        content["summary"][key] = value
        with pytest.raises(DataError, match="damaged: its summary is not what"):
            vetted(sealed(content), name="report.json")
