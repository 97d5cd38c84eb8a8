from fairaudit.cli import app
from fairaudit.config.options import AuditConfig
from fairaudit.data.inspection import describe
from fairaudit.errors import FairauditError


def test_a_good_table_is_described_and_says_what_run_would_do(save, people):
    height = [None if i < 2 else v for i, v in enumerate(people["height"])]
    columns = {**people, "height": height, "id": list(range(40))}
    found = describe(AuditConfig(data=save(columns), group=("sex",), label="income"))
    assert (found.rows, found.columns) == (40, 5)
    assert [(c.name, c.role) for c in found.schema] == [
        ("sex", "group"),
        ("income", "label"),
        ("height", "feature"),
        ("town", "feature"),
        ("id", "dropped"),
    ]
    height = found.schema[2]
    assert (height.missing, height.distinct, height.type) == (0.05, 11, "double")
    assert found.schema[4].note == "looks like an id"
    groups = found.groupings[0].groups
    assert [(g.name, g.rows, g.share, g.positive_rate) for g in groups] == [
        ("F", 20, 0.5, 0.5),
        ("M", 20, 0.5, 0.5),
    ]
    assert (found.would_run.train, found.would_run.test, found.would_run.features) == (32, 8, 2)
    assert found.would_run.inputs == 5


def test_without_label_and_group_the_columns_of_few_values_are_listed(save, people, capsys):
    columns = {**people, "wide": list(range(40)), "one": [1] * 40}
    found = describe(AuditConfig(data=save(columns), group=("sex",)))
    assert (found.label, found.would_run) == (None, None)
    assert [g.name for g in found.groupings[0].groups] == ["F", "M"]
    assert found.groupings[0].groups[0].positive_rate is None
    unnamed = describe(AuditConfig(data=save(columns), label="income"))
    assert (unnamed.groupings, unnamed.would_run is None) == ((), False)
    assert app.main(["inspect", str(save(columns))]) == 0
    assert "2 to 20 values: sex, income, height, town\n" in capsys.readouterr().out


def test_a_plan_that_would_stop_is_part_of_what_run_would_do(save, people):
    def refuse(config, dataset):
        raise FairauditError("too few records", "use a larger table")

    options = AuditConfig(data=save(people), group=("sex",), label="income")
    assert describe(options).would_run is not None
    found = describe(options, refuse)
    assert (found.problem, found.would_run) == ("too few records", None)
