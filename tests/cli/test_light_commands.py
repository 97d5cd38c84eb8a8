"""What a command does where a package is not installed."""

import json
import sys
import tomllib
from collections import Counter
from importlib.metadata import packages_distributions, requires
from itertools import product

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from places import ROOT
from processes import ended
from several import several

from fairaudit.gate.check import check
from fairaudit.gate.grammar import parse_rules
from fairaudit.gate.vocabulary import find_metric, metric_names
from fairaudit.io.named_code import PACKAGES
from fairaudit.report.load import load_report
from fairaudit.report.to_json import to_json

OF_TRAINING = {"dp_accounting", "opacus", "safetensors", "sklearn", "torch", "vl_convert"}
OF_DATA = {"PIL", "cryptography", "jinja2", "markupsafe", "numpy", "pandas", "pyarrow", "scipy"}
LIGHT = ("pydantic", "rich", "typer")  # what docs/ci.md installs for a gate alone
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


# Judges a report by rules, one by one, where packages are absent.
ALONE = """
import json, sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in absent:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

absent, place, rules = json.load(sys.stdin)
sys.meta_path.insert(0, Absent())
from fairaudit.errors import ConfigError
from fairaudit.gate.check import check
from fairaudit.gate.grammar import parse_rules
from fairaudit.report.load import load_report
report, judged = load_report(place), []
for rule in rules:
    try:
        gates = check(report, parse_rules([rule]), report).gates
        judged.append(gates[0].model_dump(mode="json"))
    except ConfigError as refused:
        judged.append(refused.message)
sys.stdout.write(json.dumps(judged))
"""
STATISTICS = ("", ".mean", ".ci_low", ".ci_high", ".delta", ".delta.mean")
SELECTORS = {
    "arm": ("", ":dpsgd"),
    "group": ("", "@region", "@region=N", "@overall", ":dpsgd"),
    "gap": ("", "@region", "@region=N", "@region=N,S", ":dpsgd"),
}


def installed_beside(packages):
    """The top-level modules of all that is installed, but of these packages and what they need."""
    needed, waiting = set(), list(packages)
    while waiting:
        name = canonicalize_name(waiting.pop())
        if name not in needed:
            needed.add(name)
            lines = map(Requirement, requires(name) or ())
            waiting += [
                r.name for r in lines if r.marker is None or r.marker.evaluate({"extra": ""})
            ]
    homes = packages_distributions().items()
    return {module for module, names in homes if needed.isdisjoint(map(canonicalize_name, names))}


def outcomes(report_and_table, absent, commands):
    """The exit code of each command and the last line before it, where packages are absent."""
    asked = json.dumps([sorted(absent), list(commands)])
    done = ended([sys.executable, "-c", WITHOUT, asked], report_and_table)
    ends, last = [], ""
    for line in done.stderr.splitlines():
        if line.startswith("ended "):
            ends.append((int(line.removeprefix("ended ")), last))
        last = line
    assert len(ends) == len(commands)
    return ends


@pytest.fixture(scope="module")
def report_and_table(tmp_path_factory):
    folder = tmp_path_factory.mktemp("light")
    (folder / "report.json").write_bytes((ROOT / "tests/golden/report.json").read_bytes())
    rows = [f"{'F' if i % 3 else 'M'},{i % 40},{i * 7 % 11 % 2},{i % 2}" for i in range(600)]
    (folder / "people.csv").write_text("sex,age,guess,label\n" + "\n".join(rows) + "\n")
    return folder


def test_stored_reports_are_read_and_judged_with_pydantic_rich_and_typer_alone(report_and_table):
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
        "gate report.json --fail-on privacy_cost>2pt": 1,
        "compare report.json report.json": 0,
        "report report.json --format md,json,junit --out again": 0,
    }
    ends = outcomes(report_and_table, OF_TRAINING | OF_DATA, [words.split() for words in commands])
    assert dict(zip(commands, (code for code, _ in ends), strict=True)) == commands


def kinds_of_rules():
    """A rule of each metric, with each statistic, about each kind of groups."""
    for name in metric_names():
        metric = find_metric(name)
        limit = min(0.02, metric.bounds(is_change=False)[1] / 2)
        for statistic, selector in product(STATISTICS, SELECTORS[metric.kind]):
            yield f"{name}{statistic}{selector} > {limit:g}"


def test_every_kind_of_rule_is_judged_with_pydantic_rich_and_typer_alone(tmp_path):
    place = tmp_path / "report.json"
    place.write_text(to_json(several()), "utf-8")
    report, rules = load_report(place), list(kinds_of_rules())
    absent = installed_beside(LIGHT)
    assert {"numpy", "scipy", "pandas", "torch", "pyarrow"} <= absent
    asked = json.dumps([sorted(absent - {"fairaudit"}), str(place), rules])
    done = ended([sys.executable, "-c", ALONE], tmp_path, asked)
    assert done.returncode == 0, done.stderr
    judged = dict(zip(rules, json.loads(done.stdout), strict=True))
    gates = {rule: gate for rule, gate in judged.items() if isinstance(gate, dict)}
    # What is left was refused because the report holds nothing of it, and not for another reason.
    others = {gate.partition(" is about ")[2] for gate in judged.values() if isinstance(gate, str)}
    assert others == {"leakage, and none is measured"}
    assert set(Counter(gate["outcome"] for gate in gates.values())) == {
        "pass",
        "fail",
        "inconclusive",
    }
    # With all packages it says the same; of some rules, several numbers share an interval.
    for rule in list(gates)[::29]:
        (gate,) = check(report, parse_rules([rule]), report).gates
        assert gate.model_dump(mode="json") == gates[rule]
    held = [Counter(target["arm"] for target in gate["targets"]) for gate in gates.values()]
    assert any(count > 1 for arms in held for count in arms.values())


def test_what_lacks_a_package_ends_with_its_name_and_what_does_not_need_it_works(report_and_table):
    data = "--data people.csv --group sex"
    score = "score people.csv --y-true label --y-pred guess --group sex"
    commands = {
        "inspect people.csv --group sex": "",
        f"{score} --format json,md --out scored": "",
        f"{score} --out drawn": "",  # its tables are drawn by the page itself
        "report report.json --format html": "vl-convert-python",
        "report report.json --format svg": "vl-convert-python",
        f"plan {data}": "dp-accounting",
        f"run {data}": "torch",
        f"choose {data} --fail-on privacy_cost_gap>9pt": "torch",
        "predict model --data people.csv --out predicted.csv": "torch",
    }
    ends = outcomes(report_and_table, OF_TRAINING, [words.split() for words in commands])
    for (command, package), (code, line) in zip(commands.items(), ends, strict=True):
        assert code == (2 if package else 0), command
        if package:
            assert f"pip install {package}" in line, command


def test_every_package_that_is_installed_beside_it_is_known_by_its_name():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    lines = [*project["dependencies"], *project["optional-dependencies"]["ray"]]
    assert {line.partition(">")[0] for line in lines} == set(PACKAGES.values())
