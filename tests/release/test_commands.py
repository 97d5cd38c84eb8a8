"""`train` and `predict` as they are typed."""

import hashlib
import json
import os
import shlex
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from people import applicants
from reports import sealed

from fairaudit.cli.app import main
from fairaudit.cli.lines import next_lines
from fairaudit.errors import ConfigError, FairauditError, PrivacyError
from fairaudit.release import checks
from fairaudit.release.next_command import next_command
from fairaudit.release.planned import FITTED, OTHER_DATA, ReleaseRequest, plan_release
from fairaudit.release.train import train_for_release
from fairaudit.report.load import load_report
from fairaudit.report.render.markdown import to_markdown


@pytest.fixture
def typed(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)

    def _typed(*words):
        code = main([str(word) for word in words])
        return code, capsys.readouterr().err

    return _typed


@pytest.mark.parametrize("named_by", ["file", "folder"])
def test_a_model_is_trained_checked_and_predicts(typed, stored, tmp_path, named_by):
    report = stored(fail_on=["epsilon > 1000"])
    named = report if named_by == "file" else report.parent
    (report.parent / "held-out-model.json").unlink(missing_ok=True)
    code, said = typed("train", "--from", named, "--method", "dpsgd", "--out", "model")
    assert code == 0
    assert "rules: pass" in said
    assert "where one new training lies with 95 % probability" in said
    kept = report.parent / "held-out-model.json"
    held = json.loads(kept.read_text())
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert [group["group"] for group in held["groups"]] == ["F", "M"]
    assert not (tmp_path / "model" / kept.name).exists()
    applicants().to_csv("rows.csv", index=False)
    for name in ("out.parquet", "out.csv"):
        code, said = typed("predict", "model", "--data", "rows.csv", "--out", name)
        assert code == 0
        assert "Predicted 300 rows" in said
        assert "not as the model knows them" in said
    out = pd.read_parquet("out.parquet")
    assert list(out.columns) == ["prediction", "probability_no", "probability_yes"]
    assert (out["prediction"] == pd.read_csv("out.csv")["prediction"]).all()


@pytest.mark.parametrize("out", ["file/model", "link", "link/model", "x" * 300, "full"])
def test_an_output_that_cannot_be_is_refused_before_training(
    typed, stored, tmp_path, monkeypatch, out
):
    monkeypatch.setattr(
        "fairaudit.release.train.train_for_release", lambda _: pytest.fail("trained")
    )
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    (tmp_path / "full").mkdir()
    code, said = typed("train", "--from", stored(), "--method", "dpsgd", "--out", out)
    assert (code, said.count("\n") <= 2, "--out" in said) == (2, True, True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "full", "link"]


OWN_MAKE = "own_release_toy:make"


@pytest.mark.usefixtures("own_model")
@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        (
            {"epsilon": [4.0, 2.0], "noise_multiplier": None},
            ["--method", "dpsgd", "--epsilon", "4"],
        ),
        ({"tune": 4}, ["--method", "dpsgd"]),
        ({"model": OWN_MAKE}, ["--method", "dpsgd", "--model", OWN_MAKE]),
        (
            {"method": ["global-adapt"], "variant": ["as-published"], "self_check": True},
            ["--method", "global-adapt"],
        ),
    ],
)
def test_the_command_in_a_report_trains_its_method(
    typed, stored, tmp_path, monkeypatch, options, wanted
):
    """In the report as it is typed beside it; in the terminal with the report's path."""
    path = stored(**options)
    report = load_report(path)
    told = [line for line in to_markdown(report).splitlines() if "fairaudit train --from" in line]
    words = shlex.split(told[0].split("Beside report.json: ")[1])
    assert words == ["fairaudit", "train", "--from", "report.json", *wanted, "--out", "model"]
    assert len(told) == 1
    (line,) = next_lines(report, path.parent, ["json"])
    words = shlex.split(line.split("`")[1])
    assert words == ["fairaudit", "train", "--from", str(path), *wanted, "--out", "model"]
    assert typed(*words[1:])[0] == 0
    assert (tmp_path / "model" / "evidence.json").exists()


