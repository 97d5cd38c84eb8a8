"""Words of messages: one and many, hints that help, and numbers that are no numbers."""

import json
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from handmade import comparison, findings, metadata

from fairaudit.analysis.build import build_report
from fairaudit.cli import app
from fairaudit.config.model_names import resolve_model
from fairaudit.config.value_sources import resolve_config
from fairaudit.errors import EXIT_INPUT, ConfigError, did_you_mean, numbered
from fairaudit.report.measured import SklearnBaseline
from fairaudit.report.render.html import to_html
from fairaudit.report.render.markdown import to_markdown

# "1 seeds", but not "0.1 seeds", "1,001 rows", "11 rows" or "1 private run per seed".
ONE_OF_MANY = re.compile(
    r"(?<![\d.,/])1 (?:more |usable |test |training |kept |duplicate |distinct |private |new )*"
    r"(?:seeds|rows|trainings|columns|arms|images|epochs|steps|cores|inputs|parameters|records|groups|gaps|runs"
    r"|queries|teachers|levels|values|files|numbers|models)\b"
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    draw = np.random.default_rng(0)
    frame = pd.DataFrame({"sex": draw.choice(["F", "M"], 400), "a": draw.normal(size=400)})
    frame["approved"] = draw.integers(0, 2, 400)
    frame.to_csv("people.csv", index=False)
    monkeypatch.setattr("fairaudit.planning.guarantees.epsilon", lambda event, delta, accountant: 1.0)
    monkeypatch.setattr("fairaudit.methods.spec.calibrate", lambda *_: 1.0)
    monkeypatch.setattr("fairaudit.planning.plan.composed_epsilon", lambda runs, delta: 1.0)
    return tmp_path


@pytest.mark.parametrize(
    ("number", "words", "said"),
    [
        (1, ("seed",), "1 seed"),
        (0, ("seed",), "0 seeds"),
        (1200, ("seed",), "1,200 seeds"),
        (1, ("row repeats", "rows repeat"), "1 row repeats"),
        (2, ("row repeats", "rows repeat"), "2 rows repeat"),
    ],
)
def test_one_is_singular(number, words, said):
    assert numbered(number, *words) == said


def test_no_message_counts_one_as_many(folder, capsys):
    frame = pd.read_csv("people.csv")
    frame.loc[0, "approved"] = np.nan
    frame.loc[1, "sex"] = None
    frame = pd.concat([frame, frame.iloc[[5]]])
    frame.to_csv("people.csv", index=False)
    said = ""
    options = ["--seeds", "1", "--epochs", "1", "--batch-size", "400", "--workers", "1", "--method", "dpsgd"]
    for words in (
        ["plan", "--data", "people.csv", "--group", "sex", *options, "--n-public", "400"],
        ["inspect", "people.csv", "--group", "sex"],
        ["init", "people.csv", "--group", "sex"],
    ):
        assert app.main(words) == 0
        said += "".join(capsys.readouterr())
    assert "1 seed " in said
    assert "1 row has no 'sex'" in said
    assert "1 row left out" in said
    assert "1 of 400 rows repeats" in said
    assert ONE_OF_MANY.findall(said) == []
    assert ONE_OF_MANY.findall("2 arms × 1 seeds = 1 trainings, 1 usable rows")


def test_no_report_counts_one_as_many():
    found = findings(seeds=1)
    seeds = [job for job in found.plan.jobs if job.seed == 0]
    small = replace(
        found, plan=replace(found.plan, jobs=tuple(seeds)), dataset=replace(found.dataset, duplicate_rows=1)
    )
    report = build_report(small, metadata())
    texts = [to_markdown(report), json.dumps(report.model_dump(mode="json"))]
    assert "1 row repeats" in texts[0]
    for text in texts:
        assert ONE_OF_MANY.findall(text) == []


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "1e300", "1e7", "abc", "", "true", "1,3"])
def test_a_bad_epsilon_is_told_what_one_is(folder, capsys, text):
    code = app.main(["plan", "--data", "people.csv", "--group", "sex", "--epsilon", text])
    said = capsys.readouterr().err
    assert code == EXIT_INPUT
    assert "epsilon is a number above 0, at most 1,000,000" in said
    assert ("repeat the option" in said) is ("," in text)
    assert "pars" not in said


