"""Spellings of one class or group that a file keeps apart are told."""

import numpy as np
import pandas as pd
import pytest

from fairaudit.config.value_sources import resolve_config
from fairaudit.data.naming import near_equal
from fairaudit.data.tabular import load_dataset


def spelled(income, sex, rows=400):
    draw = np.random.default_rng(1)
    return pd.DataFrame(
        {
            "age": draw.integers(20, 70, rows),
            "sex": draw.choice(sex, rows),
            "income": draw.choice(income, rows),
        }
    )


def near_equal_notices(tmp_path, frame):
    path = tmp_path / "people.csv"
    frame.to_csv(path, index=False)
    given = {"data": path, "label": "income", "group": ["sex"], "out": tmp_path / "out"}
    dataset = load_dataset(resolve_config(given).config)
    return [notice.text for notice in dataset.notices if notice.code == "near_equal_names"]


def test_two_files_joined_have_each_class_twice(tmp_path):
    classes = ["<=50K", "<=50K.", ">50K", ">50K."]
    messages = near_equal_notices(tmp_path, spelled(classes, ["F", "M"]))
    assert len(messages) == 2
    assert "'<=50K', '<=50K.'" in messages[0]
    assert "'>50K', '>50K.'" in messages[1]


def test_groups_that_differ_in_case_or_blanks_are_told(tmp_path):
    (message,) = near_equal_notices(
        tmp_path, spelled(["no", "yes"], ["Female", "female", "FE MALE", "Male"])
    )
    assert "groups of 'sex'" in message
    assert "'Male'" not in message


@pytest.mark.parametrize("names", [["a", "b"], ["1.5", "15"], ["A+", "A-"], ["", "x"]])
def test_names_that_differ_otherwise_are_not(names):
    assert near_equal(names) == []
