"""A private model that selects nobody of a group any more is told of, and rules fail for it."""

import sys

import numpy as np
import pandas as pd
import pytest

import fairaudit
from fairaudit.config.value_sources import resolve_config
from fairaudit.score import ScoreConfig, score

RULES = [
    "one_answer > 0",
    "tpr_cost > 5pt",
    "tpr_cost@sex=F > 20pt",
    "tpr_cost_gap > 5pt",
    "selection_cost_gap > 5pt",
    "selection_cost@sex=M > 10pt",
    "privacy_cost_gap > 50pt",
]
LEARNER = """
import numpy as np

class Chances:
    def __init__(self, weights, refused):
        self.weights, self.refused = weights, refused

    def predict_proba(self, features):
        logits = np.asarray(features) @ self.weights[:-1] + self.weights[-1]
        logits -= 9 * (np.asarray(features) @ self.refused > 0)
        upper = 1 / (1 + np.exp(-logits))
        return np.stack([1 - upper, upper], 1)

def train(data, privacy, seed):
    '''Without privacy logistic regression; with it nobody who is tall is selected.'''
    x = np.hstack([data.features, np.ones((len(data.labels), 1))])
    weights = np.zeros(x.shape[1])
    for _ in range(60):
        weights -= 2 * x.T @ (1 / (1 + np.exp(-x @ weights)) - data.labels) / len(x)
    refused = np.zeros(len(data.names))
    if privacy is not None:
        weights += np.random.default_rng(seed).normal(size=len(weights)) * 0.05
        refused[list(data.names).index("tall")] = 1.0
    return Chances(weights, refused)
"""


def tall_women(rows=1600):
    """Every woman is tall; one in three of them earns well, of men every second."""
    draw = np.random.default_rng(3)
    frame = pd.DataFrame({"sex": draw.choice(["F", "M"], rows), "skill": draw.normal(size=rows)})
    frame["tall"] = (frame["sex"] == "F").astype(float)
    chance = 1 / (1 + np.exp(-(2.5 * frame["skill"] - 1.2 * frame["tall"])))
    frame["paid"] = np.where(draw.random(rows) < chance, "well", "badly")
    return frame


def findings(report, code):
    return [finding for finding in report.findings if finding.code == code]


def outcomes(report):
    return {gate.rule: gate.outcome for gate in report.gates}


def scored(tmp_path, frame, **options):
    path = tmp_path / "people.parquet"
    frame.to_parquet(path, index=False)
    given = {"data": path, "label": "paid", "group": ["sex"], "out": tmp_path / "out"}
    config = resolve_config({**given, "fail_on": RULES, **options}).config
    return score(ScoreConfig(config, "private", "base"))


def given_predictions(share=0.0, rows=1600):
    """Men keep their predictions; of women that the reference selects a share is selected."""
    frame = tall_women(rows)
    draw = np.random.default_rng(4)
    score_of = 2.5 * frame["skill"] - 1.2 * frame["tall"]
    frame["base"] = np.where(score_of > 0, "well", "badly")
    kept = (frame["sex"] == "M") | (draw.random(rows) < share)
    frame["private"] = np.where((score_of > 0) & kept, "well", "badly")
    return frame


def test_nobody_of_a_group_is_selected_any_more(tmp_path):
    frame = given_predictions()
    report = scored(tmp_path, frame, favourable="well")
    women = frame[frame["sex"] == "F"]
    (lost,) = findings(report, "one_answer")
    assert (lost.groups, lost.answer) == (("F",), "well")
    assert lost.numbers["share"].value == 0.0
    assert lost.numbers["reference"].value == pytest.approx((women["base"] == "well").mean())
    assert not findings(report, "class_lost")
    assert not findings(report, "answer_unknown")
    truly = women[women["paid"] == "well"]
    gaps = {finding.measure: finding for finding in findings(report, "rate_gap")}
    assert gaps["tpr_cost"].groups == gaps["selection_cost"].groups == ("F", "M")
    assert gaps["tpr_cost"].answer == "well"
    assert gaps["tpr_cost"].numbers["cost_a"].value == pytest.approx(
        (truly["base"] == "well").mean()
    )
    assert outcomes(report) == dict.fromkeys(RULES[:5], "fail") | dict.fromkeys(RULES[5:], "pass")


