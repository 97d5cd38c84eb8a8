"""The gate as CI sees it: real processes, exit codes, what is printed where."""

import json
import sys

import pytest
from handmade import built
from processes import ended

from fairaudit.cli import app
from fairaudit.report.to_json import to_json

PASS, FAIL, OPEN = ("privacy_cost_gap > 0.05", "privacy_cost_gap > 0.01", "privacy_cost_gap > 0.02")


@pytest.fixture
def report_folder(tmp_path, monkeypatch):
    (tmp_path / "report.json").write_text(to_json(built()), "utf-8")
    (tmp_path / "broken.json").write_text('{"schema_version": 1', "utf-8")
    (tmp_path / "new.json").write_text('{"schema_version": 4}', "utf-8")
    monkeypatch.chdir(tmp_path)
    for name in ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def started(report_folder, *arguments, given=None, **environment):
    command = [sys.executable, "-m", "fairaudit", "gate", *arguments]
    return ended(command, report_folder, given, **environment)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["report.json", "--fail-on", PASS], 0, "Verdict pass"),
        (["report.json", "--fail-on", PASS, "--fail-on", OPEN], 3, "Verdict inconclusive"),
        (["report.json", "--fail-on", OPEN, "--inconclusive", "fail"], 1, "counted as fail"),
        (["report.json", "--fail-on", OPEN, "--inconclusive", "pass"], 0, "counted as pass"),
        (["report.json", "--fail-on", "acuracy_gap > 1"], 2, "did you mean 'accuracy_gap'?"),
        (["report.json"], 2, "--fail-on"),
        (["reprt.json", "--fail-on", PASS], 2, "did you mean 'report.json'?"),
        (["broken.json", "--fail-on", PASS], 2, "is not JSON"),
        (["new.json", "--fail-on", PASS], 2, "newer than this tool's 2"),
        (["report.json", "--fail-on", "epsilon.delta > 0"], 2, "--baseline"),
        (
            ["report.json", "--fail-on", "epsilon.delta > 0", "--baseline", "report.json"],
            0,
            "Verdict pass",
        ),
        (["report.json", "--fail-on", PASS, "--junit", "nowhere/x.xml"], 2, "cannot write"),
    ],
)
def test_each_ending_has_its_code_and_says_why(report_folder, capsys, arguments, code, said):
    assert app.main(["gate", *arguments]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert "Traceback" not in err
    if code == 2:
        assert len(err.strip().splitlines()) <= 4


def test_a_report_comes_from_stdin_and_json_alone_goes_to_stdout(report_folder):
    text = (report_folder / "report.json").read_text("utf-8")
    done = started(report_folder, "-", "--fail-on", FAIL, "--json", given=text)
    assert done.returncode == 1
    content = json.loads(done.stdout)
    assert content["verdict"] == "fail"
    assert content["gates"][0]["targets"][0]["value"] == 0.029
    assert "Verdict fail" in done.stderr


def test_github_gets_annotations_and_the_report_in_its_summary(report_folder):
    summary = report_folder / "summary.md"
    summary.write_text("earlier step\n")
    done = started(
        report_folder,
        "report.json",
        "--fail-on",
        FAIL,
        "--fail-on",
        OPEN,
        "--json",
        GITHUB_ACTIONS="true",
        GITHUB_STEP_SUMMARY=str(summary),
    )
    errors = [line for line in done.stderr.splitlines() if line.startswith("::error ")]
    assert len(errors) == 2
    assert errors[0].startswith(
        "::error title=fairaudit gate fail::fails if the gap between groups"
    )
    assert "95 %" not in errors[0]
    assert json.loads(done.stdout)["verdict"] == "fail"
    text = summary.read_text("utf-8")
    assert text.startswith("earlier step\n# loans.parquet: what private training costs each group")
    assert "Verdict: FAIL." in text
    assert "## Gates" in text
