"""How a program ends, by real processes.

Every exit code with its one line, and what lies on the disk.
"""

import json
import shlex
import shutil
import signal
import sys

import pytest
from places import LOANS, ROOT
from processes import ended

from fairaudit.cli import app

WORDS = "--data loans.parquet --group sex --method dpsgd --epochs 1 --workers 2"
AUDIT = WORDS.split()
PASS, FAIL = "epsilon > 100", "epsilon > 0.1"


def run(folder, *arguments, **environment):
    command = [sys.executable, "-m", "fairaudit", "run", *AUDIT, "--format", "json,junit"]
    return ended([*command, *arguments], folder, **{"GITHUB_ACTIONS": "", **environment})


@pytest.fixture
def sample(tmp_path):
    shutil.copy(LOANS, tmp_path)
    return tmp_path


@pytest.fixture
def here(sample, monkeypatch):
    """For commands in this process."""
    monkeypatch.chdir(sample)
    monkeypatch.setattr("fairaudit.audit.warm_up", lambda: None)
    before = signal.getsignal(signal.SIGTERM)
    yield sample
    signal.signal(signal.SIGTERM, before)


def stored(folder):
    return json.loads((folder / "fairaudit-report" / "loans" / "report.json").read_text("utf-8"))


@pytest.mark.slow
def test_a_run_whose_gate_fails_ends_in_1_after_its_report_is_written(sample):
    rules = ("--fail-on", PASS, "--fail-on", FAIL)
    done = run(sample, *rules, "--seeds", "1", "--json", GITHUB_ACTIONS="true")
    assert done.returncode == 1, done.stderr
    assert json.loads(done.stdout)["verdict"] == stored(sample)["verdict"] == "fail"
    assert [gate["rule"] for gate in stored(sample)["gates"]] == [PASS, FAIL]
    assert "\x1b" not in done.stdout + done.stderr  # no colour reaches a pipe
    assert done.stderr.count("::error ") == 1
    assert (sample / "fairaudit-report" / "loans" / "report.junit.xml").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--noise-multiplier", "5", "--fail-on", "accuracy@sex=X < 1"), "no group 'X'"),
        (("--fail-on", "epsilon.delta > 0"), "--baseline"),
        (("--data", "gone.parquet"), "gone.parquet"),
        (
            ("--out", "loans.parquet/below", "--data", "gone.parquet"),
            "loans.parquet is not a folder",
        ),
    ],
)
def test_what_is_wrong_with_the_input_ends_in_2_before_anything_is_trained(
    here, capsys, arguments, said
):
    assert app.main(["run", *AUDIT, *arguments]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert "Traceback" not in err
    assert not (here / "fairaudit-report").exists()


@pytest.mark.parametrize("name", ["a\x1b[31m\n::error::b.csv", "a\u202e\x9b\udcffb.csv"])
def test_no_name_of_a_file_steers_the_terminal_or_the_runner(here, capsys, name):
    for path in (here / name, here / "file" / name):
        path.parent.mkdir(exist_ok=True)
        path.write_text("{")
    for words in (
        ["gate", str(here / name), "--fail-on", "epsilon > 3"],
        ["report", str(here / "file" / name), "--out", str(here / name)],
        ["inspect", str(here / name)],
        ["run", "--data", str(LOANS), "--group", "sex", "--out", str(here / name)],
        ["run", "--data", str(here / name), "--group", "sex"],
        ["plan", "--data", str(LOANS), "--config", str(here / name)],
    ):
        assert app.main(words) == 2, words
        out, err = capsys.readouterr()
        assert out == ""
        assert err.count("\n") == 1
        assert err.startswith("Error: ")
        assert err.strip().isprintable(), words


@pytest.mark.slow
def test_a_training_that_diverges_ends_in_4_and_wins_over_its_gates(sample):
    lost = ("--learning-rate", "1e6", "--model", "mlp", "--seeds", "1", "--fail-on", FAIL)
    done = run(sample, *lost)
    assert done.returncode == 4, done.stderr
    assert "Traceback" not in done.stderr
    assert stored(sample)["status"] == "partial"


def test_a_target_out_of_reach_ends_in_5(here, capsys):
    # The query alone costs more than the target, whatever the gradient's noise.
    options = ["--epsilon", "0.2", "--settings", "global-adapt.count_noise_multiplier=1"]
    assert app.main(["run", *AUDIT[:4], *options]) == 5
    assert "--epsilon" in capsys.readouterr().err
    assert not (here / "fairaudit-report").exists()


ENDING = """
import os, signal, sys, tempfile, time
tempfile.tempdir = os.getcwd()
def wait():  # not one long wait: the signal may have reached another thread first
    for _ in range(6000):
        time.sleep(0.05)
from fairaudit.cli import app
from fairaudit import audit
def prepare(resolved, listener):
    os.kill(os.getpid(), signal.{what})
    wait()
audit.prepare = prepare
if not {warm}:
    audit.warm_up = lambda: None
sys.exit(app.main(["run", "--data", "x.csv", "--group", "g"]))
"""


@pytest.mark.parametrize(
    ("what", "code", "said"),
    [
        pytest.param("SIGINT", 130, "Interrupted", marks=pytest.mark.slow),
        ("SIGTERM", 143, "Terminated"),
    ],
)
def test_a_signal_has_a_code_of_its_own(tmp_path, what, code, said):
    # A shell that runs tests in the background lets its children ignore Ctrl-C.
    script = (
        "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
        + ENDING.format(
            what=what,
            warm=code == 130,  # the process that imports torch meanwhile must not hear of it
        )
    )
    done = ended([sys.executable, "-c", script], tmp_path)
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
    return ended([sys.executable, script])


@pytest.mark.parametrize(
    ("command", "code"),
    [("schema >/dev/full", 2), ("schema >&-", 0), ("schema | true; exit ${PIPESTATUS[0]}", 141)],
)
def test_an_answer_that_nobody_gets_ends_without_a_traceback(command, code):
    words = f"{sys.executable} -m fairaudit {command}"
    done = ended(["bash", "-c", words])
    assert done.returncode == code
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


LONG = "x" * 5000
REPORT = ROOT / "tests" / "golden" / "report.json"


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (f"gate {LONG} --fail-on 'epsilon > 3'", "file name too long"),
        (f"gate {LONG}/report.json --fail-on 'epsilon > 3'", "file name too long"),
        (f"gate {REPORT} --baseline {LONG} --fail-on 'epsilon.delta > 3'", "file name too long"),
        (f"gate {REPORT} --junit {LONG} --fail-on 'epsilon > 3'", "file name too long"),
        (f"compare {LONG} {REPORT}", "file name too long"),
        (f"predict {LONG} --data {LONG} --out {LONG}.csv", "file name too long"),
        (f"clean {LONG}", "no finished trainings"),
    ],
)
def test_a_path_that_cannot_be_read_is_told_in_one_line(here, capsys, command, said):
    assert app.main(shlex.split(command)) == 2
    (last,) = capsys.readouterr().err.splitlines()[-1:]
    assert last.startswith("Error: ")
    assert said in last
    assert len(last) < 600


@pytest.mark.parametrize("command", ["gate - --fail-on 'epsilon > 3'", "report -"])
def test_a_stdin_that_is_closed_is_told_in_one_line(command):
    done = ended(["bash", "-c", f"{sys.executable} -m fairaudit {command} <&-"])
    assert done.returncode == 2, done.stderr
    last = done.stderr.splitlines()[-1]
    assert last.startswith("Error: ")
    assert "stdin" in last


def test_a_gate_needs_no_stdin():
    words = f"{sys.executable} -m fairaudit gate {REPORT} --fail-on 'epsilon > 90' <&-"
    done = ended(["bash", "-c", words])
    assert done.returncode == 0, done.stderr
