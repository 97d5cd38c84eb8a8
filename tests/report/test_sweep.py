from dataclasses import replace

import pytest
from handmade import arm, comparison, privacy
from reports import report_of

from fairaudit.report.to_markdown import to_markdown

KEYS = {"dpsgd@8": 8.0, "dpsgd@1": 1.0, "global@1": 1.0, "global@8": 8.0}


def swept(targets, costs=(0.05, 0.01)):
    arms = [arm("sgd", reference=None)]
    compared = []
    for key, target in targets.items():
        arms.append(arm(key, privacy=replace(privacy(), target_epsilon=target, epsilon_pld=target - 0.001)))
        compared.append(comparison(key, (costs[0] / target, costs[1])))
    return report_of(*compared, arms=tuple(arms))


def test_a_sweep_is_one_curve_a_method_by_rising_epsilon():
    report = swept(KEYS)
    assert [(s.method, [p.target_epsilon for p in s.points]) for s in report.sweep] == [
        ("dpsgd", [1.0, 8.0]),
        ("global", [1.0, 8.0]),
    ]
    first, last = report.sweep[0].points
    assert (first.arm, first.epsilon) == ("dpsgd@1", 0.999)
    assert (first.cost["F"].value, last.cost["F"].value) == (0.05, 0.00625)
    assert first.gap.value == pytest.approx(0.04)
    assert first.gap.low < first.gap.value < first.gap.high


def test_what_the_curve_says_is_what_the_comparisons_say():
    report = swept(KEYS)
    for sweep in report.sweep:
        for point in sweep.points:
            compared = next(c for c in report.comparisons if c.arm == point.arm)
            for group in compared.by_group:
                estimate = group.estimates["privacy_cost"]
                shown = point.cost[group.group]
                assert (shown.value, shown.low, shown.high) == (estimate.value, estimate.low, estimate.high)


@pytest.mark.parametrize("targets", [{"dpsgd": 3.0}, {"dpsgd": 3.0, "global": 3.0}])
def test_one_epsilon_makes_no_curve(targets):
    report = swept(targets)
    assert report.sweep == ()
    assert "Cost over epsilon" not in to_markdown(report)


def test_the_markdown_sets_the_epsilons_side_by_side():
    text = to_markdown(swept(KEYS))
    assert "| method | group | ε ≤ 1 | ε ≤ 8 |" in text
    row = next(line for line in text.splitlines() if line.startswith("| dpsgd | sex = F |"))
    assert row.split("|")[3].strip().startswith("5.0 [")
    assert "| dpsgd | gap by sex | 4.0 [" in text
