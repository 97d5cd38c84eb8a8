"""A metric that is added to the registry is in every output, the right way round, or undefined."""

import re
from dataclasses import replace

import numpy as np
import pytest
from people import predicted
from second_reader import shown

from fairaudit.cli.lines import result_lines
from fairaudit.cli.lines_compare import change_lines
from fairaudit.config.value_sources import resolve_config
from fairaudit.data.dataset import Grouping
from fairaudit.errors import ConfigError, numbered
from fairaudit.gate.comparison import compare_reports
from fairaudit.gate.grammar import parse_rule
from fairaudit.metrics.compare import FIXED_SPLIT, Evaluation, Twin, compare
from fairaudit.metrics.registry import (
    METRICS,
    WITHIN,
    MetricSpec,
    cost_of,
    costs,
    of_steps,
    of_study,
    within_model,
)
from fairaudit.metrics.within_model import ArmPredictions, LabelOutcome
from fairaudit.report.cost_charts import cost_chart
from fairaudit.report.frames import AuditReport
from fairaudit.report.group_rows import group_tables
from fairaudit.report.load import load_report
from fairaudit.report.measures import left_out_costs, measure_text, shown_costs
from fairaudit.results.estimates import interval_of
from fairaudit.score import ScoreConfig, score


def squared_error(rows):
    truth = np.eye(rows.outcome.n_classes)[rows.labels]
    return ((rows.probabilities - truth) ** 2).sum(axis=1), rows.everyone


ADDED = (
    MetricSpec(
        name="brier",
        words="Brier score",
        worst="highest",
        compute=squared_error,
        bounds=(0.0, 2.0),
        needs=frozenset({"probabilities"}),
        is_in_summary=True,
    ),
    MetricSpec(
        name="npv",
        words="negative predictive value",
        worst="lowest",
        compute=lambda rows: ((1 - rows.chosen) * ~rows.truth, 1 - rows.chosen),
        needs=frozenset({"positive"}),
        header="NPV",
    ),
    MetricSpec(
        name="calibration_in_the_large",
        words="mean forecast minus frequency",
        worst="highest",
        compute=lambda rows: (rows.probabilities[:, 1] - (rows.labels == 1), rows.everyone),
        bounds=(-1.0, 1.0),
        needs=frozenset({"probabilities"}),
        is_judged=False,
    ),
)


@pytest.fixture(autouse=True)
def added(monkeypatch):
    for spec in ADDED:
        monkeypatch.setitem(METRICS, spec.name, spec)


@pytest.fixture
def third(monkeypatch):
    """Two costs beside the two of ours: of a mean over rows, and of what rests on other metrics."""
    brier = cost_of(ADDED[0], "brier_cost", "Brier score added by private training")
    area = cost_of(METRICS["auc"], "auc_cost", "area lost in private training", "lost area")
    alarms = cost_of(METRICS["fpr"], "fpr_cost", "false positive rate added by private training")
    for spec in (brier, area, alarms):
        monkeypatch.setitem(METRICS, spec.name, spec)


def predictions(rows=2000):
    """Of two classes, much worse for F than for M; of three, ``named``, alike."""
    noise = {"F": 2.5, "M": 0.9}
    frame = predicted(rows, seeds=1, positive=0.5, noise=noise, shares={"F": 0.4, "M": 0.6})
    draw = np.random.default_rng(0)
    frame["kind"] = draw.choice(["cat", "dog", "eel"], rows)
    frame["named"] = np.where(draw.random(rows) < 0.7, frame["kind"], "eel")
    frame["again"] = np.where(draw.random(rows) < 0.9, frame["kind"], "eel")
    return frame.rename(columns={"base0": "base", "private0": "private"})


def scored(tmp_path, y_pred, baseline=None, label="paid", **options):
    path = tmp_path / "scores.parquet"
    predictions().to_parquet(path, index=False)
    given = {"data": path, "label": label, "group": ["sex"], "out": tmp_path / y_pred}
    config = resolve_config({**given, "format": ["json", "md", "html"], **options}).config
    return score(ScoreConfig(config, y_pred, baseline)), config


def estimates(report, group, arm="predictions"):
    compared = next(c for c in report.comparisons if c.arm == arm)
    return next(g.estimates for g in compared.by_group if g.group == group)


