"""The charts: what they show, and that Vega-Lite would draw it."""

import altair
import pytest
from documents import charts
from handmade import arm, built, comparison, estimate
from hostile import hostile_report
from reports import report_of, swept, with_measure

from fairaudit.report.drawing import file_spec, page_spec
from fairaudit.report.misalignment import StepReadings
from fairaudit.report.panels import Bar, Chart, Panel, labels
from fairaudit.report.step_charts import misalignment_chart
from fairaudit.results.estimates import Interval


def many_groups(count=30):
    names = tuple(f"group {i}" for i in range(count))
    compared = comparison(costs=tuple(0.001 * i for i in range(count)), names=names)
    return report_of(compared, names=names)


def chart(report, name):
    return next(c for c in charts(report) if c.name == name)


REPORTS = [*(lambda: built(), swept, many_groups, hostile_report)]


@pytest.mark.parametrize("make", REPORTS)
def test_every_specification_is_valid_vega_lite(make):
    for one in charts(make()):
        # one panel, for the schema takes its time
        altair.Chart.from_dict(page_spec(one, one.panels[0]), validate=True)
        altair.Chart.from_dict(file_spec(one), validate=True)


# section -> the charts of its numbers


def test_a_panel_for_every_measure_holds_the_numbers_of_the_report(report):
    chosen = report.comparisons[0]
    lost = {"tpr_cost": {"F": 0.07, "M": -0.01}, "selection_cost": {"F": -0.02, "M": 0.03}}
    groups = []
    for group in (*chosen.by_group, chosen.overall):
        known = dict(group.estimates)
        for metric, numbers in lost.items():
            number = {"value": numbers.get(group.group, 0.0)}
            known[metric] = known["privacy_cost"].model_copy(update=number)
        groups.append(group.model_copy(update={"estimates": known}))
    *by_group, overall = groups
    update = {"by_group": tuple(by_group), "overall": overall}
    held = report.model_copy(update={"comparisons": (chosen.model_copy(update=update),)})
    panels = chart(held, "privacy-cost").panels
    drawn = [{bar.row: bar.number.value for bar in panel.bars} for panel in panels]
    assert drawn[0] == pytest.approx({"F": 4.1, "M": 1.2})
    assert drawn[1] == pytest.approx({"F": 0.082, "M": 0.024})
    assert drawn[2] == pytest.approx({"F": 7.0, "M": -1.0})
    assert drawn[3] == pytest.approx({"F": -2.0, "M": 3.0})
    assert [panel.unit for panel in panels] == ["points", "nats", "points", "points"]


def test_a_group_without_a_number_is_not_drawn(report):
    chosen = report.comparisons[0]
    group = chosen.by_group[0].model_copy(update={"estimates": {}, "reason": "suppressed"})
    held = chosen.model_copy(update={"by_group": (group, *chosen.by_group[1:])})
    one = chart(report.model_copy(update={"comparisons": (held,)}), "privacy-cost")
    assert [bar.row for bar in one.panels[0].bars] == ["M"]


def test_epsilon_rises_from_top_to_bottom_and_the_gap_has_its_own_panel():
    gap, largest = chart(swept(), "epsilon-sweep").panels
    assert [bar.row for bar in gap.bars] == ["epsilon 1", "epsilon 3", "epsilon 8"]
    assert [bar.number.value for bar in largest.bars] == pytest.approx([6.0, 3.0, 1.0])
    assert [bar.number.value for bar in gap.bars] == pytest.approx([4.0, 2.0, 1.0])
    assert {bar.series for bar in gap.bars} == {"dpsgd"}
    assert all(bar.number.low <= bar.number.value <= bar.number.high for bar in gap.bars)


def test_many_groups_get_a_row_each_and_what_has_no_room_is_counted():
    panel = chart(many_groups(), "privacy-cost").panels[0]
    assert {bar.series for bar in panel.bars} == {"global-adapt"}
    assert len({bar.row for bar in panel.bars}) == 30
    one = chart(many_groups(60), "privacy-cost")
    assert len(one.panels[0].bars) == 40
    assert str(20 * len(one.panels)) in one.reading


def test_labels_never_merge_two_names():
    names = ["x" * 5000 + "a", "x" * 5000 + "b", "", " ", "a\nb", "plain"]
    shown = labels(names)
    assert len(set(shown.values())) == len(names)
    assert shown["plain"] == "plain"
    assert all("\n" not in text and len(text) < 40 for text in shown.values())


def test_each_of_two_names_of_one_text_has_a_label_of_its_own():
    groups = ("a" * 20 + "1" + "z" * 20, "a" * 20 + "2" + "z" * 20, "plain")
    written = {groups[0]: "a…z", groups[1]: "a…z", groups[2]: "plain"}
    shown = labels(groups, text_of=written.__getitem__)
    assert shown == {groups[0]: "a…z", groups[1]: "a…z (2)", groups[2]: "plain"}


