import tomllib

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as papq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairaudit.cli.config_template import _text, columns_file, template_file, write_template
from fairaudit.config.options import AuditConfig
from fairaudit.config.value_sources import resolve_config
from fairaudit.data.encode import encode
from fairaudit.data.inspection import describe
from fairaudit.data.split import draw_split
from fairaudit.data.tabular import load_dataset
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
    return template_file(describe(config), config)


def test_the_file_is_a_config_that_can_be_used_as_it_is(table):
    text = made(table, label="approved", group=["sex"])
    path = table.parent / "fairaudit.toml"
    write_template(path, text, force=False)
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
        write_template(path, "seeds = 5\n", force=False)
    assert path.read_text() == "epochs = 3\n"
    write_template(path, "seeds = 5\n", force=True)
    assert path.read_text() == "seeds = 5\n"


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_name_is_a_toml_string(name):
    assert tomllib.loads(f"x = {_text(name)}")["x"] == name


def test_declared_columns_can_be_used_as_they_are_written_and_say_that_they_should_not(tmp_path):
    """Names and values that TOML could trip over; constant, half-empty and numeric-coded columns."""
    rows = {
        'a "quoted" [name]': ["x\n", 'y"', "z\\", None] * 20,
        "number": [1.5, None, -3.0, 7.25] * 20,
        "whole": [3, 4, 5, 6] * 20,
        "flag": [True, False, True, True] * 20,
        "sex": ["F", "M"] * 40,
        "y": [0, 1, 1, 0] * 20,
    }
    papq.write_table(pa.table(rows), tmp_path / "t.parquet")
    config = resolve_config({"data": tmp_path / "t.parquet", "group": ["sex"], "label": "y"}).config
    text = columns_file(load_dataset(config))
    (tmp_path / "columns.toml").write_text(text)
    told = tomllib.loads(text)
    assert list(told) == ['a "quoted" [name]', "number", "whole", "flag"]
    assert told["number"] == {"kind": "number", "range": [-3.0, 7.25], "missing": -3.0}
    assert told["flag"]["categories"] == ["false", "true"]
    assert text.count("replace by what is publicly known") == 5
    used = config.model_copy(
        update={"columns": AuditConfig(data="x", columns=tmp_path / "columns.toml").columns}
    )
    dataset = load_dataset(used)
    assert dataset.outside == {}
    assert encode(dataset, draw_split(dataset, used, 0), used).fitted == ()