def expected(frame, column):
    """Brier score and negative predictive value by hand, of each group."""
    found = {}
    for group, rows in frame.groupby("sex"):
        p, y = rows[column].to_numpy(np.float32).astype(float), rows["paid"].to_numpy()
        found[group] = np.mean(2 * (p - y) ** 2), np.mean(y[p <= 0.5] == 0)
    return found


def test_it_is_measured_and_said_to_be_worse_for_whom_it_is(tmp_path):
    report, _ = scored(tmp_path, "private")
    figures = expected(predictions(), "private")
    for group, (brier, npv) in figures.items():
        held = estimates(report, group)
        assert held["brier"].value == pytest.approx(brier, abs=1e-6)
        assert held["npv"].value == pytest.approx(npv, abs=1e-12)
        assert all(held[name].low < held[name].value < held[name].high for name in ("brier", "npv"))
    assert figures["F"][0] > figures["M"][0]
    assert figures["F"][1] < figures["M"][1]
    (comparison,) = report.comparisons
    for name in ("brier", "npv"):
        gap = next(g for g in comparison.gaps if g.metric == name and g.kind == "pair")
        assert gap.direction == "worse for F"
        assert gap.gated


def test_a_metric_whose_value_may_be_negative_is_measured_and_judged(tmp_path):
    rules = [
        "calibration_in_the_large@sex=F < -0.1",
        "calibration_in_the_large@sex=F < 0.1",
        "calibration_in_the_large_gap > 0.5",
    ]
    report, _ = scored(tmp_path, "private", fail_on=rules)
    frame = predictions()
    by_hand = (frame["private"] - frame["paid"]).groupby(frame["sex"]).mean()
    for group, value in by_hand.items():
        held = estimates(report, group)["calibration_in_the_large"]
        assert held.value == pytest.approx(value, abs=1e-6)
        assert held.low < held.value < held.high
    assert by_hand.min() < 0
    assert [gate.outcome for gate in report.gates] == ["pass", "fail", "pass"]


def test_what_privacy_changes_in_it_is_shown_beside_a_baseline(tmp_path):
    report, _ = scored(tmp_path, "private", "base")
    held = estimates(report, "F")
    assert held["reference.brier"].value == pytest.approx(
        expected(predictions(), "base")["F"][0], abs=1e-6
    )
    text = (tmp_path / "private" / "report.md").read_text("utf-8")
    assert f"{held['reference.npv'].value:.3f} → {held['npv'].value:.3f}" in text
    change = next(
        g for c in report.costs for g in c.gaps if (g.metric, g.kind) == ("change.brier", "pair")
    )
    assert change.direction == "worse for F"


@pytest.mark.parametrize(
    ("rule", "outcome"),
    [
        ("brier_gap > 0.9", "pass"),
        ("brier_gap > 0.01", "fail"),
        ("brier@sex=F > 1.2", "pass"),
        ("npv@sex=M < 0.2", "pass"),
        ("npv_gap > 1pt", "fail"),
        ("reference.npv_gap > 90%", "pass"),
        ("change.brier_gap > 0.01", "fail"),
    ],
)
def test_rules_judge_it(tmp_path, rule, outcome):
    report, _ = scored(tmp_path, "private", "base", fail_on=[rule])
    assert [gate.outcome for gate in report.gates] == [outcome]


@pytest.mark.parametrize("rule", ["brier > 3", "npv > 2", "brier[1] > 0.1", "brier_mean > 0"])
def test_rules_about_it_that_mean_nothing_are_refused(rule):
    with pytest.raises(ConfigError):
        parse_rule(rule)


def test_predictions_that_are_labels_have_no_brier_score(tmp_path):
    report, _ = scored(tmp_path, "decided")
    for group in ("F", "M"):
        held = estimates(report, group)
        assert held["brier"].value is None
        assert "needs probabilities" in held["brier"].reason
        assert held["npv"].value == pytest.approx(expected(predictions(), "decided")[group][1])
    (comparison,) = report.comparisons
    assert not any("brier" in gap.metric for gap in comparison.gaps)
    text = (tmp_path / "decided" / "report.md").read_text("utf-8")
    assert "NPV" in text
    assert "| brier" not in text


def test_without_a_positive_class_there_is_one_of_every_class(tmp_path):
    report, _ = scored(tmp_path, "named", label="kind")
    held = estimates(report, "F")
    rows = predictions()[predictions()["sex"] == "F"]
    for number, name in enumerate(("cat", "dog", "eel")):
        others = rows[rows["named"] != name]
        assert held[f"npv[{number}]"].value == pytest.approx((others["kind"] != name).mean())
    assert held["npv"].value is None
    assert "per class" in held["npv"].reason


