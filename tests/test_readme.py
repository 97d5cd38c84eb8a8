"""README's commands: what they name must exist."""

import re
import shlex

import pytest
from places import ROOT

from fairaudit.cli import app
from fairaudit.config.options import OPTIONS
from fairaudit.config.presets import presets
from fairaudit.methods.catalog import catalog
from fairaudit.report.load import load_report

README = (ROOT / "README.md").read_text("utf-8")
BLOCKS = re.findall(r"```sh\n(.*?)```", README, flags=re.S)
LINES = [line for block in BLOCKS for line in block.strip().splitlines()]


@pytest.mark.slow
def test_what_readme_shows_is_what_its_command_prints(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(ROOT)
    command, shown = re.search(
        r"```sh\n(fairaudit [^\n]*)\n```\n\n```text\n(.*?)\n```", README, re.S
    ).groups()
    words = [*shlex.split(command)[1:-1], str(tmp_path / "out")]
    assert "--out" in words
    assert app.main(words) == 1
    printed = capsys.readouterr().err
    start = printed.index("\n" + shown.splitlines()[0]) + 1
    assert printed[start:].startswith(shown + "\n"), printed[start:]
    (gate,) = load_report(tmp_path / "out" / "report.json").gates
    assert gate.outcome == "fail"


def test_every_option_and_method_that_readme_types_exists(capsys):
    typed = [shlex.split(line, comments=True) for line in LINES]
    words = [
        word
        for words in typed
        for word in words[words.index("fairaudit") if "fairaudit" in words else 0 :]
    ]
    options = {word for word in words if word.startswith("--")}
    assert options
    for command in {words[words.index("fairaudit") + 1] for words in typed if "fairaudit" in words}:
        app.main([command, "--help"])
    assert options <= set(re.findall(r"--[a-z][a-z-]*", capsys.readouterr().out))
    methods = {words[i + 1] for i, word in enumerate(words) if word == "--method"}
    assert methods
    assert methods <= set(catalog())


def test_readme_documents_every_exit_code():
    from fairaudit import errors

    codes = [value for name, value in vars(errors).items() if name.startswith("EXIT_")]
    table = README[README.index("| exit code |") :]
    for code in codes:
        assert re.search(rf"^\|[^|]*\b{code}\b", table, flags=re.M), code


def test_presets_named_in_help_are_those_that_exist():
    said = next(option.help for option in OPTIONS if option.field == "preset")
    assert all(name in said for name in presets())
