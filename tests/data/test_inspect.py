import dataclasses
import json

import pytest

from fairaudit.cli import app
from fairaudit.config.options import AuditConfig
from fairaudit.data.inspection import describe
from fairaudit.errors import DataError


def test_a_good_table_is_described_and_says_what_run_would_do(save, people):
    height = [None if i < 2 else v for i, v in enumerate(people["height"])]
    columns = {**people, "height": height, "id": list(range(40))}
    found = describe(AuditConfig(data=save(columns), group=("sex",)))
    assert (found.rows, found.columns) == (40, 5)
    assert (found.label, found.label_origin, found.positive) == ("income", "inferred from the name", "1")
    assert found.label_candidates == ("income",)
    assert found.group_candidates == ("sex", "town")
    assert [(c.name, c.role) for c in found.schema] == [
        ("sex", "group"),
        ("income", "label"),
        ("height", "feature"),
        ("town", "feature"),
        ("id", "dropped"),
    ]
    assert (found.schema[2].missing, found.schema[2].distinct, found.schema[2].type) == (0.05, 11, "double")
    assert found.schema[4].note == "looks like an id"
    groups = found.groupings[0].groups
    assert [(g.name, g.rows, g.share, g.positive_rate) for g in groups] == [
        ("F", 20, 0.5, 0.5),
        ("M", 20, 0.5, 0.5),
    ]
    assert found.would_run is not None
    assert (found.would_run.train, found.would_run.test, found.would_run.features) == (32, 8, 2)
    assert found.would_run.inputs == 5
    assert found.would_run.classes == {"0": 20, "1": 20}
    assert found.problem == ""


def test_the_outcomes_can_be_named_and_are_told(save, people, capsys):
    path = str(save(people))
    assert app.main(["inspect", path, "--group", "sex"]) == 0
    assert "positive = 1, assumed to be favourable" in capsys.readouterr().out
    assert app.main(["inspect", path, "--group", "sex", "--positive", "0", "--favourable", "1"]) == 0
    assert "positive = 0, favourable = 1" in capsys.readouterr().out
    assert app.main(["inspect", path, "--group", "sex", "--favourable", "1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["positive"], found["favourable"], found["favourable_origin"]) == ("1", "1", "given")
    assert app.main(["inspect", path, "--favourable", "7"]) == 0  # an answer, not an end
    assert "--favourable: '7' is not a value" in capsys.readouterr().out


def test_a_table_without_a_known_label_is_still_described(save, people):
    columns = {("paid" if k == "income" else k): v for k, v in people.items()}
    found = describe(AuditConfig(data=save(columns), group=("sex",)))
    assert found.label is None
    assert found.would_run is None
    assert "named like a label" in found.problem
    assert found.hint == "name the column to predict with --label"
    assert found.command is None
    assert [g.name for g in found.groupings[0].groups] == ["F", "M"]
    assert found.groupings[0].groups[0].positive_rate is None
    assert len(found.schema) == 4


def test_several_candidates_are_listed(save, people):
    found = describe(AuditConfig(data=save({**people, "approved": people["income"]})))
    assert found.label_candidates == ("income", "approved")
    assert found.label is None
    assert not {"income", "approved"} & set(found.group_candidates)


def test_without_a_group_the_candidates_are_what_helps(save, people):
    found = describe(AuditConfig(data=save(people)))
    assert found.groupings == ()
    assert found.group_candidates == ("sex", "town")
    assert found.would_run is not None


def test_a_group_that_run_would_refuse_is_the_problem_of_the_answer(save, people):
    found = describe(AuditConfig(data=save({**people, "one": ["v"] * 40}), group=("one",)))
    assert "'one' has one value" in found.problem
    assert found.groupings == ()


def test_columns_that_are_not_read_are_listed_with_their_reason(save, people):
    found = describe(AuditConfig(data=save({**people, "nest": [[1]] * 40}), drop=("town",)))
    by_name = {c.name: c for c in found.schema}
    assert (by_name["nest"].role, by_name["nest"].missing) == ("dropped", None)
    assert by_name["town"].note == "dropped by option"


def test_a_file_that_is_no_table_is_an_error(tmp_path):
    with pytest.raises(DataError, match="no file"):
        describe(AuditConfig(data=tmp_path / "t.csv"))


def test_the_answer_is_ready_for_json(save, people):
    found = describe(AuditConfig(data=save(people), group=("sex",)))
    assert json.loads(json.dumps(dataclasses.asdict(found), allow_nan=False))["name"] == "table.parquet"
