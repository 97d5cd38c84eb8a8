"""Copies of a record: on one side of every split, and once in every interval.

The labels are coin flips, so that a model which knows a row's copy is right more often than it may.
"""

import numpy as np
import pandas as pd
import pytest

import fairaudit
from fairaudit.config.options import AuditConfig
from fairaudit.data.inputs.split import draw_members, draw_split, leakage_rows, training_size
from fairaudit.data.tabular import load_dataset


def coins(people=300, times=4, seed=0):
    """People of whom nothing tells the label; each written ``times`` times, shuffled."""
    draw = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "sex": np.where(np.arange(people) % 3 == 0, "F", "M"),
            "amount": draw.normal(size=people).round(6),
            "town": draw.choice(["a", "b", "c"], people),
            "paid": draw.integers(0, 2, people),
        }
    )
    return pd.concat([frame] * times).sample(frac=1, random_state=seed, ignore_index=True)


def load(frame, path, **options):
    frame.to_csv(path, index=False)
    return load_dataset(AuditConfig(data=path, **{"group": ("sex",), "label": "paid", **options}))


def options(**given):
    return AuditConfig(data="t.csv", **given).split


def key(dataset, rows):
    """Of each row everything that is known of it, as one value."""
    table = dataset.features.to_pandas().iloc[rows]
    table["y"] = dataset.labels[rows]
    table["g"] = dataset.groupings[0].groups[rows]
    return [tuple(row) for row in table.itertuples(index=False)]


@pytest.mark.parametrize("times", ["equal", "unequal"])
def test_a_record_and_its_copies_lie_on_one_side_and_a_test_record_stands_once(tmp_path, times):
    frame = coins()
    if times == "unequal":  # some people once, some twice, few five times
        often = np.random.default_rng(4).choice([1, 2, 5], 300, p=[0.6, 0.3, 0.1])
        frame = frame.drop_duplicates(ignore_index=True)
        frame = frame.loc[np.repeat(np.arange(300), often)].reset_index(drop=True)
    dataset = load(frame, tmp_path / "t.csv")
    assert dataset.records is not None
    sizes = set()
    tested = set()
    for seed in range(6):
        split = draw_split(dataset, options(), seed)
        train, test = key(dataset, split.train), key(dataset, split.test)
        assert not set(train) & set(test)
        assert len(set(test)) == len(test) == 60
        assert len(train) == sum(row not in set(test) for row in key(dataset, slice(None)))
        assert len(train) == training_size(dataset, options())
        sizes.add(len(train))
        tested.add(tuple(split.test))
    assert len(sizes) == 1  # N is a public constant
    assert len(tested) == 6


@pytest.mark.parametrize("given", [{"balance": True}, {"keep": {"F": 0.5}}, {"test_size": 0.5}])
def test_so_they_do_with_every_option_of_a_split(tmp_path, given):
    dataset = load(coins(), tmp_path / "t.csv")
    sizes = set()
    for seed in range(3):
        split = draw_split(dataset, options(**given), seed)
        train, test = key(dataset, split.train), key(dataset, split.test)
        assert not set(train) & set(test)
        assert len(set(test)) == len(test)
        assert len(train) == training_size(dataset, options(**given))
        sizes.add((len(train), len(test)))
    assert len(sizes) == 1
    if "balance" in given:
        groups = dataset.groupings[0].groups
        assert len(set(np.bincount(groups[np.r_[split.train, split.test]]))) == 1


def test_attacks_on_membership_keep_a_coin_for_each_row(tmp_path):
    dataset = load(coins(), tmp_path / "t.csv")
    assert len(leakage_rows(dataset, options())) == 1200
    split = draw_members(dataset, options(), 0)
    assert set(key(dataset, split.train)) & set(key(dataset, split.test))


def test_equal_rows_are_people_where_a_value_is_shared_by_many(tmp_path):
    frame = coins()
    frame["amount"] = frame["amount"].round(1)  # a few dozen values
    dataset = load(frame, tmp_path / "t.csv")
    assert dataset.records is None
    (told,) = (n for n in dataset.notices if n.code == "duplicate_rows")
    repeated = int(frame.duplicated().sum())
    assert f"{repeated:,} of 1,200 rows ({100 * repeated / 1200:.2g} %)" in told.text
    assert told.level == "warning"


def test_equal_rows_are_people_where_chance_makes_as_many(tmp_path):
    draw = np.random.default_rng(3)
    frame = pd.DataFrame(
        {"sex": draw.choice(["F", "M"], 900), "age": draw.integers(18, 80, 900)}
    ).assign(paid=draw.integers(0, 2, 900))
    assert frame["age"].nunique() > 900 / 20
    assert load(frame, tmp_path / "t.csv").records is None


def test_presets_and_given_splits_keep_their_rows(tmp_path):
    frame = coins()
    frame["part"] = np.where(np.arange(1200) % 5 == 0, "test", "train")
    dataset = load(frame.drop(columns="part"), tmp_path / "t.csv", preset="esipova-adult")
    assert dataset.records is None
    assert load(frame, tmp_path / "t.csv", split_column="part").records is None


