"""How a program ends, by real processes.

Every exit code with its one line, and what lies on the disk.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fairaudit.cli import app

HERE = Path(__file__).resolve().parent
SAMPLE = HERE.parent / "sample_data" / "loans.parquet"
AUDIT = (
    "--data",
    "loans.parquet",
    "--group",
    "sex",
    "--method",
    "dpsgd",
    "--epochs",
    "1",
    "--workers",
    "2",
)
PASS, FAIL = "privacy_cost_gap > 0.9", "epsilon > 0.1"
UNSURE = "accuracy_gap > {}"


def started(folder, *arguments, **environment):
    command = [sys.executable, "-m", "fairaudit", *arguments]
    return subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, "GITHUB_ACTIONS": "", **environment},
    )


def run(folder, *arguments, **environment):
    return started(folder, "run", *AUDIT, "--format", "json,junit", *arguments, **environment)


@pytest.fixture(scope="module")
def audited(tmp_path_factory):
    """A folder with finished trainings of five seeds.

    So that each further run only measures and judges.
    """
    folder = tmp_path_factory.mktemp("audited")
    shutil.copy(SAMPLE, folder)
    done = run(folder, "--fail-on", PASS)
    assert done.returncode == 0, done.stderr
    return folder


def stored(folder):
    return json.loads((folder / "fairaudit-report" / "loans" / "report.json").read_text("utf-8"))


@pytest.mark.slow
def test_a_run_whose_gates_pass_ends_in_0(audited):
    report = stored(audited)
    assert report["verdict"] == "pass"
    assert [gate["rule"] for gate in report["gates"]] == [PASS]


@pytest.mark.slow
def test_a_run_whose_gate_fails_ends_in_1_after_its_report_is_written(audited):
    done = run(audited, "--fail-on", PASS, "--fail-on", FAIL, "--json", GITHUB_ACTIONS="true")
    assert done.returncode == 1, done.stderr
    assert json.loads(done.stdout)["verdict"] == stored(audited)["verdict"] == "fail"
    assert "Verdict fail" in done.stderr
    assert "\x1b" not in done.stdout + done.stderr  # no colour reaches a pipe
    assert "::error title=fairaudit gate fail::" in done.stderr
    assert "<failure" in (audited / "fairaudit-report" / "loans" / "report.junit.xml").read_text(
        "utf-8"
    )


@pytest.mark.slow
def test_a_run_with_an_open_gate_ends_in_3_or_as_it_is_told_to_count(audited):
    gap = next(
        g
        for c in stored(audited)["comparisons"]
        if c["arm"] == "dpsgd"
        for g in c["gaps"]
        if (g["metric"], g["kind"]) == ("accuracy", "pair")
    )
    rule = UNSURE.format(gap["absolute"]["value"])
    done = run(audited, "--fail-on", rule)
    assert done.returncode == 3, done.stderr
    assert stored(audited)["verdict"] == "inconclusive"
    for words, code in (((), 3), (("--inconclusive", "fail"), 1), (("--inconclusive", "pass"), 0)):
        report = "fairaudit-report/loans/report.json"
        done = started(audited, "gate", report, "--fail-on", rule, *words)
        assert done.returncode == code, done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--fail-on", "accuracy_gap"), "accuracy_gap"),
        (("--noise-multiplier", "5", "--fail-on", "accuracy@sex=X < 1"), "no group 'X'"),
        (
            ("--noise-multiplier", "5", "--fail-on", "accuracy:pate-hard < 1"),
            "no method 'pate-hard'",
        ),
        (("--fail-on", "epsilon.delta > 0"), "--baseline"),
        (("--baseline", "gone.json", "--fail-on", "epsilon.delta > 0"), "no report 'gone.json'"),
        (("--data", "gone.parquet"), "gone.parquet"),
        (("--out", ""), "name a folder"),
        (
            ("--out", "loans.parquet/below", "--data", "gone.parquet"),
            "loans.parquet is not a folder",
        ),
    ],
)
def test_what_is_wrong_with_the_input_ends_in_2_before_anything_is_trained(
    tmp_path, monkeypatch, capsys, arguments, said
):
    shutil.copy(SAMPLE, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("fairaudit.audit.warm_up", lambda: None)
    before = signal.getsignal(signal.SIGTERM)
    assert app.main(["run", *AUDIT, *arguments]) == 2
    signal.signal(signal.SIGTERM, before)
    err = capsys.readouterr().err
    assert said in err
    assert "Traceback" not in err
    assert not (tmp_path / "fairaudit-report").exists()


@pytest.mark.parametrize(
    "name", ["a\x1b[31mb.csv", "a\n::error::b.csv", "a\u202eb.csv", "a\x9bb.csv", "a\udcffb.csv"]
)
def test_no_name_of_a_file_steers_the_terminal_or_the_runner(tmp_path, monkeypatch, capsys, name):
    for path in (tmp_path / name, tmp_path / "file" / name):
        path.parent.mkdir(exist_ok=True)
        path.write_text("{")
    before = signal.getsignal(signal.SIGTERM)
    for words in (
        ["gate", str(tmp_path / name), "--fail-on", "epsilon > 3"],
        ["report", str(tmp_path / "file" / name), "--out", str(tmp_path / name)],
        ["inspect", str(tmp_path / name)],
        ["init", str(SAMPLE), "--out", str(tmp_path / name)],
        ["clean", str(tmp_path / name)],
        ["run", "--data", str(SAMPLE), "--group", "sex", "--out", str(tmp_path / name)],
        ["run", "--data", str(tmp_path / name), "--group", "sex"],
        ["plan", "--data", str(SAMPLE), "--config", str(tmp_path / name)],
    ):
        monkeypatch.setattr("fairaudit.audit.warm_up", lambda: None)
        assert app.main(words) == 2, words
        out, err = capsys.readouterr()
        assert out == ""
        assert err.count("\n") == 1
        assert err.startswith("Error: ")
        assert err.strip().isprintable(), words
    signal.signal(signal.SIGTERM, before)


@pytest.mark.slow
def test_a_training_that_diverges_ends_in_4_and_wins_over_its_gates(tmp_path):
    shutil.copy(SAMPLE, tmp_path)
    done = run(
        tmp_path, "--learning-rate", "1e6", "--model", "mlp", "--seeds", "1", "--fail-on", FAIL
    )
    assert done.returncode == 4, done.stderr
    assert "Traceback" not in done.stderr
    assert stored(tmp_path)["status"] == "partial"


def test_a_target_out_of_reach_ends_in_5(tmp_path, monkeypatch, capsys):
    shutil.copy(SAMPLE, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("fairaudit.audit.warm_up", lambda: None)
    before = signal.getsignal(signal.SIGTERM)
    # The query alone costs more than the target, whatever the gradient's noise.
    options = ["--epsilon", "0.2", "--settings", "global-adapt.count_noise_multiplier=1"]
    assert app.main(["run", *AUDIT[:4], *options]) == 5
    signal.signal(signal.SIGTERM, before)
    assert "--epsilon" in capsys.readouterr().err
    assert not (tmp_path / "fairaudit-report").exists()


ENDING = """
import os, signal, sys, tempfile, time
tempfile.tempdir = os.getcwd()
def wait():  # not one long wait: the signal may have reached another thread first
    for _ in range(1000):
        time.sleep(0.05)
