import tomllib

import pyarrow as pa
import pyarrow.csv as pacsv
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairaudit.cli.config_template import _text, starter_file, write_starter
from fairaudit.config.sources import resolve_config
from fairaudit.data.inspect import describe
from fairaudit.errors import OutputError


@pytest.fixture
def table(tmp_path):
    n = 400
    columns = {
        "age": [20 + i % 40 for i in range(n)],
        "sex": ["F" if i % 3 else "M" for i in range(n)],
        "race": ["a" if i % 2 else "b" for i in range(n)],
        "approved": [(i * 7) % 11 % 2 for i in range(n)],
        "hired": [(i * 5) % 7 % 2 for i in range(n)],
    }
    path = tmp_path / "people.csv"
    pacsv.write_csv(pa.table(columns), path)
    return path


def made(table, **options):
    config = resolve_config({"data": table, **options}).config
    return starter_file(describe(config), config)


def test_the_file_is_a_config_that_can_be_used_as_it_is(table):
    text = made(table, label="approved", group=["sex"])
    path = table.parent / "fairaudit.toml"
    write_starter(path, text, force=False)
    resolved = resolve_config({}, folder=table.parent)
    assert (resolved.config.label, resolved.config.group, resolved.config.positive) == (
        "approved",
        ("sex",),
        "1",
    )
    assert resolved.config.method == ("global-adapt", "dpsgd-matched")
    assert resolved.config.fail_on == ()
    assert resolved.origins["label"] == "fairaudit.toml"


def test_the_favourable_outcome_is_asked_for_until_it_is_said(table):
    text = made(table, label="approved", group=["sex"])
    assert '# favourable = "1"' in text
    assert "inconclusive until favourable is set" in text
    text = made(table, label="approved", group=["sex"], favourable="0")
    content = tomllib.loads(text)
    assert (content["positive"], content["favourable"]) == ("1", "0")
    assert "inconclusive until favourable is set" not in text


def test_what_must_be_chosen_is_offered_and_not_chosen(table):
    text = made(table)
    content = tomllib.loads(text)
    assert "label" not in content
    assert "group" not in content
    assert "Candidates: approved, hired" in text
    assert '# group = ["sex"]' in text


def test_every_commented_rule_can_be_switched_on(table):
    text = made(table, label="approved", group=["sex"])
    switched = text.replace('  # "', '  "')
    assert len(tomllib.loads(switched)["fail_on"]) == 3


def test_an_existing_file_is_kept_unless_forced(tmp_path):
    path = tmp_path / "fairaudit.toml"
    path.write_text("epochs = 3\n")
    with pytest.raises(OutputError, match="--force"):
        write_starter(path, "seeds = 5\n", force=False)
    assert path.read_text() == "epochs = 3\n"
    write_starter(path, "seeds = 5\n", force=True)
    assert path.read_text() == "seeds = 5\n"


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_name_is_a_toml_string(name):
    assert tomllib.loads(f"x = {_text(name)}")["x"] == name
