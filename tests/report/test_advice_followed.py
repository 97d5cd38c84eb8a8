"""Advice that is followed lowers the cost that it was given for, in worlds made for it."""

import pytest
from audits import audited
from people import teams

ROWS = 2000
# what is set wrongly -> code that says so, its advice
WORLDS = {
    "bound too small": ({"max_grad_norm": 0.01}, "from_clipping", "bound up"),
    "step too short": ({"learning_rate": 0.001}, "from_step", "step by rule"),
    "step by rule, shortened": ({}, "from_step_and_noise", "epsilon up"),
    "step too long": ({"learning_rate": 50.0}, "from_step", "step by rule"),
    "bound too large": ({"max_grad_norm": 100.0}, "from_step_and_noise", "bound by rule"),
}


def report_of_a_world(folder, *, epsilon=3.0, **settings):
    folder.mkdir()
    teams(ROWS, slopes={"Quill": 1.2, "Ember": 0.8}).to_parquet(folder / "people.parquet")
    return audited(
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
    ).report


def cost(report):
    return report.costs[0].overall.estimates["excess_risk"]


@pytest.mark.slow
@pytest.mark.parametrize("world", WORLDS)
def test_advice_that_is_followed_lowers_the_cost(world, tmp_path):
    settings, code, knob = WORLDS[world]
    small = {"epsilon": 0.3} if knob == "epsilon up" else {}
    before = report_of_a_world(tmp_path / "before", **small, **settings)
    advice = {f.code: f.advice and f.advice.knob for f in before.findings}
    assert advice[code] == knob
    followed = {}  # by rule
    if knob == "bound up":
        followed = {name: 10 * value for name, value in settings.items()}
    after = report_of_a_world(tmp_path / "after", **followed)
    assert cost(after).high < cost(before).low
