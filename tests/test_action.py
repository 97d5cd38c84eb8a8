"""The GitHub Action: its steps run as a runner runs them, with inputs that try to be code."""

import json
import os
import re
import stat
import sys
import tomllib
from pathlib import Path

import pandas as pd
import pytest
import yaml
from places import ROOT
from processes import ended

ACTION = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
STEPS = ACTION["runs"]["steps"]
DEFAULTS = ["--out=fairaudit-report/action", "--format=json,md,html,junit"]
EXPRESSION = re.compile(r"\$\{\{\s*(.*?)\s*\}\}")
# What stands in for the program: keeps its words, leaves a report, ends as it is told.
STAND_IN = """#!{python}
import json, os, pathlib, sys
kept = pathlib.Path(os.environ["KEPT"])
kept.write_text(json.dumps(sys.argv[1:]))
if sys.argv[1] == "gate":
    print(json.dumps({{"verdict": os.environ["VERDICT"]}}) if "VERDICT" in os.environ else "Usage:")
elif os.environ.get("VERDICT") is not None:
    (folder,) = [word.split("=", 1)[1] for word in sys.argv if word.startswith("--out=")]
    pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    report = {{"verdict": os.environ["VERDICT"] or None}}
    (pathlib.Path(folder) / "report.json").write_text(json.dumps(report))
sys.exit(int(os.environ.get("CODE", "0")))
"""


class Runner:
    """As much of a runner as composite actions need.

    Expressions, outputs, and bash as GitHub starts it.
    """

    def __init__(self, folder, **inputs):
        self.folder = folder
        self.inputs = {
            name: each.get("default", "") for name, each in ACTION["inputs"].items()
        } | inputs
        self.outputs, self.said, self.environment = {}, "", {}

    def value(self, expression):
        kind, _, rest = expression.partition(".")
        if kind == "inputs":
            return self.inputs[rest]
        if kind == "steps":
            step, _, name = rest.partition(".outputs.")
            return self.outputs.get(step, {}).get(name, "")
        assert expression == "github.action_path"
        return str(ROOT)

    def filled(self, text):
        return EXPRESSION.sub(lambda found: self.value(found[1]), text)

    def run(self, step):
        """Exit code of one step with a script."""
        script, output = self.folder / "step.sh", self.folder / "output"
        script.write_text(step["run"], encoding="utf-8")
        output.write_text("")
        env = {name: self.filled(value) for name, value in step["env"].items()}
        found = ended(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)],
            self.folder / self.filled(step.get("working-directory", ".")),
            GITHUB_ACTIONS="true",
            GITHUB_OUTPUT=str(output),
            RUNNER_TEMP=str(self.folder),
            GITHUB_STEP_SUMMARY=str(self.folder / "summary.md"),
            **{**self.environment, **env},
        )
        self.said += found.stdout + found.stderr
        lines = [line.partition("=") for line in output.read_text().splitlines()]
        self.outputs[step["id"]] = {name: value for name, _, value in lines}
        return found.returncode

    def audit(self):
        (step,) = (step for step in STEPS if step.get("id") == "audit")
        return self.run(step)


@pytest.fixture
def runner(tmp_path):
    def make(verdict="pass", code=0, **inputs):
        program = tmp_path / "bin" / "fairaudit"
        program.parent.mkdir(exist_ok=True)
        program.write_text(STAND_IN.format(python=sys.executable))
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        made = Runner(tmp_path, install="no", python=sys.executable, **{"data": "d.csv", **inputs})
        path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
        made.environment = {"PATH": path, "KEPT": str(tmp_path / "words.json"), "CODE": str(code)}
        made.environment |= {} if verdict is None else {"VERDICT": verdict}
        return made

    return make


def words(runner):
    return json.loads((runner.folder / "words.json").read_text())


def test_inputs_become_words_of_the_command(runner):
    inputs = {
        "group": "sex\nmarital status\n",
        "fail-on": "privacy_cost_gap > 2pt\n  epsilon > 3  \n\n",
        "inconclusive": "fail",
        "args": "--seeds 3 --drop 'a b'\n--positive \"x y\"",
        "report": "out/r",
    }
    made = runner(**inputs)
    assert made.audit() == 0
    options = ["--data=d.csv", "--out=out/r", "--format=json,md,html,junit"]
    options += ["--group=sex", "--group=marital status"]
    options += ["--fail-on=privacy_cost_gap > 2pt", "--fail-on=epsilon > 3", "--inconclusive=fail"]
    args = ["--seeds", "3", "--drop", "a b", "--positive", "x y"]
    assert words(made) == ["run", *options, *args]
    folder = str((made.folder / "out" / "r").resolve())
    assert made.outputs["audit"] == {
        "exit-code": "0",
        "report": "out/r/report.json",
        "verdict": "pass",
        "folder": folder,
    }


