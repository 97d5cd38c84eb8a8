"""`train` and `predict` as they are typed."""

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from people import people

from fairaudit.cli.app import main
from fairaudit.cli.lines_release import release_lines
from fairaudit.errors import FairauditError
from fairaudit.release.choice import Wish, choose
from fairaudit.release.loaded import load_model
from fairaudit.release.model_folder import MOST_BYTES, _locked, write_folder
from fairaudit.release.train import train_for_release
from fairaudit.report.load import load_report
from fairaudit.report.render.markdown import to_markdown
from fairaudit.report.render.model_card import to_model_card


@pytest.fixture
def typed(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)

    def _typed(*words):
        code = main([str(word) for word in words])
        return code, capsys.readouterr().err

    return _typed


def test_a_model_is_trained_checked_and_predicts(typed, audited, tmp_path):
    report = audited(fail_on=["epsilon > 1000"])
    code, said = typed("train", "--from", report, "--method", "dpsgd", "--out", "model")
    assert code == 0
    assert "rules: pass" in said
    assert "where one new training lies with 95 % probability" in said
    kept = report.parent / "held-out-model.json"
    held = json.loads(kept.read_text())
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert [group["group"] for group in held["groups"]] == ["F", "M"]
    assert not (tmp_path / "model" / kept.name).exists()
    people().to_csv("rows.csv", index=False)
    for name in ("out.parquet", "out.csv"):
        code, said = typed("predict", "model", "--data", "rows.csv", "--out", name)
        assert code == 0
        assert "Predicted 300 rows" in said
        assert "not as the model knows them" in said
    out = pd.read_parquet("out.parquet")
    assert list(out.columns) == ["prediction", "probability_no", "probability_yes"]
    assert (out["prediction"] == pd.read_csv("out.csv")["prediction"]).all()


@pytest.mark.parametrize("out", ["file/model", "link", "link/model", "x" * 300, "full"])
def test_an_output_that_cannot_be_is_refused_before_training(typed, audited, tmp_path, monkeypatch, out):
    monkeypatch.setattr("fairaudit.release.train.train_for_release", lambda _: pytest.fail("trained"))
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    (tmp_path / "full").mkdir()
    code, said = typed("train", "--from", audited(), "--method", "dpsgd", "--out", out)
    assert (code, said.count("\n") <= 2, "--out" in said) == (2, True, True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "full", "link"]


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({}, ["--method", "dpsgd"]),
        ({"epsilon": [4.0, 2.0], "noise_multiplier": None}, ["--method", "dpsgd", "--epsilon", "4"]),
        ({"tune": 4}, ["--method", "dpsgd"]),
        (
            {"method": ["global-adapt", "dpsgd-matched"], "variant": ["as-published"]},
            ["--method", "global-adapt"],
        ),
    ],
)
def test_the_command_in_a_report_trains_its_method(typed, audited, tmp_path, monkeypatch, options, wanted):
    """In the report as it is typed beside it; in the terminal with the report's path."""
    path = audited(**options)
    report = load_report(path)
    told = [line for line in to_markdown(report).splitlines() if "fairaudit train --from" in line]
    words = shlex.split(told[0].split("Beside report.json: ")[1])
    assert words == ["fairaudit", "train", "--from", "report.json", *wanted, "--out", "model"]
    assert len(told) == 1
    (line,) = release_lines(report, path.parent, ["json"])
    words = shlex.split(line.split("`")[1])
    assert words == ["fairaudit", "train", "--from", str(path), *wanted, "--out", "model"]
    assert typed(*words[1:])[0] == 0
    assert (tmp_path / "model" / "evidence.json").exists()


def test_no_command_is_told_that_would_be_refused(audited):
    refused = ({"columns": None}, {"fail_on": ["epsilon > 0.001"]}, {"method": ["sgd"]})
    for options in refused:
        assert not list(release_lines(load_report(audited(**options)), Path("out"), ["json"]))
    report = load_report(audited())
    assert list(release_lines(report, Path("out"), ["json"]))
    assert not list(release_lines(report, Path("out"), ["html"]))
    assert "it stops as long as" in to_markdown(load_report(audited(columns=None)))
    assert "it stops as long as" not in to_markdown(report)
    assert "fairaudit train --from" not in to_markdown(load_report(audited(method=["sgd"])))
    assert "fairaudit train" in to_model_card(report)


