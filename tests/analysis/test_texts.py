"""Markdown, page and terminal against the JSON, by a second reader: each number in its row, under its head.

The report has several arms, groupings and epsilons, and no two of its numbers are alike.
"""

import json
import math
import re

import pytest
import several as made
from documents import charts, full_text
from golden import assert_golden
from handmade import findings, metadata
from scipy import stats
from second_reader import (
    Tables,
    interval,
    numbers,
    of_console,
    of_html,
    of_markdown,
    says,
    shows_six_digits,
)
from several import GROUPINGS, NAMED, PRIVATE, SERIES, several

from fairaudit.analysis.build import build_report
from fairaudit.cli.lines import result_lines
from fairaudit.gate.check import check
from fairaudit.gate.grammar import parse_rules
from fairaudit.report.render.html import to_html
from fairaudit.report.render.markdown import to_markdown
from fairaudit.report.sections.parts import part_sentences
from fairaudit.report.to_json import read_report, to_json

HEADS = {
    "loss": "loss (nats)",
    "gradient_norm": "mean gradient norm of a record",
    "clipped": "clipped (share)",
}
PAIRS = [(arm, grouping, group) for grouping in GROUPINGS for arm in PRIVATE for group in GROUPINGS[grouping]]


@pytest.fixture(scope="module")
def report():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fairaudit.analysis.build_facts.version", lambda name: "0.6.0")
        return several()


@pytest.fixture(scope="module")
def stored(report):
    """The JSON as anybody would read it."""
    return json.loads(to_json(report))


@pytest.fixture(scope="module")
def texts(report):
    """The same tables from three places; the Markdown is cut to length, the page is not."""
    return {
        "whole": of_markdown(full_text(report)),
        "markdown": of_markdown(to_markdown(report)),
        "html": of_html(to_html(report)),
    }


WHERE = pytest.mark.parametrize("where", ["whole", "html", "markdown"])
UNCUT = pytest.mark.parametrize("where", ["whole", "html"])


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


# --- the JSON holds what was measured ----------------------------------------------------------------


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
        assert stored["privacy"][arm]["epsilon"]["pld"] == pytest.approx(made.epsilon(arm))
    (sgd,) = (arm for arm in stored["arms"] if arm["key"] == "sgd")
    assert (sgd["seeds_finished"], sgd["seeds_planned"]) == (4, 5)
    assert stored["status"] == "partial"


def test_no_two_figures_are_alike(stored):
    """Or a wrong place would not show."""
    for metric in ("privacy_cost", "accuracy", "excess_risk", "selection_rate"):
        shown = {round(estimates(stored, *place)[metric]["value"], 3) for place in PAIRS}
        assert len(shown) > len(PAIRS) - 3


# --- tables of the text ------------------------------------------------------------------------------


@WHERE
def test_costs(texts, stored, where):
    rows = texts[where].rows("Cost by group", "method", "cost (points)", "excess risk (nats)")
    assert [(row["method"], row["group"]) for row in rows] == [(a, f"{by} = {g}") for a, by, g in PAIRS]
    for row, place in zip(rows, PAIRS, strict=True):
        found = estimates(stored, *place)
        (group,) = (g for g in comparison(stored, *place[:2])["by_group"] if g["group"] == place[2])
        assert says(row["test rows"], group["n_test"])
        assert says(row["non-private accuracy"], found["reference.accuracy"]["value"])
        assert says(row["private accuracy"], found["accuracy"]["value"])
        assert says(row["cost (points)"], *interval(found["privacy_cost"]), factor=100)
        assert says(row["excess risk (nats)"], *interval(found["excess_risk"]))


@WHERE
def test_gaps(texts, stored, where):
    rows = texts[where].rows("Gaps between groups", "between", "gap in cost (points)", "reading")
    assert len(rows) == len(PRIVATE) * 3  # the pair of two groups; the named one and the largest of three
    seen = set()
    for row in rows:
        grouping, _, between = row["between"].partition(": ")
        named, a_b = grouping == "region" and between == ", ".join(NAMED), between.split(", ")
        kind = "pair" if named or grouping == "sex" else "max"
        found = gap(stored, row["method"], grouping, a_b, kind=kind)
        size = found["simultaneous" if kind == "max" else "absolute"]
        assert says(row["gap in cost (points)"], *interval(size), factor=100)
        assert says(row["minimum detectable (points)"], found["minimum_detectable"], factor=100)
        assert says(row["SD, seeds (points)"], found["signed"]["training_sd"], factor=100)
        assert says(row["SD, shared test rows (points)"], found["signed"]["records_sd"], factor=100)
        costs = {group: estimates(stored, row["method"], grouping, group)["privacy_cost"] for group in a_b}
        worse = max(a_b, key=lambda group: costs[group]["value"])
        most = f"none detected, at most {100 * size['high']:.1f}".removesuffix(".0")
        assert row["reading"].partition(";")[0] == (
            f"worse for {worse}" if size["low"] > 0 else f"{most} points"
        )
        assert found["named"] == named
        seen.add((row["method"], row["between"]))
    assert len(seen) == len(rows)