def test_too_few_records_for_it_leave_no_interval_or_no_gate(tmp_path, monkeypatch):
    n = int((predictions()["sex"] == "F").sum())
    monkeypatch.setitem(METRICS, "brier", replace(ADDED[0], least_gated=n + 1))
    monkeypatch.setitem(METRICS, "npv", replace(ADDED[1], least_records=n + 1))
    report, _ = scored(
        tmp_path, "private", fail_on=["brier@sex=F > 0.01", "brier@sex=M > 0.01", "npv@sex=F < 0.9"]
    )
    held = estimates(report, "F")
    assert held["brier"].low is not None
    assert held["npv"].low is None
    assert f"the negative predictive value needs {n + 1:,}".replace(",", "") in held["npv"].reason
    assert [gate.outcome for gate in report.gates] == ["inconclusive", "fail", "inconclusive"]


def test_a_rate_of_false_accusations_rests_on_some_outsiders():
    """Half of the records are no members; of them as many are accused as the rate says."""
    accused = {name: METRICS[name].least_records / 2 * rate for name, rate in WITHIN.items()}
    assert accused == pytest.approx({"leakage_tpr": 2.5, "leakage_tpr_at_1": 5})


def test_a_metric_without_an_interval_says_why(tmp_path, monkeypatch):
    monkeypatch.setitem(METRICS, "brier", replace(ADDED[0], no_interval="no interval is known"))
    report, _ = scored(tmp_path, "private")
    held = estimates(report, "F")["brier"]
    assert (held.low, held.reason) == (None, "no interval is known")
    assert "| brier" not in (tmp_path / "private" / "report.md").read_text(
        "utf-8"
    )  # its table has intervals


def test_a_cost_that_is_added_is_in_every_output(tmp_path, third, monkeypatch):
    rules = [
        "brier_cost_gap > 0.01",
        "brier_cost@sex=M > 1",
        "auc_cost@sex=F > 1pt",
        "brier_cost_gap.noise > 0",
    ]
    report, _ = scored(tmp_path, "private", "base", fail_on=rules)
    assert [gate.outcome for gate in report.gates][:3] == ["fail", "pass", "fail"]
    text = " ".join(gate.words for gate in report.gates)
    assert "gap between groups in Brier score added by private training" in text
    assert "the part of the noise alone" in text
    after, before = (expected(predictions(), name)["F"][0] for name in ("private", "base"))
    held = estimates(load_report(tmp_path / "private" / "report.json"), "F")
    assert held["brier_cost"].value == pytest.approx(after - before, abs=1e-6)
    assert held["brier_cost"].low < held["brier_cost"].value < held["brier_cost"].high
    lost = held["reference.auc"].value - held["auc"].value  # a report has six digits of each
    assert held["auc_cost"].value == pytest.approx(lost, abs=1.6e-6)
    (comparison,) = report.costs
    gaps = {(gap.metric, gap.kind): gap for gap in comparison.gaps}
    assert gaps["brier_cost", "pair"].direction == "worse for F"
    assert gaps["brier_cost", "pair"].reading == "detected"
    for file in ("report.md", "report.html"):
        page = shown((tmp_path / "private" / file).read_text("utf-8"))
        for cost in ("brier_cost", "auc_cost"):
            assert f"{100 * held[cost].value:.1f} [{100 * held[cost].low:.1f}" in page
        # What is worse the higher it is rises, and is not lost; it is no recall.
        assert "alse positive rate rises" in page
        assert "alse positive rate falls" not in page
        assert "false positive rate (points added)" in page
    label = report.data.label
    assert measure_text("fpr_cost[1]", label) == f"false positive rate of {label.classes[1].name}"
    assert measure_text("tpr_cost[1]", label) == f"recall of {label.classes[1].name}"
    in_brackets = replace(METRICS["precision"], words="markedness (precision + npv - 1)")
    monkeypatch.setitem(METRICS, "precision", in_brackets)
    assert measure_text("precision", label) == "markedness"
    assert measure_text("precision[1]", label) == f"markedness of {label.classes[1].name}"
    frame = AuditReport.of(report).by_group().set_index("group")
    assert frame.loc["F", "brier_cost_low"] == pytest.approx(held["brier_cost"].low, rel=1e-5)
    again, _ = scored(tmp_path, "private", "base")
    lines = "\n".join(change_lines(compare_reports(report, again), every=False))
    assert "brier_cost_gap" in lines
    assert "auc_cost" in lines