GATE = {"data": "", "gate": "kept/r.json", "fail-on": "epsilon > 3"}


@pytest.mark.parametrize(("code", "verdict"), [(0, "pass"), (1, "fail"), (3, "inconclusive")])
def test_a_stored_report_is_judged_and_nothing_is_trained(runner, code, verdict):
    made = runner(verdict, code, **GATE)
    assert made.audit() == code
    assert words(made) == ["gate", "--json", "--fail-on=epsilon > 3", "--", "kept/r.json"]
    assert made.outputs["audit"] == {"exit-code": str(code), "verdict": verdict}
    assert "no verdict" not in made.said


@pytest.mark.parametrize("inputs", [GATE, {}])
def test_what_ends_well_without_a_verdict_is_no_pass(runner, inputs):
    made = runner(None, 0, args="--help", **inputs)
    assert made.audit() == 2
    assert made.outputs["audit"] == {"exit-code": "2"}
    assert "::error title=fairaudit::no verdict: args ask" in made.said
    assert ("Usage:" in made.said) == bool(inputs)


@pytest.mark.parametrize("code", [1, 3, 70])
def test_an_exit_code_alone_is_no_verdict(runner, code):
    made = runner(None, code, **GATE)
    assert made.audit() == code
    assert made.outputs["audit"] == {"exit-code": str(code)}
    assert f"::error title=fairaudit::no verdict: exit code {code}," in made.said


EVIL = ["$(touch hacked) * %s\\n ' ; touch hacked ; '", 'a\n" ; touch hacked ; "']


@pytest.mark.parametrize("evil", EVIL)
def test_no_input_is_run_or_expanded(runner, evil):
    names = ("data", "group", "label", "method", "epsilon", "fail-on", "inconclusive")
    made = runner(**dict.fromkeys(names, evil))
    assert made.audit() == 0
    assert not (made.folder / "hacked").exists()
    lines = [line.strip() for line in evil.splitlines()]
    meant = [f"--{name}={line}" for name in names[1:] for line in lines]
    assert words(made) == ["run", f"--data={evil}", *DEFAULTS, *meant]


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ({"args": "--label 'x"}, "quotation mark"),
        ({"report": "a\nverdict=pass"}, "one folder"),
        ({"data": ""}, "missing"),
    ],
)
def test_inputs_that_cannot_be_read_end_with_2(runner, inputs, said):
    made = runner(**inputs)
    assert made.audit() == 2
    assert re.search(rf"^::error title=fairaudit::.*{said}", made.said, re.M)
    assert made.outputs["audit"] == {"exit-code": "2"}
    assert not (made.folder / "words.json").exists()


@pytest.mark.parametrize(
    ("code", "verdict", "told"),
    [
        (0, "", ""),
        (1, "fail", "fail"),
        (3, "inconclusive", "inconclusive"),
        (4, "fail", "fail"),
        (2, "pass", None),
        (143, None, None),
    ],
)
def test_the_exit_code_is_that_of_the_audit(runner, code, verdict, told):
    made = runner(verdict, code)
    assert made.audit() == code
    outputs = made.outputs["audit"]
    assert (outputs["exit-code"], outputs.get("verdict")) == (str(code), told)
    annotated = f"::error title=fairaudit::no verdict: exit code {code}," in made.said
    assert annotated == (code not in (0, 1, 3))


@pytest.mark.parametrize("code", [0, 1])
def test_the_report_of_an_earlier_run_is_not_taken_for_this_ones(runner, code):
    """As where the program's own start fails: Python, too, ends with 1."""
    made = runner(None, code)
    folder = made.folder / "fairaudit-report" / "action"
    folder.mkdir(parents=True)
    (folder / "report.json").write_text(json.dumps({"verdict": "pass"}))
    assert made.audit() == (code or 2)
    assert made.outputs["audit"] == {"exit-code": str(code or 2)}
    assert "no verdict" in made.said