@WHERE
def test_costs_over_epsilon(texts, stored, where):
    rows = texts[where].rows("Cost over epsilon", "method", "ε ≤ 1", "ε ≤ 4")
    assert len(rows) == len(made.METHODS) * sum(len(names) + 1 for names in GROUPINGS.values())
    for row in rows:
        for target in made.TARGETS:
            arm, cell = f"{row['method']}@{target}", row[f"ε ≤ {target}"]
            if row["group"].startswith("gap by "):
                grouping = row["group"].removeprefix("gap by ")
                kind = "max" if len(GROUPINGS[grouping]) > 2 else "pair"
                gaps = comparison(stored, arm, grouping)["gaps"]
                (found,) = (g for g in gaps if (g["metric"], g["kind"]) == ("privacy_cost", kind))
                assert says(cell, *interval(found["absolute"]), factor=100)
            else:
                place = row["group"].split(" = ")
                assert says(cell, *interval(estimates(stored, arm, *place)["privacy_cost"]), factor=100)


@UNCUT
def test_costs_in_their_parts(texts, stored, where):
    parts = ("", " without noise", " from noise")
    heads = [f"cost{part} (points)" for part in parts] + [f"excess risk{part} (nats)" for part in parts]
    rows = texts[where].rows("Clipping or noise", "method", *heads)
    expected = [(arm, grouping, group) for grouping, names in GROUPINGS.items() for arm in PRIVATE
                for group in ("gap", *names, "all rows")]  # fmt: skip
    assert len(rows) == len(expected)
    for row, (arm, grouping, group) in zip(rows, expected, strict=True):
        assert row["method"] == arm
        for head, metric in zip(heads, made.SPLIT, strict=True):
            factor = 100 if head.startswith("cost") else 1
            if group == "gap":
                a, b = row["of"].removeprefix("gap: ").split(", ")
                whole = gap(stored, arm, grouping, (a, b), metric=metric.partition(".")[0])["signed"]
                found = gap(stored, arm, grouping, (a, b), metric=metric)
                sign = factor * math.copysign(1, whole["value"])
                value, low, high = (sign * v for v in interval(found["signed"]))
                assert says(row[head], value, min(low, high), max(low, high))
            else:
                assert row["of"] == group
                found = comparison(stored, arm, grouping)["overall"]["estimates"]
                if group != "all rows":
                    found = estimates(stored, arm, grouping, group)
                assert says(row[head], *interval(found[metric]), factor=factor)


def test_what_is_said_of_a_gaps_parts_is_what_their_intervals_show(report, stored):
    """Over all arms and groupings every kind of sentence but "both" comes up."""
    kinds = set()
    for sentence in part_sentences(report):
        who, _, said = sentence.partition(": ")
        arm, grouping, *told = who.split(", ")
        metric = "privacy_cost" if "points of accuracy" in said else "excess_risk"
        among = "max" if grouping == "region" else "pair"
        of_metric = [g for g in comparison(stored, arm, grouping)["gaps"] if g["metric"] == metric]
        (whole,) = (g for g in of_metric if g["kind"] == among)
        assert whole["absolute"]["low"] > 0
        between = whole["a"], whole["b"]
        assert told == ([] if among == "pair" else [" against ".join(between)])
        sign = math.copysign(1, gap(stored, arm, grouping, between, metric=metric)["signed"]["value"])
        shown = []
        for part in ("clipping", "noise"):
            found = gap(stored, arm, grouping, between, metric=f"{metric}.{part}")
            shown.append(min(sign * found["signed"]["low"], sign * found["signed"]["high"]) > 0)
        kind = "no epsilon" in said, "as epsilon grows" in said
        assert kind == tuple(shown)
        kinds.add(kind)
    assert len(kinds) > 1


