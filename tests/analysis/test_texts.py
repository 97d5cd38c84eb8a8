"""Markdown, page and terminal against the JSON, by a second reader.

Each number in its row, under its head.

The report has several arms, groupings and epsilons, and no two of its numbers are alike.
"""

import json
import math
import re

import pytest
import several as made
from changed import replace
from documents import charts
from second_reader import interval, of_html, of_markdown, says
from several import GROUPINGS, NAMED, PRIVATE, several

from fairaudit.gate.check import check
from fairaudit.gate.grammar import parse_rules
from fairaudit.report.render.html import to_html
from fairaudit.report.render.markdown import to_markdown
from fairaudit.report.to_json import read_report, to_json

PAIRS = [
    (arm, grouping, group)
    for grouping in GROUPINGS
    for arm in PRIVATE
    for group in GROUPINGS[grouping]
]


@pytest.fixture(scope="module")
def report():
    return several()


@pytest.fixture(scope="module")
def stored(report):
    """The JSON as anybody would read it."""
    return json.loads(to_json(report))


@pytest.fixture(scope="module")
def texts(report):
    """The same tables from two places; long ones are cut in the Markdown, not in the page."""
    return {"markdown": of_markdown(to_markdown(report)), "html": of_html(to_html(report))}


SMALLEST = "smallest gap this audit would detect (80 % power)"
WHERE = pytest.mark.parametrize("where", ["html", "markdown"])


def comparison(stored, arm, grouping):
    (found,) = (c for c in stored["comparisons"] if (c["arm"], c["grouping"]) == (arm, grouping))
    return found


def estimates(stored, arm, grouping, group):
    (found,) = (g for g in comparison(stored, arm, grouping)["by_group"] if g["group"] == group)
    return found["estimates"]


def gap(stored, arm, grouping, between, metric="privacy_cost", kind=None):
    kinds = (kind,) if kind else ("pair",)
    (found,) = (
        g
        for g in comparison(stored, arm, grouping)["gaps"]
        if g["metric"] == metric and {g["a"], g["b"]} == set(between) and g["kind"] in kinds
    )
    return found


# --- the JSON holds what was measured
# ----------------------------------------------------------------


def privacy_of(stored, key):
    (found,) = (arm["privacy"] for arm in stored["arms"] if arm["key"] == key)
    return found


def test_the_json_holds_every_figure_in_its_place(stored):
    metrics = [side + metric for metric in made.WITHIN for side in ("", "reference.")]
    for arm, grouping, group in PAIRS:
        found = estimates(stored, arm, grouping, group)
        for metric in ("privacy_cost", "excess_risk", *metrics):
            value, half = (f(arm, grouping, group, metric) for f in (made.value_of, made.half))
            assert found[metric]["value"] == pytest.approx(value, rel=1e-5)
            assert found[metric]["low"] == pytest.approx(value - half, rel=1e-5)
            assert found[metric]["high"] == pytest.approx(value + half, rel=1e-5)
    for arm in PRIVATE:
        assert privacy_of(stored, arm)["epsilon"]["pld"] == pytest.approx(made.epsilon(arm))
    (sgd,) = (arm for arm in stored["arms"] if arm["key"] == "sgd")
    assert (len(sgd["failed"]), sgd["seeds_planned"]) == (1, 5)
    assert stored["status"] == "partial"


# --- tables of the text
# ------------------------------------------------------------------------------


def group_tables(texts, where):
    """(arm, grouping) -> the rows of its table by group: title, what is beside it, its cells."""
    ranking, *tables = texts[where]["Summary"]
    assert [row[0][1] for row in ranking] != []
    places = [(arm, by) for arm in PRIVATE for by in GROUPINGS]
    assert len(tables) == len(places)
    found = {}
    for place, rows in zip(places, tables, strict=True):
        beside = 1 if where == "html" else 3  # a page has test rows and accuracies in the title
        found[place] = []
        for row in rows:
            cells = [cell for _, cell in row]
            found[place].append(
                (cells[0], cells[1:beside] or cells[:1], cells[beside : beside + 2])
            )
    return found


@WHERE
def test_costs(texts, stored, where):
    for (arm, by), rows in group_tables(texts, where).items():
        whole = comparison(stored, arm, by)
        names = [*GROUPINGS[by], ""]
        of_groups = [row for row in rows if not re.match("gap|largest", row[0])]
        assert len(of_groups) == len(names)
        for (title, beside, cells), group in zip(of_groups, names, strict=True):
            assert title.startswith(group or "all rows")
            (held,) = (g for g in (*whole["by_group"], whole["overall"]) if g["group"] == group)
            found = held["estimates"]
            before, after = (found[name]["value"] for name in ("reference.accuracy", "accuracy"))
            rows_text, right = beside if len(beside) == 2 else beside[0].split(" test rows")
            assert says(rows_text, held["n_test"])
            assert says(right, 100 * before, 100 * after)
            words = "detected" if not group else ""
            for cell, metric, factor in zip(cells, made.COSTS, (100, 1), strict=True):
                assert says(cell, *interval(found[metric]), factor=factor)
                said = "detected" in cell
                assert said == (bool(words) and metric in whole["paid"])


