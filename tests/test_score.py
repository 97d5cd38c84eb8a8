"""Given predictions against fairlearn, against an audit's own figures, and against bad tables."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from fairaudit.data.predictions import load_scored
from fairaudit.errors import ConfigError, FairauditError
from fairaudit.layers import resolve_config
from fairaudit.metrics.compare import ONE_MODEL
from fairaudit.report.to_json import read_report
from fairaudit.report.to_markdown import to_markdown
from fairaudit.score import ScoreConfig, measure_scored, score_predictions


def people(rows=1200, seeds=5):
    draw = np.random.default_rng(0)
    frame = pd.DataFrame({"sex": np.where(draw.random(rows) < 0.3, "F", "M")})
    frame["paid"] = (draw.random(rows) < 0.4).astype(int)
    for seed in range(seeds):
        sure = draw.normal(size=rows) + 1.5 * frame["paid"] - 0.7
        frame[f"base{seed}"] = 1 / (1 + np.exp(-2 * sure))
        noisy = sure + draw.normal(size=rows) * np.where(frame["sex"] == "F", 1.5, 0.3)
        frame[f"private{seed}"] = 1 / (1 + np.exp(-2 * noisy))
    frame["decided"] = (frame["private0"] > 0.5).astype(float)
    return frame


def config(tmp_path, frame, y_pred, baseline_pred=(), **options):
    path = tmp_path / "scores.parquet"
    frame.to_parquet(path, index=False)
    given = {"data": path, "label": "paid", "group": ["sex"], "out": tmp_path / "out", "format": ["json"]}
    return ScoreConfig(resolve_config({**given, **options}).config, tuple(y_pred), tuple(baseline_pred))


def scored(tmp_path, frame, y_pred, baseline_pred=(), **options):
    return score_predictions(config(tmp_path, frame, y_pred, baseline_pred, **options))


def estimates(report, arm, group):
    compared = next(c for c in report.comparisons if c.arm == arm)
    return next(g for g in compared.by_group if g.group == group).estimates


def fairlearn_figures(frame, labels, predicted, groups):
    """MetricFrame's rates by group, as people who use fairlearn compute them."""
    from fairlearn.metrics import MetricFrame, false_positive_rate, selection_rate, true_positive_rate
    from sklearn.metrics import accuracy_score, precision_score

    return MetricFrame(
        metrics={
            "accuracy": accuracy_score,
            "selection_rate": selection_rate,
            "tpr": true_positive_rate,
            "fpr": false_positive_rate,
            "precision": precision_score,
        },
        y_true=frame[labels],
        y_pred=predicted,
        sensitive_features=frame[groups],
    )


def assert_equals_fairlearn(report, written, frame, *, labels, predicted, groups, arm="predictions"):
    oracle = fairlearn_figures(frame, labels, predicted, groups)
    for metric in oracle.by_group.columns:
        for group, expected in oracle.by_group[metric].items():
            assert estimates(report, arm, group)[metric].value == pytest.approx(expected, abs=1e-12)
            assert estimates(written, arm, group)[metric].value == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("column", ["decided", "private0"])
def test_labels_and_probabilities_give_fairlearns_figures(tmp_path, column):
    frame = people()
    report = scored(tmp_path, frame, [column])
    written = read_report((tmp_path / "out" / "report.json").read_text("utf-8"), name="report.json")
    predicted = (frame[column] > 0.5).astype(int)
    assert_equals_fairlearn(report, written, frame, labels="paid", predicted=predicted, groups="sex")


def test_a_models_predictions_on_adult_give_fairlearns_figures(tmp_path, shared_data):
    adult = pd.read_parquet(shared_data("adult.parquet"))
    labels = "income" if "income" in adult else adult.columns[-1]
    groups = next(name for name in ("sex", "gender") if name in adult)
    positive = (adult[labels].astype(str).str.contains(">50K") | (adult[labels].astype(str) == "1")).astype(
        int
    )
    inputs = adult.select_dtypes("number").drop(columns=[labels], errors="ignore").fillna(0)
    inputs = (inputs - inputs.mean()) / inputs.std().replace(0, 1)
    model = LogisticRegression(max_iter=200).fit(inputs, positive)
    frame = pd.DataFrame({"income_over": positive, "sex": adult[groups].astype(str)})
    frame["p"] = model.predict_proba(inputs)[:, 1]
    report = scored(tmp_path, frame, ["p"], label="income_over", positive="1")
    written = read_report((tmp_path / "out" / "report.json").read_text("utf-8"), name="report.json")
    predicted = model.predict(inputs)
    assert_equals_fairlearn(report, written, frame, labels="income_over", predicted=predicted, groups="sex")


