"""What a model of the user's own is told of its inputs, against the table that they are made of."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import fairaudit
from fairaudit.config.options import AuditConfig
from fairaudit.data.inputs.column import NumberColumn
from fairaudit.data.inputs.encode import encode
from fairaudit.data.inputs.split import draw_split
from fairaudit.data.tabular import load_dataset
from fairaudit.models.columns import model_columns
from fairaudit.models.zoo import own_model

N = 400


def of_every_column():
    draw = np.random.default_rng(3)
    words = draw.integers(1, 100, (N, 12))
    words[draw.random((N, 12)) < 0.3] = 0
    age = draw.normal(40, 9, N).round(3)
    age[5] = np.nan
    return pd.DataFrame(
        {
            "tokens": words.tolist(),
            "job": draw.choice(["cook", "clerk", "nurse"], N),
            "age": age,
            "member": draw.choice(["no", "yes"], N),
            "emb": draw.normal(size=(N, 9)).tolist(),
            "sex": draw.choice(["F", "M"], N),
            "y": (words[:, 0] > 40).astype(int),
        }
    )


@pytest.fixture(scope="module")
def encoded(tmp_path_factory):
    path = tmp_path_factory.mktemp("columns") / "people.parquet"
    of_every_column().to_parquet(path)
    config = AuditConfig(data=path, group=("sex",), label="y", merge_rare=0.0)
    dataset = load_dataset(config)
    return encode(dataset, draw_split(dataset, config.split, 0), config.encoding)


def test_columns_give_back_what_the_table_held(encoded):
    columns, rows = model_columns(encoded.columns), of_every_column().iloc[encoded.split.train]
    x = torch.from_numpy(encoded.train[:])
    assert list(columns) == ["tokens", "job", "age", "member", "emb"]
    assert [one.kind for one in columns.values()] == [
        "list",
        "category",
        "number",
        "category",
        "list",
    ]
    tokens = columns["tokens"].values(x).round().long().numpy()
    assert tokens.tolist() == rows["tokens"].tolist()
    emb = columns["emb"].values(x).numpy()
    np.testing.assert_allclose(emb, np.stack(rows["emb"]), atol=1e-5)
    age = columns["age"].values(x).numpy()[:, 0]
    known = rows["age"].notna().to_numpy()
    np.testing.assert_allclose(age[known], rows["age"][known], rtol=1e-5)
    for name in ("job", "member"):
        levels = np.array([*columns[name].levels, "none of them"])
        assert levels[columns[name].codes(x).numpy()].tolist() == rows[name].tolist()
        assert columns[name].size == len(levels)
    taken = [k for one in columns.values() for k in range(one.inputs.start, one.inputs.stop)]
    assert taken == list(range(x.shape[1]))


def test_a_value_that_is_no_level_has_a_code_of_its_own(encoded):
    columns = model_columns(encoded.columns)
    x = torch.zeros(1, encoded.train.shape[1])
    assert columns["job"].codes(x).tolist() == [3]
    x[0, columns["member"].inputs] = 0.5
    assert columns["member"].codes(x).tolist() == [2]


def test_a_column_that_is_only_named_like_a_list_is_a_number():
    from fairaudit.config.declared import DeclaredNumber
    from fairaudit.data.inputs.column import declared_column

    number = DeclaredNumber(kind="number", range=(0, 10))
    told = model_columns([declared_column("a[0]", number), declared_column("b[1]", number)])
    assert {name: one.kind for name, one in told.items()} == {"b[1]": "number", "a[0]": "number"}


@pytest.mark.parametrize(
    "names", [["a[0]", "a[1]", "a"], ["a", "a[0]", "a[1]"], ["a[00]", "a[0]"]], ids=str
)
def test_no_column_takes_the_name_of_a_list_or_of_another_column(names):
    from fairaudit.config.declared import DeclaredNumber
    from fairaudit.data.inputs.column import declared_column

    number = DeclaredNumber(kind="number", range=(0, 10))
    told = model_columns([declared_column(name, number) for name in names])
    x = torch.arange(float(len(names))).unsqueeze(0)
    # Each column has its own input, of which only its own number is left.
    found = {name: column.values(x).tolist() for name, column in told.items()}
    alone = {}
    for place, name in enumerate(names):
        column = model_columns([declared_column(name, number)])[name]
        alone[name] = column.values(x[:, place : place + 1]).tolist()
    assert found == alone


def test_a_list_with_other_columns_between_its_numbers_has_its_own_inputs_alone():
    number = NumberColumn(
        kind="number",
        name="",
        inputs=("known",),
        centre=0,
        spread=1,
        fill=0,
        range=None,
        outside="clip",
    )
    gap = ("known", "missing")
    columns = [
        number.model_copy(update={"name": name, "inputs": inputs})
        for name, inputs in {
            "emb[0]": gap,
            "emb[1]": gap,
            "age": gap,
            "emb[2]": ("known",),
            "sex": ("known",),
            "emb[3]": gap,
        }.items()
    ]
    by_name = model_columns(columns)
    x = torch.arange(10.0).unsqueeze(0)  # each input's value is its place
    own = {name: x[:, one.inputs][0].tolist() for name, one in by_name.items()}
    assert own == {"emb": [0, 1, 2, 3, 6, 8, 9], "age": [4, 5], "sex": [7]}
    assert {name: one.width for name, one in by_name.items()} == {"emb": 7, "age": 2, "sex": 1}
    assert by_name["emb"].values(x).tolist() == [[0, 2, 6, 8]]
    (together,) = model_columns(columns[:2]).values()
    assert together.inputs == slice(0, 4)


@pytest.mark.parametrize("name", ["tokens", "categories", "embedding", "by_name", "two_only"])
def test_a_factory_is_told_where_it_asks(encoded, name):
    width = encoded.train.shape[1]
    model = own_model(f"column_models:{name}", (width,), 2, encoded.columns)
    x = torch.from_numpy(encoded.train[:8])
    assert model(x).shape == (8, 2)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("tokens", marks=pytest.mark.slow),
        "categories",
        pytest.param("embedding", marks=pytest.mark.slow),
    ],
)
def test_such_a_model_is_audited(tmp_path, name):
    report = fairaudit.run_audit(
        of_every_column(),
        group="sex",
        label="y",
        method="dpsgd",
        model=f"column_models:{name}",
        seeds=1,
        epochs=1,
        batch_size=40,
        epsilon=(8.0,),
        delta=0.001,
        twins="off",
        workers=1,
        out=tmp_path / "out",
        format=("json",),
    )
    assert {comparison.arm for comparison in report.comparisons} == {"sgd", "dpsgd"}


def test_images_have_no_columns():
    model = own_model("column_models:two_only", (6,), 2)
    assert model.in_features == 6
    assert model_columns(()) == {}


@pytest.mark.parametrize("block", range(3))
def test_the_models_of_the_page_read_the_table(encoded, block):
    page = (Path(__file__).parents[2] / "docs/own-models.md").read_text()
    blocks = re.findall(r"```python\n(class.*?)```", page, re.DOTALL)
    space = {"nn": torch.nn, "torch": torch}
    exec(blocks[block], space)
    x = torch.from_numpy(encoded.train[:8])
    columns = model_columns(encoded.columns)
    assert space["net"]((x.shape[1],), 2, columns)(x).shape == (8, 2)
