"""Given predictions against fairlearn, against an audit's own figures, and against bad tables."""

import json
from dataclasses import replace
from importlib.metadata import version
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from fairlearn.metrics import MetricFrame, false_positive_rate, selection_rate, true_positive_rate
from people import predicted
from refusals import refused_in_one_line
from sklearn.metrics import accuracy_score, precision_score, roc_auc_score

from fairaudit.config.value_sources import resolve_config
from fairaudit.errors import ConfigError, FairauditError
from fairaudit.metrics.compare import ONE_MODEL
from fairaudit.report.load import load_report
from fairaudit.report.measures import is_detected
from fairaudit.score import ScoreConfig, score


def worse_for_f(seeds=5):
    """Predictions that lose more for F than for M."""
    shares = {"F": 0.3, "M": 0.7}
    return predicted(seeds=seeds, noise={"F": 1.5, "M": 0.3}, shares=shares)


def in_rows(frame, y_pred, baseline_pred=()):
    """The columns of several seeds one below the other, as ``private`` and ``base``."""
    parts = []
    for seed, column in enumerate(y_pred):
        part = frame.assign(seed=seed, private=frame[column])
        parts.append(part.assign(base=frame[baseline_pred[seed]]) if baseline_pred else part)
    return pd.concat(parts, ignore_index=True)


def config(tmp_path, frame, y_pred, baseline_pred=None, **options):
    path = tmp_path / "scores.parquet"
    frame.to_parquet(path, index=False)
    given = {
        "data": path,
        "label": "paid",
        "group": ["sex"],
        "out": tmp_path / "out",
        "format": ["json"],
    }
    return ScoreConfig(resolve_config({**given, **options}).config, y_pred, baseline_pred)


def scored(tmp_path, frame, y_pred, baseline_pred=None, **options):
    if isinstance(y_pred, list):
        frame = in_rows(frame, y_pred, baseline_pred)
        y_pred, baseline_pred = "private", "base" if baseline_pred else None
    report = score(config(tmp_path, frame, y_pred, baseline_pred, **options))
    load_report(tmp_path / "out" / "report.json")  # no part of it contradicts another
    return report


def estimates(report, arm, group):
    compared = next(c for c in report.comparisons if c.arm == arm)
    return next(g for g in compared.by_group if g.group == group).estimates


@pytest.mark.parametrize("column", ["decided", "private0"])
def test_labels_and_probabilities_give_fairlearns_figures(tmp_path, column):
    frame = worse_for_f()
    report = scored(tmp_path, frame, column)
    oracle = MetricFrame(
        metrics={
            "accuracy": accuracy_score,
            "selection_rate": selection_rate,
            "tpr": true_positive_rate,
            "fpr": false_positive_rate,
            "precision": precision_score,
        },
        y_true=frame["paid"],
        y_pred=(frame[column] > 0.5).astype(int),
        sensitive_features=frame["sex"],
    ).by_group
    for metric in oracle.columns:
        for group, expected in oracle[metric].items():
            assert estimates(report, "predictions", group)[metric].value == pytest.approx(
                expected, abs=1e-12
            )


def test_a_baseline_gives_costs_and_gaps_with_intervals(tmp_path):
    frame = worse_for_f()
    names = [f"{kind}{seed}" for kind in ("private", "base") for seed in range(5)]
    report = scored(tmp_path, frame, names[:5], names[5:])
    assert [(arm.key, arm.reference) for arm in report.arms] == [
        ("baseline", None),
        ("predictions", "baseline"),
    ]
    women = frame[frame["sex"] == "F"]
    right = {
        k: [((women[f"{k}{s}"] > 0.5) == women["paid"]).mean() for s in range(5)]
        for k in ("base", "private")
    }
    cost = estimates(report, "predictions", "F")["privacy_cost"]
    assert cost.value == pytest.approx(
        np.mean(right["base"]) - np.mean(right["private"]), abs=1e-12
    )
    assert cost.low < cost.value < cost.high
    assert cost.by_seed == pytest.approx(
        [b - p for b, p in zip(right["base"], right["private"], strict=True)]
    )
    gap = next(g for g in report.costs[0].gaps if (g.metric, g.kind) == ("privacy_cost", "pair"))
    assert gap.gated
    assert gap.direction == "worse for F"