def test_a_baseline_gives_costs_and_gaps_with_intervals(tmp_path):
    frame = people()
    names = [f"{kind}{seed}" for kind in ("private", "base") for seed in range(5)]
    report = scored(tmp_path, frame, names[:5], names[5:])
    assert [(arm.key, arm.reference) for arm in report.arms] == [
        ("baseline", None),
        ("predictions", "baseline"),
    ]
    women = frame[frame["sex"] == "F"]
    right = {
        k: [((women[f"{k}{s}"] > 0.5) == women["paid"]).mean() for s in range(5)] for k in ("base", "private")
    }
    cost = estimates(report, "predictions", "F")["privacy_cost"]
    assert cost.value == pytest.approx(np.mean(right["base"]) - np.mean(right["private"]), abs=1e-12)
    assert cost.low < cost.value < cost.high
    assert cost.by_seed == pytest.approx(
        [b - p for b, p in zip(right["base"], right["private"], strict=True)]
    )
    gap = next(g for g in report.costs[0].gaps if (g.metric, g.kind) == ("privacy_cost", "pair"))
    assert gap.gated
    assert gap.direction == "worse for F"


def test_one_model_has_intervals_over_its_test_rows_and_says_so(tmp_path):
    report = scored(tmp_path, people(), ["private0"], ["base0"], fail_on=["privacy_cost_gap > 0.9"])
    assert report.comparisons[0].estimand == ONE_MODEL
    accuracy = estimates(report, "predictions", "F")["accuracy"]
    assert accuracy.low < accuracy.value < accuracy.high
    assert accuracy.training_sd is None
    assert report.verdict == "pass"
    assert "one_model" in [limitation.code for limitation in report.limitations]
    assert report.costs[0].gaps[0].seeds_needed is None


def test_few_models_have_intervals_but_no_gate_reads_them(tmp_path):
    report = scored(tmp_path, people(), ["private0", "private1"], fail_on=["accuracy_gap > 0.9"])
    assert report.gates[0].outcome == "inconclusive"
    assert "gates need 5" in report.gates[0].reason


def test_a_rule_about_a_guarantee_cannot_be_told(tmp_path):
    report = scored(tmp_path, people(), ["private0"], fail_on=["epsilon > 100"])
    assert report.gates[0].outcome == "inconclusive"
    assert report.privacy["predictions"].epsilon is None
    assert report.privacy["predictions"].reason.startswith("none stated")


def test_labels_leave_undefined_what_needs_probabilities(tmp_path):
    found = estimates(scored(tmp_path, people(), ["decided"]), "predictions", "F")
    for metric in ("loss", "auc", "calibration_error"):
        assert found[metric].value is None
        assert "probabilities" in found[metric].reason
    assert found["accuracy"].value is not None


def test_one_baseline_may_stand_beside_several_predictions_and_the_report_says_what_that_costs(tmp_path):
    report = scored(tmp_path, people(), [f"private{s}" for s in range(5)], ["base0"])
    assert "shared_baseline" in [limitation.code for limitation in report.limitations]
    assert report.costs[0].overall.estimates["privacy_cost"].n_seeds == 5


