"""Declared columns: constants that no row decides.

And what becomes of values that are not as declared.
"""

import numpy as np
import pytest

from fairaudit.config.options import AuditConfig
from fairaudit.data.dataset import Split
from fairaudit.data.inputs.encode import encode
from fairaudit.data.tabular import load_dataset
from fairaudit.errors import ConfigError, DataError

DECLARED = {
    "age": {"kind": "number", "range": [20, 60]},
    "hours": {"kind": "number", "range": [0, 80], "outside": "missing", "missing": 40, "centre": 40}
    | {"spread": 10},
    "job": {"kind": "category", "categories": ["nurse", "cook", "pilot"]},
    "town": {"kind": "category", "categories": ["A", "B"], "missing": "B"},
}
ROWS = {
    "age": [10.0, 20.0, 40.0, 70.0, None, 33.0, 50.0, 21.0],
    "hours": [40.0, 90.0, 50.0, None, 0.0, 40.0, 30.0, 20.0],
    "job": ["cook", "nurse", "pirate", None, "pilot", "cook", "cook", "nurse"],
    "town": ["A", "B", "C", None, "A", "B", "A", "A"],
    "sex": ["F", "M"] * 4,
    "y": [0, 0, 1, 1, 0, 1, 1, 0],
}


@pytest.fixture
def declared(save):
    def _declared(columns=ROWS, told=DECLARED, **options):
        config = AuditConfig(
            data=save(columns), group=("sex",), label="y", columns={"columns": told}, **options
        )
        return load_dataset(config), config

    return _declared


def encoded_all(dataset, config, train=(0, 1, 2)):
    rest = np.setdiff1d(np.arange(dataset.n_rows), train)
    out = encode(dataset, Split(0, np.array(train), rest), config.encoding)
    whole = np.empty((dataset.n_rows, out.train.shape[1]), np.float32)
    whole[np.array(train)], whole[rest] = out.train[:], out.test[:]
    return out, whole


def test_inputs_are_what_the_declaration_says_by_hand(declared):
    out, x = encoded_all(*declared())
    spread = 40 / np.sqrt(12)
    assert out.names == (
        *("age", "hours", "hours=(missing)"),
        *("job=nurse", "job=cook", "job=pilot", "job=(missing)"),
        "town=B",
    )
    assert x[:, 0] == pytest.approx(np.array([-20, -20, 0, 20, 0, -7, 10, -19]) / spread, rel=1e-6)
    assert x[:, 1] == pytest.approx([0, 0, 1, 0, -4, 0, -1, -2])
    assert x[:, 2].tolist() == [0, 1, 0, 1, 0, 0, 0, 0]
    assert x[:, 3:7].argmax(1).tolist() == [1, 0, 3, 3, 2, 1, 1, 0]
    assert (x[:, 3:7].sum(1) == 1).all()
    assert x[:, 7].tolist() == [0, 1, 1, 1, 0, 1, 0, 0]


@pytest.mark.parametrize("merge_rare", [0.0, 0.3])
def test_a_rows_inputs_depend_on_no_other_row(declared, merge_rare):
    """Every other row replaced, constant, extreme or missing: the first three rows' bits stay."""
    dataset, config = declared(merge_rare=merge_rare)
    names, wanted = encoded_all(dataset, config)[0].names, encoded_all(dataset, config)[1][:3]
    for change in (
        {"age": 1e30, "hours": None, "job": "pirate", "town": None},
        {"age": None, "hours": 1e-30, "job": None, "town": "A"},
        {"age": 20.0, "hours": 40.0, "job": "cook", "town": "B"},
    ):
        other = {k: v[:3] + ([change[k]] * 5 if k in change else v[3:]) for k, v in ROWS.items()}
        found, x = encoded_all(*declared(other, merge_rare=merge_rare), train=(4, 5, 6, 7))
        assert found.names == names
        assert (found.fitted, found.merged) == ((), {})  # all of it is declared
        assert x[:3].tobytes() == wanted.tobytes()


def test_declared_columns_stay_whatever_their_values_look_like(declared):
    """Constant, empty and id-like columns are dropped by their values.

    A declaration decides instead.
    """
    rows = {**ROWS, "age": [30.0] * 8, "job": [None] * 8, "hours": [float(n) for n in range(8)]}
    dataset, _ = declared(rows)
    assert dataset.features.column_names == list(DECLARED)