def test_a_device_that_is_not_there_is_refused_before_training(typed, audited, tmp_path, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("fairaudit.release.train.coin_split", lambda *_: pytest.fail("drew a split"))
    words = ("train", "--from", audited(), "--method", "dpsgd", "--out", "model", "--device")
    code, said = typed(*words, "cuda")
    assert (code, "no CUDA device" in said, list(tmp_path.iterdir())) == (2, True, [])
    code, said = typed(*words, "tpu")
    assert (code, "'cuda'" in said, list(tmp_path.iterdir())) == (2, True, [])


@pytest.mark.parametrize(("device", "wanted"), [("auto", "cuda"), ("cuda", "cuda"), ("cpu", "cpu")])
def test_the_device_of_the_option_is_that_of_the_training(audited, monkeypatch, device, wanted):
    """The audit's own device says nothing about it; what is drawn is drawn on the CPU (tests/engine)."""
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    given = []

    class Stopped(Exception):
        pass

    def fit(self, task, observers):
        given.append(task.device.type)
        raise Stopped

    monkeypatch.setattr("fairaudit.methods.gradient.GradientMethod.fit", fit)
    with pytest.raises(Stopped):
        train_for_release(choose(Wish(audited(), "dpsgd", device=device)))
    assert given == [wanted]


@pytest.mark.parametrize(
    ("options", "words", "code", "said"),
    [
        ({"fail_on": ["epsilon > 0.001"]}, (), 1, "gates fail"),
        ({"fail_on": ["privacy_cost_gap > 0.02"]}, (), 3, "inconclusive"),
        ({}, ("--method", "sgd"), 5, "no established guarantee"),
        ({"columns": None}, (), 5, "not declared"),
        ({}, ("--from", "nowhere.json"), 2, "there is no"),
        ({}, ("--out", "."), 2, "exists"),
        ({}, ("--method", "global"), 2, "was not audited"),
    ],
)
def test_what_is_refused_ends_with_its_own_code_and_writes_nothing(
    typed, audited, tmp_path, options, words, code, said
):
    given = {"--from": audited(**options), "--method": "dpsgd", "--out": "model"}
    given |= dict(zip(words[::2], words[1::2], strict=True))
    found, message = typed("train", *(word for pair in given.items() for word in pair))
    assert found == code
    assert said in message
    assert list(tmp_path.iterdir()) == []


def test_data_that_are_not_to_be_found_are_asked_for(audited, tmp_path, monkeypatch):
    report = load_report(audited())
    gone = report.config["data"].model_copy(update={"value": "gone.parquet"})
    framed = gone.model_copy(update={"value": None})
    for setting, said in ((gone, "not to be found from here"), (framed, "a DataFrame was audited")):
        config = {**report.config, "data": setting}
        monkeypatch.setattr(
            "fairaudit.release.choice.load_report",
            lambda _, config=config: report.model_copy(update={"config": config}),
        )
        with pytest.raises(FairauditError, match=said) as caught:
            choose(Wish(audited(), "dpsgd"))
        assert (caught.value.exit_code, "--data PATH" in caught.value.hint) == (2, True)
        data = Path(str(report.config["data"].value))
        assert not choose(Wish(audited(), "dpsgd", data=data)).changed


@pytest.mark.slow
def test_the_system_is_asked_for_randomness_by_the_process_that_trains(audited, tmp_path):
    """What the kernel saw: keys of 32 bytes, and no open report or model that holds them."""
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("strace is not installed")
    log, words = tmp_path / "log", ["--method", "dpsgd", "--quiet", "--out", str(tmp_path / "model")]
    command = [strace, "-f", "-e", "trace=getrandom", "-o", log, sys.executable, "-m", "fairaudit", "train"]
    if subprocess.run([strace, "-o", log, "true"], check=False, capture_output=True).returncode:
        pytest.skip("strace may not look at processes here")
    subprocess.run([*command, "--from", audited(), *words], check=True)
    asked = re.findall(r"getrandom\(.*, (\d+), .*\) = (\d+)", log.read_text())
    keys = [size for size, given in asked if size == given == "32"]
    assert len(keys) >= 3  # split, sampling, noise


def test_figures_of_the_audit_are_in_the_card_only_where_asked_for(typed, audited, tmp_path):
    report = audited(fail_on=["epsilon > 1000"])
    for name, words in (("bare", ()), ("full", ("--with-figures",))):
        assert typed("train", "--from", report, "--method", "dpsgd", "--out", name, *words)[0] == 0
    full, bare = ((tmp_path / name / "MODEL_CARD.md").read_text() for name in ("full", "bare"))
    assert "cost of privacy (points)" in full
    assert "points" not in bare


def test_predictions_of_a_table_of_another_kind_or_to_another_kind_are_refused(typed, audited):
    assert typed("train", "--from", audited(), "--method", "dpsgd", "--out", "model")[0] == 0
    people().drop(columns="age").to_parquet("rows.parquet")
    code, said = typed("predict", "model", "--data", "rows.parquet", "--out", "out.parquet")
    assert (code, "'age'" in said) == (2, True)
    code, said = typed("predict", "model", "--data", "rows.parquet", "--out", "out.xlsx")
    assert (code, ".parquet or .csv" in said) == (2, True)
    people().to_csv("rows.csv", index=False)
    for out in ("rows.csv", "model/out.csv", "model/../model/out.csv"):
        code, said = typed("predict", "model", "--data", "rows.csv", "--out", out)
        assert (code, "--out" in said) == (2, True)
    code, said = typed("predict", "elsewhere", "--data", "rows.parquet", "--out", "out.csv")
    assert (code, "there is no folder" in said) == (2, True)


_SLOW_DISK = """
import os, sys, time
from pathlib import Path
fsync = os.fsync
os.fsync = lambda descriptor: time.sleep(0.02) or fsync(descriptor)
from fairaudit.release import model_folder as folder
names = [name for name in folder.MOST_BYTES if name != folder.EVIDENCE] + [folder.EVIDENCE]
print("audit: writing", flush=True)
folder.write_folder(Path(sys.argv[1]), {name: name.encode() * 1000 for name in names})
"""


@pytest.mark.faults
def test_a_writer_that_is_killed_leaves_a_whole_folder_or_none_and_the_next_one_tidies_up(
    tmp_path, monkeypatch
):
    """Killed at random moments while it writes: what has the name of a model is one."""
    left, rng = 0, np.random.default_rng(0)
    for number, delay in enumerate(rng.uniform(0.0, 0.13, 6)):
        out = tmp_path / f"model{number}"
        with subprocess.Popen([sys.executable, "-c", _SLOW_DISK, out], stdout=subprocess.PIPE) as child:
            assert child.stdout.readline()
            time.sleep(delay)
            child.kill()
        if out.exists():
            assert {path.name: path.read_bytes() for path in out.iterdir()} == {
                name: name.encode() * 1000 for name in MOST_BYTES
            }
        left += len(list(tmp_path.glob(".fairaudit-*.tmp")))
    assert left
    mine = tmp_path / ".fairaudit-0123456789abcdef.tmp"
    mine.mkdir()
    (mine / "notes.txt").write_text("not of a model")
    write_folder(tmp_path / "young", {"a": b"1"})
    assert len(list(tmp_path.glob(".fairaudit-*.tmp"))) > 1  # too young to be surely nobody's
    monkeypatch.setattr("fairaudit.release.model_folder._JUST_MADE", -1.0)
    busy = tmp_path / ".fairaudit-00.tmp"
    busy.mkdir()
    with _locked(busy):
        write_folder(tmp_path / "old", {"a": b"1"})
    assert sorted(path.name for path in tmp_path.glob(".fairaudit-*.tmp")) == [busy.name, mine.name]


@pytest.mark.faults
@pytest.mark.slow
def test_a_training_that_is_killed_at_any_moment_leaves_a_model_or_nothing(audited, tmp_path):
    report = audited()
    words = ["train", "--from", str(report), "--method", "dpsgd", "--quiet", "--out"]
    before = set(report.parent.rglob("*"))
    began = time.perf_counter()
    subprocess.run([sys.executable, "-m", "fairaudit", *words, tmp_path / "whole"], check=True)
    whole = time.perf_counter() - began
    for number, share in enumerate(np.random.default_rng(1).uniform(0.3, 1.05, 3)):
        out = tmp_path / f"model{number}"
        with subprocess.Popen([sys.executable, "-m", "fairaudit", *words, out]) as child:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(share * whole)
            child.kill()
        if out.exists():
            load_model(out)
        left = {path.name for path in set(report.parent.rglob("*")) - before}
        assert left <= {"held-out-whole.json", *(f"held-out-model{n}.json" for n in range(3))}


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
from fairaudit.cli.lines_release import release_lines
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.faults
@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_killed_training_leaves_nothing(audited, tmp_path, number):
    """Killed while it takes steps: no folder, no half of one, no file beside the report."""
    report = audited()
    before = set(report.parent.rglob("*"))
    words = ["train", "--from", str(report), "--method", "dpsgd", "--out", str(tmp_path / "model")]
    with subprocess.Popen([sys.executable, "-c", _SLOW_LOOP, *words], stderr=subprocess.PIPE) as child:
        assert any(b"audit: training" in line for line in child.stderr)
        os.kill(child.pid, number)
        child.wait(30)
    assert child.returncode in (-9, 130, 143)
    assert list(tmp_path.iterdir()) == []
    assert set(report.parent.rglob("*")) == before
