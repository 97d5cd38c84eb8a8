"""The program from Python, against the command line and the files that it writes."""

import json
from pathlib import Path

import numpy as np
import pytest
from people import people
from refusals import refused_in_one_line

import fairaudit
from fairaudit.cli import app
from fairaudit.config.options import AuditConfig
from fairaudit.errors import ConfigError, DataError
from fairaudit.execution.progress import StageStarted

QUICK = {
    "label": "y",
    "seeds": 2,
    "epochs": 1,
    "batch_size": 50,
    "noise_multiplier": 1.0,
    "workers": 1,
    "diagnostics": "off",
}


def guessed():
    frame = people()
    return frame.assign(guess=(frame["x"] > 0).astype(int))


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("api") / "people.csv"
    guessed().to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def report_of_the_file(file):
    heard = []
    options = {"group": "sex", "method": "dpsgd", "out": file.parent / "out", **QUICK}
    report = fairaudit.run_audit(file, listener=heard.append, **options)
    stages = [event.stage for event in heard if isinstance(event, StageStarted)]
    assert stages[:2] == ["reading", "planning"]
    return report


def test_what_is_public_is_listed_and_can_be_had_and_completed():
    assert set(fairaudit.__all__) == set(dir(fairaudit))
    stub = Path(fairaudit.__file__).with_suffix(".pyi").read_text()
    assert {name for name in fairaudit.__all__ if f" as {name}\n" in stub} == {
        *fairaudit.__all__
    } - {"__version__"}
    assert all(getattr(fairaudit, name) is not None for name in fairaudit.__all__)
    assert issubclass(ConfigError, fairaudit.FairauditError)


def test_one_config_says_the_same_as_its_options(report_of_the_file, file):
    report = report_of_the_file
    config = AuditConfig(
        data=file, group=("sex",), method=("dpsgd",), out=file.parent / "out", **QUICK
    )
    again = fairaudit.run_audit(config)
    assert again.comparisons == report.comparisons
    with pytest.raises(ConfigError, match="group is given beside an AuditConfig"):
        fairaudit.run_audit(config, group="sex")