def test_three_classes_take_one_column_of_probabilities_each(tmp_path):
    draw = np.random.default_rng(1)
    chances = draw.dirichlet([1, 1, 1], size=600)
    frame = pd.DataFrame(chances, columns=["pa", "pb", "pc"])
    frame["paid"] = np.array(["a", "b", "c"])[draw.integers(3, size=600)]
    frame["sex"] = np.where(draw.random(600) < 0.5, "F", "M")
    report = scored(tmp_path, frame, ["pa,pb,pc"])
    women = frame[frame["sex"] == "F"]
    right = (
        women[["pa", "pb", "pc"]].to_numpy().argmax(1) == women["paid"].map({"a": 0, "b": 1, "c": 2})
    ).mean()
    assert estimates(report, "predictions", "F")["accuracy"].value == pytest.approx(right, abs=1e-12)


def test_rows_without_a_label_or_a_prediction_are_left_out_and_counted_by_group(tmp_path):
    frame = people()
    frame["paid"] = frame["paid"].astype("Int64")
    frame.loc[:9, "paid"] = pd.NA
    frame.loc[5:29, "private0"] = np.nan
    report = scored(tmp_path, frame, ["private0"])
    assert report.data.rows == 1170
    assert {reason: sum(by.values()) for reason, by in report.data.dropped_rows.items()} == {
        "label missing": 10,
        "prediction missing": 20,
    }


def test_a_probability_just_above_one_half_stays_a_prediction_of_its_class(tmp_path):
    frame = people()
    frame["private0"] = np.where(frame["paid"] == 1, 0.5 + 1e-12, 0.5 - 1e-12)
    report = scored(tmp_path, frame, ["private0"])
    assert estimates(report, "predictions", "F")["accuracy"].value == 1.0


@pytest.mark.parametrize(
    ("change", "columns", "said"),
    [
        ({}, ["privat0"], "did you mean 'private0'"),
        ({"odd": 1.5}, ["odd"], "neither classes of the label nor probabilities"),
        ({"odd": "maybe"}, ["odd"], "values that are no class of the label"),
        ({"odd": 0.3, "even": 0.3}, ["odd,even"], "do not add up to 1"),
        ({}, ["private0,private1,private2"], "3 columns of probabilities for 2 classes"),
        ({"odd": None}, ["odd"], "no row"),
    ],
)
def test_a_column_that_holds_no_predictions_is_refused_in_one_line(tmp_path, change, columns, said):
    frame = people().assign(**change)
    with pytest.raises(FairauditError) as caught:
        scored(tmp_path, frame, columns)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_baselines_and_predictions_must_pair(tmp_path):
    with pytest.raises(ConfigError, match="2 baseline columns for 3 predictions"):
        scored(tmp_path, people(), ["private0", "private1", "private2"], ["base0", "base1"])


def test_the_report_can_be_read_rendered_and_repeated(tmp_path):
    report = scored(tmp_path, people(), ["private0"], format=["json", "md"])
    text = (tmp_path / "out" / "report.md").read_text("utf-8")
    stored = read_report((tmp_path / "out" / "report.json").read_text("utf-8"), name="report.json")
    assert to_markdown(stored) == text
    assert "# Predictions by group" in text
    assert "Privacy cost" not in text
    assert "--y-true paid --y-pred private0 --group sex" in stored.reproduce
    assert json.loads((tmp_path / "out" / "report.json").read_text("utf-8"))["training"] is None
    assert report.training is None


@pytest.mark.slow
def test_the_interval_of_one_model_covers_the_gap_on_new_people(tmp_path):
    """Accuracy .8 and .7, 300 people each: 95 % intervals must hold the true gap of .1."""
    covered = []
    frame = people(600, seeds=1)
    frame["sex"] = np.where(np.arange(600) % 2, "F", "M")
    base = load_scored(config(tmp_path, frame, ["decided"]).shared, ["decided"], [])
    draw = np.random.default_rng(5)
    for _ in range(400):
        right = draw.random(600) < np.where(np.arange(600) % 2, 0.7, 0.8)
        said = np.where(right, base.dataset.labels, 1 - base.dataset.labels)
        given = type(base)(base.dataset, (np.eye(2, dtype=np.float32)[said],), (), True)
        gap = next(g for g in measure_scored(given)[0].gaps if (g.metric, g.kind) == ("accuracy", "pair"))
        covered.append(gap.signed.low <= -0.1 <= gap.signed.high)
    assert 0.92 <= np.mean(covered) <= 0.99