def test_no_command_is_told_that_would_be_refused(stored):
    refused = ({"columns": None}, {"fail_on": ["epsilon > 0.001"]}, {"method": ["sgd"]})
    for options in refused:
        assert not list(next_lines(load_report(stored(**options)), Path("out"), ["json"]))
    report = load_report(stored())
    assert list(next_lines(report, Path("out"), ["json"]))
    assert not list(next_lines(report, Path("out"), ["html"]))
    assert "fairaudit train --from" not in to_markdown(load_report(stored(method=["sgd"])))


@pytest.mark.parametrize(("device", "wanted"), [("auto", "cuda"), ("cuda", "cuda"), ("cpu", "cpu")])
def test_the_device_of_the_option_is_that_of_the_training(stored, monkeypatch, device, wanted):
    """The audit's own device says nothing about it.

    What is drawn is drawn on the CPU (tests/engine).
    """
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    given = []

    class Stopped(Exception):
        pass

    def fit(self, task, observers):
        given.append(task.device.type)
        raise Stopped

    monkeypatch.setattr("fairaudit.methods.gradient.GradientMethod.fit", fit)
    with pytest.raises(Stopped):
        train_for_release(plan_release(ReleaseRequest(stored(), "dpsgd", device=device)))
    assert given == [wanted]


EVIL = """
from pathlib import Path
Path(__file__).with_name("ran").touch()
from own_release_toy import *
"""


@pytest.fixture
def evil(own_model, tmp_path, monkeypatch):
    """Whether a module was imported, in this process or in a worker of its own."""
    own_model.with_name("evil.py").write_text(EVIL)
    monkeypatch.delitem(sys.modules, "evil", raising=False)
    return (tmp_path / "ran").exists


def naming_code(report):
    """The content of a report that names code wherever a name stands, under a digest that fits."""
    found = json.loads(report.read_text())
    given = {"model": "evil:make", "method": ["dpsgd", "evil:SPEC"], "trainer": ["evil:train"]}
    for name, value in given.items():
        found["config"][name] = {"value": value, "origin": "option"}
    found["training"]["model"] = "evil:make"
    return sealed(found)


def test_nothing_that_a_report_names_is_imported_or_called(typed, stored, tmp_path, evil):
    Path("r.json").write_text(naming_code(stored()))
    train = ("train", "--from", "r.json", "--method", "dpsgd", "--out", "model", "--despite-gates")
    data = load_report(stored()).config["data"].value
    plan = ("plan", "--data", data, "--group", "sex", "--label", "y", "--baseline", "r.json")
    rule = ("--fail-on", "accuracy.delta < -0.5")
    for words, code, said in (
        (train, 2, "if you trust it: --model evil:make"),
        ((*train, "--model", "own_release_toy:make"), 2, "not of 'own_release_toy:make'"),
        ((*train, "--method", "evil:SPEC"), 2, "unknown method"),
        (("gate", "r.json", "--fail-on", "accuracy < 0.01"), None, ""),
        (("gate", stored(), "--baseline", "r.json", *rule), None, ""),
        (("compare", "r.json", stored()), None, ""),
        (("compare", stored(), "r.json"), None, ""),
        (("report", "r.json", "--out", "out", "--format", "md,html,json"), 0, ""),
        ((*plan, *rule), 0, ""),
    ):
        found, message = typed(*words)
        assert not evil(), words
        assert said in message
        assert found == code if code is not None else found in (0, 1, 3), message
    assert not (tmp_path / "model").exists()


def test_nothing_that_a_models_folder_names_is_imported_or_called(typed, stored, evil):
    assert typed("train", "--from", stored(), "--method", "dpsgd", "--out", "model")[0] == 0
    folder = Path("model")
    recipe = json.loads((folder / "recipe.json").read_text())
    recipe["model"]["model"] = "evil:make"
    (folder / "recipe.json").write_text(json.dumps(recipe))
    evidence = json.loads((folder / "evidence.json").read_text())
    for subject in evidence["subject"]:
        content = (folder / subject["name"]).read_bytes()
        subject["digest"]["sha256"] = hashlib.sha256(content).hexdigest()
    (folder / "evidence.json").write_text(json.dumps(evidence))
    applicants().to_csv("rows.csv", index=False)
    for words, said in (
        ((), "if you trust it: --model evil:make"),
        (("--model", "own_release_toy:make"), "not of 'own_release_toy:make'"),
        (("--model", "evil:make"), "is not what was trained"),
    ):
        code, message = typed("predict", "model", "--data", "rows.csv", "--out", "o.csv", *words)
        assert (code, said in message) == (2, True)
        assert not evil()


