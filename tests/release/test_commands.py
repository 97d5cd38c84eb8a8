"""`train` and `predict` as they are typed."""

import json
import os
import signal
import stat
import subprocess
import sys

import pandas as pd
import pytest
from people import people

from fairaudit.cli.app import main


@pytest.fixture
def typed(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)

    def _typed(*words):
        code = main([str(word) for word in words])
        return code, capsys.readouterr().err

    return _typed


def test_a_model_is_trained_checked_and_predicts(typed, audited, tmp_path):
    report = audited(fail_on=["epsilon > 1000"])
    code, said = typed("train", "--from", report, "--method", "dpsgd", "--out", "model")
    assert code == 0
    assert "rules: pass" in said
    assert "where one new training lies with 95 % probability" in said
    kept = report.parent / "held-out-model.json"
    held = json.loads(kept.read_text())
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert [group["group"] for group in held["groups"]] == ["F", "M"]
    assert not (tmp_path / "model" / kept.name).exists()
    people().to_csv("rows.csv", index=False)
    for name in ("out.parquet", "out.csv"):
        code, said = typed("predict", "model", "--data", "rows.csv", "--out", name)
        assert code == 0
        assert "Predicted 300 rows" in said
        assert "not as the model knows them" in said
    out = pd.read_parquet("out.parquet")
    assert list(out.columns) == ["prediction", "probability_no", "probability_yes"]
    assert (out["prediction"] == pd.read_csv("out.csv")["prediction"]).all()


@pytest.mark.parametrize(
    ("options", "words", "code", "said"),
    [
        ({"fail_on": ["epsilon > 0.001"]}, (), 1, "gates fail"),
        ({"fail_on": ["privacy_cost_gap > 0.02"]}, (), 3, "inconclusive"),
        ({}, ("--method", "sgd"), 5, "no established guarantee"),
        ({"columns": None}, (), 5, "not declared"),
        ({}, ("--from", "nowhere.json"), 2, "there is no"),
        ({}, ("--out", "."), 2, "exists"),
        ({}, ("--method", "global"), 2, "was not audited"),
    ],
)
def test_what_is_refused_ends_with_its_own_code_and_writes_nothing(
    typed, audited, tmp_path, options, words, code, said
):
    given = {"--from": audited(**options), "--method": "dpsgd", "--out": "model"}
    given |= dict(zip(words[::2], words[1::2], strict=True))
    found, message = typed("train", *(word for pair in given.items() for word in pair))
    assert found == code
    assert said in message
    assert list(tmp_path.iterdir()) == []


def test_figures_of_the_audit_are_in_the_card_only_where_asked_for(typed, audited, tmp_path):
    report = audited(fail_on=["epsilon > 1000"])
    for name, words in (("bare", ()), ("full", ("--with-figures",))):
        assert typed("train", "--from", report, "--method", "dpsgd", "--out", name, *words)[0] == 0
    full, bare = ((tmp_path / name / "MODEL_CARD.md").read_text() for name in ("full", "bare"))
    assert "cost of privacy (points)" in full
    assert "points" not in bare


def test_predictions_of_a_table_of_another_kind_or_to_another_kind_are_refused(typed, audited):
    assert typed("train", "--from", audited(), "--method", "dpsgd", "--out", "model")[0] == 0
    people().drop(columns="age").to_parquet("rows.parquet")
    code, said = typed("predict", "model", "--data", "rows.parquet", "--out", "out.parquet")
    assert (code, "'age'" in said) == (2, True)
    code, said = typed("predict", "model", "--data", "rows.parquet", "--out", "out.xlsx")
    assert (code, ".parquet or .csv" in said) == (2, True)
    code, said = typed("predict", "elsewhere", "--data", "rows.parquet", "--out", "out.csv")
    assert (code, "there is no folder" in said) == (2, True)


_SLOW_LOOP = """
import os, sys, time
import fairaudit.engine.loop as loop
take = loop.Loop.take
def slow(self, steps):
    print("audit: training", file=sys.stderr, flush=True)
    while True:
        take(self, 1)
loop.Loop.take = slow
from fairaudit.cli.app import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.faults
@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_killed_training_leaves_nothing(audited, tmp_path, number):
    """Killed while it takes steps: no folder, no half of one, no file beside the report."""
    report = audited()
    before = set(report.parent.rglob("*"))
    words = ["train", "--from", str(report), "--method", "dpsgd", "--out", str(tmp_path / "model")]
    with subprocess.Popen([sys.executable, "-c", _SLOW_LOOP, *words], stderr=subprocess.PIPE) as child:
        assert any(b"audit: training" in line for line in child.stderr)
        os.kill(child.pid, number)
        child.wait(30)
    assert child.returncode in (-9, 130, 143)
    assert list(tmp_path.iterdir()) == []
    assert set(report.parent.rglob("*")) == before