# Names that are shortened in their middle, and so written alike; and one of all rows.
ALIKE = ("a" * 25 + "1" + "z" * 25, "a" * 25 + "2" + "z" * 25, "all rows")
PARTS_OF_THREE = ("step", "clipping", "noise", "step_and_noise")


@pytest.fixture(scope="module")
def alike():
    """A report with costs, their parts and misalignment of these groups and of all rows."""
    own = {f"excess_risk.{part}": (0.0,) * 4 for part in PARTS_OF_THREE}
    own |= {
        "privacy_cost.step": (0.01, 0.02, 0.03, 0.04),
        "privacy_cost.clipping": (0.05, 0.06, 0.07, 0.08),
        "privacy_cost.noise": (0.0,) * 4,
        "privacy_cost.step_and_noise": (0.01, 0.02, 0.03, 0.04),
        "misalignment": (1.0, 2.0, 3.0, 4.0),
    }
    made = comparison("dpsgd", (0.1, 0.2, 0.3), names=ALIKE)
    for place, group in enumerate((*ALIKE, "")):
        numbers = {name: estimate(values[place], 0.01) for name, values in own.items()}
        made = with_measure(made, group, estimates=numbers)
    report = report_of(made, arms=(arm("sgd", reference=None), arm("dpsgd")), names=ALIKE)
    readings = StepReadings(arm="dpsgd", grouping="sex")
    diagnostics = report.diagnostics.model_copy(update={"steps": (readings,)})
    return report.model_copy(update={"diagnostics": diagnostics})


def test_groups_that_are_written_alike_have_a_row_each_in_the_chart_of_costs(alike):
    bars = chart(alike, "privacy-cost").panels[0].bars
    assert [bar.number.value for bar in bars] == pytest.approx([10.0, 20.0, 30.0])
    assert len({bar.row for bar in bars}) == 3


def test_groups_that_are_written_alike_have_a_row_each_in_the_chart_of_parts(alike):
    by_row = {}
    for bar in chart(alike, "cost-parts").panels[0].bars:
        by_row.setdefault(bar.row, {})[bar.series] = bar.number.value
    assert [own["step"] for own in by_row.values()] == pytest.approx([1.0, 2.0, 3.0, 4.0])
    assert by_row["all rows"]["clipping"] == pytest.approx(8.0)  # not those of the group


def test_groups_that_are_written_alike_have_a_row_each_in_the_chart_of_misalignment(alike):
    bars = misalignment_chart(alike).panels[0].bars
    assert [bar.number.value for bar in bars] == [1.0, 2.0, 3.0]
    assert len({bar.row for bar in bars}) == 3


def drawn(*panels):
    """The layers of the first of a chart's panels."""
    one = Chart("name", "", "", "", ("arm",), panels)
    return page_spec(one, panels[0])["layer"][-1]["layer"]


def test_an_unknown_interval_is_drawn_as_a_dot_alone():
    known, unknown = (
        Bar("arm", "F", Interval(value=1.0, low=0.5, high=1.5)),
        Bar("arm", "M", Interval(value=1.0, low=None, high=None)),
    )
    both = drawn(Panel("", "points", (known, unknown)))
    assert both[0]["transform"] == [{"filter": "isValid(datum.low)"}]
    dots = drawn(Panel("", "points", (unknown,)))
    assert [layer["mark"]["type"] for layer in dots] == ["point"]


@pytest.mark.parametrize(
    ("numbers", "unit", "ends"),
    [
        ((0.0, 0.1), "points", [-0.95, 1.05]),
        ((-0.1, 0.1), "points", [-1.0, 1.0]),
        ((3.0, 5.0), "points", [0.0, 5.0]),  # zero is always there
        ((-3.0,), "points", [-3.0, 0.0]),
        ((0.0, 0.01), "nats", [-0.005, 0.015]),
    ],
)
def test_an_axis_is_never_so_narrow_that_next_to_nothing_looks_like_much(numbers, unit, ends):
    bars = [Bar(f"{n}", "arm", Interval(value=n, low=None, high=None)) for n in numbers]
    assert domain(drawn(Panel("t", unit, tuple(bars)))) == pytest.approx(ends)


def domain(layers):
    return layers[-1]["encoding"]["x"]["scale"]["domain"]


def test_panels_in_one_unit_have_one_axis():
    points = [
        Panel("", "points", (Bar("F", "arm", Interval(value=1.0, low=low, high=high)),))
        for low, high in ((-3.0, 2.0), (0.5, 7.0))
    ]
    nats = Panel("", "nats", (Bar("F", "arm", Interval(value=1.0, low=-40.0, high=50.0)),))
    assert domain(drawn(*points, nats)) == domain(drawn(points[1], nats, points[0])) == [-3.0, 7.0]
