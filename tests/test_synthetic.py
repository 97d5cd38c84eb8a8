"""Synthetic tables: made by code or given, described by group, and trained on."""

import sys

import numpy as np
import pandas as pd
import pytest

import fairaudit
from fairaudit.cli import app
from fairaudit.errors import DataError, FairauditError

MAKES = """
import fairaudit

def same(table, privacy, seed):
    assert list(table.columns) == ["x", "job", "sex", "y"] and len(table) == 480
    table.attrs["claimed"] = privacy
    return table

def mens(table, privacy, seed):
    return table[(table.sex == "M") | (table.y == "no")]

def broken(table, privacy, seed):
    return CHANGE(table)
"""


@pytest.fixture
def home(tmp_path, monkeypatch):
    draw = np.random.default_rng(3)
    frame = pd.DataFrame({"x": draw.normal(size=600), "sex": draw.choice(["F", "M", "X"], 600)})
    frame["job"] = np.where(frame["x"] > draw.normal(size=600), "cook", "smith")
    frame["y"] = np.where(frame["x"] + draw.normal(size=600) > 0.3, "yes", "no")
    frame.to_csv(tmp_path / "people.csv", index=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "makes.py").write_text(MAKES)
    yield tmp_path
    sys.modules.pop("makes", None)


def audited(**options):
    quick = {"group": "sex", "label": "y", "seeds": 2, "epochs": 2, "workers": 1, "out": "out"}
    quick |= {"format": "json", "diagnostics": "off", "positive": "yes"}
    return fairaudit.run_audit("people.csv", **{**quick, **options})


@pytest.mark.slow
def test_tables_are_described_beside_the_real_rows_and_lacking_groups_are_named(home):
    report = audited(synthesizer=["makes:same", "makes:mens"], epsilon=2)
    assert [arm.key for arm in report.arms] == ["sgd", "makes.same", "makes.mens"]
    groups = {(g.arm, g.group): g for g in report.studies["trainers"].groups}
    assert len(groups) == 6
    for (arm, name), group in groups.items():
        if arm == "makes.same":
            assert (group.share, group.rate) == (group.real_share, group.real_rate)
        elif name != "M":
            assert group.missing_classes == ("yes",)
            assert group.rate == 0.0 < group.real_rate
    assert sum(g.share for g in groups.values() if g.arm == "makes.mens") == pytest.approx(1.0)
    lacking = {w.arm for w in report.warnings if w.code == "synthetic_lacks"}
    assert lacking == {"makes.mens"}
    claims = {key: report.privacy[key].claim.epsilon for key in ("makes.same", "makes.mens")}
    assert claims == {"makes.same": 2.0, "makes.mens": None}
    costs = {c.arm: c.overall.estimates["privacy_cost"].value for c in report.costs}
    assert costs["makes.same"] < costs["makes.mens"]


BROKEN = {
    "lambda t: t.drop(columns='job')": "lacks the column 'job'",
    "lambda t: t.assign(x='a')": "column 'x' holds",
    "lambda t: t.assign(job='pilot')": "'job' has levels that no real row has: 'pilot'",
    "lambda t: t.assign(y='maybe')": "'y' has levels that no real row has: 'maybe'",
    "lambda t: t.assign(sex=None)": "'sex'",
    "lambda t: t.assign(x=t.x.where(t.x > 0))": "'x' has missing values",
    "lambda t: t[:0]": "no rows",
    "lambda t: t.to_dict()": "returned a dict, no DataFrame",
}


@pytest.mark.slow
@pytest.mark.parametrize("change", BROKEN)
def test_a_table_that_cannot_be_used_is_named_in_one_line(home, change):
    (home / "makes.py").write_text(MAKES.replace("CHANGE", f"({change})"))
    with pytest.raises(FairauditError, match="fails alike") as error:
        audited(synthesizer="makes:broken")
    assert BROKEN[change] in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.slow
def test_a_given_table_is_one_draw_and_its_intervals_are_over_test_rows(home, capsys):
    real = pd.read_csv("people.csv")
    real.assign(more=1)[real.sex != "X"].to_csv("made.csv", index=False)
    words = ["score", "--synthetic", "made.csv", "--data", "people.csv", "--group", "sex"]
    assert app.main([*words, "--y-true", "y", "--positive", "yes", "--out", "scored"]) == 0
    report = fairaudit.load_report("scored/report.json")
    (cost,) = report.costs
    assert (cost.arm, cost.reference) == ("synthetic", "sgd")
    assert cost.overall.estimates["privacy_cost"].low is not None
    assert "one_model" in {limit.code for limit in report.limitations}
    missing = {g.group: g.missing_at for g in report.studies["trainers"].groups}
    assert missing == {"F": 0, "M": 0, "X": 1}
    real.drop(columns="x").to_csv("made.csv", index=False)
    with pytest.raises(DataError, match="lacks the column 'x'"):
        audited(synthetic="made.csv", seeds=1)
    assert app.main(["score", "--group", "sex"]) == 2