def shadowed(runner, folder, **inputs):
    """A runner in a checkout whose modules have the names of Python's own."""
    for name in ("json", "os", "shlex", "venv", "pip", "sitecustomize", "encodings"):
        (folder / f"{name}.py").write_text("open('hacked', 'w').write('')\n")
    made = runner("fail", 1, **inputs)
    made.environment |= {"PYTHONPATH": str(folder), "PYTHONSAFEPATH": "", "PYTHONHOME": ""}
    return made


@pytest.mark.parametrize("report", ["fairaudit-report/action", "{folder}/elsewhere"])
def test_no_module_of_the_checkout_is_run(runner, tmp_path, report):
    made = shadowed(runner, tmp_path, args="--seeds 1", report=report.format(folder=tmp_path))
    program = tmp_path / "bin" / "fairaudit"
    program.write_text(program.read_text().replace("#!" + sys.executable, f"#!{sys.executable} -I"))
    assert made.audit() == 1
    assert made.outputs["audit"]["verdict"] == "fail"
    assert not (tmp_path / "hacked").exists()


def test_the_report_is_kept_whatever_the_verdict_and_without_predictions_of_records(runner):
    (step,) = (step for step in STEPS if "uses" in step)
    assert "always()" in step["if"]
    made = runner("fail", 1)
    made.audit()
    kept = made.filled(step["with"]["path"]).split()
    folder = str((made.folder / "fairaudit-report" / "action").resolve())
    assert kept == [f"{folder}/report.*", f"{folder}/figures"]


def test_install_is_into_a_folder_of_its_own(tmp_path):
    """With a Python that only says what it was asked."""
    python = tmp_path / "python"
    python.write_text(
        '#!/bin/sh\nprintf "%s|" "$@" >> "$LOG"\nmkdir -p "$4/bin" && cp "$0" "$4/bin/python"\n'
    )
    python.chmod(0o755)
    (step,) = (step for step in STEPS if step.get("id") == "install")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    few = [
        line
        for line in project["project"]["dependencies"]
        if line.partition(">")[0] in ("pydantic", "rich", "typer")
    ]
    pip = "-I|-m|pip|install|--quiet|--disable-pip-version-check|"
    evil = "fairaudit-dp @ git+https://x/y@v1; touch hacked"
    for asked, gate, installed in (
        ("", "", f"{pip}--|{ROOT}|"),
        (evil, "", f"{pip}--|{evil}|"),
        ("", "report.json", f"{pip}{'|'.join(few)}|{pip}--no-deps|--|{ROOT}|"),
    ):
        made = Runner(tmp_path, python=str(python), install=asked, gate=gate)
        made.environment = {"LOG": str(tmp_path / "log")}
        (tmp_path / "log").write_text("")
        assert made.run(step) == 0, made.said
        home = f"{tmp_path}/fairaudit-action"
        assert (tmp_path / "log").read_text() == f"-I|-m|venv|{home}|{installed}"
        assert made.outputs["install"] == {"command": f"{home}/bin/fairaudit"}
    assert not (tmp_path / "hacked").exists()


def test_no_script_holds_an_expression_and_every_input_is_read():
    text = (ROOT / "action.yml").read_text("utf-8")
    for step in STEPS:
        assert "${{" not in step.get("run", "")
        assert "run" not in step or step["shell"] == "bash"
    for name in ACTION["inputs"]:
        assert f"inputs.{name} " in text, name


@pytest.mark.slow
def test_with_the_program_itself_gates_annotate_summarise_and_decide(tmp_path):
    pd.read_csv(ROOT / "sample_data" / "loans.csv")[["sex", "age", "income", "approved"]].to_csv(
        tmp_path / "loans.csv", index=False
    )
    args = "--seeds 1 --epochs 1 --diagnostics off --workers 1 --noise-multiplier 1"
    inputs = {"data": "loans.csv", "group": "sex", "label": "approved", "method": "dpsgd"}
    inputs |= {"args": args, "install": "no", "python": sys.executable}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    made = Runner(tmp_path, **inputs, **{"fail-on": "delta > 1e-9"})
    made.environment = {"PATH": path}
    assert made.audit() == 1, made.said
    assert made.outputs["audit"]["verdict"] == "fail"
    assert "::error title=fairaudit gate fail::" in made.said
    assert "delta > 1e-9" in (tmp_path / "summary.md").read_text()
    assert (tmp_path / "fairaudit-report" / "action" / "report.junit.xml").exists()
