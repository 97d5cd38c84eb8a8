from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from plans import empty_dataset

from fairaudit.config.options import AuditConfig
from fairaudit.data.column_types import LARGEST
from fairaudit.data.dataset import Split
from fairaudit.data.inputs.encode import STANDARDISED_LIMIT, encode, make_encoder
from fairaudit.data.inputs.split import draw_split
from fairaudit.data.tabular import load_dataset

SMALL = settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
MERGING = AuditConfig(data=Path("t.csv"))
FIXED = AuditConfig(data=Path("t.csv"), merge_rare=0)


def dataset_of(columns):
    features = pa.table(columns)
    return replace(empty_dataset(features.num_rows), features=features)


def first_rows(n_train, n):
    return Split(0, np.arange(n_train), np.arange(n_train, n))


def encoded(train, test, config=MERGING, kind=None):
    column = pa.array([*train, *test], kind)
    return encode(dataset_of({"x": column}), first_rows(len(train), len(column)), config.encoding)


def test_a_number_constant_in_training_is_zero_everywhere():
    out = encoded([0.1] * 7, [0.1, 5.0])
    assert not out.train.any()
    assert not out.test.any()


def test_missing_numbers_get_the_training_median_and_an_indicator():
    out = encoded([1.0, None, 3.0, 8.0], [None, 3.0])
    assert out.names == ("x", "x=(missing)")
    assert out.train[:, 1].tolist() == [0, 1, 0, 0]
    assert out.train[1, 0] == out.train[2, 0] == out.test[0, 0] == out.test[1, 0]
    assert out.test[:, 1].tolist() == [1, 0]
    assert "median of x" in out.fitted


def test_the_median_that_later_gaps_become_is_named_where_training_has_none():
    out = encoded([1.0, 2.0, 9.0, 4.0], [None, 3.0])
    assert out.test[0, 0] == (out.train[1, 0] + out.train[3, 0]) / 2
    assert "median of x" in out.fitted


def test_two_levels_make_one_input_and_an_unseen_third_is_neither():
    assert encoded(["b", "a", "b"], ["a", None]).names == ("x=b",)
    assert encoded([True, False, None], [True, None]).test.tolist() == [[1, 0], [0, 1]]
    assert encoded(["a", "b"], ["c", None]).test.tolist() == [[0.5], [0.5]]


def test_the_value_that_is_named_zero_is_coded_so():
    for config in (MERGING, FIXED):
        named = config.model_copy(update={"zero": {"x": "b"}})
        out = encoded(["b", "a", "b"], ["a", "b", None], named)
        assert out.names[0] == "x=a"
        assert out.train[:, 0].tolist() == [0, 1, 0]
        assert out.test[:2, 0].tolist() == [1, 0]
        assert encoded(["b", "a"], ["a"], config).names == ("x=b",)


def test_more_levels_are_one_hot_in_sorted_order():
    out = encoded(["c", "a", "b"], ["b", "d", None])
    assert out.names == ("x=a", "x=b", "x=c")
    assert out.train.tolist() == [[0, 0, 1], [1, 0, 0], [0, 1, 0]]
    assert out.test.tolist() == [[0, 1, 0], [0, 0, 0], [0, 0, 0]]
    gaps = encoded(["a", "b", "c", None], [None])
    assert gaps.names == ("x=a", "x=b", "x=c", "x=(missing)")
    assert gaps.test.tolist() == [[0, 0, 0, 1]]


def test_two_or_more_rare_levels_share_an_input_and_unseen_ones_join_them():
    config = AuditConfig(data=Path("t.csv"), merge_rare=0.1)
    train = ["a"] * 10 + ["b"] * 10 + ["r", "s"]
    out = encoded(train, ["r", "zzz", "a"], config)
    assert out.names == ("x=a", "x=b", "x=(other)")
    assert out.train[-2:].tolist() == [[0, 0, 1], [0, 0, 1]]
    assert out.test.tolist() == [[0, 0, 1], [0, 0, 1], [1, 0, 0]]
    assert out.merged == {"x": 2}