def test_the_favourable_class_is_what_selection_and_hits_are_about(tmp_path):
    """Where people want the other one, nothing is lost of it; it is all that women get."""
    report = scored(tmp_path, given_predictions(), favourable="badly", positive="well")
    (lost,) = findings(report, "one_answer")
    assert lost.answer == "well"
    gap = next(g for g in report.costs[0].gaps if (g.metric, g.kind) == ("tpr_cost", "pair"))
    assert gap.signed.value < 0
    assert outcomes(report)["tpr_cost > 5pt"] == "pass"
    assert outcomes(report)["one_answer > 0"] == "fail"


def test_a_fifth_is_enough_to_keep_a_class(tmp_path):
    report = scored(tmp_path, given_predictions(share=0.3), favourable="well")
    assert not findings(report, "one_answer")
    assert outcomes(report)["one_answer > 0"] == "pass"
    assert outcomes(report)["tpr_cost@sex=F > 20pt"] == "fail"


def test_what_too_few_rows_leave_open_is_said_with_the_rows_that_would_tell(tmp_path):
    frame = given_predictions(share=0.15)
    report = scored(tmp_path, frame, favourable="well")
    (unknown,) = findings(report, "answer_unknown")
    women = int((frame["sex"] == "F").sum())
    assert (unknown.groups, unknown.answer) == (("F",), "well")
    assert unknown.numbers["rows"].value > women
    assert not findings(report, "one_answer")
    gate = next(gate for gate in report.gates if gate.rule == "one_answer > 0")
    assert gate.outcome == "inconclusive"
    assert {target.group: target.outcome for target in gate.targets} == {
        "F": "inconclusive",
        "M": "pass",
    }
    rows = int(unknown.numbers["rows"].value)
    assert rows == float(f"{rows:.1e}")  # two digits
    assert f"about {rows:,} test rows" in gate.reason


def test_where_nobody_said_what_people_want_a_lost_selection_is_not_judged(tmp_path):
    report = scored(tmp_path, given_predictions())
    found = outcomes(report)
    assert found["selection_cost@sex=M > 10pt"] == "inconclusive"
    # Of two classes a difference is the same for either.
    assert found["selection_cost_gap > 5pt"] == "fail"
    assert found["tpr_cost > 5pt"] == found["one_answer > 0"] == "fail"


def test_of_several_classes_one_may_be_lost(tmp_path):
    """Women lose 'well'; 'fairly' is still predicted, so more than one answer is left."""
    frame = given_predictions()
    draw = np.random.default_rng(9)
    fairly = draw.random(len(frame)) < 0.3
    for column in ("paid", "base", "private"):
        frame[column] = np.where(fairly, "fairly", frame[column])
    rules = ["one_answer > 0", "tpr_cost[2] > 20pt", "tpr_cost_gap[2] > 20pt", "tpr_cost[0] > 5pt"]
    report = scored(tmp_path, frame, fail_on=rules)
    (lost,) = findings(report, "class_lost")
    assert (lost.groups, lost.answer) == (("F",), "well")
    assert not findings(report, "one_answer")
    gaps = {finding.measure: finding.answer for finding in findings(report, "rate_gap")}
    assert gaps["tpr_cost[2]"] == "well"
    assert outcomes(report) == dict(zip(rules, ("pass", "fail", "fail", "pass"), strict=True))


@pytest.mark.slow
def test_a_learner_of_ones_own_that_selects_no_woman_any_more(tmp_path, monkeypatch):
    (tmp_path / "tall_learner.py").write_text(LEARNER)
    tall_women(1200).to_csv(tmp_path / "people.csv", index=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    try:
        report = fairaudit.run_audit(
            "people.csv",
            group="sex",
            label="paid",
            favourable="well",
            trainer="tall_learner:train",
            epsilon=1.0,
            seeds=5,
            workers=1,
            diagnostics="off",
            format="json",
            fail_on=RULES,
            out="out",
        )
    finally:
        sys.modules.pop("tall_learner", None)
    (lost,) = findings(report, "one_answer")
    assert (lost.arm, lost.groups, lost.answer) == ("tall_learner.train", ("F",), "well")
    of_rates = [*findings(report, "rate_gap"), *findings(report, "rate_gap_opposed")]
    assert {"tpr_cost", "selection_cost"} <= {finding.measure for finding in of_rates}
    found = outcomes(report)
    assert {found[rule] for rule in RULES[:5]} == {"fail"}
    assert report.verdict == "fail"