def test_one_model_has_intervals_over_its_test_rows_and_says_so(tmp_path):
    report = scored(
        tmp_path, worse_for_f(), "private0", "base0", fail_on=["privacy_cost_gap > 0.9"]
    )
    assert report.comparisons[0].estimand == ONE_MODEL
    accuracy = estimates(report, "predictions", "F")["accuracy"]
    assert accuracy.low < accuracy.value < accuracy.high
    assert accuracy.training_sd is None
    assert report.verdict == "pass"
    assert "one_model" in [limitation.code for limitation in report.limitations]


def test_labels_leave_undefined_what_needs_probabilities(tmp_path):
    found = estimates(scored(tmp_path, worse_for_f(), "decided"), "predictions", "F")
    for metric in ("loss", "auc", "calibration_error"):
        assert found[metric].value is None
        assert "probabilities" in found[metric].reason
    assert found["accuracy"].value is not None


def test_three_classes_take_one_column_of_probabilities_each(tmp_path):
    draw = np.random.default_rng(1)
    frame = pd.DataFrame(draw.dirichlet([1, 1, 1], size=600), columns=["pa", "pb", "pc"])
    frame["paid"] = np.array(["a", "b", "c"])[draw.integers(3, size=600)]
    frame["sex"] = np.where(draw.random(600) < 0.5, "F", "M")
    report = scored(tmp_path, frame, "pa,pb,pc")
    women = frame[frame["sex"] == "F"]
    right = women[["pa", "pb", "pc"]].idxmax(axis=1).str[1] == women["paid"]
    found = estimates(report, "predictions", "F")["accuracy"].value
    assert found == pytest.approx(right.mean(), abs=1e-12)


def test_rows_without_a_label_or_a_prediction_are_left_out_and_counted_by_group(tmp_path):
    frame = worse_for_f()
    frame["paid"] = frame["paid"].astype("Int64")
    frame.loc[:9, "paid"] = pd.NA
    frame.loc[5:29, "private0"] = np.nan
    report = scored(tmp_path, frame, "private0")
    assert report.data.rows == 1170
    assert {reason: sum(by.values()) for reason, by in report.data.dropped_rows.items()} == {
        "label missing": 10,
        "prediction missing": 20,
    }


@pytest.mark.parametrize(
    ("change", "columns", "said"),
    [
        ({"odd": 1.5}, "odd", "neither classes of the label nor probabilities"),
        ({"odd": "maybe"}, "odd", "values that are no class of the label"),
        ({"p_1": 0.3, "p_0": 0.3}, "p_1,p_0", "do not add up to 1"),
        ({"odd": 0.5, "even": 0.5}, "odd,even", "do not say which class is whose"),
        ({}, "private0,private1,private2", "3 columns of probabilities for 2 classes"),
        ({"odd": None}, "odd", "no row"),
    ],
)
def test_a_column_that_holds_no_predictions_is_refused_in_one_line(tmp_path, change, columns, said):
    frame = worse_for_f().assign(**change)
    with refused_in_one_line(FairauditError, said):
        scored(tmp_path, frame, columns)


@pytest.mark.parametrize(("tiny", "low"), [(0, "F"), (12, "M")])
def test_the_group_that_is_marked_most_selected_is_the_one_that_ratios_divide_by(
    tmp_path, tiny, low
):
    """Twelve people whom every model selects are too few to measure the others by."""
    frame = worse_for_f()
    high = "M" if low == "F" else "F"
    chances = np.where(frame["sex"] == high, 0.6, 0.3)
    frame["taken"] = (np.random.default_rng(1).random(len(frame)) < chances).astype(int)
    frame.loc[frame.index[:tiny], ["sex", "taken"]] = "X", 1
    report = scored(tmp_path, frame, "taken")
    rates = frame.groupby("sex")["taken"].mean()
    assert by_group(report, "impact_ratio") == pytest.approx((rates / rates[high]).to_dict())


