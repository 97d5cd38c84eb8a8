import shlex
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from fairaudit.config.options import AuditConfig
from fairaudit.data.candidates import looks_like_id
from fairaudit.data.columns import encode_codes
from fairaudit.data.naming import (
    LabelName,
    is_adverse_label,
    is_id_name,
    is_prediction_name,
    label_name,
    listed,
    protected,
    quoted,
)
from fairaudit.data.tabular import load_dataset
from fairaudit.errors import ConfigError, DataError


@pytest.mark.parametrize(
    "name",
    [
        *("label", "target", "y", "outcome", "class", "approved", "loan_approved", "default", "defaulted"),
        *("hired", "income", "churn", "decision", "y_true", "is_approved"),
        *("Income", "APPROVED", "risk_label", "label_2", "target_x"),
    ],
)
def test_known_label_names_are_labels_in_any_case(name):
    assert label_name(name) >= LabelName.KNOWN


@pytest.mark.parametrize("name", ["labels", "approval", "yy", "my_target", "is_paid", "credit_risk", ""])
def test_other_names_are_no_labels(name):
    assert label_name(name) < LabelName.KNOWN


@pytest.mark.parametrize(
    "name", ["score", "risk_score", "prob", "y_prob", "yPred", "prediction", "pred_label"]
)
def test_prediction_columns_are_known_by_name(name):
    assert is_prediction_name(name)


@pytest.mark.parametrize(
    "name", ["credit_score", "problem", "probation", "predator", "scored_goals", "math score"]
)
def test_inputs_that_only_sound_like_predictions_are_kept(name):
    assert not is_prediction_name(name)


@pytest.mark.parametrize(
    "name", ["id", "ID", "customer_id", "customerId", "uuid", "Unnamed: 0", "", "row_index"]
)
def test_keys_are_known_by_name(name):
    assert is_id_name(name)


@pytest.mark.parametrize("name", ["paid", "identity", "width", "年齢", "keyboard"])
def test_other_names_are_no_keys(name):
    assert not is_id_name(name)


def test_protected_attributes_come_with_the_commonest_first():
    assert protected(["age", "x", "Race", "sex"]) == ["sex", "Race", "age"]


def test_hostile_names_are_shown_short_and_on_one_line():
    assert len(quoted("x" * 5_000)) < 70
    assert "\n" not in quoted("a\nb")
    assert listed(["a"] * 20).endswith("and 8 more")


