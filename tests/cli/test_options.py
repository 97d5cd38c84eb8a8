import inspect
import re

import pytest

from fairaudit.cli import app
from fairaudit.cli.run_options import Given, takes_audit_options
from fairaudit.config.options import OPTIONS, PANELS, AuditConfig


@pytest.fixture
def parse():
    found = []
    command = takes_audit_options(found.append)

    def call(**typed):
        names = dict.fromkeys(inspect.signature(command).parameters)
        command(**{**names, "json": False, "quiet": False, "verbose": False, **typed})
        assert isinstance(found[-1], Given)
        return found[-1]

    return call


def test_every_field_of_the_config_has_an_option_and_no_option_is_without_a_field():
    assert sorted(option.field for option in OPTIONS) == sorted(AuditConfig.model_fields)


def test_every_option_stands_in_one_panel_of_the_help_and_panels_stand_in_order(capsys):
    for command in ("run", "plan"):
        assert app.main([command, "--help"]) == 0
        shown = capsys.readouterr().out
        heads = [line.removesuffix(":") for line in shown.splitlines() if line[:1].isupper()]
        assert heads[1:] == ["Examples", *PANELS, "Other"]
        gates = shown[shown.index("\nGates:") : shown.index("\nExecution")]
        assert set(re.findall(r"^  (--[a-z-]+)", gates, flags=re.M)) == {
            "--fail-on",
            "--baseline",
            "--inconclusive",
            "--changed-answers",
            "--trust-claimed-epsilon",
            "--trust-module",
        }


def test_what_is_not_given_is_not_set(parse):
    assert parse().values == {}
    assert parse(group=[]).values == {}
    assert parse(intersect=False).values == {"intersect": False}


def test_pairs_become_tables(parse):
    given = parse(keep=["F=0.5", "M=1"], settings=["global.threshold=5", "dpsgd.learning-rate=1"])
    assert given.values["keep"] == {"F": "0.5", "M": "1"}
    assert given.values["settings"] == {
        "global": {"threshold": 5.0},
        "dpsgd": {"learning_rate": 1.0},
    }
