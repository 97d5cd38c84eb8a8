import numpy as np
import pandas as pd
import pytest

from fairaudit.config.options import AuditConfig
from fairaudit.data.inputs.split import draw_split
from fairaudit.data.inputs.student_pool import (
    PoolEncoder,
    halve,
    load_public,
    pool_digest,
    pool_size,
)
from fairaudit.data.tabular import load_dataset
from fairaudit.errors import DataError


def frame(rows=300, seed=0, shift=0.0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "amount": rng.normal(shift, 1 + abs(shift), rows).round(3),
            "job": rng.choice(["a", "b", "c"], rows),
            "sex": rng.choice(["d", "f", "m"], rows),
            "label": rng.integers(0, 2, rows),
        }
    )


@pytest.fixture
def config(tmp_path):
    frame().to_csv(tmp_path / "own.csv", index=False)
    return AuditConfig(data=tmp_path / "own.csv", group=("sex",), label="label")


def given(config, table, name="public.csv"):
    path = config.data.parent / name
    table.to_csv(path, index=False)
    return config.model_copy(update={"public_data": path})


def encoded(config, seed=0):
    dataset = load_dataset(config)
    return dataset, PoolEncoder.of(dataset, config).encode(draw_split(dataset, config.split, seed))


def test_half_of_the_test_rows_become_the_pool_and_are_not_tested_on(config):
    dataset, found = encoded(config)
    split = draw_split(dataset, config.split, 0)
    pool, rest = halve(split)
    assert len(pool) == pool_size(dataset, config) == 30
    assert np.array_equal(np.sort(np.concatenate([pool, rest])), split.test)
    assert np.array_equal(found.encoded.split.test, rest)
    assert np.array_equal(found.encoded.split.train, split.train)
    assert np.array_equal(found.groups, dataset.groupings[0].groups[pool])
    assert len(found.pool) == len(found.groups) == 30


@pytest.mark.parametrize("merge_rare", [0.0, 0.002])
def test_a_training_record_moves_no_other_records_input(config, merge_rare):
    """What is fitted across teachers' records would let one of them move every vote."""
    config = config.model_copy(update={"merge_rare": merge_rare})
    dataset = load_dataset(config)
    split = draw_split(dataset, config.split, 0)
    table = frame()
    table.loc[split.train[5], ["amount", "job"]] = [1e6, "never seen"]
    table.to_csv(config.data, index=False)
    changed = load_dataset(config)
    before = PoolEncoder.of(dataset, config).encode(split)
    after = PoolEncoder.of(changed, config).encode(split)
    others = np.arange(len(split.train)) != 5
    assert np.array_equal(before.encoded.train[others], after.encoded.train[others])
    assert np.array_equal(before.pool, after.pool)
    assert not np.array_equal(before.encoded.train[5], after.encoded.train[5])


def test_a_public_table_is_the_pool_and_leaves_all_test_rows(config):
    public = frame(80, seed=1, shift=3.0).drop(columns="label")
    public["sex"] = public["sex"].replace("d", "f")
    config = given(config, public)
    dataset, found = encoded(config)
    assert pool_size(dataset, config) == len(found.pool) == 80
    assert np.array_equal(found.encoded.split.test, draw_split(dataset, config.split, 0).test)
    names = np.array(dataset.groupings[0].names)
    assert list(names[found.groups]) == list(public["sex"])
    assert set(found.groups) == {1, 2}  # of three groups the first is not in the public file
    assert abs(found.pool[:, 0].mean()) < 1e-6
    assert found.encoded.train[:, 0].mean() < -0.3  # its own mean is 0, the pool's 3
    assert pool_digest(config) is not None
    assert pool_digest(config.model_copy(update={"public_data": None})) is None


def test_a_public_table_without_known_groups_has_none(config):
    for table in (frame(40).drop(columns="sex"), frame(40).assign(sex="x")):
        found = encoded(given(config, table))[1]
        assert found.groups is None
        assert len(found.pool) == 40


def test_what_is_dropped_is_left_out_of_the_public_table_too(tmp_path):
    draw = np.random.default_rng(0)
    pixels = [f"{name}{place}" for name in "pq" for place in range(4)]
    own = frame().drop(columns=["amount", "job"])
    own = own.assign(**{name: draw.integers(0, 256, len(own)) for name in pixels})
    own.to_csv(tmp_path / "own.csv", index=False)
    config = AuditConfig(
        data=tmp_path / "own.csv",
        group=("sex",),
        label="label",
        pixels="2x2",
        drop=("q0", "q1", "q2", "q3", "sex"),
    )
    for public in (own[:40], own[:40].drop(columns=["q1"])):  # a column that is dropped may lack
        with_public = given(config, public)
        dataset = load_dataset(with_public)
        found = load_public(dataset, with_public)
        assert found.features.equals(dataset.features.slice(0, 40))
        assert np.array_equal(found.groups, dataset.groupings[0].groups[:40])


def test_a_public_table_that_lacks_a_feature_is_refused_with_its_name(config):
    config = given(config, frame(40).drop(columns="job"))
    with pytest.raises(DataError, match="lacks 1 features: 'job'"):
        load_public(load_dataset(config), config)


def test_a_public_column_of_another_type_is_refused(config):
    config = given(config, frame(40).assign(amount="much"))
    with pytest.raises(DataError, match="amount"):
        load_public(load_dataset(config), config)


def test_whole_public_numbers_beyond_those_of_float64_are_numbers_as_others(config):
    big = frame().assign(amount=2**53 + 1 + 2 * np.arange(300))
    public = load_public(load_dataset(config), given(config, big))
    assert public.features["amount"].to_pylist() == [float(number) for number in big["amount"]]
