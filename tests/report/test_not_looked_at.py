"""What an audit did not compare is said."""

import numpy as np
import pyarrow as pa
import pytest
from changed import replace
from handmade import comparison, dataset, resolved
from reports import report_of

from fairaudit.analysis.build_facts import data_facts
from fairaudit.data.dataset import Grouping
from fairaudit.report.sections.notes import not_looked_at

ROWS = 60
COLUMNS = {
    "income": np.arange(ROWS, dtype=float),
    "country": np.array(["no", "se", "dk"])[np.arange(ROWS) % 3],
    "decade": np.arange(ROWS) % 12 * 10,
    "month": np.arange(ROWS) % 13,
    "always": np.zeros(ROWS),
    "sex": np.array(["F", "M"])[np.arange(ROWS) % 2],
}


def facts(*groupings, classes=("0", "1"), **options):
    codes = np.arange(ROWS) % 2
    made = replace(
        dataset(),
        features=pa.table(COLUMNS),
        labels=np.arange(ROWS) // 2 % len(classes),
        classes=classes,
        groupings=tuple(Grouping(name, codes, ("F", "M"), None) for name in groupings),
    )
    return data_facts(made, resolved(**options).config, None)


def said(*groupings, classes=("0", "1"), crossed=False, by_label=False, small=""):
    made = comparison()
    if small:
        first, last = made.by_group
        made = replace(made, by_group=(first, replace(last, gated=False, reason=small)))
    report = replace(report_of(made), data=facts(*groupings, classes=classes))
    config = dict(report.config)
    for name, value in {"intersect": crossed, "group_by_label": by_label}.items():
        config[name] = replace(config[name], value=value)
    section = not_looked_at(replace(report, config=config))
    return " ".join(str(block) for block in section.blocks)


def test_columns_of_few_values_that_are_no_groups_are_named():
    assert facts("sex").could_be_groups == ("country", "decade")
    assert facts("country", "decade").could_be_groups == ("sex",)
    text = said("sex")
    assert "country, decade (--group COLUMN)" in text
    assert "income, month" in text
    assert "always" not in text.partition("as by age")[0]
    assert "--bin" in text


def test_a_column_of_lists_is_no_group():
    made = replace(dataset(), features=pa.table({"words": [["a"], ["b"]] * 10}))
    assert data_facts(made, resolved().config, None).could_be_groups == ()


@pytest.mark.parametrize("crossed", [False, True])
def test_groups_of_two_columns_together(crossed):
    assert ("sex and country together" in said("sex", "country", crossed=crossed)) != crossed
    assert "together" not in said("sex")


def test_classes_people_and_small_groups():
    three = ("low", "mid", "high")
    assert "--group-by-label" in said("sex", classes=three)
    assert "--group-by-label" not in said("sex", classes=three, by_label=True)
    assert "--group-by-label" not in said("sex")
    assert "several rows" in said("sex")
    assert "not judged: M." in said("sex", small="few rows")
    assert "not judged" not in said("sex")
