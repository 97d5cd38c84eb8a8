"""The hook of pre-commit: an environment of its own, made once, of what a gate needs."""

import os
import shutil
import tomllib

import pytest
import yaml
from places import ROOT
from processes import ended

(HOOK,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))
# A Python that says what it is asked, and does as much of it as the hook needs.
PYTHON = """#!/bin/sh
printf '%s|' "$@" >> "$LOG"
echo >> "$LOG"
case "$*" in
    *" venv "*) mkdir -p "$4/bin" && cp "$0" "$4/bin/python" ;;
    *os.rename*) mv "$4" "$5" ;;
    *" pip "*"$FAILS"*) exit 1 ;;
    *"fairaudit gate"*) exit 3 ;;
esac
"""
PIP = "-I|-m|pip|install|--quiet|--disable-pip-version-check|"
RULE = "privacy_cost > 2pt"


@pytest.fixture
def hook(tmp_path):
    """Runs the hook in a clone of this project, and says what Python was asked."""
    clone = tmp_path / "a clone"
    clone.mkdir()
    shutil.copy(ROOT / HOOK["entry"], clone)
    python = tmp_path / "bin" / "python3"
    python.parent.mkdir()
    python.write_text(PYTHON)
    python.chmod(0o755)
    log = tmp_path / "log"

    def run(fails="nothing"):
        log.write_text("")
        path = f"{python.parent}{os.pathsep}{os.environ['PATH']}"
        words = [clone / HOOK["entry"], "report.json", "--fail-on", RULE]
        done = ended(words, tmp_path, PATH=path, LOG=str(log), FAILS=fails)
        return done, log.read_text().splitlines()

    run.clone = clone
    return run


def test_the_hook_installs_what_a_gate_needs_and_only_once(hook):
    assert HOOK["language"] == "script"
    done, asked = hook()
    assert done.returncode == 3, done.stderr
    lines = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["dependencies"]
    few = [line for line in lines if line.partition(">")[0] in ("pydantic", "rich", "typer")]
    installed = [line for line in asked if " pip " in line.replace("|", " ")]
    assert installed == [f"{PIP}{'|'.join(few)}|", f"{PIP}--no-deps|{hook.clone}|"]
    judged = f"-I|-m|fairaudit|gate|report.json|--fail-on|{RULE}|"
    assert asked[-1] == judged
    done, asked = hook()
    assert (done.returncode, asked) == (3, [judged])
    assert {path.name for path in hook.clone.iterdir()} == {".gate-env", HOOK["entry"]}


def test_an_installation_that_fails_is_no_verdict_and_leaves_nothing(hook):
    for fails in ("typer", "--no-deps"):
        done, asked = hook(fails)
        assert done.returncode == 2
        assert done.stderr.splitlines()[-1] == "Error: the hook's packages cannot be installed"
        assert "gate" not in asked[-1]
        assert {path.name for path in hook.clone.iterdir()} == {HOOK["entry"]}


def test_the_hooks_file_can_be_run_and_is_what_a_clone_has():
    assert os.access(ROOT / HOOK["entry"], os.X_OK)
    assert (ROOT / HOOK["entry"]).read_text().startswith("#!/bin/sh\n")
