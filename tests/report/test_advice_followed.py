"""Advice that is followed lowers the cost that it was given for, in worlds made for it."""

import numpy as np
import pandas as pd
import pytest
from audits import audit_here

from fairaudit.report.load import load_report

ROWS = 2000
# what is set wrongly -> code that says so, its advice
WORLDS = {
    "bound too small": ({"max_grad_norm": 0.01}, "from_clipping", "bound up"),
    "step too short": ({"learning_rate": 0.001}, "from_step", "step by rule"),
    "step by rule, shortened": ({}, "from_step_and_noise", "epsilon up"),
    "step too long": ({"learning_rate": 50.0}, "from_step", "step by rule"),
    "bound too large": ({"max_grad_norm": 100.0}, "from_step_and_noise", "bound by rule"),
}


def people():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(ROWS, 4))
    group = rng.integers(0, 2, ROWS)
    slope = np.where(group == 1, 3.0, 2.0)
    frame = pd.DataFrame(x, columns=["age", "hours", "debt", "tenure"])
    chance = 1 / (1 + np.exp(-slope * (x[:, 0] + x[:, 1] - x[:, 2])))
    frame["paid"] = np.where(rng.random(ROWS) < chance, "yes", "no")
    frame["team"] = np.where(group == 1, "Quill", "Ember")
    return frame


def audited(folder, *, epsilon=3.0, **settings):
    folder.mkdir()
    people().to_parquet(folder / "people.parquet")
    return load_report(
        audit_here(
            folder / "out",
            data=folder / "people.parquet",
            group=("team",),
            label="paid",
            method=("dpsgd",),
            epsilon=(epsilon,),
            seeds=5,
            settings={"dpsgd": settings},
            diagnostics="basic",
            twins="always",
        )
    )


def cost(report):
    return report.costs[0].overall.estimates["excess_risk"]


@pytest.mark.slow
@pytest.mark.parametrize("world", WORLDS)
def test_advice_that_is_followed_lowers_the_cost(world, tmp_path):
    settings, code, knob = WORLDS[world]
    small = {"epsilon": 0.3} if knob == "epsilon up" else {}
    before = audited(tmp_path / "before", **small, **settings)
    advice = {f.code: f.advice and f.advice.knob for f in before.findings}
    assert advice[code] == knob
    followed = {}  # by rule
    if knob == "bound up":
        followed = {name: 10 * value for name, value in settings.items()}
    after = audited(tmp_path / "after", **followed)
    assert cost(after).high < cost(before).low