@WHERE
def test_gaps_in_the_table_by_group(texts, stored, where):
    seen = []
    for (arm, by), rows in group_tables(texts, where).items():
        for title, _, cells in rows:
            if not re.match("gap|largest", title):
                continue
            for cell, metric, factor in zip(cells, made.COSTS, (100, 1), strict=True):
                if title == "largest gap":
                    between = re.search(r"(\w) less (\w)", cell).groups()
                    found = gap(stored, arm, by, between, metric, kind="max")
                    number = found["signed"]
                    assert (found["a"], found["b"]) == between
                else:
                    between = re.fullmatch(r"gap, (\w) less (\w)", title).groups()
                    found = gap(stored, arm, by, between, metric)
                    number = found["signed"]
                shown = list(interval(number))
                if title != "largest gap" and (found["a"], found["b"]) != between:
                    shown = [-number["value"], -number["high"], -number["low"]]
                assert says(cell, *shown, factor=factor)
                word = "not detected" if shown[1] <= 0 <= shown[2] else "not certain"
                is_detected = found["reading"] == "detected"
                assert ("detected" if is_detected else word) in cell
                assert ("not" in cell) == (not is_detected)
                seen.append((by, title))
    assert len({title for by, title in seen if by == "region"}) > 1


@WHERE
def test_gaps(texts, stored, where):
    rows = texts[where].rows("Gaps between groups", "of", "between", "gap", "reading")
    # The pair of two groups; the named one and the largest of three; in accuracy and in loss.
    assert len(rows) == len(PRIVATE) * 3 * 2
    seen = set()
    for row in rows:
        sides = [side.split(" = ") for side in row["between"].split(" less ")]
        grouping, a_b = sides[0][0], [group for _, group in sides]
        is_loss = "nats" in row["of"]
        metric, factor = ("excess_risk", 1) if is_loss else ("privacy_cost", 100)
        named = grouping == "region" and set(a_b) == set(NAMED)
        kind = "pair" if named or grouping == "sex" else "max"
        found = gap(stored, row["method"], grouping, a_b, metric, kind=kind)
        value, low, high = interval(found["signed"])
        if [found["a"], found["b"]] != a_b:
            value, low, high = -value, -high, -low
        assert says(row["gap"], value, low, high, factor=factor)
        assert named or value >= 0
        assert says(row[SMALLEST], found["minimum_detectable"], factor=factor)
        word = "not detected" if low <= 0 <= high else "not certain"
        assert found["reading"] in ("detected", word)
        assert row["reading"] == found["reading"]
        assert found["named"] == named
        seen.add((row["method"], row["of"], row["between"]))
    assert len(seen) == len(rows)


@WHERE
def test_costs_over_epsilon(texts, stored, where):
    rows = texts[where].rows("Privacy cost over epsilon", "method", "ε ≤ 1", "ε ≤ 4")
    assert len(rows) == len(made.METHODS) * sum(len(names) + 1 for names in GROUPINGS.values())
    for row in rows:
        for target in made.TARGETS:
            arm, cell = f"{row['method']}@{target}", row[f"ε ≤ {target}"]
            if row["group"].startswith("gap by "):
                grouping = row["group"].removeprefix("gap by ")
                kind = "max" if len(GROUPINGS[grouping]) > 2 else "pair"
                gaps = comparison(stored, arm, grouping)["gaps"]
                (found,) = (g for g in gaps if (g["metric"], g["kind"]) == ("privacy_cost", kind))
                assert says(cell, *interval(found["signed"]), factor=100)
            else:
                place = row["group"].split(" = ")
                assert says(
                    cell, *interval(estimates(stored, arm, *place)["privacy_cost"]), factor=100
                )


def test_parts_have_the_names_of_the_methods_own(report):
    """A trainer of somebody's own has neither steps nor clipping that were seen."""
    names = {"clipping": "without_noise"}

    def renamed(estimates):
        kept = {}
        for name, estimate in estimates.items():
            stem, _, part = name.rpartition(".")
            if part == "clipping":
                kept[f"{stem}.without_noise"] = estimate
            elif part not in ("step", "step_and_noise"):
                kept[name] = estimate
        return kept

    compared = []
    for one in report.comparisons:
        groups = [replace(g, estimates=renamed(g.estimates)) for g in one.by_group]
        overall = replace(one.overall, estimates=renamed(one.overall.estimates))
        gaps = []
        for found in one.gaps:
            stem, _, part = found.metric.rpartition(".")
            if part not in ("step", "step_and_noise"):
                metric = f"{stem}.{names[part]}" if part in names else found.metric
                gaps.append(replace(found, metric=metric))
        compared.append(replace(one, by_group=tuple(groups), overall=overall, gaps=tuple(gaps)))
    text = to_markdown(report.model_copy(update={"comparisons": tuple(compared)}))
    section = text.split("## Where the cost comes from: ")[1].split("\n## ")[0]
    assert section.startswith("the training itself or noise\n")
    assert "| cost (unit) | the training itself | noise |" in section
    assert "lipping" not in section
    assert "undefined" not in section


