"""What an audit did not compare is said."""

import numpy as np
import pyarrow as pa
import pytest
from changed import replace
from handmade import comparison, dataset, resolved
from reports import report_of

from fairaudit.analysis.build_facts import data_facts
from fairaudit.data.dataset import Grouping
from fairaudit.report.sections.audited import _use_lines
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


def test_small_groups_of_every_grouping_are_named_with_their_column():
    def small(grouping, *names):
        made = comparison()
        groups = [replace(one, gated=False, reason="few rows") for one in made.by_group]
        named = [replace(one, group=name) for one, name in zip(groups, names, strict=True)]
        return replace(made, grouping=grouping, by_group=tuple(named))

    first, second = small("sex", "X@1", "Y"), small("race", "X@2", "X@1")
    report = replace(report_of(first, second, second), data=facts("sex", "country"))
    text = " ".join(str(block) for block in not_looked_at(report).blocks)
    assert "not judged: sex: X@1, Y; race: X@2, X@1." in text


def test_columns_and_groups_with_a_sign_of_arms_keep_their_names_and_order():
    names = ["age", "user@home", "user@work", "age@2"]
    report = report_of(comparison())
    data = report.data.model_copy(update={"could_be_groups": tuple(names)})
    numbers = data.model_copy(
        update={"could_be_groups": (), "features": tuple(names), "categorical": ()}
    )
    for held in (data, numbers):
        section = not_looked_at(report.model_copy(update={"data": held}))
        assert "age, user@home, user@work, age@2" in " ".join(map(str, section.blocks))


def test_group_columns_among_the_inputs_keep_their_names_and_order():
    names = ["age", "user@home", "user@work", "age@2"]
    report = report_of(comparison())
    (grouping,) = report.data.groupings
    groupings = tuple(grouping.model_copy(update={"name": name}) for name in names)
    data = report.data.model_copy(update={"groupings": groupings, "features": tuple(names)})
    lines = list(_use_lines(data))
    assert any("of age, user@home, user@work, age@2, too" in line for line in lines)