def half_of_all(stored, signed):
    """Half the interval that a change has where it is picked from all changes of the report."""
    gaps = (g for c in stored["comparisons"] if c["reference"] for g in c["gaps"] if g["kind"] == "pair")
    every = [g for g in gaps if g["metric"].startswith("change.") and g["signed"]["low"] is not None]
    level = 1 - 0.025 / len(every)
    t = stats.t.ppf(level, signed["n_seeds"] - 1) * signed["training_sd"]
    return math.hypot(t, stats.norm.ppf(level) * signed["records_sd"])


@UNCUT
def test_within_each_model(texts, stored, where):
    rows = texts[where].rows("Within each model", "method", "accuracy", "loss", "tpr", "fpr", "precision")
    for row, place in zip(rows, PAIRS, strict=True):
        assert (row["method"], row["group"]) == (place[0], place[2])
        found = estimates(stored, *place)
        for metric in ("accuracy", "loss", "tpr", "fpr", "precision"):
            before, after = (found[side + metric]["value"] for side in ("reference.", ""))
            assert says(row[metric], before, after)
    changes = texts[where].rows("Within each model", "metric", "between", number=1)
    for row in changes:
        a, b = row["between"].split(", ")
        grouping = next(name for name, groups in GROUPINGS.items() if a in groups)
        found = gap(stored, row["method"], grouping, (a, b), metric=f"change.{row['metric']}")
        assert (found["a"], found["b"]) == (a, b)
        value, half = found["signed"]["value"], half_of_all(stored, found["signed"])
        assert says(row["change of the gap"], value, value - half, value + half)
        assert half < abs(value)


@UNCUT
def test_selection_rates(texts, stored, where):
    rows = texts[where].rows("Selection rates and impact ratios", "model", "selection rate", "impact ratio")
    assert {row["model"] for row in rows} == {"sgd", *PRIVATE}
    for row in rows:
        arm, place = row["model"], (row["grouping"], row["group"])
        side = "reference." if arm == "sgd" else ""
        found = estimates(stored, PRIVATE[0] if arm == "sgd" else arm, *place)
        assert says(row["selection rate"], found[f"{side}selection_rate"]["value"])
        assert says(row["impact ratio"], found[f"{side}impact_ratio"]["value"])


@UNCUT
def test_last_readings_of_the_training(texts, report, where):
    """A mean over the seeds that finished, from the numbers that the trainings left."""
    section = "Appendix: training, group by group"
    for row in texts[where].rows(section, "method", "group", *HEADS.values()):
        seeds = [s for s in range(5) if f"{row['method']}-{s}" != made.LOST]
        for name in SERIES:
            k = GROUPINGS["sex"].index(row["group"])
            mean = math.fsum(made.drawn(name, row["method"], seed, 183, k) for seed in seeds) / len(seeds)
            assert says(row[HEADS[name]], mean)
    for row in texts[where].rows(section, "method", "threshold", number=1):
        seeds = [s for s in range(5) if f"{row['method']}-{s}" != made.LOST]
        last = [made.drawn("threshold", row["method"], seed, 1) for seed in seeds]
        assert says(row["threshold"], math.fsum(last) / len(last))


@UNCUT
def test_epsilons_of_the_register_are_those_of_their_arm_and_never_below(texts, stored, where):
    rows = texts[where].rows("Appendix: entry for a DP deployment registry", "model", "ε", "δ", "steps")
    assert [row["model"] for row in rows] == list(PRIVATE)
    for row in rows:
        true, ((shown, digits),) = stored["privacy"][row["model"]]["epsilon"]["pld"], numbers(row["ε"])
        assert true <= shown < true + 10.0**-digits
        assert digits == 2
        assert float(row["δ"]) == stored["privacy"][row["model"]]["delta"]


