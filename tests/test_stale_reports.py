"""A report of an earlier run is never taken for that of a run that wrote none."""

import json

import numpy as np
import pandas as pd
import pytest
from handmade import circumstances, findings

from fairaudit.audit import audit, prepare
from fairaudit.cli import app
from fairaudit.errors import FairauditError, OutputError
from fairaudit.layers import resolve_config
from fairaudit.report.build import build_report
from fairaudit.report.load import load_report
from fairaudit.report.write import RENDERINGS, put_aside, write_report
from fairaudit.rundir import hold

PASS = "privacy_cost_gap > 0.9"
NAMES = sorted(["report.json", *(rendering.file for rendering in RENDERINGS.values())])


@pytest.fixture
def out(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    draw = np.random.default_rng(0)
    frame = pd.DataFrame({"x": draw.normal(size=200), "sex": ["F", "M"] * 100, "y": draw.integers(0, 2, 200)})
    frame.to_csv("people.csv", index=False)
    frame.assign(p=draw.random(200)).to_csv("scores.csv", index=False)
    write_report(build_report(findings(), circumstances()), tmp_path / "out", ("json", *RENDERINGS))
    return tmp_path / "out"


def options(**changed):
    given = {"data": "people.csv", "group": ["sex"], "label": "y", "out": "out", "method": ["dpsgd"]}
    return resolve_config({**given, "epochs": 1, "noise_multiplier": 5.0, **changed})


def gate(path="out/report.json"):
    return app.main(["gate", path, "--fail-on", PASS, "--quiet"])


def refused(*command):
    assert app.main([*command]) == 2


@pytest.mark.parametrize(
    "changed",
    [
        {"label": "gone"},
        {"group": ["gone"]},
        {"data": "gone.csv"},
        {"fail_on": ["privacy_cost_gap > 2"]},
        {"fail_on": ["accuracy_gap.delta > 0.1"]},
        {"baseline": "gone.json"},
        {"split_column": "gone"},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_after_a_run_that_ended_early_there_is_nothing_to_judge(out, capsys, changed):
    assert gate() == 0
    with pytest.raises(FairauditError):
        audit(options(**changed))
    assert gate() == 2
    assert "report.previous.json is of an earlier one" in capsys.readouterr().err
    assert gate("out/report.previous.json") == 0  # moved, not lost
    assert sorted(p.name for p in out.iterdir() if p.is_file()) == [
        name.replace(".", ".previous.", 1) for name in NAMES
    ]


def test_the_command_line_puts_it_aside_too(out):
    refused("run", "--data", "people.csv", "--group", "sex", "--label", "gone", "--out", "out")
    assert gate() == 2


def test_looking_and_planning_leave_it_where_it_is(out):
    prepare(options())
    assert (
        app.main(["plan", "--data", "people.csv", "--group", "sex", "--label", "gone", "--out", "out"]) == 2
    )
    assert gate() == 0


def test_a_run_that_writes_no_json_leaves_none_of_another(out):
    audit(options(format=["md"], seeds=1))
    assert (out / "report.md").is_file()
    assert gate() == 2


def test_the_earlier_report_may_be_the_baseline_of_the_next(out):
    audit(options(seeds=1))
    found = audit(options(seeds=1, baseline="out/report.json", fail_on=["epsilon.delta > 0"]))
    assert found.verdict == "pass"
    assert load_report(out / "report.json").verdict == "pass"
    assert load_report(out / "report.previous.json").verdict is None
    with pytest.raises(FairauditError):
        audit(options(seeds=1, baseline="out/report.json", label="gone"))
    found = audit(options(seeds=1, baseline="out/report.json", fail_on=["epsilon.delta > 0"]))
    assert found.verdict == "pass"  # after a run that failed, it is the last one that did not


@pytest.mark.parametrize("change", [("--y-pred", "gone"), ("--y-pred", "p", "--format", "md")])
def test_scoring_puts_the_earlier_report_aside(out, change):
    command = ("score", "scores.csv", "--y-true", "y", "--group", "sex", "--out", "out", "--quiet", *change)
    assert app.main([*command]) == (2 if "gone" in change else 0)
    assert gate() == 2


def test_another_run_that_holds_the_folder_keeps_its_report(out):
    with hold(out), pytest.raises(OutputError, match="another run"):
        audit(options())
    assert gate() == 0


def test_a_full_disk_loses_no_report(out, monkeypatch):
    before = (out / "report.json").read_bytes()
    put_aside(out)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("fairaudit.atomic.os.open", full)
    with pytest.raises(OutputError, match="no space left"):
        write_report(build_report(findings(), circumstances()), out, ("json",))
    assert (out / "report.previous.json").read_bytes() == before
    put_aside(out)  # the next run that fails leaves it, too
    assert json.loads((out / "report.previous.json").read_bytes()) == json.loads(before)