def test_values_not_as_declared_are_counted_among_the_rows_that_are_used(declared):
    rows = {**ROWS, "y": [0, 0, 1, None, 0, 1, 1, 0]}
    dataset, _ = declared(rows)
    notice = next(n for n in dataset.notices if n.code == "outside_declaration")
    assert (notice.values, sorted(notice.columns)) == (4, ["age", "hours", "job", "town"])
    assert "4 values are not as declared" in notice.text
    assert "pirate" not in str(dataset.notices)


def test_what_is_not_declared_is_fitted_and_said(declared):
    told = {name: DECLARED[name] for name in ("age", "job")}
    dataset, config = declared(told=told)
    out, _ = encoded_all(dataset, config, train=(0, 1, 3, 5, 6, 7))
    assert out.fitted == (
        *("mean and standard deviation of hours", "median of hours"),
        "levels of town",
    )
    notice = next(n for n in dataset.notices if n.code == "undeclared_columns")
    assert [name for name in DECLARED if name in notice.text] == ["hours", "town"]


def test_a_column_that_holds_something_else_is_refused(declared):
    number = {"kind": "number", "range": [0, 1]}
    with pytest.raises(DataError, match="declared a number and holds none"):
        declared({**ROWS, "town": ["x"] * 8}, DECLARED | {"town": number})


def texts(rows):
    """The rows as a CSV would have them."""
    return {
        name: ["" if value is None else str(value) for value in values]
        for name, values in rows.items()
    }


def csv_of(path, rows):
    lines = [",".join(rows), *(",".join(values) for values in zip(*rows.values(), strict=True))]
    path.write_text("\n".join(lines) + "\n")
    return path


CODED = {**DECLARED, "code": {"kind": "category", "categories": [1, "2.0", "NA"]}}
# What one more row may hold in each column.
ODD = {
    "age": [
        "unknown",
        "1e999",
        "inf",
        "nan",
        "2020-01-01",
        "12:30",
        "true",
        "9" * 500,
        "1,5",
        "-0",
    ],
    "hours": ["", "n/a", "40 ", "1_0"],
    "job": ["Cook", "7", "2020-01-01", "true", "NaN"],
    "town": ["1.5", "None"],
    "code": ["unknown", "x", "1.5", "true", "2020-01-01", "9" * 500],
}


@pytest.mark.parametrize("column", ODD)
def test_an_odd_value_changes_how_no_other_row_of_a_csv_is_read(tmp_path, column):
    """Arrow would make all of a column text, or dates, for one value of it."""
    codes = ["1.0", "2.0", "1", "2", "NA", "1.0", "", "2.0"]
    rows = texts({**ROWS, "code": codes})
    options = {"group": ("sex",), "label": "y", "columns": {"columns": CODED}}

    def inputs(rows, name):
        config = AuditConfig(data=csv_of(tmp_path / name, rows), **options)
        return encoded_all(load_dataset(config), config)[1]

    wanted = inputs(rows, "before.csv")
    assert wanted[:, -4:].argmax(1).tolist() == [0, 1, 0, 1, 2, 0, 3, 1]  # 1, 2.0, NA, missing
    for number, odd in enumerate(ODD[column]):
        one = {name: f'"{odd}"' if name == column else values[5] for name, values in rows.items()}
        more = {name: [*values, one[name]] for name, values in rows.items()}
        found = inputs(more, f"{number}.csv")
        assert found[:-1].tobytes() == wanted.tobytes()


def test_what_is_no_number_is_missing_and_counted(tmp_path):
    rows = texts({**ROWS, "age": [10, "unknown", 40, "n/a", None, 33, "inf", 21]})
    config = AuditConfig(
        data=csv_of(tmp_path / "t.csv", rows),
        group=("sex",),
        label="y",
        columns={"columns": DECLARED},
    )
    dataset = load_dataset(config)
    assert dataset.features["age"].to_pylist() == [20, None, 40, None, None, 33, None, 21]
    assert dataset.missing["age"] == {"F": 2, "M": 2}
    notice = next(n for n in dataset.notices if n.code == "outside_declaration")
    # Of age 10, inf and unknown, and one of each other column.
    assert (notice.values, sorted(notice.columns)) == (6, ["age", "hours", "job", "town"])


