"""One option at several values: each audited, one chart against it."""

import json
import re

import pytest
from people import lent
from typer.testing import CliRunner

from fairaudit.cli.app import app
from fairaudit.errors import ConfigError
from fairaudit.report.load import load_report
from fairaudit.results.estimates import Interval
from fairaudit.sweep import SettingPoint, SettingSweep, document


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("sweep") / "people.parquet"
    lent().to_parquet(path)
    return path


def run(data, out, *words, noise=("--noise-multiplier", "2"), command="run"):
    common = ["--label", "paid", "--group", "sex", "--method", "dpsgd", *noise]
    common += ["--seeds", "2", "--twins", "off", "--diagnostics", "off", "--workers", "1"]
    whole = [command, "--data", str(data), *common, "--out", str(out), *words]
    return CliRunner().invoke(app, whole, catch_exceptions=False)


@pytest.fixture(scope="module")
def swept(data, tmp_path_factory):
    out = tmp_path_factory.mktemp("out")
    values = ("--max-grad-norm", "4", "--max-grad-norm", "0.5")
    return run(data, out, "--epochs", "3", *values), out


def test_every_value_has_its_audit_and_its_point(swept, data, tmp_path):
    said, out = swept
    found = json.loads((out / "sweep.json").read_text())
    assert found["setting"] == "max_grad_norm"
    assert [point["value"] for point in found["points"]] == [0.5, 4]
    for point in found["points"]:
        report = load_report(out / point["report"])
        assert report.config["max_grad_norm"].value == point["value"]
        (compared,) = [c for c in report.costs if c.arm == "dpsgd"]
        for group in compared.by_group:
            cost = group.estimates["privacy_cost"]
            shown = point["cost"]["privacy_cost"][group.group]
            assert (shown["value"], shown["low"]) == pytest.approx((cost.value, cost.low), abs=1e-6)
        costs = {g.group: g.value("excess_risk") for g in compared.by_group}
        gap = point["gap"]["excess_risk"]
        assert gap["value"] == pytest.approx(costs["F"] - costs["M"], abs=1e-6)
    # The very numbers of an audit of that value alone.
    run(data, tmp_path / "alone", "--epochs", "3", "--max-grad-norm", "4")
    alone = load_report(tmp_path / "alone" / "report.json")
    together = load_report(out / "max-grad-norm-4" / "report.json")
    assert alone.comparisons == together.comparisons
    assert "gap, sex = F less sex = M" in said.output or "gap, F less M" in said.output


def test_the_reference_is_trained_once(swept):
    said, _ = swept
    assert "2 of 4 trainings were finished before" in said.output


def test_a_plan_shows_every_value_and_counts_a_shared_training_once(swept, data, tmp_path):
    _, out = swept
    values = ("--epochs", "3", "--max-grad-norm", "4", "--max-grad-norm", "0.5")
    said = run(data, out, *values, command="plan").output
    # Two methods at two seeds for each value, of which those of the reference are the same.
    trained = {path.name for path in out.glob("*/jobs/*.safetensors")}
    assert f"2 values, {len(trained)} trainings (2 more are taken over" in said
    assert said.index("max_grad_norm 0.5") < said.index("max_grad_norm 4") < said.index("total")
    record = json.loads(run(data, tmp_path, *values, "--json", command="plan").stdout)
    assert [one["value"] for one in record["values"]] == [0.5, 4]
    assert record["trainings"] == len(trained) == 6
    with pytest.raises(ConfigError, match="a value twice"):
        run(data, tmp_path, "--epochs", "3", "--epochs", "3", command="plan")
    assert not list(tmp_path.iterdir())


def test_one_chart_shows_costs_and_gap_against_the_setting(swept):
    _, out = swept
    page = (out / "sweep.html").read_text()
    assert page.count("<svg") == 2  # accuracy and loss
    assert "max_grad_norm 0.5" in page
    text = (out / "sweep.md").read_text()
    assert re.search(r"\| method \| of \| 0.5 \| 4 \|", text)


def test_groups_that_are_written_alike_are_drawn_each_and_none_in_place_of_the_gap():
    paid = {"group of the first kind": 0.01, "group of the first sort": 0.02, "gap": 0.03}
    cost = {group: Interval(value=value, low=None, high=None) for group, value in paid.items()}
    point = SettingPoint(
        value=2.0,
        arm="dpsgd",
        reference="sgd",
        grouping="sex",
        report="report.json",
        cost={"privacy_cost": cost, "excess_risk": cost},
        gap={"privacy_cost": Interval(value=0.04, low=None, high=None)},
    )
    (chart,) = document(SettingSweep(setting="epochs", points=(point,))).charts
    drawn = {bar.series: bar.number.value for bar in chart.panels[0].bars}
    assert drawn["dpsgd: gap"] == pytest.approx(4.0)
    assert sorted(drawn.values()) == pytest.approx([1.0, 2.0, 3.0, 4.0])
    assert set(drawn) == set(chart.series)
    assert "more are in the table" not in chart.reading


def test_epochs_are_swept_alike(data, tmp_path):
    said = run(data, tmp_path, "--epochs", "2", "--epochs", "4", "--json")
    found = json.loads((tmp_path / "sweep.json").read_text())
    assert [point["value"] for point in found["points"]] == [2, 4]
    assert load_report(tmp_path / "epochs-4" / "report.json").training.epochs == 4
    assert '"setting": "epochs"' in said.output


def test_what_cannot_be_swept_is_refused(data, tmp_path):
    twice = ("--epochs", "2", "--epochs", "2")
    with pytest.raises(ConfigError, match="a value twice"):
        run(data, tmp_path / "a", *twice)
    with pytest.raises(ConfigError, match="one option at a time"):
        run(data, tmp_path / "b", *twice, "--max-grad-norm", "1", "--max-grad-norm", "2")
    words = ["choose", "--data", str(data), "--group", "sex", "--epochs", "1", "--epochs", "2"]
    with pytest.raises(ConfigError, match="several values"):
        CliRunner().invoke(app, words, catch_exceptions=False)


@pytest.mark.parametrize(
    ("rule", "outcomes", "code"),
    [("between", ["pass", "fail"], 1), ("epsilon > 99", ["pass", "pass"], 0), ("open", None, 3)],
)
def test_rules_are_held_to_every_value_and_the_worst_decides(data, tmp_path, rule, outcomes, code):
    words, noise = ("--epochs", "2", "--epochs", "4"), ("--noise-multiplier", "1")
    run(data, tmp_path, *words, noise=noise)
    reports = [load_report(tmp_path / f"epochs-{n}" / "report.json") for n in (2, 4)]
    first, second = (
        next(a.privacy.headline for a in one.arms if a.key == "dpsgd") for one in reports
    )
    assert first < second
    rules = {
        "between": f"epsilon > {(first + second) / 2}",
        "open": "privacy_cost@sex=F > 1 points",  # two seeds decide little
    }
    said = run(data, tmp_path, *words, "--fail-on", rules.get(rule, rule), noise=noise)
    found = json.loads((tmp_path / "sweep.json").read_text())
    if outcomes is not None:
        assert [point["verdict"] for point in found["points"]] == outcomes
        assert f"| {' | '.join(['dpsgd', *outcomes])} |" in (tmp_path / "sweep.md").read_text()
    for point in found["points"]:
        assert load_report(tmp_path / point["report"]).verdict == point["verdict"]
    assert said.output.count("Verdict") == 2
    assert said.exit_code == code
