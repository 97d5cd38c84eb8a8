from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from plans import empty_dataset

from fairaudit.config.options import AuditConfig
from fairaudit.data.dataset import MISSING, Grouping
from fairaudit.data.inputs.split import draw_split, holdout_size, training_size
from fairaudit.errors import ConfigError, DataError

SMALL = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def dataset_of(groups, labels, split=None, missing=None):
    """A dataset with K groups and C classes that need not all occur."""
    groups, labels = np.asarray(groups, np.int64), np.asarray(labels, np.int64)
    names = tuple(f"g{k}" for k in range(int(groups.max(initial=1)) + 1))
    if missing is not None:
        names = (*names[:missing], MISSING, *names[missing + 1 :])
    return replace(
        empty_dataset(len(labels)),
        labels=labels,
        classes=tuple(f"c{c}" for c in range(int(labels.max(initial=1)) + 1)),
        groupings=(Grouping("g", groups, names, missing),),
        split=None if split is None else np.asarray(split, np.int64),
    )


def config(**options):
    return AuditConfig(data=Path("t.csv"), group=("g",), **options)


@st.composite
def datasets(draw):
    n = draw(st.integers(2, 120))
    groups = draw(st.lists(st.integers(0, 3), min_size=n, max_size=n))
    labels = draw(st.lists(st.integers(0, 2), min_size=n, max_size=n))
    return dataset_of(groups, labels)


def cell_counts(dataset, rows):
    groups, names = dataset.groupings[0].groups, dataset.groupings[0].names
    cells = groups[rows] * len(dataset.classes) + dataset.labels[rows]
    return np.bincount(cells, minlength=len(names) * len(dataset.classes)).reshape(len(names), -1)


@SMALL
@given(datasets(), st.floats(0.05, 0.95), st.integers(0, 2**40))
def test_a_split_covers_all_rows_in_sizes_that_no_seed_decides(dataset, share, seed):
    options = config(test_size=share)
    split = draw_split(dataset, options.split, seed)
    assert np.all(np.diff(split.train) > 0)
    assert np.all(np.diff(split.test) > 0)
    assert sorted([*split.train, *split.test]) == list(range(dataset.n_rows))
    sizes = set()
    for other in range(6):
        sizes.add(
            tuple(cell_counts(dataset, draw_split(dataset, options.split, other).train).sum(axis=1))
        )
    assert len(sizes) == 1
    assert training_size(dataset, options.split) == len(split.train)
    assert holdout_size(dataset, options.split) == len(split.test)
    # Every group, and every class in it, within one row of its share.
    everyone = cell_counts(dataset, np.arange(dataset.n_rows))
    tested = cell_counts(dataset, split.test)
    total = len(split.test) / dataset.n_rows
    assert np.all(np.abs(tested.sum(axis=1) - total * everyone.sum(axis=1)) < 1)
    for found, classes in zip(tested, everyone, strict=True):
        assert np.all(np.abs(found - found.sum() * classes / max(classes.sum(), 1)) < 1)


def test_balance_draws_other_rows_per_seed_and_leaves_out_rows_without_a_group():
    dataset = dataset_of([0] * 60 + [1] * 20 + [2] * 20, [0, 1] * 50, missing=2)
    first, second = (draw_split(dataset, config(balance=True).split, seed) for seed in (0, 1))
    assert (
        len(first.train)
        == len(second.train)
        == training_size(dataset, config(balance=True).split)
        == 32
    )
    kept = [set(split.train) | set(split.test) for split in (first, second)]
    assert kept[0] != kept[1]


def test_keep_thins_the_training_rows_of_its_group_only():
    dataset = dataset_of([0, 1] * 100, [0, 0, 1, 1] * 50)
    whole = draw_split(dataset, config().split, 4)
    thin = draw_split(dataset, config(keep={"g1": 0.09}).split, 4)
    groups = dataset.groupings[0].groups
    assert np.array_equal(thin.test, whole.test)
    assert np.array_equal(
        thin.train[groups[thin.train] == 0], whole.train[groups[whole.train] == 0]
    )
    assert (groups[thin.train] == 1).sum() == round(0.09 * 80)
    assert set(thin.train) < set(whole.train)
    assert training_size(dataset, config(keep={"g1": 0.09}).split) == len(thin.train) == 87


@pytest.mark.parametrize(
    ("keep", "said"),
    [({"G1": 0.5}, "did you mean 'g1'"), ({"g1": 1.5}, "not between"), ({"g1": -1}, "not")],
)
def test_a_bad_keep_is_refused(keep, said):
    with pytest.raises(ConfigError, match=said):
        training_size(dataset_of([0, 1] * 50, [0, 1] * 50), config(keep=keep).split)


def test_balance_with_a_given_split_equalises_each_side():
    dataset = dataset_of([0] * 60 + [1] * 40, [0, 1] * 50, split=[0, 0, 0, 1] * 25)
    options = config(balance=True)
    split = draw_split(dataset, options.split, 0)
    assert cell_counts(dataset, split.train).sum(axis=1).tolist() == [30, 30]
    assert cell_counts(dataset, split.test).sum(axis=1).tolist() == [10, 10]
    assert set(split.train) <= set(np.flatnonzero(dataset.split == 0))
    assert training_size(dataset, options.split) == 60


def test_balance_refuses_a_given_split_without_one_group():
    dataset = dataset_of([0] * 50 + [1] * 50, [0, 1] * 50, split=[0, 1] * 25 + [0] * 50)
    with pytest.raises(DataError, match="'g1' has no row on one side"):
        draw_split(dataset, config(balance=True).split, 0)


def test_without_groups_the_split_is_stratified_by_class():
    dataset = dataset_of([0, 0] * 50, [0] * 80 + [1] * 20)
    free = replace(dataset, groupings=())
    split = draw_split(free, AuditConfig(data=Path("t.csv")).split, 0)
    assert np.bincount(free.labels[split.test]).tolist() == [16, 4]
    with pytest.raises(ConfigError, match="balance needs a group"):
        training_size(free, AuditConfig(data=Path("t.csv"), balance=True).split)


@pytest.mark.parametrize("n", [0, 1])
def test_too_few_rows_to_split_are_refused(n):
    with pytest.raises(DataError, match="no row is left"):
        training_size(dataset_of([0] * n, [0] * n), config().split)
