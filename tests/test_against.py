"""One method of an audit against another, from stored trainings."""

import json

import numpy as np
import pandas as pd
import pytest
from people import lent
from typer.testing import CliRunner

import fairaudit
from fairaudit.against import compare_methods
from fairaudit.cli.app import app
from fairaudit.errors import ConfigError, DataError


@pytest.fixture(scope="module")
def finished_audit(tmp_path_factory):
    folder = tmp_path_factory.mktemp("against")
    data = folder / "people.parquet"
    lent().to_parquet(data)
    report = fairaudit.run_audit(
        data,
        label="paid",
        group="sex",
        method=["dpsgd", "reweight"],
        epsilon=[2.0],
        epochs=4,
        seeds=3,
        twins="off",
        diagnostics="off",
        workers=1,
        out=folder / "out",
    )
    return report, folder / "out", data


def test_costs_and_gaps_are_differences_of_those_of_the_report(finished_audit):
    report, folder, _ = finished_audit
    (pair,) = compare_methods(report, folder, "dpsgd", data=None).pairs
    assert (pair.arm, pair.against) == ("reweight", "dpsgd")
    (compared,) = pair.comparisons
    costs = {c.arm: c for c in report.costs}
    for metric in ("privacy_cost", "excess_risk"):
        for place, group in enumerate(compared.by_group):
            first = costs["reweight"].by_group[place].estimates[metric]
            second = costs["dpsgd"].by_group[place].estimates[metric]
            expected = np.subtract(first.by_seed, second.by_seed)
            assert group.estimates[metric].by_seed == pytest.approx(expected)
            assert group.estimates[metric].low < expected.mean() < group.estimates[metric].high
    gap = next(g for g in compared.gaps if g.metric == "excess_risk" and g.kind == "pair")
    risks = [group.value("excess_risk") for group in compared.by_group]
    assert gap.signed.value == pytest.approx(risks[0] - risks[1])
    assert gap.reading in {"detected", "not certain", "not detected", "cannot tell"}


def test_a_method_against_another_is_the_other_way_round_with_the_other_sign(finished_audit):
    report, folder, _ = finished_audit
    (there,) = compare_methods(report, folder, "dpsgd", data=None).pairs
    (back,) = compare_methods(report, folder, "reweight", data=None).pairs
    values = [pair.comparisons[0].overall.value("excess_risk") for pair in (there, back)]
    assert values[0] == pytest.approx(-values[1])
    assert (there.more, there.less) == (back.less, back.more)


def test_against_a_model_without_privacy_it_is_the_cost_of_the_report(finished_audit):
    report, folder, _ = finished_audit
    pairs = compare_methods(report, folder, "sgd", data=None).pairs
    assert [pair.arm for pair in pairs] == ["dpsgd", "reweight"]
    found = pairs[0].comparisons[0].by_group[0].estimates["privacy_cost"]
    expected = report.costs[0].by_group[0].estimates["privacy_cost"]
    assert (found.value, found.low, found.high) == (expected.value, expected.low, expected.high)


def test_what_is_not_the_audit_s_is_refused(finished_audit, tmp_path):
    report, folder, data = finished_audit
    with pytest.raises(ConfigError, match="no method 'dpsdg'"):
        compare_methods(report, folder, "dpsdg", data=None)
    with pytest.raises(DataError, match="trainings of 'sgd'"):
        compare_methods(report, tmp_path, "sgd", data=None)
    other = tmp_path / data.name
    pd.read_parquet(data).iloc[::-1].to_parquet(other)
    with pytest.raises(DataError, match="not what was audited"):
        compare_methods(report, folder, "dpsgd", data=other)


def test_code_that_a_report_names_is_not_run(finished_audit):
    report, folder, _ = finished_audit
    option = report.config["model"].model_copy(update={"value": "evil:model"})
    forged = report.model_copy(update={"config": {**report.config, "model": option}})
    with pytest.raises(ConfigError, match="code of your own"):
        compare_methods(forged, folder, "dpsgd", data=None)


def test_the_command_prints_both_and_wants_one_of_two_ways(finished_audit):
    _, folder, _ = finished_audit
    path = str(folder / "report.json")
    said = CliRunner().invoke(app, ["compare", path, "--against", "dpsgd"])
    assert said.exit_code == 0
    assert "reweight against dpsgd" in said.output
    assert "Excess risk of all rows" in said.output
    of_folder = CliRunner().invoke(app, ["compare", str(folder), "--against", "dpsgd"])
    assert of_folder.output == said.output
    as_json = CliRunner().invoke(app, ["compare", path, "--against", "dpsgd", "--json"])
    assert json.loads(as_json.output)["pairs"][0]["arm"] == "reweight"
    for words in ([path], [path, path, "--against", "dpsgd"]):
        with pytest.raises(ConfigError, match="--against METHOD"):
            CliRunner().invoke(app, ["compare", *words], catch_exceptions=False)