def test_values_of_a_parquet_file_mean_what_they_mean_in_a_csv(declared, tmp_path):
    told = {"code": {"kind": "category", "categories": ["1.0", 2]}, "age": DECLARED["age"]}
    frames = [
        {"code": [1, 2, None, 3] * 2, "age": ["10", "20.0", "x", None] * 2},
        {"code": [1.0, 2.0, None, 3.5] * 2, "age": [10.0, 20.0, np.nan, None] * 2},
        {"code": ["1", "2.0", None, "three"] * 2, "age": [10, 20, None, None] * 2},
    ]
    for columns in frames:
        dataset, _ = declared({"sex": ROWS["sex"], "y": ROWS["y"], **columns}, told)
        assert dataset.features["code"].to_pylist() == ["1.0", "2", None, None] * 2
        assert dataset.features["age"].to_pylist() == [20.0, 20.0, None, None] * 2


def test_a_declared_date_is_a_category_of_a_csv(tmp_path):
    rows = texts({"day": ["2020-01-01", "2020-01-02"] * 4, "sex": ROWS["sex"], "y": ROWS["y"]})
    told = {"day": {"kind": "category", "categories": ["2020-01-01", "2020-01-02"]}}
    config = AuditConfig(
        data=csv_of(tmp_path / "t.csv", rows), group=("sex",), label="y", columns={"columns": told}
    )
    assert load_dataset(config).features["day"].to_pylist() == rows["day"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[x]\nrange = [0, 1]", "columns.toml: x: .*kind"),
        ('[x]\nkind = "number"\nrange = [1, 1]', "the lower number first"),
        ('[x]\nkind = "number"\nrange = [0, inf]', "finite"),
        ('[x]\nkind = "number"\nrange = [0, 1]\nmissing = 2', "missing lies outside the range"),
        ('[x]\nkind = "category"\ncategories = ["a", "a"]', "distinct"),
        ('[x]\nkind = "category"\ncategories = ["a"]\nmissing = "b"', "none of the categories"),
        ('[x]\nkind = "category"\ncategories = ["a"]\nfoo = 1', "foo"),
        ("[x", "not valid TOML"),
    ],
)
def test_a_declaration_that_says_nothing_sure_is_refused(tmp_path, text, said):
    (tmp_path / "columns.toml").write_text(text)
    with pytest.raises(ConfigError, match=said):
        AuditConfig(data="t.csv", columns=tmp_path / "columns.toml")


def test_a_declared_column_that_the_table_lacks_is_refused_with_the_nearest(declared):
    with pytest.raises(DataError, match=r"declared column 'agee'.*'age'"):
        declared(told={**DECLARED, "agee": DECLARED["age"]})


def test_the_numbers_of_a_list_are_declared_at_once(declared, tmp_path):
    draw = np.random.default_rng(2)
    columns = {**ROWS, "emb": draw.normal(size=(8, 9)).tolist()}
    number = {"kind": "number", "range": [-4, 4]}
    dataset, config = declared(columns, {**DECLARED, "emb[0..8]": number})
    assert [name for name in dataset.declared if name.startswith("emb")] == [
        f"emb[{place}]" for place in range(9)
    ]
    encoded = encode(dataset, Split(0, np.arange(6), np.arange(6, 8)), config.encoding)
    learned = [line for line in encoded.fitted if "emb" in line]
    assert learned == []
    path = tmp_path / "columns.toml"
    path.write_text('["emb[0..8]"]\nkind = "number"\nrange = [-4, 4]\n')
    of_file = AuditConfig(data="x.csv", columns=path).declared
    assert list(of_file) == [f"emb[{place}]" for place in range(9)]


@pytest.mark.parametrize("name", ["emb[3..1]", "emb[0..999999]"])
def test_a_range_that_names_no_numbers_is_refused(name):
    with pytest.raises(ValueError, match="names no numbers"):
        AuditConfig(data="x.csv", columns={"columns": {name: {"kind": "number", "range": [0, 1]}}})