@pytest.mark.parametrize(
    "fields", [{"epsilon": True}, {"seeds": True}, {"epochs": [True]}, {"group": [False]}, {"delta": True}]
)
def test_true_is_no_number(fields):
    with pytest.raises(ConfigError):
        resolve_config({"data": "x.csv", **fields})
    assert resolve_config({"data": "x.csv", "intersect": True}).config.intersect is True


def test_no_epsilon_at_all_is_refused(folder, capsys):
    (folder / "fairaudit.toml").write_text("epsilon = []\n")
    assert app.main(["plan", "--data", "people.csv", "--group", "sex"]) == EXIT_INPUT
    assert "no target epsilon" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["junit", "html", "md", "model-card", "svg"])
def test_a_report_that_is_asked_for_as_an_option_finds_its_option(capsys, kind):
    assert app.main(["run", "--data", "x.csv", f"--{kind}"]) == EXIT_INPUT
    assert f"use --format {kind}" in capsys.readouterr().err


def test_an_option_that_takes_no_format_is_not_told_of_it(capsys):
    assert app.main(["gate", "report.json", "--html"]) == EXIT_INPUT
    assert "--format" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--method", "dpsgd,global"], "repeating the option: dpsgd, global"),
        (["--method", "dpsgd", "--variant", "as-published, x"], "repeating the option: as-published, x"),
        (["--group", "sex,a"], "repeat the option: --group sex --group a"),
        (["--drop", "sex,a"], "repeat the option: --drop sex --drop a"),
    ],
)
def test_a_list_in_one_option_is_told_to_repeat_it(folder, capsys, words, said):
    group = [] if "--group" in words else ["--group", "sex"]
    assert app.main(["plan", "--data", "people.csv", *group, *words]) == EXIT_INPUT
    assert said in capsys.readouterr().err


def test_names_with_commas_that_are_nowhere_are_told_the_nearest():
    assert did_you_mean("abd,", ["abc,"]) == "did you mean 'abc,'?"


def test_the_model_of_a_preset_is_no_choice_that_is_offered():
    for wrong in ("foo", "logistic-squahsed"):
        with pytest.raises(ConfigError) as caught:
            resolve_model(wrong, None)
        assert "squashed" not in caught.value.hint
    assert resolve_model("logistic-squashed", None) == "logistic-squashed"


@pytest.mark.parametrize(
    ("ours", "theirs", "said"),
    [
        (0.80, 0.80, "within one point"),
        (0.80, 0.809, "within one point"),
        (0.80, 0.791, "within one point"),
        (0.84, 0.80, "4.0 points above it"),
        (0.80, 0.82, "reference undertrained, costs cannot be read"),
        (None, 0.8, ""),
    ],
)
def test_the_reference_check_says_which_way_it_differs(ours, theirs, said):
    check = SklearnBaseline(
        arm="sgd",
        reference_accuracy=ours,
        baseline="scikit-learn",
        baseline_accuracy=theirs,
        undertrained=None if ours is None else theirs - ours > 0.01,
        n_seeds=5,
        reason="",
    )
    assert check.reading == said
    report = build_report(findings(), metadata()).model_copy(update={"sklearn_baseline": check})
    assert (said in to_markdown(report).replace("**", "")) or not said
    if "above" in said:
        assert "within one point" not in to_markdown(report)
        assert said in to_html(report)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"seeds": 5}, "test rows (distinct, over 5 splits)"),
        ({"seeds": 1}, "Accuracy on test rows;"),
        ({"seeds": 5, "split_column": "part"}, "Accuracy on test rows;"),
    ],
)
def test_test_rows_of_several_splits_are_explained_where_they_stand(options, said):
    found = findings(**options)
    if "split_column" in options:
        split = np.zeros(found.dataset.n_rows, np.int64)
        found = replace(found, dataset=replace(found.dataset, split=split))
    report = build_report(replace(found, comparisons=(comparison(),)), metadata())
    assert said in to_markdown(report)
