"""The table by group: its rows, what is said of each number, and that each writing is whole."""

import re

import pytest
from changed import replace
from handmade import arm, built, comparison, estimate, gap, measure
from reports import report_of
from second_reader import of_html, of_markdown, says
from several import several

from fairaudit.cli.lines import result_lines
from fairaudit.gate.check import check, with_verdict
from fairaudit.gate.grammar import parse_rules
from fairaudit.report.group_rows import group_tables
from fairaudit.report.group_table import TableCell
from fairaudit.report.render.html import to_html
from fairaudit.report.render.markdown import to_markdown
from fairaudit.report.render.terminal import cell_len
from fairaudit.results.estimates import NOTHING


def table_of(report, method=None, grouping=None):
    (found,) = (
        t
        for t in group_tables(report)
        if method in (None, t.arm) and grouping in (None, t.grouping)
    )
    return found


def titles(rows):
    return [(row.kind, row.groups) for row in rows]


def cost(table, row):
    return table.cell(row, "privacy_cost")


def judged(report, *rules):
    return with_verdict(report, check(report, parse_rules(rules)))


# --- rows


def test_two_groups_have_one_gap_of_whom_pays_more_less_the_other():
    held = table_of(report_of(comparison(costs=(0.012, 0.041))))
    assert titles(held.rows) == [
        *[("group", ("F",)), ("group", ("M",))],
        *[("gap", ("M", "F")), ("all", ())],
    ]
    number = cost(held, held.rows[2]).number
    assert (number.value, number.low, number.high) == pytest.approx(
        (0.029, 0.0119, 0.0461), abs=1e-4
    )


@pytest.mark.parametrize(
    ("value", "half", "paid", "said"),
    [
        (0.02, 0.01, ("privacy_cost",), "detected"),
        (0.02, 0.01, (), "not certain"),
        (0.02, 0.03, (), ""),
        (-0.02, 0.01, (), ""),  # a gain is no cost, and none was tested for
    ],
)
def test_a_cost_over_all_rows_that_its_test_does_not_find_is_not_certain(value, half, paid, said):
    made = report_of(comparison())
    compared = made.costs[0]
    number = replace(
        compared.overall.estimates["privacy_cost"], value=value, low=value - half, high=value + half
    )
    known = {**compared.overall.estimates, "privacy_cost": number}
    overall = replace(compared.overall, estimates=known)
    others = [one for one in made.comparisons if one is not compared]
    shown = replace(compared, overall=overall, paid=paid)
    held = table_of(made.model_copy(update={"comparisons": (*others, shown)}))
    assert cost(held, held.rows[-1]).reading == said
    few = replace(shown, overall=replace(overall, ungated={"privacy_cost": "too few rows"}))
    if not paid:
        held = table_of(made.model_copy(update={"comparisons": (*others, few)}))
        assert cost(held, held.rows[-1]).reading == ""


def of_three(*, named=False):
    """C pays most, A least; by the tests B and C differ and the largest gap is open."""
    names = ("A", "B", "C")
    made = comparison(costs=(0.0, 0.03, 0.05), names=names)
    pairs = [gap("A", "B", -0.03, 0.06), gap("A", "C", -0.05, 0.06), gap("B", "C", -0.02, 0.004)]
    pairs[0] = replace(pairs[0], named=named)
    largest = gap("C", "A", 0.05, 0.06, kind="max")
    uncertain = {"training_sd": 0.02, "records_sd": 0.02}
    sure = {"training_sd": 0.001, "records_sd": 0.001}
    parts = []
    for each in (*pairs, largest):
        own = sure if {each.a, each.b} == {"B", "C"} else uncertain
        parts.append(replace(each, signed=replace(each.signed, **own)))
    return report_of(replace(made, gaps=tuple(parts)), names=names)


def test_of_three_groups_the_largest_gap_stands_first_then_the_pair_that_is_told_apart():
    held = table_of(of_three())
    gaps = [row for row in held.rows if row.kind == "gap"]
    assert [row.groups for row in gaps] == [(), ("C", "B")]
    largest, pair = (cost(held, row) for row in gaps)
    assert (largest.between, largest.reading) == (("C", "A"), "not detected")
    assert (pair.between, pair.reading) == ((), "detected")
    assert pair.number.value == pytest.approx(0.02)


def test_a_named_pair_has_a_row_in_its_own_order():
    held = table_of(of_three(named=True))
    assert [row.groups for row in held.rows if row.kind == "gap"] == [(), ("C", "B"), ("A", "B")]


