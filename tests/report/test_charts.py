"""The charts: what they show, and that Vega-Lite would draw it."""

import altair
import pytest
from documents import charts
from handmade import arm, comparison, findings, metadata, privacy
from hostile import hostile_report
from reports import report_of

from fairaudit.analysis.build import build_report
from fairaudit.report.drawing import file_spec, page_spec
from fairaudit.report.panels import (
    Bar,
    Intervals,
    Lines,
    labels,
)
from fairaudit.results.estimates import Interval


@pytest.fixture
def report():
    return build_report(findings(), metadata())


def sweep():
    arms = [arm("sgd", reference=None)]
    arms += [arm(f"dpsgd@{e}", privacy=privacy(target_epsilon=float(e))) for e in (8, 1, 3)]
    costs = {"dpsgd@1": (0.06, 0.02), "dpsgd@3": (0.03, 0.01), "dpsgd@8": (0.01, 0.0)}
    compared = [comparison(key, costs[key]) for key in ("dpsgd@8", "dpsgd@1", "dpsgd@3")]
    return report_of(*compared, arms=tuple(arms), method=["dpsgd"], epsilon=[1, 3, 8])


def many_groups(count=30):
    names = tuple(f"group {i}" for i in range(count))
    compared = comparison(costs=tuple(0.001 * i for i in range(count)), names=names)
    return report_of(compared, names=names)


def chart(report, name):
    return next(c for c in charts(report) if c.name == name)


REPORTS = [
    *(lambda: build_report(findings(), metadata()), sweep, many_groups, hostile_report),
]


@pytest.mark.parametrize("make", REPORTS)
def test_every_specification_is_valid_vega_lite(make):
    for one in charts(make()):
        kinds = {type(panel): panel for panel in one.panels}  # the schema takes its time
        for panel in kinds.values():
            altair.Chart.from_dict(page_spec(panel, description=one.alt), validate=True)
        altair.Chart.from_dict(
            file_spec(one.panels, title=one.title, description=one.alt), validate=True
        )


# section -> the charts of its numbers


def test_a_group_without_a_number_is_in_the_table_and_not_drawn(report):
    chosen = report.comparisons[0]
    group = chosen.by_group[0].model_copy(update={"estimates": {}, "reason": "suppressed"})
    held = chosen.model_copy(update={"by_group": (group, *chosen.by_group[1:])})
    one = chart(report.model_copy(update={"comparisons": (held,)}), "privacy-cost")
    assert [bar.row for bar in one.panels[0].bars] == ["M"]
    assert one.table.rows[0][-7:] == (*[None] * 6, "suppressed")


def test_epsilon_rises_from_left_to_right_and_the_gap_has_its_own_panel():
    one = chart(sweep(), "epsilon-sweep")
    gap, largest = one.panels
    assert isinstance(gap, Lines)
    assert [p.number.value for p in largest.points] == pytest.approx([6.0, 3.0, 1.0])
    assert gap.between == largest.between
    assert {p.series for p in gap.points} == {"dpsgd"}
    assert [p.x for p in gap.points] == [1.0, 3.0, 8.0]
    assert [p.number.value for p in gap.points] == pytest.approx([4.0, 2.0, 1.0])
    assert all(p.number.low <= p.number.value <= p.number.high for p in gap.points)


def test_many_groups_get_a_row_each_and_what_has_no_room_is_counted():
    panel = chart(many_groups(), "privacy-cost").panels[0]
    assert {bar.series for bar in panel.bars} == {"global-adapt"}
    assert len({bar.row for bar in panel.bars}) == 30
    one = chart(many_groups(60), "privacy-cost")
    assert "20 more in the table" in one.panels[0].title
    assert len(one.table.rows) == 60


def test_labels_never_merge_two_names():
    names = ["x" * 5000 + "a", "x" * 5000 + "b", "", " ", "a\nb", "plain"]
    shown = labels(names)
    assert len(set(shown.values())) == len(names)
    assert shown["plain"] == "plain"
    assert all("\n" not in text and len(text) < 40 for text in shown.values())


def test_an_unknown_interval_is_drawn_as_a_dot_alone():
    known, unknown = (
        Bar("arm", "F", Interval(value=1.0, low=0.5, high=1.5)),
        Bar("arm", "M", Interval(value=1.0, low=None, high=None)),
    )
    both = page_spec(Intervals("", "points", (known, unknown)), description="")["layer"][-1][
        "layer"
    ]
    assert both[0]["transform"] == [{"filter": "isValid(datum.low)"}]
    dots = page_spec(Intervals("", "points", (unknown,)), description="")["layer"][-1]["layer"]
    assert [layer["mark"]["type"] for layer in dots] == ["point"]


@pytest.mark.parametrize(
    ("numbers", "least", "ends"),
    [
        ((0.0, 0.1), 2.0, [-0.95, 1.05]),
        ((-0.1, 0.1), 2.0, [-1.0, 1.0]),
        ((3.0, 5.0), 2.0, [0.0, 5.0]),  # zero is always there
    ],
)
def test_an_axis_is_never_so_narrow_that_next_to_nothing_looks_like_much(numbers, least, ends):
    panel = Intervals(
        "t",
        "points",
        tuple(Bar(f"{n}", "s", Interval(value=n, low=None, high=None)) for n in numbers),
        least=least,
    )
    dots = page_spec(panel, description="")["layer"][-1]["layer"][-1]
    assert dots["encoding"]["x"]["scale"]["domain"] == pytest.approx(ends)
