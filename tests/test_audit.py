import json
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest

import fairaudit
from fairaudit.cli import app
from fairaudit.errors import ConfigError
from fairaudit.report.model import VOLATILE

QUICK = {
    "seeds": 2,
    "epochs": 1,
    "batch_size": 64,
    "noise_multiplier": 1.0,
    "method": ["dpsgd"],
    "workers": 2,
}


def people(rows=600):
    draw = np.random.default_rng(0)
    sex = np.where(draw.random(rows) < 0.3, "F", "M")
    income = draw.normal(size=rows) * np.where(sex == "F", 2.0, 1.0)
    return pd.DataFrame(
        {
            "income": income,
            "age": draw.integers(18, 80, rows),
            "sex": sex,
            "approved": (income + draw.normal(size=rows) > 0).astype(int),
        }
    )


@pytest.fixture(scope="module")
def audited(tmp_path_factory):
    out = tmp_path_factory.mktemp("audit") / "report"
    return fairaudit.run_audit(people(), group="sex", out=out, **QUICK), out


def stable(text):
    return {key: value for key, value in json.loads(text).items() if key not in VOLATILE}


def test_a_frame_becomes_a_report_with_every_arm_and_group(audited):
    report, out = audited
    assert report.status == "complete"
    assert [arm.key for arm in report.arms] == ["sgd", "dpsgd"]
    assert set(report.by_group()["group"]) == {"F", "M"}
    assert report.data.label.column == "approved"
    assert {p.name for p in out.iterdir()} >= {"report.json", "report.md", "jobs"}
    assert "fairaudit.run_audit(frame" in report.reproduce


def test_a_second_call_goes_on_from_what_is_finished_and_writes_the_same(audited):
    _, out = audited
    before = stable((out / "report.json").read_text())
    trained = {p.name: p.stat().st_mtime_ns for p in (out / "jobs").glob("*.safetensors")}
    assert len(trained) == 4
    fairaudit.run_audit(people(), group="sex", out=out, **QUICK)
    assert stable((out / "report.json").read_text()) == before
    assert {p.name: p.stat().st_mtime_ns for p in (out / "jobs").glob("*.safetensors")} == trained


def test_more_seeds_keep_the_finished_ones(audited):
    _, out = audited
    trained = {p.name: p.stat().st_mtime_ns for p in (out / "jobs").glob("*.safetensors")}
    fairaudit.run_audit(people(), group="sex", out=out, **{**QUICK, "seeds": 3})
    after = {p.name: p.stat().st_mtime_ns for p in (out / "jobs").glob("*.safetensors")}
    assert len(after) == 6
    assert trained.items() <= after.items()


def test_python_reads_neither_environment_nor_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fairaudit.toml").write_text("epochz = 1\n")
    monkeypatch.setenv("FAIRAUDIT_NONSENSE", "1")
    with pytest.raises(ConfigError, match="unknown key 'grup'"):
        fairaudit.run_audit(people(), group="sex", grup=1)


@pytest.fixture
def table(tmp_path):
    people().to_csv(tmp_path / "people.csv", index=False)
    return tmp_path


def fairaudit_run(folder, *arguments):
    return [
        *(sys.executable, "-m", "fairaudit", "run", "--data", "people.csv", "--group", "sex"),
        *("--method", "dpsgd", "--noise-multiplier", "1", "--batch-size", "64", "--workers", "2", *arguments),
    ]


def test_a_run_from_the_shell_reports_and_says_where(table):
    done = subprocess.run(
        fairaudit_run(table, "--seeds", "1", "--epochs", "1", "--json"),
        cwd=table, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["status"] == "complete"
    assert "Cost by group" in done.stderr
    assert "Report fairaudit-report/people/report.json" in done.stderr
    assert (table / "fairaudit-report" / "people" / "report.md").is_file()


def test_a_group_is_asked_for(table, monkeypatch, capsys):
    monkeypatch.chdir(table)
    monkeypatch.setattr("fairaudit.audit.warm_up", lambda: None)
    before = signal.getsignal(signal.SIGTERM)
    assert app.main(["run", "--data", "people.csv", "--method", "dpsgd"]) == 2
    signal.signal(signal.SIGTERM, before)
    assert "no group given" in capsys.readouterr().err
    assert not (table / "fairaudit-report").exists()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.slow
@pytest.mark.faults
def test_a_stopped_run_says_so_and_keeps_what_is_finished(table, number, code):
    command = fairaudit_run(table, "--seeds", "3", "--epochs", "400")
    process = subprocess.Popen(command, cwd=table, stderr=subprocess.PIPE, text=True)
    jobs = table / "fairaudit-report" / "people" / "jobs"
    deadline = time.monotonic() + 60
    while not list(jobs.glob("*.safetensors")) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(number)
    said = process.communicate(timeout=30)[1]
    assert process.returncode == code
    assert "finished trainings are kept" in said
    assert "Traceback" not in said
    assert list(jobs.glob("*.safetensors"))


@pytest.mark.parametrize("given", [{"ray_address": "auto"}, {"cpus_per_job": 2.0}, {"gpus_per_job": 1.0}])
def test_an_option_of_another_executor_is_refused(given):
    with pytest.raises(ConfigError, match="is for --executor ray"):
        fairaudit.run_audit("absent.parquet", group="sex", **given)