def many(count=13):
    names = tuple(f"group {i:02}" for i in range(count))
    costs = tuple(0.001 * ((7 * i) % count) for i in range(count))
    made = comparison(costs=costs, names=names)
    small = measure(names[4], 0.5, n_test=12, gated=False, reason="12 test records; 30 are needed")
    groups = [small if group.group == names[4] else group for group in made.by_group]
    return report_of(replace(made, by_group=tuple(groups)), names=names), costs


def test_of_many_groups_the_worst_three_and_the_best_are_shown_and_the_others_counted():
    report, costs = many()
    held = table_of(report)
    order = sorted(range(13), key=lambda i: -costs[i])
    order.remove(4)  # it has too few rows, however much it pays
    expected = [f"group {i:02}" for i in (*order[:3], order[-1])]
    assert [row.groups[0] for row in held.brief.groups] == expected
    assert held.brief.others == 9
    assert [row.kind for row in held.brief.rows[4:]] == [row.kind for row in held.rows[13:]]
    page = to_html(report)
    assert "9 other groups" in page
    assert "All 13 groups" in page
    assert to_markdown(report).count("\n| group ") >= 13
    shown = "\n".join(result_lines(report))
    assert "9 other groups are between the worst and the best of these." in shown
    assert all(name in shown for name in expected)
    eight, _ = many(8)
    assert table_of(eight).brief is table_of(eight) or table_of(eight).brief == table_of(eight)


def test_the_best_of_many_groups_is_one_with_a_number():
    whole = table_of(many()[0])
    *worst, best = whole.brief.groups
    lacking = replace(best, cells=(TableCell(NOTHING), *best.cells[1:]))
    rows = tuple(lacking if row == best else row for row in whole.rows)
    brief = replace(whole, rows=rows).brief
    assert list(brief.groups[:3]) == worst
    judged = [row for row in whole.groups if not row.note and row != best]
    (second,) = brief.groups[3:]
    assert cost(whole, second).number.value == min(cost(whole, row).number.value for row in judged)


def test_a_group_of_too_few_rows_is_grey_with_its_reason_and_stretches_no_axis():
    report, _ = many()
    held = table_of(report)
    (small,) = (row for row in held.rows if row.note)
    assert small.groups == ("group 04",)
    assert cost(held, small).number.value == 0.5
    assert held.axis(0)[1] < 0.1
    page = to_html(report)
    (row,) = re.findall(r'<tr class="thin">.*?</tr>', page, flags=re.S)
    assert "12 test records; 30 are needed" in row
    assert "30 are needed" in to_markdown(report)
    few, _ = many(5)
    assert "group 04: 12 test records; 30 are needed" in "\n".join(result_lines(few))


def test_all_rows_have_no_misalignment_and_groups_have():
    made = comparison()
    groups = []
    for group, degrees in zip((*made.by_group, made.overall), (26.0, 3.0, 38.0), strict=True):
        known = group.estimates | {"misalignment": estimate(degrees, 1.0, "degrees")}
        groups.append(replace(group, estimates=known))
    held = table_of(report_of(replace(made, by_group=tuple(groups[:2]), overall=groups[2])))
    column = [held.cell(row, "misalignment").number.value for row in held.rows]
    assert column == [26.0, 3.0, None, None]
    assert held.columns[-1].title == "misalignment"


def test_among_classes_as_groups_no_recall_stands_beside_accuracy():
    made = comparison()
    rates = {f"tpr_cost[{i}]": estimate(0.3, 0.01) for i in range(2)}
    groups = [replace(g, estimates=g.estimates | rates) for g in (*made.by_group, made.overall)]
    found = gap("F", "M", 0.3, 0.01, metric="tpr_cost[1]")
    made = replace(made, by_group=tuple(groups[:2]), overall=groups[2], gaps=(*made.gaps, found))
    report = report_of(made)
    assert "tpr_cost[1]" in [column.metric for column in table_of(report).columns]
    label = report.data.label.model_copy(update={"column": "sex"})
    by_label = report.model_copy(update={"data": report.data.model_copy(update={"label": label})})
    assert [column.metric for column in table_of(by_label).columns] == [
        "privacy_cost",
        "excess_risk",
    ]


# --- rules


def test_a_rule_stands_beside_the_numbers_that_it_judges_and_no_others():
    rules = ("privacy_cost_gap > 2 points", "privacy_cost@sex=F > 3 points", "excess_risk > .3")
    held = table_of(judged(report_of(comparison(costs=(0.041, 0.012))), *rules))
    f, m, both, every = held.rows
    assert (cost(held, both).bound.limit, cost(held, both).bound.outcome) == (0.02, "inconclusive")
    assert (cost(held, f).bound.limit, cost(held, f).bound.outcome) == (0.03, "inconclusive")
    assert cost(held, m).bound is None
    assert cost(held, every).bound is None
    risks = [held.cell(row, "excess_risk").bound for row in held.rows]
    assert [bound and bound.outcome for bound in risks] == ["pass", "pass", None, None]
    assert held.axis(0)[1] >= 0.03