def test_ratios_to_a_suppressed_group_would_tell_its_rate_and_are_left_out(tmp_path):
    frame = worse_for_f()
    frame["taken"] = np.where(frame["sex"] == "F", 1, 0)
    frame.loc[frame.index[::3], "taken"] = 1
    least = int((frame["sex"] == "F").sum()) + 1
    report = scored(tmp_path, frame, "taken", suppress_below=least)
    assert "large enough" in estimates(report, "predictions", "M")["impact_ratio"].reason
    gaps = [g for c in report.comparisons for g in c.gaps if "impact_ratio" in g.metric]
    assert {gap.signed.value for gap in gaps} == {None}
    shown = scored(tmp_path, frame, "taken", suppress_below=least - 1)
    assert by_group(shown, "impact_ratio")["F"] == 1


def test_groups_drawn_by_coin_flips_are_rarely_said_to_differ(tmp_path):
    """Each table errs in at most 5 %; without a share for each metric and grouping in half."""
    saying = 0
    for seed in range(16):
        draw = np.random.default_rng(seed)
        frame = pd.DataFrame({name: draw.choice(["F", "M"], 800) for name in ("sex", "race")})
        frame["paid"] = draw.integers(0, 2, 800)
        frame["decided"] = np.where(draw.random(800) < 0.8, frame["paid"], 1 - frame["paid"])
        report = scored(tmp_path, frame, "decided", group=["sex", "race"], favourable="1")
        gaps = [gap for one in report.comparisons for gap in one.gaps if gap.kind == "max"]
        saying += any(map(is_detected, gaps))
    assert saying <= 2


def test_a_hidden_group_is_compared_with_no_other(tmp_path):
    frame = worse_for_f()
    frame.loc[frame.index[:43], "sex"] = "X"
    frame.loc[frame["sex"] == "X", "decided"] = 1 - frame["paid"]
    report = scored(tmp_path, frame, "decided", suppress_below=50)
    gaps = [gap for one in report.comparisons for gap in one.gaps if gap.metric == "accuracy"]
    assert {frozenset((gap.a, gap.b)) for gap in gaps if gap.kind == "max"} == {frozenset("FM")}
    assert "43" not in " ".join(limitation.text for limitation in report.limitations)


def two_answers(classes, seeds=6):
    """Two groups of 600, and a baseline that is right nine times of ten."""
    draw = np.random.default_rng(0)
    frame = pd.DataFrame({"sex": ["F", "M"] * 600, "paid": draw.choice(classes, 1200)})
    parts = []
    for seed in range(seeds):
        guess = np.where(draw.random(1200) < 0.9, frame["paid"], draw.choice(classes, 1200))
        parts.append(frame.assign(seed=seed, row=frame.index, base=guess, private=guess))
    return pd.concat(parts)


def test_the_rate_of_another_class_than_the_positive_is_called_recall(tmp_path):
    frame = two_answers([0, 1])
    hurt = (frame["sex"] == "F") & (frame["paid"] == 0) & (frame["row"] % 3 == 0)
    frame.loc[hurt, "private"] = 1
    report = scored(tmp_path, frame, "private", "base", favourable="0", positive="1")
    assert {f.of for f in report.findings if f.measure == "tpr_cost"} == {"recall of 0"}