def test_costs_in_their_parts(texts, stored):
    parts = ("step", "clipping", "noise")
    rows = texts["html"].rows(
        "Where the cost comes from: step, clipping or noise", "method", "of", "cost (unit)", *parts
    )
    measures = {"accuracy (points)": "privacy_cost", "loss (nats)": "excess_risk"}
    expected = [
        (arm, grouping, group, measure)
        for grouping, names in GROUPINGS.items()
        for arm in PRIVATE
        for group in ("gap", *names, "all rows")
        for measure in measures
    ]
    assert len(rows) == len(expected)
    for row, (arm, grouping, group, measure) in zip(rows, expected, strict=True):
        assert (row["method"], row["cost (unit)"]) == (arm, measure)
        factor = 100 if "points" in measure else 1
        for part in parts:
            cost = measures[measure]
            metric = f"{cost}.{part}"
            if group == "gap":
                a, b = row["of"].removeprefix("gap, ").replace(f"{grouping} = ", "").split(" less ")
                whole = gap(stored, arm, grouping, (a, b), metric=cost)["signed"]
                found = gap(stored, arm, grouping, (a, b), metric=metric)
                sign = factor * math.copysign(1, whole["value"])
                value, low, high = (sign * v for v in interval(found["signed"]))
                assert says(row[part], value, min(low, high), max(low, high))
            else:
                assert row["of"].removeprefix(f"{grouping} = ") == group
                found = comparison(stored, arm, grouping)["overall"]["estimates"]
                if group != "all rows":
                    found = estimates(stored, arm, grouping, group)
                assert says(row[part], *interval(found[metric]), factor=factor)


def test_within_each_model(texts, stored):
    rows = texts["html"].rows("Within each model", "method", "tpr", "fpr", "precision")
    for row, place in zip(rows, PAIRS, strict=True):
        assert (row["method"], row["group"]) == (place[0], f"{place[1]} = {place[2]}")
        found = estimates(stored, *place)
        for metric in ("tpr", "fpr", "precision", "selection_rate", "impact_ratio"):
            before, after = (found[side + metric]["value"] for side in ("reference.", ""))
            assert says(row[metric.replace("_", " ")], before, after)


@WHERE
def test_every_epsilon_is_that_of_its_arm_rounded_up_beside_its_delta(texts, stored, where):
    rows = texts[where].rows("What the guarantee covers", "method", "ε (PLD)", "ε (RDP)", "δ")
    assert [row["method"] for row in rows] == ["sgd", *PRIVATE]
    assert (rows[0]["ε (PLD)"], rows[0]["δ"]) == ("–", "–")
    for row in rows[1:]:
        true = privacy_of(stored, row["method"])["epsilon"]
        for accountant in ("PLD", "RDP"):
            (shown,) = re.findall(r"ε ≤ ([\d.]+)", row[f"ε ({accountant})"])
            assert float(shown) == math.ceil(100 * true[accountant.lower()] - 1e-9) / 100
        assert row["δ"] == "1e-06"


# --- tables and marks of the charts
# ------------------------------------------------------------------


def test_marks_of_the_figure_stand_in_the_row_of_their_group_and_the_colour_of_their_arm(
    report, stored
):
    (panels,) = [chart.panels for chart in charts(report) if chart.name == "privacy-cost"]
    drawn = [(grouping, metric) for grouping in GROUPINGS for metric in ("cost", "risk")]
    for panel, (grouping, metric) in zip(panels, drawn, strict=True):
        marks = {(bar.series, bar.row.split(" = ")[-1]): bar for bar in panel.bars}
        assert len(marks) == len(PRIVATE) * len(GROUPINGS[grouping])
        name, factor = ("privacy_cost", 100) if metric == "cost" else ("excess_risk", 1)
        for (arm, group), bar in marks.items():
            expected = interval(estimates(stored, arm, grouping, group)[name])
            assert (bar.number.value, bar.number.low, bar.number.high) == pytest.approx(
                [factor * v for v in expected], rel=1e-4
            )


# --- as gates read it
# ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "outcome"),
    [
        ("privacy_cost_gap > 0.9", "inconclusive"),
        ("reference.accuracy < 0.01", "inconclusive"),
        ("epsilon > 5", "pass"),  # no training decides it
        ("epsilon > 3", "fail"),
    ],
)
def test_a_failed_seed_of_the_reference_leaves_every_gate_on_a_measurement_open(
    report, rule, outcome
):
    """Every arm has all its seeds; the one that they are measured against has not."""
    stored = read_report(to_json(report), name="report.json")
    assert check(stored, parse_rules([rule])).outcome == outcome


# --- the second reader sees
# --------------------------------------------------------------------------