@pytest.mark.parametrize("times", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_a_model_does_not_know_the_people_that_it_is_tested_on(tmp_path, times):
    people = 400
    frame = coins(people, times)
    for place in range(30):  # enough columns for a linear model to learn its rows by heart
        draw = np.random.default_rng(100 + place).normal(size=people)
        order = frame.groupby("amount").ngroup()
        frame[f"x{place}"] = draw[order].round(5)
    report = fairaudit.run_audit(
        frame,
        group="sex",
        label="paid",
        method=["dpsgd"],
        epsilon=8,
        seeds=5,
        twins="off",
        diagnostics="off",
        out=tmp_path / "out",
        workers=1,
        fail_on=["accuracy < 40%"],
    )
    overall = report.comparisons[0].overall
    assert overall.n_test <= people
    assert report.data.duplicates_across_split == 0
    assert report.data.split.test_rows == people // 5
    assert report.data.duplicate_rows == people * (times - 1)


def scored(frame, tmp_path, **given):
    return fairaudit.score_predictions(
        frame, group="sex", label="paid", predictions="guess", out=tmp_path / "out", **given
    )


def guessed(frame):
    """Predictions that depend on what is known of a person."""
    draw = np.random.default_rng(8).random(frame["amount"].nunique())
    chance = draw[frame.groupby("amount").ngroup()]
    return frame.assign(guess=np.where(chance < 0.7, frame["paid"], 1 - frame["paid"]))


def rows_of(report):
    return {g.group: g.n_test for g in report.comparisons[0].by_group}


@pytest.mark.parametrize("times", [2, 4])
def test_a_record_counts_once_in_given_predictions(tmp_path, times):
    frame = guessed(coins(times=times))
    report = scored(frame, tmp_path)
    once = scored(frame.drop_duplicates(), tmp_path)
    assert rows_of(report) == rows_of(once) == {"F": 100, "M": 200}
    for one, other in zip(
        report.comparisons[0].by_group, once.comparisons[0].by_group, strict=True
    ):
        assert one.estimates["accuracy"] == other.estimates["accuracy"]
    assert sum(report.data.dropped_rows["copy of an earlier row"].values()) == 300 * (times - 1)
    (told,) = (w for w in report.warnings if w.code == "copies")
    assert "a record counts once" in told.message


def test_an_id_says_who_is_who(tmp_path):
    frame = guessed(coins(times=2))
    people = frame.groupby("amount").ngroup()
    everybody = frame.assign(person_id=np.arange(600))
    assert rows_of(scored(everybody, tmp_path)) == {"F": 200, "M": 400}
    # Without a number of many values, the id alone says that rows are one person's.
    coarse = frame.assign(person_id=people).drop(columns="amount")
    assert rows_of(scored(coarse, tmp_path)) == {"F": 100, "M": 200}
    changed = coarse.assign(month=np.arange(600) % 2)
    changed = changed.sort_values("person_id").assign(month=np.tile([1, 2], 300))
    report = scored(changed, tmp_path)
    assert rows_of(report) == {"F": 200, "M": 400}
    assert any("300 rows have the id of an earlier row" in w.message for w in report.warnings)


def test_a_row_without_an_id_shares_it_with_no_other(tmp_path):
    frame = guessed(coins(times=2)).drop(columns="amount")
    # An empty column of ids tells nobody apart, so equal rows may be different people.
    assert rows_of(scored(frame.assign(person_id=None), tmp_path)) == {"F": 200, "M": 400}
    one_known = frame.assign(person_id=["p1", *[None] * 599], month=np.arange(600))
    report = scored(one_known, tmp_path)
    assert rows_of(report) == {"F": 200, "M": 400}
    assert "shared_ids" not in {w.code for w in report.warnings}


def test_rows_of_several_seeds_are_no_copies(tmp_path):
    frame = guessed(coins(times=1))
    parts = []
    for seed in range(5):
        flip = np.random.default_rng(seed).random(300) < 0.1
        parts.append(
            frame.assign(run=seed, guess=np.where(flip, 1 - frame["guess"], frame["guess"]))
        )
    report = scored(pd.concat(parts), tmp_path, seed_column="run")
    assert rows_of(report) == {"F": 100, "M": 200}
    doubled = [pd.concat([part, part]) for part in parts]
    report = scored(pd.concat(doubled), tmp_path, seed_column="run")
    assert rows_of(report) == {"F": 100, "M": 200}


def test_equal_predictions_alone_are_no_copies(tmp_path):
    frame = guessed(coins(times=1))[["sex", "paid", "guess"]]
    assert rows_of(scored(frame, tmp_path)) == {"F": 100, "M": 200}
    chance = np.random.default_rng(2).random(300).round(2)
    report = scored(frame.assign(guess=chance), tmp_path)
    assert rows_of(report) == {"F": 100, "M": 200}