def test_the_limit_is_a_line_at_either_side_of_a_signed_gap():
    page = to_html(
        judged(report_of(comparison(costs=(0.012, 0.041))), "privacy_cost_gap > 1 point")
    )
    (row,) = re.findall(r'<tr class="gap">.*?</tr>', page, flags=re.S)
    cell = re.findall(r"<td.*?</td>", row, flags=re.S)[0]
    assert cell.count('class="limit"') in (1, 2)
    assert "limit 1: FAIL" in cell


# --- writings


@pytest.mark.parametrize("width", [80, 100, 200])
def test_a_terminal_of_any_width_shows_every_number_within_its_columns(width):
    report = several()
    lines = list(result_lines(report, width))
    for held in group_tables(report)[: 3 * 2]:
        start = lines.index(next(line for line in lines if line.startswith(f" {held.arm},")))
        block = lines[start : start + 60]
        for row in held.brief.rows:
            for column, cell in zip(held.columns, row.cells, strict=True):
                factor = 100 if column.metric == "privacy_cost" else 1
                shown = f"{factor * cell.number.value:.{1 if factor == 100 else 3}f} ["
                assert any(shown in line for line in block), (held.arm, row, column)
    tables = [line for line in lines if re.search(r"\d \[-?\d|test rows|points of", line)]
    tables = [line for line in tables if not line.startswith(" - ")]
    assert max(map(cell_len, tables)) <= width


def test_measures_that_do_not_fit_stand_below_under_the_same_groups():
    narrow = list(result_lines(built(), 60))
    heads = [line for line in narrow if line.startswith(" sex ")]
    assert len(heads) == 2
    assert sum(line.startswith(" F ") for line in narrow) == 2
    wide = list(result_lines(built(), 120))
    assert len([line for line in wide if line.startswith(" sex ")]) == 1


def test_only_what_is_detected_is_tinted_and_every_reading_is_a_word():
    report = several()
    page = to_html(report)
    cells = re.findall(r"<td[^>]*data-title.*?</td>", page, flags=re.S)
    assert cells
    for cell in cells:
        words = re.sub("<[^>]*>", "", cell)
        said = "detected" in words and "not detected" not in words
        assert ('class="found"' in cell) == said


def test_many_methods_begin_with_a_ranking_by_what_the_worst_group_pays():
    report = judged(several(), "privacy_cost_gap > 5 points")
    tables = group_tables(report)
    worst = {}
    for held in tables:
        for row in held.groups:
            value = cost(held, row).number.value
            worst[held.arm] = max(worst.get(held.arm, -1), value)
    for read in (of_markdown(to_markdown(report)), of_html(to_html(report))):
        ranking = [dict(row) for row in read["Summary"][0]]
        assert [row["method"] for row in ranking] == sorted(worst, key=worst.get)
        for row in ranking:
            number = row["worst group, privacy cost"].split()[-1]
            assert says(number, worst[row["method"]], factor=100)
            assert row["verdict"] in ("PASS", "FAIL", "INCONCLUSIVE")
    page = to_html(report)
    assert page.count("<h3>") >= 3
    assert page.index("global-adapt@4") < page.index("<details>")


def test_a_method_without_a_group_that_can_be_judged_is_ranked_last():
    report = several()
    first, *_ = ranked = ranking_of(report)
    few = []
    for compared in report.comparisons:
        if compared.arm == first:
            groups = tuple(replace(group, n_test=1) for group in compared.by_group)
            compared = replace(compared, by_group=groups)
        few.append(compared)
    thin = ranking_of(report.model_copy(update={"comparisons": tuple(few)}))
    assert len(ranked) >= 3
    assert thin == [*ranked[1:], first]


def ranking_of(report):
    """The methods in the order of the ranking with which a report of many methods begins."""
    return [dict(row)["method"] for row in of_markdown(to_markdown(report))["Summary"][0]]


def test_a_method_with_a_reference_of_its_own_stands_beside_sgd():
    arms = [arm("sgd", reference=None), arm("exact-minimiser", reference=None)]
    arms.append(arm("output-perturbation", reference="exact-minimiser"))
    own = comparison("output-perturbation", (0.01, 0.0), reference="exact-minimiser")
    beside = comparison("output-perturbation", (0.09, 0.02))
    report = report_of(own, beside, arms=tuple(arms))
    assert [t.reference for t in group_tables(report)] == ["sgd"]
    held = table_of(report)
    assert cost(held, held.rows[0]).number.value == pytest.approx(0.09)