@pytest.mark.parametrize(
    ("name", "values", "verdict"),
    [
        ("customer_id", range(1_000_000, 1_000_100), True),
        ("row", range(100), True),
        ("age", range(20, 120), False),
        ("ticket", range(5_000, 6_500), True),
        ("number", [7 + 13 * i for i in range(100)], False),
        ("amount", [0.5 + i for i in range(100)], False),
        ("who", [f"name {i}" for i in range(100)], True),
        ("town", [f"town {i % 10}" for i in range(100)], False),
        ("visit_id", [i % 3 for i in range(100)], False),
        ("person_id", [i // 2 for i in range(100)], True),
        ("flag", [i % 2 == 0 for i in range(100)], False),
        ("note", ["a", "b", "c"], False),
    ],
)
def test_ids_are_columns_that_only_tell_rows_apart(name, values, verdict):
    values = list(values)
    assert looks_like_id(name, encode_codes(pa.chunked_array([values])), len(values)) is verdict


def test_a_given_label_wins_and_says_so(load, people):
    dataset = load({**people, "approved": people["income"]}, label="income")
    assert (dataset.label, dataset.label_origin) == ("income", "given")


def test_a_single_name_is_inferred_with_one_notice(load, people):
    dataset = load(people)
    assert (dataset.label, dataset.label_origin, dataset.positive) == ("income", "inferred from the name", 1)
    assert [n.code for n in dataset.notices].count("label_inferred") == 1


def test_a_declared_label_wins_over_the_name_rule(load, people):
    columns = pa.table({**people, "z": people["income"]}).replace_schema_metadata({"fairaudit.label": "z"})
    dataset = load(columns)
    assert (dataset.label, dataset.label_origin) == ("z", "declared in the file")
    assert "label_inferred" not in [n.code for n in dataset.notices]


def test_a_declared_label_that_is_not_there_is_refused(load, people):
    with pytest.raises(DataError, match="declared in the file"):
        load(pa.table(people).replace_schema_metadata({"fairaudit.label": "gone"}))


def test_several_candidates_are_refused_with_the_command_to_type(load, people):
    with pytest.raises(DataError) as caught:
        load({**people, "approved": people["income"]}, group=("sex",))
    assert "'income', 'approved'" in caught.value.message
    assert "--label income or --label approved" in caught.value.hint
    assert "fairaudit run" not in caught.value.hint


def test_the_command_to_type_is_quoted_for_a_shell_and_not_cut(load, people):
    columns = {("my group" if k == "sex" else k): v for k, v in people.items() if k != "income"}
    with pytest.raises(DataError) as caught:
        load({**columns, "it's repaid": people["income"]}, group=("my group",))
    words = shlex.split(caught.value.hint.removeprefix("type: "))
    assert words[:3] == ["fairaudit", "run", "--data"]
    assert Path(words[3]).is_file()
    assert words[4:] == ["--group", "my group", "--label", "it's repaid"]


def test_no_candidate_is_refused_even_when_the_last_column_would_do(load, people):
    columns = {k: v for k, v in people.items() if k != "income"}
    with pytest.raises(DataError, match=r"no column of table\.parquet is named like a label") as caught:
        load({**columns, "paid": people["income"]})
    assert caught.value.hint == "name the column to predict with --label"


@pytest.mark.parametrize(
    "extra",
    [
        {"y": list(range(40))},  # 40 values
        {"y": [1] * 40},  # one value
        {"label_score": [0, 1] * 20},  # a prediction
    ],
)
def test_columns_that_fit_the_name_only_are_no_candidates(load, people, extra):
    assert load({**people, **extra}).label == "income"


def test_the_group_column_is_no_candidate(load, people):
    assert load({**people, "class": ["a", "b"] * 20}, group=("class",)).label == "income"


def test_no_infer_forbids_every_way_but_the_option(load, people):
    declared = pa.table(people).replace_schema_metadata({"fairaudit.label": "income"})
    with pytest.raises(DataError, match="--no-infer"):
        load(declared, infer=False)
    dataset = load(declared, infer=False, label="income")
    assert dataset.positive is None
    assert load(declared, infer=False, label="income", positive="1").positive == 1


@pytest.mark.parametrize(
    ("values", "positive"),
    [
        ([0, 1], 1),
        ([True, False], 1),
        (["no", "yes"], 1),
        (["YES", "NO"], 1),
        (["<=50K", ">50K"], 1),
        (["good", "bad"], 1),
        (["Approved", "denied"], 0),
        ([1.0, 2.0], 0),
        (["a", "b"], None),
        (["hired", "not"], 0),
    ],
)
def test_the_positive_value_is_the_one_of_a_known_name(load, people, values, positive):
    dataset = load({**people, "income": [values[i] for i in people["income"]]})
    assert dataset.positive == positive
    assert ("positive_unknown" in [n.code for n in dataset.notices]) is (positive is None)


def test_among_many_classes_no_one_is_favourable(load, people):
    dataset = load({**people, "income": [i % 10 for i in range(40)]})
    assert dataset.classes == tuple("0123456789")
    assert dataset.positive is None


@pytest.mark.parametrize("spelling", ["1", "1.0", " 1"])
def test_the_positive_option_finds_its_class_in_any_spelling(load, people, spelling):
    assert load(people, positive=spelling).positive == 1


def test_an_unknown_positive_value_is_refused_with_a_suggestion(load, people):
    label = [["denied", "granted"][i] for i in people["income"]]
    with pytest.raises(ConfigError, match="did you mean 'granted'"):
        load({**people, "income": label}, positive="grantd")


@pytest.mark.parametrize(
    ("values", "options", "favourable", "origin"),
    [
        ([0, 1], {}, 1, "assumed"),
        (["no", "yes"], {}, 1, "assumed"),
        ([True, False], {}, 1, "assumed"),
        ([0, 1], {"favourable": "0"}, 0, "given"),
        ([0, 1], {"favourable": " 1.0"}, 1, "given"),
        ([0, 1], {"positive": "0"}, 0, "assumed"),
        (["bad", "good"], {}, 1, "its name says so"),
        (["<=50K", ">50K"], {}, 1, "its name says so"),
        (["Approved", "denied"], {"positive": "denied"}, 0, "its name says so"),
        (["bad", "good"], {"favourable": "bad"}, 0, "given"),
        (["bad", "good"], {"infer": False, "label": "income"}, None, ""),
        (["bad", "good"], {"infer": False, "label": "income", "favourable": "good"}, 1, "given"),
        (["a", "b"], {}, None, ""),
        (["approved", "granted"], {}, 0, "assumed"),
    ],
)
def test_which_outcome_people_want_is_said_named_or_assumed(
    load, people, values, options, favourable, origin
):
    dataset = load({**people, "income": [values[i] for i in people["income"]]}, **options)
    assert (dataset.favourable, dataset.favourable_origin) == (favourable, origin)
    assert ("favourable_assumed" in [n.code for n in dataset.notices]) is (origin == "assumed")


def test_the_outcome_is_declared_in_the_file_for_its_own_label_only(load, people):
    declared = {"fairaudit.label": "income", "fairaudit.favourable": "0", "fairaudit.positive": "1"}
    table = pa.table({**people, "default": people["income"][::-1]}).replace_schema_metadata(declared)
    dataset = load(table)
    assert (dataset.positive, dataset.favourable) == (1, 0)
    assert dataset.favourable_origin == "declared in the file"
    assert load(table, label="income").favourable == 0
    assert load(table, favourable="1").favourable == 1
    other = load(table, label="default")
    assert (other.favourable, other.favourable_origin) == (1, "assumed")


def test_an_unknown_favourable_value_is_refused(load, people):
    with pytest.raises(ConfigError, match="--favourable: 'granted' is not a value of label 'income'"):
        load(people, favourable="granted")


def test_a_label_whose_one_is_bad_news_gets_a_warning(load, people):
    columns = {("default" if k == "income" else k): v for k, v in people.items()}
    levels = {n.code: n.level for n in load(columns).notices}
    assert levels["favourable_assumed"] == "warning"
    levels = {n.code: n.level for n in load(columns, positive="0").notices}
    assert levels["favourable_assumed"] == "notice"
    assert "favourable_assumed" not in [n.code for n in load(columns, favourable="0").notices]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([0.1 * i for i in range(40)], "looks continuous"),
        (list(range(0, 80, 2)), "looks continuous"),
        ([1] * 40, "one value"),
        ([1] * 39 + [None], "one value"),
        (pa.nulls(40, pa.int64()), "missing in all rows"),
    ],
)
def test_a_label_that_makes_no_classes_is_refused(load, people, values, said):
    with pytest.raises(DataError, match=said) as caught:
        load({**people, "z": values}, label="z")
    assert ("threshold" in caught.value.hint) is (said == "looks continuous")


