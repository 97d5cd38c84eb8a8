"""Tables of other libraries, against the same values in pandas."""

import hashlib

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fairaudit.data.reading.frames import table_of, with_columns, with_predictions, write_frame
from fairaudit.errors import ConfigError, DataError


class Foreign:
    """What hands over its rows by Arrow's protocol and has nothing else, as a library's table."""

    def __init__(self, table):
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


def of_every_kind():
    return pd.DataFrame(
        {
            "age": [31, 45, 28, 61],
            "pay": [1.5, None, 3.25, 4.0],
            "sex": ["F", None, "M", "F"],
            "member": [True, False, False, True],
            "since": pd.to_datetime(["2020-01-01", "2021-05-04", None, "2022-03-03"]),
        }
    )


def test_the_same_values_give_the_same_file_whoever_held_them(tmp_path):
    own = pa.Table.from_pandas(of_every_kind())
    foreign = own.set_column(2, "sex", own.column("sex").cast(pa.large_string()))
    view = own.set_column(2, "sex", pa.array(own.column("sex").to_pylist(), pa.string_view()))
    chunks = pa.concat_tables([foreign.slice(0, 1), foreign.slice(1)])
    digests = set()
    for number, frame in enumerate((of_every_kind(), own, Foreign(foreign), Foreign(view), chunks)):
        write_frame(table_of(frame), tmp_path / f"{number}.parquet")
        digests.add(hashlib.sha256((tmp_path / f"{number}.parquet").read_bytes()).hexdigest())
    assert len(digests) == 1
    read = pq.read_table(tmp_path / "0.parquet").to_pydict()
    assert read["sex"] == ["F", None, "M", "F"]
    assert read["pay"] == [1.5, None, 3.25, 4.0]


def test_groups_cut_by_pandas_are_text_and_keep_their_missing():
    ages = pd.Series([20, 40, 99])
    cut = pd.cut(ages, [0, 30, 60])
    month = pd.Series(pd.period_range("2020-01", periods=3, freq="M"))
    table = table_of(pd.DataFrame({"band": cut, "of": cut.astype(object), "month": month}))
    assert table.column("band").to_pylist() == ["(0, 30]", "(30, 60]", None]
    assert table.column("month").to_pylist() == ["2020-01", "2020-02", "2020-03"]


def test_every_column_that_arrow_cannot_hold_is_named_and_no_value():
    frame = of_every_kind().assign(mixed=["secret", 1, 2, 3], odd=[1 + 2j, 3j, 4j, 5j])
    with pytest.raises(DataError) as caught:
        table_of(frame)
    assert "'mixed', 'odd'" in str(caught.value)
    assert "secret" not in str(caught.value) + caught.value.hint


def test_a_column_name_that_stands_twice_is_named():
    frame = pd.concat([of_every_kind(), of_every_kind()[["sex", "age"]]], axis=1)
    with pytest.raises(DataError, match="'sex', 'age'"):
        table_of(frame)


@pytest.mark.parametrize("kind", [list, tuple, np.asarray, pd.Series, pa.array])
def test_predictions_may_be_whatever_scikit_learn_takes(kind):
    table, name = with_predictions(table_of(of_every_kind()), kind([1, 0, 1, 1]), "predictions")
    assert table.column(name).to_pylist() == [1, 0, 1, 1]


def test_the_name_of_a_column_of_predictions_is_nobody_elses():
    given = table_of(of_every_kind().assign(predictions=1))
    table, name = with_predictions(given, [0, 1, 0, 1], "predictions")
    assert table.column("predictions").to_pylist() == [1] * 4
    assert table.column(name).to_pylist() == [0, 1, 0, 1]


def test_predictions_that_do_not_fit_the_rows_are_refused():
    frame = of_every_kind().set_axis([3, 1, 2, 0])
    for wrong, said in (
        ([1, 2, 3], "3 values for 4 rows"),
        (7, "of type int"),
        (np.ones((2, 2, 2)), "of type ndarray"),
        (pd.Series([1, 0, 1, 0]), "in another order"),
    ):
        with pytest.raises(ConfigError, match=said):
            with_predictions(table_of(frame), wrong, "baseline", frame.index)
    assert with_predictions(table_of(frame), pd.Series([1, 0, 1, 0], index=frame.index), "b")


@pytest.mark.parametrize("kind", [list, np.asarray, pd.Series, pa.array])
def test_a_column_may_be_given_as_its_values(kind):
    table, names = with_columns(table_of(of_every_kind()), kind(["a", "b", "a", "b"]), "group")
    assert names == ["group"]
    assert table.column("group").to_pylist() == ["a", "b", "a", "b"]


def test_a_series_of_the_frame_is_its_column_and_another_of_that_name_is_not():
    frame, table = of_every_kind(), table_of(of_every_kind())
    assert with_columns(table, frame.sex, "group") == (table, ["sex"])
    other, names = with_columns(table, frame.sex.fillna("X"), "group")
    assert (names, other.column("group").to_pylist()) == (["group"], ["F", "X", "M", "F"])
    several, names = with_columns(table, frame[["sex"]].assign(of=["u", "v", "u", "v"]), "group")
    assert names == ["sex", "of"]
    assert several.column("of").to_pylist() == ["u", "v", "u", "v"]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([1, 2, 3], "label has 3 values for 4 rows"),
        (np.zeros((4, 2)), "label has several values"),
        ([object(), 1, "a", 2], "label mixes values"),
        (pd.Series([1, 2, 3, 4], index=[3, 2, 1, 0]), "label has the rows of the frame in another"),
    ],
)
def test_an_error_names_the_argument(values, said):
    with pytest.raises(ConfigError, match=said):
        with_columns(table_of(of_every_kind()), values, "label", of_every_kind().index)


def test_a_tensor_with_gradients_is_an_array():
    torch = pytest.importorskip("torch")
    given = torch.tensor([0.5, 1.5, 2.5, 3.5], requires_grad=True)
    table, name = with_predictions(table_of(of_every_kind()), given, "predictions")
    assert table.column(name).to_pylist() == [0.5, 1.5, 2.5, 3.5]


def test_sparse_columns_are_read():
    frame = of_every_kind().assign(zeros=pd.arrays.SparseArray([0, 0, 7, 0]))
    assert table_of(frame).column("zeros").to_pylist() == [0, 0, 7, 0]
