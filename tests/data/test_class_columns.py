"""Which class a column of probabilities is about, by its name."""

import pytest

from fairaudit.data.class_columns import class_columns, named_class
from fairaudit.errors import ConfigError, DataError


@pytest.mark.parametrize(
    ("column", "classes", "meant"),
    [
        ("p_low", ["high", "low", "mid"], "low"),
        ("low", ["high", "low", "mid"], "low"),
        ("prob.female", ["female", "male"], "female"),
        ("prob.male", ["female", "male"], "male"),
        ("Pbad", ["bad", "good"], "bad"),
        ("P(BAD", ["bad", "good"], "bad"),
        ("p_>50K", ["<=50K", ">50K"], ">50K"),
        ("p11", ["1", "11"], "11"),
        ("p_1", ["1", "11"], "1"),
        ("p_-1", ["-1", "1"], "-1"),
        ("v2.1", ["1", "2"], None),
        ("p_21", ["1", "2"], None),
        ("score", ["bad", "good"], None),
        ("p_yes", ["YES", "yes"], "yes"),
        ("p_Yes", ["YES", "yes"], None),
    ],
)
def test_the_class_that_a_name_ends_in(column, classes, meant):
    found = named_class(column, classes)
    assert (None if found is None else classes[found]) == meant


@pytest.mark.parametrize("given", [["2", "q", "0", "1"], ["2", "0"], ["2", "0", "0"]])
def test_classes_that_are_said_are_each_class_once(given):
    assert class_columns(["a", "b", "c"], ["0", "1", "2"], ["2", "0", "1"]) == [1, 2, 0]
    with pytest.raises(ConfigError, match="--classes names"):
        class_columns(["a", "b", "c"], ["0", "1", "2"], given)


def test_every_class_needs_a_column_of_its_own():
    assert class_columns(["p_1", "p_0", "p_2"], ["0", "1", "2"]) == [1, 0, 2]
    for columns in (["p_0", "p_1", "p"], ["p_0", "q_0", "p_1"], ["a", "b", "c"]):
        with pytest.raises(DataError, match="do not say which class is whose"):
            class_columns(columns, ["0", "1", "2"])