def test_text_labels_may_have_a_hundred_classes_and_no_more(load, people):
    many = {k: list(v) * 3 for k, v in people.items()}
    assert len(load({**many, "z": [f"c{i % 20}" for i in range(120)]}, label="z").classes) == 20
    with pytest.raises(DataError, match="more than 100"):
        load({**many, "z": [f"c{i}" for i in range(120)]}, label="z")


def test_the_label_cannot_be_a_group(load, people):
    with pytest.raises(DataError, match="both the label and a group"):
        load(people, label="sex", group=("sex",))
    with pytest.raises(DataError, match="is also a group"):
        load(people, group=("income",))


def test_a_mistyped_label_is_told_its_neighbour(load, people):
    with pytest.raises(DataError, match="did you mean 'income'"):
        load(people, label="incmoe")


def test_csv_and_parquet_give_the_same_dataset(tmp_path, load, people):
    lines = [",".join(people)] + [",".join(map(str, row)) for row in zip(*people.values(), strict=True)]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    from_csv = load_dataset(AuditConfig(data=tmp_path / "t.csv", group=("sex",)))
    from_parquet = load(people, group=("sex",))
    assert np.array_equal(from_csv.labels, from_parquet.labels)
    assert from_csv.features.to_pydict() == from_parquet.features.to_pydict()
    assert from_csv.groupings[0].names == from_parquet.groupings[0].names


@pytest.mark.parametrize(
    ("label", "is_adverse"),
    [
        ("default.payment.next.month", True), ("two_year_recid", True), ("Churn", True), ("stroke", True),
        ("Attrition", True), ("loan_default", True), ("approved", False), ("income", False), ("hired", False),
    ],
)  # fmt: skip
def test_a_label_whose_1_is_a_harm_is_known_by_the_words_of_its_name(label, is_adverse):
    assert is_adverse_label(label) is is_adverse