def test_rules_stand_against_the_arms_that_they_fail_for(typed, stored):
    """Of two epsilons one breaks the rule: the other is trained, without a waiver."""
    path = stored(epsilon=[8.0, 2.0], noise_multiplier=None, fail_on=["epsilon > 4"])
    report = load_report(path)
    assert report.verdict == "fail"
    assert next_command(report, str(path), "dpsgd@8") == ""
    command = next_command(report, str(path), "dpsgd@2")
    assert "--epsilon 2 " in command
    assert "--despite" not in command
    assert typed(*shlex.split(command)[1:])[0] == 0
    evidence = json.loads(Path("model/evidence.json").read_text())
    assert evidence["predicate"]["result"] == "PASSED"
    other = ["train", "--from", path, "--method", "dpsgd", "--epsilon", "8", "--out", "other"]
    assert typed(*other)[0] == 1


@pytest.mark.parametrize("option", ["", "--despite-lateness"])
def test_what_a_check_refuses_is_not_offered(typed, stored, monkeypatch, option):
    """A check that is added holds for the command that an audit prints, too.

    That command sets nothing aside, whatever option the check has.
    """
    path = stored()
    report = load_report(path)
    assert next_command(report, str(path))

    def too_late(arm, held):
        assert (arm.key, held.data.rows) == ("dpsgd", report.data.rows)
        raise PrivacyError("too late")

    monkeypatch.setattr(checks, "CHECKS", (*checks.CHECKS, checks.ReleaseCheck(too_late, option)))
    assert next_command(report, str(path)) == ""
    code, message = typed("train", "--from", path, "--method", "dpsgd", "--out", "late")
    assert code == 5
    assert "too late" in message
    others = tuple(one.option for one in checks.CHECKS if one.option != option)
    with pytest.raises(PrivacyError, match="too late"):
        plan_release(ReleaseRequest(path, "dpsgd", set_aside=others))
    if option:
        plan = plan_release(ReleaseRequest(path, "dpsgd", set_aside=(*others, option)))
        assert plan.overrides == (option,)  # those that were not needed are not said


def test_every_check_that_an_option_sets_aside_has_it_on_the_command_line(
    typed, stored, monkeypatch
):
    def planned(request):
        given.append(request.set_aside)
        raise ConfigError("stopped")

    given = []
    monkeypatch.setattr("fairaudit.release.planned.plan_release", planned)
    train = ("train", "--from", stored(), "--method", "dpsgd", "--out", "model")
    known = [*checks.options(), OTHER_DATA, FITTED]
    for options in ((), *((option,) for option in known)):
        typed(*train, *options)
        assert given.pop() == options


def test_data_that_are_not_to_be_found_are_asked_for(stored, tmp_path, monkeypatch):
    report = load_report(stored())
    framed = report.config["data"].model_copy(update={"value": None})
    moved = report.model_copy(update={"config": {**report.config, "data": framed}})
    monkeypatch.setattr("fairaudit.release.planned.parsed", lambda *_, **__: moved)
    with pytest.raises(FairauditError, match="a DataFrame was audited"):
        plan_release(ReleaseRequest(stored(), "dpsgd"))
    data = Path(str(report.config["data"].value))
    assert plan_release(ReleaseRequest(stored(), "dpsgd", data=data)).overrides == ()


_SLOW_LOOP = """
import os, sys, time
import fairaudit.engine.loop as loop
take = loop.Loop.take
def slow(self, steps):
    print("audit: training", file=sys.stderr, flush=True)
    while True:
        take(self, 1)
loop.Loop.take = slow
from fairaudit.cli.app import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.faults
@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_killed_training_leaves_nothing(stored, tmp_path, number):
    """Killed while it takes steps: no folder, no half of one, no file beside the report."""
    report = stored()
    before = set(report.parent.rglob("*"))
    words = ["train", "--from", str(report), "--method", "dpsgd", "--out", str(tmp_path / "model")]
    with subprocess.Popen(
        [sys.executable, "-c", _SLOW_LOOP, *words], stderr=subprocess.PIPE
    ) as child:
        assert any(b"audit: training" in line for line in child.stderr)
        os.kill(child.pid, number)
        child.wait(600)
    assert child.returncode in (-9, 130, 143)
    assert list(tmp_path.iterdir()) == []
    assert set(report.parent.rglob("*")) == before