def test_every_epsilon_of_the_text_has_its_delta_beside_it(report, stored):
    """Where one is claimed, in prose as in tables; and it is the epsilon of its arm, rounded up."""
    text = full_text(report)
    sections = [section for section in text.split("\n## ") if re.search(r"ε ≤ \d|\| ε", section)]
    assert len(sections) == 3  # the guarantees, the sweep, the register
    assert all(re.search(r"δ = 1e-06|\| δ \|", section) for section in sections)
    claims = [line for line in text.splitlines() if "ε ≤" in line and not line.startswith("|")]
    told = [part for line in claims for part in line.split("ε ≤")[1:]]
    assert len(told) == len(PRIVATE) + 1
    for part in told:
        assert "δ = 1e-06" in part
    by_method = {line.split("**")[1].partition("@")[0]: line for line in claims if "**" in line}
    for method in made.METHODS:
        shown = [numbers(part)[0] for part in by_method[method].split("ε ≤")[1:]]
        true = [stored["privacy"][f"{method}@{target}"]["epsilon"]["pld"] for target in made.TARGETS]
        assert [math.ceil(100 * value - 1e-9) / 100 for value in true] == [value for value, _ in shown]


# --- tables and marks of the charts ------------------------------------------------------------------

FIGURES = {
    "privacy-cost": {"privacy cost": ("privacy_cost", 0)},
    "excess-risk": {"excess risk": ("excess_risk", 0)},
    "accuracy": {"without privacy": ("reference.accuracy", 0), "with privacy": ("accuracy", 1)},
    "selection-rate": {
        "without privacy": ("reference.selection_rate", 0),
        "with privacy": ("selection_rate", 1),
        "impact ratio": ("impact_ratio", 2),
    },
}


@pytest.mark.parametrize("name", FIGURES)
def test_numbers_below_a_figure(texts, stored, name):
    (table,) = texts["html"][name]
    assert [(dict(row)["method"], dict(row)["grouping"], dict(row)["group"]) for row in table] == PAIRS
    for row, place in zip(table, PAIRS, strict=True):
        heads = [head for head, _ in row]
        for title, (metric, number) in FIGURES[name].items():
            at = heads.index(title)
            ends = [i for i, head in enumerate(heads) if head in ("low", "high")][2 * number : 2 * number + 2]
            found = estimates(stored, *place)[metric]
            for i, end in zip((at, *ends), ("value", "low", "high"), strict=True):
                assert shows_six_digits(row[i][1], found[end])


def test_numbers_below_the_sweep(texts, stored):
    (table,) = texts["html"]["epsilon-sweep"]
    for row in map(dict, table):
        assert row["method"].endswith(f"@{row['epsilon']}")
        if row["group"].startswith("gap "):
            between = row["group"].removeprefix("gap ").split(", ")
            found = gap(stored, row["method"], row["grouping"], between)["absolute"]
        else:
            found = estimates(stored, row["method"], row["grouping"], row["group"])["privacy_cost"]
        for title, end in (("cost (points)", "value"), ("low", "low"), ("high", "high")):
            assert shows_six_digits(row[title], 100 * found[end])


def test_marks_of_the_figures_stand_in_the_row_of_their_arm_and_the_colour_of_their_group(report, stored):
    drawn = {chart.name: chart for chart in charts(report)}
    for name, metric, factor in (
        ("privacy-cost", "privacy_cost", 100), ("excess-risk", "excess_risk", 1),
        ("selection-rate", "selection_rate", 1),
    ):  # fmt: skip
        assert [panel.title for panel in drawn[name].panels] == list(GROUPINGS)
        for panel in drawn[name].panels:
            marks = {(bar.row, bar.series): bar for bar in panel.bars}
            assert len(marks) == len(PRIVATE) * len(GROUPINGS[panel.title])
            for (arm, group), bar in marks.items():
                expected = interval(estimates(stored, arm, panel.title, group)[metric])
                assert (bar.number.value, bar.number.low, bar.number.high) == pytest.approx(
                    [factor * v for v in expected], rel=1e-4
                )
    for panel in drawn["accuracy"].panels:
        for change in panel.changes:
            found = estimates(stored, change.row, panel.title, change.series)
            assert change.before == pytest.approx(100 * found["reference.accuracy"]["value"], rel=1e-4)
            assert change.after == pytest.approx(100 * found["accuracy"]["value"], rel=1e-4)


# --- the terminal ------------------------------------------------------------------------------------


