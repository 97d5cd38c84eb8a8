import json
import tomllib

import pyarrow as pa
import pyarrow.parquet as papq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairaudit.cli.config_template import _toml_string, columns_file, write_template
from fairaudit.config.options import AuditConfig
from fairaudit.config.value_sources import resolve_config
from fairaudit.data.inputs.encode import encode
from fairaudit.data.inputs.split import draw_split
from fairaudit.data.tabular import load_dataset
from fairaudit.errors import ConfigError, OutputError


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
    assert tomllib.loads(f"x = {_toml_string(name)}")["x"] == name


def test_a_declaration_is_refused_until_every_placeholder_is_replaced_and_then_nothing_is_fitted(
    tmp_path,
):
    """Names and values that TOML could trip over.

    Constant, half-empty and numeric-coded columns.
    """
    rows = {
        'a "quoted" [name]': ["x\n", 'y"', "z\\", None] * 20,
        "number": [1.5, None, -3.0, 7.25] * 20,
        "flag": [True, False, True, True] * 20,
        "sex": ["F", "M"] * 40,
        "y": [0, 1, 1, 0] * 20,
    }
    papq.write_table(pa.table(rows), tmp_path / "t.parquet")
    config = resolve_config({"data": tmp_path / "t.parquet", "group": ["sex"], "label": "y"}).config
    text = columns_file(load_dataset(config))
    path = tmp_path / "columns.toml"
    said = {
        'a "quoted" [name]': {"categories": ["x\n", 'y"', "z\\"]},
        "number": {"range": [-5, 10], "missing": 0},
        "flag": {"categories": ["false", "true"]},
    }
    told = tomllib.loads(text)
    assert {column: list(keys) for column, keys in told.items()} == {
        column: ["kind", *keys] for column, keys in said.items()
    }
    for column, keys in said.items():
        told[column].update(keys)
    unsaid = {**told["number"], "missing": tomllib.loads(text)["number"]["missing"]}
    path.write_text(_toml({**told, "number": unsaid}))  # this one alone
    with pytest.raises(ConfigError, match="missing is still a placeholder"):
        AuditConfig(data="x", columns=path)
    path.write_text(_toml(told))
    used = config.model_copy(update={"columns": AuditConfig(data="x", columns=path).columns})
    dataset = load_dataset(used)
    assert "outside_declaration" not in {notice.code for notice in dataset.notices}
    assert encode(dataset, draw_split(dataset, used.split, 0), used.encoding).fitted == ()


def _toml(columns):
    return "\n".join(
        f"[{_toml_string(name)}]\n"
        + "\n".join(f"{key} = {json.dumps(v)}" for key, v in keys.items())
        for name, keys in columns.items()
    )
