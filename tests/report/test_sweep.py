import pytest
from documents import charts
from handmade import arm, comparison, privacy
from reports import report_of

from fairaudit.report.render.markdown import to_markdown

KEYS = {"dpsgd@8": 8.0, "dpsgd@1": 1.0, "global@1": 1.0, "global@8": 8.0}


def swept(targets, costs=(0.05, 0.01)):
    arms = [arm("sgd", reference=None)]
    compared = []
    for key, target in targets.items():
        arms.append(arm(key, privacy=privacy(pld=target - 0.001, target_epsilon=target)))
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


@pytest.mark.parametrize("targets", [{"dpsgd": 3.0}, {"dpsgd": 3.0, "global": 3.0}])
def test_one_epsilon_makes_no_curve(targets):
    report = swept(targets)
    assert report.sweep == ()
    assert "Cost over epsilon" not in to_markdown(report)


def swept_with_a_reference_of_its_own():
    """A method at two epsilons, each measured beside its own reference and beside sgd."""
    arms = [arm("sgd", reference=None), arm("exact-minimiser", reference=None)]
    compared = []
    for target in (1.0, 8.0):
        key = f"dpsgd@{target:g}"
        arms.append(arm(key, privacy=privacy(pld=target - 0.001, target_epsilon=target)))
        compared.append(comparison(key, (0.02 / target, 0.01), reference="exact-minimiser"))
        compared.append(comparison(key, (0.09 / target, 0.01)))
    return report_of(*compared, arms=tuple(arms))


def test_what_is_measured_against_two_references_is_two_curves_and_two_rows():
    report = swept_with_a_reference_of_its_own()
    drawn = {chart.name: chart for chart in charts(report)}
    for panel in (*drawn["privacy-cost"].panels, *drawn["epsilon-sweep"].panels):
        places = [(bar.row, bar.series) for bar in panel.bars]
        assert len(set(places)) == len(places), panel.title
    rows = {"dpsgd@1", "dpsgd@1 (own)", "dpsgd@8", "dpsgd@8 (own)"}
    for panel in drawn["privacy-cost"].panels:
        assert {bar.series for bar in panel.bars} == rows
    text = to_markdown(report)
    assert "| dpsgd against exact-minimiser | gap by sex |" in text
    assert "| dpsgd | gap by sex |" in text