TITLES = {  # of costs as tables head them
    "brier_cost": "Brier score (points added)",
    "auc_cost": "lost area (points of area under the ROC curve lost)",
    "fpr_cost": "false positive rate (points added)",
    "npv_cost": "negative predictive value (points lost)",
}


def test_more_costs_than_tables_have_room_for_are_counted_and_a_rules_own_is_shown(
    tmp_path, third, monkeypatch
):
    """A table has the first six, and the last ones where a rule names them."""
    last = cost_of(ADDED[1], "npv_cost", "negative predictive value lost in private training")
    monkeypatch.setitem(METRICS, last.name, last)
    room, rest = costs()[:6], costs()[6:]
    assert rest[-1] == "npv_cost"
    for rules, others in (
        ([], rest),
        (["npv_cost_gap.noise > 0"], rest[:-1]),
        ([f"{name}_gap > 0.5" for name in rest], ()),
    ):
        n_shown = len(costs()) - len(others)
        titles = ", ".join(TITLES[name] for name in others)
        line = f"No room here for {numbered(len(others), 'cost')}, in report.json: {titles}."
        report, _ = scored(tmp_path, "private", "base", fail_on=rules)
        (table,) = group_tables(report)
        named = [column.metric for column in table.columns]
        assert named[:6] == [*room]
        assert len(named) == len(cost_chart(report).panels) == n_shown
        assert ("npv_cost" in named) == bool(rules)
        terminal = " ".join(result_lines(report))
        pages = [(tmp_path / "private" / name).read_text("utf-8") for name in ("report.md",)]
        pages.append(shown((tmp_path / "private" / "report.html").read_text("utf-8")))
        for text in (*(page.replace("\\", "") for page in pages), terminal):
            assert line in text if others else "No room here" not in text
    # A rule about a change since another report judges no number of this one, and names a cost.
    report, _ = scored(tmp_path, "private", "base", fail_on=["epsilon > 3", "accuracy < 0.1"])
    gate = report.gates[0].model_copy(
        update={"rule": "npv_cost_gap.delta@sex=F,M > 1pt", "metric": "", "kind": ""}
    )
    assert "npv_cost" not in shown_costs(report)
    assert "npv_cost" in shown_costs(report.model_copy(update={"gates": (gate,)}))
    for rule in ("accuracy@sex=npv_cost < 0.1", "accuracy:npv_cost < 0.1"):  # other words of a rule
        gate = gate.model_copy(update={"rule": rule})
        assert "npv_cost" not in shown_costs(report.model_copy(update={"gates": (gate,)}))


def test_recalls_where_the_classes_are_the_groups_are_shown_if_a_rule_names_them(
    tmp_path, third, monkeypatch
):
    """The accuracy of a group is the recall of its class: no line offers it a second time."""
    for name in ("npv", "selection_rate", "fpr", "precision"):  # more than six costs, none by class
        spec = replace(METRICS["accuracy"], name=f"other_{name}", words=f"other {name}")
        monkeypatch.setitem(METRICS, spec.name, spec)
        cost = cost_of(spec, f"{spec.name}_cost", f"{spec.words} lost")
        monkeypatch.setitem(METRICS, cost.name, cost)
    options = {"label": "kind", "group": ["kind", "sex"]}
    for rules, recalls in (([], []), (["tpr_cost[2]@sex=F > 0.9"], ["tpr_cost[2]"])):
        report, _ = scored(tmp_path, "named", "again", fail_on=rules, **options)
        tables = group_tables(report)
        assert len(tables) == 2
        named = [column.metric for column in tables[0].columns]
        assert [name for name in named if name.startswith("tpr_cost")] == recalls
        assert all(("recall of eel" in [c.title for c in t.columns]) == bool(rules) for t in tables)
        text = (tmp_path / "named" / "report.md").read_text("utf-8")
        (line,) = re.findall(r"No room here .*", text.replace("\\", ""))
        assert "recall of" not in line
        n_told = int(re.search(r"\d+", line)[0])
        assert n_told == len(left_out_costs(report)) == line.count("(")
        assert set(left_out_costs(report)).isdisjoint(named)