def test_a_plan_is_that_of_the_audit_and_leaves_nothing_behind(
    report_of_the_file, file, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    report = report_of_the_file
    plan = fairaudit.plan_audit(file, group="sex", method="dpsgd", **QUICK)
    assert [arm.key for arm in plan.arms] == [arm.key for arm in report.arms]
    assert plan.arm("dpsgd").privacy.epsilon.pld == report.privacy["dpsgd"].epsilon.pld
    assert list(tmp_path.iterdir()) == []


def test_gates_say_what_the_command_says(report_of_the_file, file, capsys):
    report = report_of_the_file
    stored = file.parent / "out" / "report.json"
    for rule, code in (("epsilon > 1", 1), ("epsilon > 9", 0), ("privacy_cost_gap > 2pt", 3)):
        assert fairaudit.check_gates(report, rule).exit_code() == code
        assert fairaudit.check_gates(fairaudit.load_report(str(stored)), [rule]).exit_code() == code
        assert app.main(["gate", str(stored), "--fail-on", rule, "--quiet"]) == code
    with pytest.raises(ConfigError, match="no rule"):
        fairaudit.check_gates(report, [])


def test_given_predictions_are_scored_as_the_command_scores_them(file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["score", str(file), "--group", "sex", "--y-true", "y", "--y-pred", "guess"]
    assert app.main([*words, "--out", str(tmp_path / "b"), "--quiet"]) == 0
    told = fairaudit.load_report(tmp_path / "b" / "report.json").comparisons
    named = {"group": "sex", "label": "y", "predictions": "guess"}
    for name, data in (("a", file), ("c", guessed())):
        fairaudit.score_predictions(data, **named, out=tmp_path / name)
        assert fairaudit.load_report(tmp_path / name / "report.json").comparisons == told


def test_a_frame_that_no_table_holds_is_refused_without_its_values():
    frame = guessed()
    frame["x"] = ["SECRET", *range(1, len(frame))]
    with refused_in_one_line(DataError, "cannot be stored") as caught:
        fairaudit.plan_audit(frame, group="sex", label="y")
    assert "SECRET" not in str(caught.value)


def test_frames_hold_what_the_file_holds(report_of_the_file, file):
    stored = json.loads((file.parent / "out" / "report.json").read_text())
    metrics, gaps = report_of_the_file.metrics(), report_of_the_file.gaps()
    cells = {
        (c["arm"], g["group"], name): (e["value"], e["low"], e["reason"])
        for c in stored["comparisons"]
        for g in (*c["by_group"], c["overall"])
        for name, e in g["estimates"].items()
    }
    assert len(metrics) == len(cells)
    for row in metrics.itertuples():
        value, low, reason = cells[row.arm, row.group, row.metric]
        assert row.reason == reason
        for found, expected in ((row.value, value), (row.low, low)):
            expected = np.nan if expected is None else expected
            assert found == pytest.approx(expected, rel=1e-5, abs=1e-9, nan_ok=True)
    assert len(gaps) == sum(len(c["gaps"]) for c in stored["comparisons"])
    pair = gaps.query("arm == 'dpsgd' and metric == 'privacy_cost' and kind == 'pair'").iloc[0]
    costs = metrics.query("arm == 'dpsgd' and metric == 'privacy_cost'").set_index("group")["value"]
    assert pair["value"] == pytest.approx(costs[pair["a"]] - costs[pair["b"]])
    assert pair["reading"] in {"detected", "not certain", "not detected", "cannot tell"}


def test_a_figure_is_what_a_notebook_shows(report_of_the_file):
    shown = report_of_the_file.figure("privacy-cost")._repr_mimebundle_()
    assert "F" in json.dumps(shown["application/vnd.vegalite.v6+json"])
    with pytest.raises(ConfigError, match="no figure 'privacy-costs'"):
        report_of_the_file.figure("privacy-costs")


def test_a_table_of_another_library_and_predictions_as_an_array_are_scored(tmp_path):
    import pyarrow as pa  # stands for what hands over its rows by Arrow's protocol

    frame = guessed()
    named = fairaudit.score_predictions(
        frame, group="sex", label="y", predictions="guess", out=tmp_path / "a"
    )
    table = pa.Table.from_pandas(frame.drop(columns="guess"))
    given = fairaudit.score_predictions(
        table, group="sex", label="y", predictions=frame["guess"].tolist(), out=tmp_path / "b"
    )
    assert given.comparisons == named.comparisons
    for wrong in ({"predictions": frame["guess"], "data": "people.csv"}, {"data": 3}):
        with refused_in_one_line(ConfigError):
            options = {"data": frame, "predictions": "guess", **wrong}
            fairaudit.score_predictions(group="sex", label="y", **options)


def test_labels_and_groups_may_be_given_as_their_values(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame = people(400)
    predicted = frame["y"].iloc[::-1].to_numpy()
    named = fairaudit.score_predictions(frame, group="sex", label="y", predictions=predicted)
    given = fairaudit.score_predictions(
        frame.drop(columns=["sex", "y"]),
        group=frame["sex"],
        label=frame["y"].to_numpy(),
        predictions=predicted == 1,
    )
    for one, other in zip(named.comparisons, given.comparisons, strict=True):
        assert [g.group for g in one.by_group] == [g.group for g in other.by_group]
        for mine, theirs in zip(one.by_group, other.by_group, strict=True):
            assert mine.value("accuracy") == theirs.value("accuracy")


def test_a_series_of_the_frame_as_label_is_no_feature(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame = people(400)
    plan = fairaudit.plan_audit(frame, group=frame["sex"], label=frame["y"], method="dpsgd")
    named = fairaudit.plan_audit(frame, group="sex", label="y", method="dpsgd")
    assert [job.id for job in plan.jobs] == [job.id for job in named.jobs]


@pytest.mark.parametrize("data", [[1, 2], {"a": [1]}, np.zeros((3, 2)), None])
def test_what_is_no_data_is_named(data):
    with refused_in_one_line(ConfigError, "data is of type"):
        fairaudit.score_predictions(data, group="sex", label="y", predictions=[1, 2])
    with refused_in_one_line(ConfigError, "data is of type"):
        fairaudit.plan_audit(data, group="sex", label="y")