from fairaudit.cli import app
from fairaudit import audit
def prepare(resolved, listener):
    {what}
audit.prepare = prepare
if not {warm}:
    audit.warm_up = lambda: None
sys.exit(app.main(["run", "--data", "x.csv", "--group", "g"]))
"""


@pytest.mark.parametrize(
    ("what", "code", "said"),
    [
        ("raise ZeroDivisionError", 70, "Bug: ZeroDivisionError"),
        ("os.kill(os.getpid(), signal.SIGINT); wait()", 130, "Interrupted"),
        ("os.kill(os.getpid(), signal.SIGTERM); wait()", 143, "Terminated"),
        ("raise MemoryError", 4, "out of memory"),
    ],
)
def test_a_defect_and_a_signal_have_codes_of_their_own(tmp_path, what, code, said):
    # A shell that runs tests in the background lets its children ignore Ctrl-C.
    script = (
        "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
        + ENDING.format(
            what=what,
            warm=code == 130,  # the process that imports torch meanwhile must not hear of it
        )
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr


ENTRY = """
import atexit, os, signal, sys
import fairaudit.cli.app, fairaudit.__main__
signal.signal(signal.SIGINT, {before})
def interrupt():
    os.kill(os.getpid(), signal.SIGINT)
    for _ in range(1000):
        pass  # the interpreter looks for signals between two steps
def command():
    {what}
    return 0
fairaudit.cli.app.main = command
sys.exit(fairaudit.__main__.main())
"""
SWALLOWS = """
import __main__
try:
    __main__.interrupt()
except KeyboardInterrupt:
    pass
"""


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("interrupt()", ""),  # while the first one was being answered
        ("import swallows", "Interrupted\n"),
        ("atexit.register(interrupt)", "Interrupted\n"),
    ],
)
def test_ctrl_c_is_never_lost_and_never_a_traceback(tmp_path, what, said):
    (tmp_path / "swallows.py").write_text(SWALLOWS)
    done = entered(tmp_path, what, "signal.default_int_handler")
    assert (done.returncode, done.stderr) == (130, said)


def entered(folder, what, before):
    script = folder / "script.py"
    script.write_text(ENTRY.format(what=what, before=before))
    return subprocess.run(
        [sys.executable, script], capture_output=True, text=True, timeout=600, check=False
    )


@pytest.mark.parametrize(
    ("command", "code"),
    [("schema >/dev/full", 2), ("schema >&-", 0), ("schema | true; exit ${PIPESTATUS[0]}", 141)],
)
def test_an_answer_that_nobody_gets_ends_without_a_traceback(command, code):
    words = f"{sys.executable} -m fairaudit {command}"
    done = subprocess.run(["bash", "-c", words], capture_output=True, timeout=300, check=False)
    assert done.returncode == code
    assert b"Traceback" not in done.stderr
    assert b"Exception ignored" not in done.stderr