def test_the_line_on_costs_without_room_names_classes_as_the_tables_do(
    tmp_path, third, monkeypatch
):
    for number in range(4):
        spec = replace(ADDED[1], name=f"npv{number}", words=f"value {number}", header="")
        monkeypatch.setitem(METRICS, spec.name, spec)
        cost = cost_of(spec, f"{spec.name}_cost", f"{spec.words} lost")
        monkeypatch.setitem(METRICS, cost.name, cost)
    report, _ = scored(tmp_path, "named", "again", label="kind")
    (line,) = re.findall(r"No room here .*", "\n".join(result_lines(report)))
    assert re.search(r" value 3 of (cat|dog|eel) \(points lost\)\.$", line)
    assert "[" not in line
    assert "_cost" not in line


def test_a_metric_that_a_rule_names_is_in_the_summary_of_predictions(tmp_path):
    report, _ = scored(tmp_path, "private", fail_on=["npv_gap > 1pt"])
    (table,) = group_tables(report)
    (row,) = [row for row in table.rows if row.groups == ("F",)]
    npv = table.cell(row, "npv").number.value
    assert npv == pytest.approx(expected(predictions(), "private")["F"][1], abs=1e-6)
    (without,) = group_tables(scored(tmp_path, "private")[0])
    assert "npv" not in [column.metric for column in without.columns]
    report, _ = scored(tmp_path, "named", label="kind", fail_on=["npv_gap[2] > 1pt"])
    (table,) = group_tables(report)
    assert table.columns[-1].title == "negative predictive value of eel"
    assert [column.metric for column in table.columns].count("npv[2]") == 1
    assert table.cell(table.rows[0], "npv[2]").number == interval_of(
        estimates(report, table.rows[0].groups[0])["npv[2]"]
    )


def test_a_cost_that_is_added_comes_in_parts_and_against_a_constant(third):
    draw = np.random.default_rng(1)
    labels, groups = draw.integers(0, 2, 1200), draw.integers(0, 3, 1200)

    def arm(noise):
        logit = (2.0 * labels - 1.0) * 1.5 + noise * (1 + groups) * draw.normal(size=1200)
        p = (1 / (1 + np.exp(-logit))).astype(np.float32)
        return [
            ArmPredictions(
                seed=seed,
                rows=np.arange(1200),
                probabilities=np.stack([1 - p, p], -1)[None],
                train_count=np.full(3, 100),
                train_classes=np.array([150, 150]),
            )
            for seed in range(5)
        ]

    private, twin, base = arm(2.0), arm(1.0), arm(0.5)
    grouping = Grouping("kind", groups, ("a", "b", "c"), None)
    on = Evaluation(labels, grouping, LabelOutcome(2, 1), FIXED_SPLIT)
    found = compare(on, "arm", "base", private, base, [Twin("clipping", twin)])
    for cost in ("brier_cost", "auc_cost"):
        held = {name: estimate.value for name, estimate in found.by_group[2].estimates.items()}
        assert held[f"{cost}.clipping"] + held[f"{cost}.noise"] == pytest.approx(held[cost])
        assert cost + ".constant" in held
    assert held["brier_cost.constant"] == pytest.approx(held["brier"] - 0.5)
    assert held["auc_cost.constant"] == pytest.approx(0.5 - held["auc"])


def test_costs_are_the_metrics_that_need_a_reference():
    of_two = tuple(name for name, spec in METRICS.items() if "reference" in spec.needs)
    assert of_two == (*costs(), "one_answer", "disagreement_cost")
    assert costs() == ("privacy_cost", "excess_risk", "tpr_cost", "selection_cost")
    attacked = {spec.name for spec in of_study("leakage")}
    assert attacked == {name for name in METRICS if name.startswith("leakage_")}
    read = {spec.name for spec in of_steps()}
    assert read == {
        *("misalignment", "cosine_before", "cosine_after", "clipped_share", "gradient_norm"),
        *("norm_to_bound", "direction", "magnitude", "step_noise"),
    }
    assert {spec.name for spec in within_model()} == set(METRICS) - set(of_two) - attacked - read


def test_what_a_metric_rests_on_stands_before_it():
    names = list(METRICS)
    for name, spec in METRICS.items():
        assert all(names.index(other) < names.index(name) for other in spec.rests_on)