def test_the_terminal_shows_many_methods_in_one_table_the_largest_cost_of_a_group_first(report, stored):
    lines = list(result_lines(report))
    start = next(i for i, line in enumerate(lines) if line.startswith(" method "))
    rows = [re.split(r" {2,}", line.strip()) for line in lines[start + 1 : start + 9]]
    names = [(arm, grouping) for grouping in GROUPINGS for arm in PRIVATE]
    assert sorted(tuple(row[0].split(", by ")) for row in rows) == sorted(names)
    largest = []
    for row in rows:
        arm, grouping = row[0].split(", by ")
        costs = [estimates(stored, arm, grouping, group)["privacy_cost"] for group in GROUPINGS[grouping]]
        most = max(costs, key=lambda cost: cost["value"])
        assert says(row[3], *interval(most), factor=100)
        largest.append(most["value"])
    assert largest == sorted(largest, reverse=True)
    assert not any(re.split(r" {2,}", line.strip())[1:2] == ["n"] for line in lines)  # no table for each


@pytest.mark.parametrize(("columns", "kept"), [(200, 8), (120, 5), (90, 4)])
def test_a_narrow_terminal_has_fewer_columns_and_no_broken_row(report, columns, kept):
    lines = list(result_lines(report, columns))
    start = next(i for i, line in enumerate(lines) if line.startswith(" method "))
    table = lines[start : start + 9]
    assert all(len(line) <= columns for line in table)
    heads = re.split(r" {2,}", table[0].strip())
    assert heads[0] == "method"
    assert {"paid by", "largest cost", "largest gap"} <= set(heads)
    assert len(heads) >= kept


def test_the_terminal_shows_the_costs_of_a_few_methods_by_group():
    report = build_report(findings(), metadata())
    (block,) = of_console(result_lines(report))
    assert block[0] == ["group", "n", "non-private", "global-adapt", "cost (points)"]
    assert [row[0] for row in block[1][:3]] == ["F", "M", "gap"]
    assert block[1][0][1:] == ["382", "0.842", "0.801", "4.1 [2.7, 5.5]"]
    # The gap has the interval of a largest among all, which is wider than that of its pair.
    (comparison,) = report.costs
    ends = {"value": 0.021, "low": 0.001, "high": 0.052}
    gaps = [
        g.model_copy(update={"simultaneous": g.simultaneous.model_copy(update=ends)}) for g in comparison.gaps
    ]
    changed = comparison.model_copy(update={"gaps": tuple(gaps)})
    every = tuple(changed if c is comparison else c for c in report.comparisons)
    (block,) = of_console(result_lines(report.model_copy(update={"comparisons": every})))
    assert block[1][2][-2] == "2.1 [0.1, 5.2]"


# --- as reviewed, and as gates read it ---------------------------------------------------------------


def test_a_report_of_several_is_as_reviewed(report):
    assert_golden("several.md", to_markdown(report))
    assert_golden("several.txt", "\n".join(result_lines(report)) + "\n")


@pytest.mark.parametrize(
    ("rule", "outcome"),
    [
        ("privacy_cost_gap > 0.9", "inconclusive"),
        ("excess_risk@sex=F > 0.9", "inconclusive"),
        ("reference.accuracy < 0.01", "inconclusive"),
        ("epsilon > 5", "pass"),  # no training decides it
        ("epsilon > 3", "fail"),
    ],
)
def test_a_failed_seed_of_the_reference_leaves_every_gate_on_a_measurement_open(report, rule, outcome):
    """Every arm has all its seeds; the one that they are measured against has not."""
    stored = read_report(to_json(report), name="report.json")
    assert check(stored, parse_rules([rule])).outcome == outcome


# --- the second reader sees --------------------------------------------------------------------------


def test_the_reader_sees_a_wrong_number_a_wrong_sign_and_a_wrong_unit():
    assert says("4.1 [2.7, 5.5]", 0.0412, 0.0268, 0.0551, factor=100)
    assert not says("4.1 [2.7, 5.5]", 0.0412, 0.0268, 0.0561, factor=100)
    assert not says("4.1", -0.0412, factor=100)
    assert not says("4.1", 0.0412)
    assert says("1,234", 1234)
    assert not says("–", 0.0)
    assert says("0.842 → 0.801", 0.842, 0.801)
    assert not says("0.842 → 0.801", 0.801, 0.842)
    tables = of_markdown("## A\n\n| a | b |\n|---|---:|\n| x\\|y | 1 |\n\ntext\n| a |\n|---|\n| 2 |\n")
    assert tables["A"] == [[[("a", "x\\|y"), ("b", "1")]], [[("a", "2")]]]
    assert isinstance(of_html("<h2>A</h2><table><tr><th>a</th></tr><tr><td>1</td></tr></table>"), Tables)
