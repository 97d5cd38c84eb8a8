import json
from importlib.metadata import distribution, requires

import pytest

from fairaudit.cli import app
from fairaudit.cli.licences import installed_licences, licence_of


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
    assert found["fairaudit"]["licence"] == "Apache-2.0"
    assert {"torch", "numpy", "pydantic", "pydantic-core"} <= {name.replace("_", "-") for name in found}
    assert found["torch"]["version"] == distribution("torch").version
    assert all(entry["licence"] for entry in found.values())
    assert app.main(["doctor", "--licenses"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(found)


def test_a_library_that_is_not_installed_is_left_out():
    assert installed_licences("no-such-library") == []
    assert requires("fairaudit")
