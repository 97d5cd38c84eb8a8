"""Hints that help, and numbers that are no numbers."""

import numpy as np
import pandas as pd
import pytest

from fairaudit.cli import app
from fairaudit.config.value_sources import resolve_config
from fairaudit.errors import EXIT_INPUT, ConfigError


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    draw = np.random.default_rng(0)
    frame = pd.DataFrame({"sex": draw.choice(["F", "M"], 400), "a": draw.normal(size=400)})
    frame["label"] = draw.integers(0, 2, 400)
    frame.to_csv("people.csv", index=False)
    monkeypatch.setattr(
        "fairaudit.planning.guarantees.epsilon", lambda event, delta, accountant: 1.0
    )
    monkeypatch.setattr("fairaudit.methods.spec.calibrate", lambda *_: 1.0)
    monkeypatch.setattr("fairaudit.planning.plan.composed_epsilon", lambda runs, delta: 1.0)
    return tmp_path


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "1e7", "abc", "", "true", "1,3"])
def test_a_bad_epsilon_is_refused_by_its_option(folder, capsys, text):
    code = app.main(["plan", "--data", "people.csv", "--group", "sex", "--epsilon", text])
    assert code == EXIT_INPUT
    assert "(option --epsilon) does not fit" in capsys.readouterr().err


@pytest.mark.parametrize(
    "fields",
    [{"epsilon": True}, {"seeds": True}, {"epochs": [True]}, {"group": [False]}, {"delta": True}],
)
def test_true_is_no_number(fields):
    with pytest.raises(ConfigError):
        resolve_config({"data": "x.csv", **fields})
    assert resolve_config({"data": "x.csv", "intersect": True}).config.intersect is True


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--method", "dpsgd,global"], "repeating the option: dpsgd, global"),
        (
            ["--method", "dpsgd", "--variant", "as-published, x"],
            "repeating the option: as-published, x",
        ),
        (["--group", "sex,a"], "repeat the option: --group sex --group a"),
        (["--drop", "sex,a"], "repeat the option: --drop sex --drop a"),
    ],
)
def test_a_list_in_one_option_is_told_to_repeat_it(folder, capsys, words, said):
    group = [] if "--group" in words else ["--group", "sex"]
    assert app.main(["plan", "--data", "people.csv", *group, *words]) == EXIT_INPUT
    assert said in capsys.readouterr().err
