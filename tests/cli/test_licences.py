import json
from importlib.metadata import distribution, entry_points

import pytest

from fairaudit.cli import app, checkup
from fairaudit.cli.checkup import installed_licences, licence_of, own_distribution


class Package:
    def __init__(self, **fields):
        self.metadata = Fields(fields)


class Fields(dict):
    def get_all(self, name):
        return self.get(name)


@pytest.mark.parametrize(
    ("fields", "licence"),
    [
        ({"License-Expression": "MIT", "License": "other"}, "MIT"),
        (
            {"Classifier": ["Topic :: X", "License :: OSI Approved :: BSD License"], "License": "x\n"},
            "BSD License",
        ),
        ({"License": "\n  Apache-2.0\nand its whole text"}, "Apache-2.0"),
        ({"License": ""}, "not stated; see the files of the package"),
    ],
)
def test_a_licence_is_what_the_package_says(fields, licence):
    assert licence_of(Package(**fields)) == licence


def test_every_library_is_listed_with_those_it_needs(capsys):
    assert app.main(["doctor", "--licenses", "--json"]) == 0
    found = {entry["name"].lower(): entry for entry in json.loads(capsys.readouterr().out)}
    assert found[own_distribution().name.lower()]["licence"] == "Apache-2.0"
    assert {"torch", "numpy", "pydantic", "pydantic-core"} <= {name.replace("_", "-") for name in found}
    assert found["torch"]["version"] == distribution("torch").version
    assert all(entry["licence"] for entry in found.values())
    assert app.main(["doctor", "--licenses"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(found)


def test_a_library_that_is_not_installed_is_left_out():
    assert installed_licences("no-such-library") == []
    assert any("torch" in line for line in own_distribution().requires)


def test_this_program_is_found_by_what_it_installs_and_never_by_a_name(monkeypatch, capsys):
    """Another project on the index is called as the package is; its command is not this one."""
    (own,) = (entry for entry in entry_points(group="console_scripts", name="fairaudit"))

    class Other:
        value, dist = "fairaudit.cli:main", distribution("numpy")

    monkeypatch.setattr(checkup, "entry_points", lambda **wanted: [Other, own])
    assert own_distribution().name == own.dist.name
    monkeypatch.setattr(checkup, "entry_points", lambda **wanted: [Other])
    assert own_distribution() is None
    assert installed_licences() == []
    assert app.main(["doctor"]) == 2
    assert "MISSING  libraries" in capsys.readouterr().out