def test_without_merging_the_inputs_do_not_depend_on_the_split():
    dataset = dataset_of({"x": ["a"] * 8 + ["b", "c"], "z": [1.0] * 9 + [None]})
    splits = [Split(0, np.arange(8), np.arange(8, 10)), Split(1, np.arange(2, 10), np.arange(2))]
    encoder = make_encoder(dataset, FIXED.encoding)
    names = [encoder.encode(s).names for s in splits]
    assert names[0] == names[1] == ("x=a", "x=b", "x=c", "z", "z=(missing)")
    assert any("from all rows" in line for line in encoder.encode(splits[0]).fitted)
    assert not any(
        "from all rows" in line for line in encode(dataset, splits[0], MERGING.encoding).fitted
    )


cells = st.fixed_dictionaries(
    {
        "number": st.none() | st.floats(-LARGEST, LARGEST),
        "text": st.none() | st.sampled_from([*"abcdefg", "(missing)"]),
        "pair": st.none() | st.sampled_from("pq"),
        "flag": st.none() | st.booleans(),
    }
)
KINDS = {"number": pa.float64(), "text": pa.string(), "pair": pa.string(), "flag": pa.bool_()}


def table_of(rows):
    return dataset_of(
        {name: pa.array([r[name] for r in rows], kind) for name, kind in KINDS.items()}
    )


@SMALL
@given(
    st.lists(cells, min_size=1, max_size=30),
    st.lists(cells, min_size=1, max_size=10),
    st.lists(cells, min_size=1, max_size=10),
)
def test_test_rows_leave_the_training_encoding_identical_to_the_bit(train, first, second):
    seen = []
    for test in (first, second):
        out = encode(
            table_of(train + test), first_rows(len(train), len(train + test)), MERGING.encoding
        )
        seen.append((out.names, out.train.tobytes(), out.fitted, out.merged))
    assert seen[0] == seen[1]


@SMALL
@given(
    st.lists(cells, min_size=2, max_size=30), st.integers(1, 29), st.sampled_from([MERGING, FIXED])
)
def test_encodings_are_finite_bounded_and_as_wide_as_their_names(rows, n_train, config):
    n_train = min(n_train, len(rows) - 1)
    out = encode(table_of(rows), first_rows(n_train, len(rows)), config.encoding)
    assert out.train.shape == (n_train, len(out.names))
    assert out.test.shape == (len(rows) - n_train, len(out.names))
    assert len(set(out.names)) == len(out.names)
    for part in (out.train, out.test):
        assert part.dtype == np.float32
        assert part.flags.c_contiguous
        assert np.isfinite(part).all()
        assert np.abs(part).max(initial=0) <= STANDARDISED_LIMIT


def test_the_papers_encodings_have_the_papers_inputs(real_data):
    adult = AuditConfig(
        data=real_data / "adult.parquet",
        group=("sex",),
        label="income",
        missing="drop",
        drop=("fnlwgt",),
        contrast={"race": "White"},
        group_as_feature=True,
        balance=True,
        merge_rare=0,
    )
    dataset = load_dataset(adult)
    encoder = make_encoder(dataset, adult.encoding)
    outputs = [encoder.encode(draw_split(dataset, adult.split, seed)) for seed in range(3)]
    assert [o.train.shape for o in outputs] == [(23_512, 98)] * 3
    assert outputs[0].names == outputs[1].names

    dutch = AuditConfig(
        data=real_data / "dutch.parquet",
        group=("sex",),
        label="occupation",
        group_as_feature=True,
        merge_rare=0,
    )
    dataset = load_dataset(dutch)
    assert encode(dataset, draw_split(dataset, dutch.split, 0), dutch.encoding).train.shape == (
        48_336,
        59,
    )