@pytest.mark.parametrize(("small", "said"), [("T", "T"), ("TUVWX", "T, U, V, 2 more")])
def test_that_no_gap_is_detected_is_not_said_of_small_groups(tmp_path, small, said):
    frame = two_answers([0, 1])
    for place, name in enumerate(small):
        frame.loc[frame["row"] // 20 == place, "sex"] = name
    report = scored(tmp_path, frame, "private", "base")
    texts = [f.text for f in report.findings if f.code == "no_gap"]
    beginning = f"No difference in cost between groups of sex, {said} aside, is detected; a gap of "
    assert texts
    assert all(text.startswith(beginning) for text in texts)


def test_a_gap_that_is_not_known_may_be_the_largest(tmp_path):
    frame = two_answers(["a", "b", "c"])
    rare = (frame["sex"] == "F") & (frame["paid"] == "c")
    frame.loc[rare & (frame["row"] > 40), ["paid", "base", "private"]] = "a"
    frame.loc[rare, "private"] = "a"
    report = scored(tmp_path, frame, "private", "base")
    assert "recall of c" in {f.of for f in report.findings if f.code == "gap_unknown"}


@pytest.mark.parametrize(("label", "y_pred"), [(None, "private0"), ("paid", ""), (None, "")])
def test_what_was_true_and_what_was_predicted_are_both_named(tmp_path, label, y_pred):
    with refused_in_one_line(ConfigError, "must both be named"):
        score(config(tmp_path, worse_for_f(1), y_pred, label=label))


def test_a_report_says_by_what_it_was_made_and_how_long_that_took(tmp_path, monkeypatch):
    clock = SimpleNamespace(perf_counter=iter((5.0, 7.5)).__next__)
    monkeypatch.setattr("fairaudit.score.time", clock)
    words = ("fairaudit", "score", "p.csv")
    report = score(config(tmp_path, worse_for_f(1), "private0"), command=words)
    assert report.command == words
    assert report.timing == {"scoring": 2.5}
    for name in ("numpy", "pyarrow", "scipy"):
        assert report.environment[name] == version(name)


RULES = [
    "accuracy < 0.01",
    "accuracy_gap > 0.99",
    "accuracy@overall < 0.01",
    "accuracy@sex=F < 0.01",
]


def outcomes(report):
    return {gate.rule: gate.outcome for gate in report.gates}


def many(seeds=5):
    return [f"private{s}" for s in range(seeds)], [f"base{s}" for s in range(seeds)]


@pytest.mark.parametrize(
    ("column", "rows"),
    [
        ("private3", "none"),
        ("private3", "one"),
        ("base2", "wrong"),
        ("private3", "all but 35"),
        ("base2", "all"),
    ],
)
def test_a_pass_never_comes_from_predictions_that_are_not_there(tmp_path, column, rows):
    """Rows of women without a prediction in one of ten columns; men have all of theirs."""
    frame = worse_for_f()
    women = frame.index[frame["sex"] == "F"]
    wrong = women[(frame.loc[women, column] > 0.5) != frame.loc[women, "paid"]]
    places = {"none": women[:0], "one": women[:1], "wrong": wrong}
    gone = {**places, "all but 35": women[35:], "all": women}[rows]
    frame.loc[gone, column] = np.nan
    of_men = ["privacy_cost@sex=M > 0.9", "accuracy@sex=M < 0.01"]
    rules = [*RULES, "privacy_cost_gap > 0.9", "privacy_cost@sex=F > 0.9", *of_men]
    report = scored(tmp_path, frame, *many(), fail_on=rules)
    found = outcomes(report)
    assert {found.pop(rule) for rule in of_men} == {"pass"}
    expected = "inconclusive" if len(gone) else "pass"
    assert {*found.values(), report.verdict} == {expected}
    for gate in report.gates:
        assert gate.outcome == "pass" or "without a prediction" in gate.reason
        assert not any("F" in name for name in gate.left_out)
    stored = json.loads((tmp_path / "out" / "report.json").read_text("utf-8"))
    for comparison in stored["comparisons"]:
        assert [g["unpredicted"] for g in comparison["by_group"]] == [len(gone), 0]
        assert comparison["overall"]["unpredicted"] == len(gone)
    dropped = {"prediction missing": {"F": len(gone)}} if len(gone) else {}
    assert stored["data"]["dropped_rows"] == dropped


def test_missing_predictions_are_counted_by_every_grouping_and_open_the_rules_of_each(tmp_path):
    frame = worse_for_f()
    frame["race"] = np.where(np.arange(len(frame)) % 3 == 0, "a", "b")
    frame.loc[frame.index[frame["race"] == "a"][:7], "private0"] = np.nan
    rules = ["accuracy@race=b < 0.01", "accuracy@race=a < 0.01", "accuracy_gap@race > 0.99"]
    report = scored(tmp_path, frame, "private0", group=["sex", "race"], fail_on=rules)
    assert list(outcomes(report).values()) == ["pass", "inconclusive", "inconclusive"]
    counts = {c.grouping: {g.group: g.unpredicted for g in c.by_group} for c in report.comparisons}
    assert counts["race"] == {"a": 7, "b": 0}
    assert sum(counts["sex"].values()) == 7


CENSORED = [
    "accuracy < {}",
    "accuracy@sex=F < {}",
    "accuracy@overall < {}",
    "accuracy_gap > {}",
    "tpr_gap > {}",
    "tpr@sex=M < {}",
]


@pytest.mark.parametrize("column", ["paid", "sex"])
@pytest.mark.parametrize("only", ["F", "M", ""])
def test_rows_without_truth_or_group_never_turn_a_failure_into_a_pass(tmp_path, column, only):
    """Where the model is wrong the truth, or the group, is taken away."""
    frame = worse_for_f(1)
    frame["paid"] = frame["paid"].astype("Int64")
    wrong = ((frame["private0"] > 0.5) != frame["paid"]) & frame["sex"].str.contains(only)
    numbers = {">": np.arange(0.005, 0.4, 0.02), "<": np.arange(0.55, 0.99, 0.02)}
    rules = [rule.format(round(n, 3)) for rule in CENSORED for n in numbers[rule.split()[-2]]]
    whole = outcomes(scored(tmp_path, frame, "private0", fail_on=rules))
    turned = set()
    for share in (0.05, 0.4, 1.0):
        gone = frame.index[wrong][: max(1, int(share * wrong.sum()))]
        censored = frame.copy()
        censored.loc[gone, column] = pd.NA if column == "paid" else None
        report = scored(tmp_path, censored, "private0", fail_on=rules)
        now = outcomes(report)
        assert not [r for r in rules if whole[r] == "fail" and now[r] == "pass"]
        turned |= {r for r in rules if whole[r] == "fail" and now[r] == "inconclusive"}
        of_all = {now[rule] for rule in rules if "@overall" in rule}
        assert ("pass" in of_all) == (column == "sex")
        what = "without the true label" if column == "paid" else "without a group"
        reasons = {part for g in report.gates for part in g.reason.split("; ") if what in part}
        assert len(reasons) == 1
        assert f"{len(gone):,} row" in reasons.pop()
    assert turned


def test_hidden_rows_may_move_both_groups_of_a_gap(tmp_path):
    """One model is good for women and bad for men; hidden is where it is not."""
    frame = worse_for_f(1)
    frame["paid"] = frame["paid"].astype("Int64")
    frame["sex"] = np.where(frame.index % 2, "F", "M")
    men = frame["sex"] == "M"
    frame.loc[men, "private0"] = 1 - frame.loc[men, "private0"]
    right = (frame["private0"] > 0.5) == frame["paid"]
    gap = right[~men].mean() - right[men].mean()
    rules = [f"accuracy_gap < {gap + 0.1:.2f}"]
    assert scored(tmp_path, frame, "private0", fail_on=rules).verdict == "fail"
    frame.loc[men == right, "paid"] = pd.NA
    assert scored(tmp_path, frame, "private0", fail_on=rules).verdict == "inconclusive"


def test_wrong_rows_in_groups_of_their_own_leave_a_gap_rule_open(tmp_path):
    frame = worse_for_f(1)
    wrong = frame.index[((frame["private0"] > 0.5) != frame["paid"]) & (frame["sex"] == "F")]
    rules = [
        "accuracy_gap > 0.9",
        "accuracy < 0.65",
        "accuracy < 0.01",
        "accuracy_gap@sex=F,M > 0.9",
        "accuracy_gap < 0.9",
    ]
    frame.loc[wrong[:6], "sex"] = [f"x{i}" for i in range(6)]
    frame.loc[wrong[6:26], "sex"] = "x1"
    frame.loc[wrong[26:51], "sex"] = "x2"
    report = scored(tmp_path, frame, "private0", fail_on=rules)
    assert list(outcomes(report).values()) == [
        "inconclusive",
        "inconclusive",
        "inconclusive",
        "pass",
        "fail",
    ]
    assert "51 rows in groups too small to be judged" in report.gates[0].reason


@pytest.mark.parametrize("columns", [("paid,private0",), ("private0", "paid")])
def test_the_truth_is_no_prediction(tmp_path, columns):
    with pytest.raises(ConfigError, match="'paid'"):
        scored(tmp_path, worse_for_f(), *columns)


@pytest.mark.parametrize("again", ["private1", "close", "gap"])
def test_one_model_does_not_count_as_several(tmp_path, again):
    """Of three seeds the first and the last are equal but for digits, or but for a row of none."""
    frame = worse_for_f()
    frame = frame.assign(
        close=frame["private1"].astype("float32"), gap=frame["private1"].mask(frame.index == 5)
    )
    with pytest.raises(FairauditError, match="of seed 0 and of seed 2 are equal"):
        scored(tmp_path, frame, ["private1", "private2", again])


def test_no_model_is_its_own_baseline(tmp_path):
    with pytest.raises(ConfigError, match="is its own baseline"):
        scored(tmp_path, worse_for_f().assign(rest=0.0), "rest,private0", "rest, private0")


IMPACT = [
    "impact_ratio < 0.01",
    "impact_ratio_gap > 0.99",
    "selection_rate < 0.001",
    "selection_rate_gap > 0.99",
]


def codes(report):
    return [warning.code for warning in report.warnings]


def by_group(report, metric):
    return {g.group: g.estimates[metric].value for g in report.comparisons[-1].by_group}


def test_whether_1_is_what_people_want_is_not_guessed(tmp_path):
    report = scored(tmp_path, worse_for_f(), "private0", fail_on=IMPACT, format=["json", "md"])
    label = report.data.label
    assert (label.positive, label.favourable, label.favourable_origin) == ("1", "1", "assumed")
    # Of two groups, the gap is the same either way.
    assert list(outcomes(report).values()) == ["inconclusive"] * 3 + ["pass"]
    assert "favourable_assumed" in [warning.code for warning in report.warnings]
    assert None not in by_group(report, "impact_ratio").values()  # shown all the same
    assert "favourable = 1 (assumed)" in (tmp_path / "out" / "report.md").read_text("utf-8")


@pytest.mark.parametrize("favourable", ["1", "0", "0.0"])
def test_selection_and_impact_are_of_the_favourable_outcome(tmp_path, favourable):
    frame = worse_for_f()
    rules = [*IMPACT, "tpr < 0.001"]
    report = scored(tmp_path, frame, "private0", favourable=favourable, fail_on=rules)
    wanted = int(float(favourable))
    rates = ((frame["private0"] > 0.5) == wanted).groupby(frame["sex"]).mean()
    assert by_group(report, "selection_rate") == pytest.approx(rates.to_dict())
    assert by_group(report, "impact_ratio") == pytest.approx((rates / rates.max()).to_dict())
    found = frame[frame["paid"] == 1].groupby("sex")["private0"].apply(lambda p: (p > 0.5).mean())
    assert by_group(report, "tpr") == pytest.approx(found.to_dict())  # of the positive class
    assert set(outcomes(report).values()) == {"pass"}
    assert (report.data.label.favourable, report.data.label.positive) == (str(wanted), "1")
    assert f"--favourable {favourable}" in report.reproduce


def rating(rows=600, seed=3):
    """People with three classes and a model's probabilities of them, by no class's order."""
    draw = np.random.default_rng(seed)
    names = np.array(["high", "low", "mid"])
    truth = draw.integers(0, 3, rows)
    chances = np.full((rows, 3), 0.1)
    right = np.where(draw.random(rows) < 0.85, truth, (truth + 1) % 3)
    chances[np.arange(rows), right] = 0.8
    frame = pd.DataFrame({"paid": names[truth], "sex": np.where(np.arange(rows) % 3, "F", "M")})
    return frame, dict(zip(names, chances.T, strict=True)), (right == truth).mean()


@pytest.mark.parametrize(
    ("columns", "given"),
    [
        (("p_low", "p_mid", "p_high"), ()),
        (("MID", "HIGH", "LOW"), ()),
        (("a", "b", "c"), ("low", "mid", "high")),
    ],
)
def test_each_column_of_probabilities_is_its_own_classs_wherever_it_stands(
    tmp_path, columns, given
):
    frame, chances, accuracy = rating()
    for place, column in enumerate(columns):
        of = given[place] if given else column.lower().removeprefix("p_")
        frame[column] = chances[of]
    asked = config(tmp_path, frame, ",".join(columns))
    report = score(replace(asked, classes=given))
    assert estimates(report, "predictions", "F").keys() >= {"accuracy"}
    overall = report.comparisons[0].overall.estimates["accuracy"].value
    assert overall == pytest.approx(accuracy, abs=1e-12)
    told = [warning for warning in report.warnings if warning.code == "probability_of"]
    assert len(told) == (not given)
    assert all(column in warning.message for warning in told for column in columns)


def test_the_classes_of_columns_are_said_whole_or_refused(tmp_path):
    frame, chances, _ = rating()
    columns = frame.assign(a=chances["low"], b=chances["mid"], c=chances["high"])
    for given in (("low", "mid"), ("low", "mid", "mid"), ("low", "mid", "top")):
        with refused_in_one_line(ConfigError, "--classes names"):
            score(replace(config(tmp_path, columns, "a,b,c"), classes=given))


@pytest.mark.parametrize(
    ("column", "positive", "given", "is_turned"),
    [
        ("p", None, (), True),  # taken for that of 'good', the later of the two
        ("p", "bad", (), False),
        ("p", None, ("bad",), False),
        ("p_bad", None, (), False),
        ("p_good", None, (), True),
    ],
)
def test_a_column_of_the_other_classs_probability_is_told(
    tmp_path, column, positive, given, is_turned
):
    draw = np.random.default_rng(8)
    is_bad = draw.random(900) < 0.3
    frame = pd.DataFrame(
        {
            "paid": np.where(is_bad, "bad", "good"),
            "sex": np.where(draw.random(900) < 0.5, "F", "M"),
            column: np.clip(0.4 * is_bad + 0.5 * draw.random(900), 0, 1),
        }
    )
    options = {"positive": positive} if positive else {}
    report = score(replace(config(tmp_path, frame, column, **options), classes=given))
    oracle = roc_auc_score(is_bad, frame[column])
    auc = report.comparisons[0].overall.estimates["auc"].value
    assert auc == pytest.approx(1 - oracle if is_turned else oracle, abs=1e-9)
    turned = [warning for warning in report.warnings if warning.code == "turned_probability"]
    assert len(turned) == is_turned
    assert all("--positive bad" in warning.fix for warning in turned)


@pytest.mark.parametrize(
    ("others", "is_turned"),
    [
        ({"X": 0.5}, False),  # one probability for all ranks as a coin does: an AUC of 0.5 exactly
        ({}, True),
    ],
)
def test_one_group_that_is_not_ranked_worse_than_chance_is_enough_for_no_warning(
    tmp_path, others, is_turned
):
    frame = worse_for_f(1)
    frame["private0"] = 1 - frame["private0"]
    for name, probability in others.items():
        frame.loc[frame.index[:60], ["sex", "private0"]] = name, probability
    report = scored(tmp_path, frame, "private0")
    assert report.comparisons[0].overall.estimates["auc"].high < 0.5
    assert by_group(report, "auc").get("X", 0.5) == 0.5
    assert ("turned_probability" in codes(report)) == is_turned


def test_a_model_is_called_turned_though_no_group_has_both_classes(tmp_path):
    frame = worse_for_f(1)
    frame["private0"] = 1 - frame["private0"]
    frame["sex"] = np.where(frame["paid"] == 1, "F", "M")
    report = scored(tmp_path, frame, "private0")
    assert set(by_group(report, "auc").values()) == {None}
    assert "turned_probability" in codes(report)


def test_a_model_that_ranks_by_a_coin_is_not_called_turned(tmp_path):
    turned = 0
    for seed in range(40):
        draw = np.random.default_rng(100 + seed)
        frame = worse_for_f().assign(coin=draw.random(len(worse_for_f())))
        report = score(config(tmp_path, frame, "coin"))
        turned += any(warning.code == "turned_probability" for warning in report.warnings)
    assert turned <= 3  # one of 40 is what an interval of 95 % lets through
