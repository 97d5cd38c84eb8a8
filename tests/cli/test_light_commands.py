"""What a command does where a package is not installed."""

import json
import sys
import tomllib

import pytest
from places import ROOT
from processes import ended

from fairaudit.io.named_code import PACKAGES

OF_TRAINING = {"dp_accounting", "opacus", "safetensors", "sklearn", "torch", "vl_convert"}
OF_DATA = {"PIL", "cryptography", "jinja2", "markupsafe", "numpy", "pandas", "pyarrow", "scipy"}
WITHOUT = """
import json, sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in absent:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

absent, commands = json.loads(sys.argv[1])
sys.meta_path.insert(0, Absent())
from fairaudit.cli.app import main
for words in commands:
    print(f"ended {main(words)}", file=sys.stderr)
"""


def outcomes(folder, absent, commands):
    """The exit code of each command and the last line before it, where packages are absent."""
    asked = json.dumps([sorted(absent), list(commands)])
    done = ended([sys.executable, "-c", WITHOUT, asked], folder)
    ends, last = [], ""
    for line in done.stderr.splitlines():
        if line.startswith("ended "):
            ends.append((int(line.removeprefix("ended ")), last))
        last = line
    assert len(ends) == len(commands)
    return ends


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("light")
    (folder / "report.json").write_bytes((ROOT / "tests/golden/report.json").read_bytes())
    rows = [f"{'F' if i % 3 else 'M'},{i % 40},{i * 7 % 11 % 2},{i % 2}" for i in range(600)]
    (folder / "people.csv").write_text("sex,age,guess,label\n" + "\n".join(rows) + "\n")
    return folder


def test_stored_reports_are_read_and_judged_with_pydantic_rich_and_typer_alone(folder):
    commands = {
        "--version": 0,
        "--help": 0,
        "run --help": 0,
        "plan --help": 0,
        "choose --help": 0,
        "schema": 0,
        "methods": 0,
        "gate report.json --fail-on epsilon>90": 0,
        "gate report.json --fail-on epsilon>0 --junit gates.xml": 1,
        "compare report.json report.json": 0,
        "report report.json --format md,json,junit --out again": 0,
    }
    ends = outcomes(folder, OF_TRAINING | OF_DATA, [words.split() for words in commands])
    assert dict(zip(commands, (code for code, _ in ends), strict=True)) == commands


def test_what_lacks_a_package_ends_with_its_name_and_what_does_not_need_it_works(folder):
    data = "--data people.csv --group sex"
    score = "score people.csv --y-true label --y-pred guess --group sex"
    commands = {
        "inspect people.csv --group sex": "",
        f"{score} --format json,md --out scored": "",
        f"{score} --out drawn": "vl-convert-python",
        "report report.json --format html": "vl-convert-python",
        f"plan {data}": "dp-accounting",
        f"run {data}": "torch",
        f"choose {data} --fail-on privacy_cost_gap>9pt": "torch",
        "predict model --data people.csv --out predicted.csv": "torch",
    }
    ends = outcomes(folder, OF_TRAINING, [words.split() for words in commands])
    for (command, package), (code, line) in zip(commands.items(), ends, strict=True):
        assert code == (2 if package else 0), command
        if package:
            assert f"pip install {package}" in line, command


def test_every_package_that_is_installed_beside_it_is_known_by_its_name():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    lines = [*project["dependencies"], *project["optional-dependencies"]["ray"]]
    assert {line.partition(">")[0] for line in lines} == set(PACKAGES.values())
