import json
import re
import shlex
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

import fairaudit
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


# --- the first command of a newcomer


def strange(rows=600):
    """A table of which nothing is known, and of which a run would refuse three columns."""
    draw = np.random.default_rng(6)
    frame = pd.DataFrame(
        {
            "applicant_id": np.arange(5_000, 5_000 + rows),
            "gender": draw.choice(["F", "M"], rows),
            "income": [f"${v:,.2f}" for v in draw.uniform(1e3, 9e4, rows)],
            "rate": np.where(np.arange(rows) % 5, draw.normal(4, 1, rows).round(3), "Exempt"),
            "years": np.where(np.arange(rows) % 9, draw.integers(0, 40, rows), 999),
            "job": draw.choice(["cook", "?", "clerk"], rows),
            "loan_status": draw.choice(["repaid", "defaulted"], rows),
        }
    )
    frame["closed_on_time"] = np.where(frame["loan_status"] == "repaid", "x", "")
    return frame


def screen(capsys, *words):
    assert app.main(["inspect", *map(str, words)]) == 0
    return capsys.readouterr()


def test_the_command_that_is_shown_runs_and_says_what_was_decided(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    strange().to_csv("loans 1.csv", index=False)
    shown = screen(capsys, "loans 1.csv")
    assert "likely   label: loan_status" in shown.out
    assert "groups: gender" in shown.out
    assert "'rate' holds numbers but for 'Exempt' in 120 rows" in shown.out
    assert "'income' holds numbers with signs of money" in shown.out
    assert "look at  '?' in 'job'" in shown.out
    assert "look at  '999' in 'years' (67 rows)" in shown.out
    assert "column 'closed_on_time' " in shown.err
    assert "predicts the label 'loan_status'" in shown.err
    (command,) = [line for line in shown.out.splitlines() if line.startswith("to run")]
    words = shlex.split(command.removeprefix("to run"))
    assert words[:2] == ["fairaudit", "run"]
    pairs = list(pairwise(words))
    for pair in (
        ("--data", "loans 1.csv"),
        ("--label", "loan_status"),
        ("--positive", "repaid"),
        ("--group", "gender"),
        ("--drop", "applicant_id"),
        ("--missing-values", "Exempt"),
        ("--number-format", "point"),
    ):
        assert pair in pairs
    quick = ["--seeds", "1", "--epochs", "1", "--twins", "off", "--diagnostics", "off", "--quiet"]
    assert app.main([*words[1:], *quick, "--workers", "1"]) == 0
    report = fairaudit.load_report("fairaudit-report/loans-1/report.json")
    assert report.data.label.positive == "repaid"
    assert set(report.data.features) == {"income", "rate", "years", "job", "closed_on_time"}
    assert "income" not in report.data.categorical


def test_options_about_data_are_those_of_run(tmp_path, capsys):
    path = tmp_path / "t.csv"
    strange().to_csv(path, index=False)
    options = ["--missing-values", "Exempt", "--missing-values", "years=999", "--drop", "job"]
    options += ["--number-format", "income=point", "--label", "loan_status", "--group", "gender"]
    shown = screen(capsys, path, *options)
    assert "would stop" not in shown.out
    assert re.search(r"rate +\w+ +feature +20.0 %", shown.out)
    assert re.search(r"years +\w+ +feature +11.2 %", shown.out)
    assert "look at" not in shown.out
    assert "--missing-values Exempt --missing-values years=999" in shown.out
    facts = json.loads(screen(capsys, path, *options, "--json").out)
    assert facts["command"][:2] == ["fairaudit", "run"]
    becomes = {column["name"]: column["becomes"] for column in facts["schema"]}
    assert becomes["gender"] == "2 groups"
    assert becomes["loan_status"] == "label of 2 classes"
    assert becomes["income"] == "number"
    assert becomes["rate"] == "number, gaps filled and flagged"
    assert becomes["applicant_id"] == "left out: looks like an id"


@pytest.mark.parametrize(
    ("columns", "label", "groups"),
    [
        (["ID", "SEX", "AGE", "PAY_0", "default payment next month"], 4, [1, 2]),
        (["age", "race", "priors", "is_recid", "two_year_recid"], 4, [1, 0]),
        (["checking", "personal_status_sex", "foreign_worker", "class"], 3, [1, 2]),
        (["action_taken", "derived_sex", "derived_race", "loan_amount"], 0, [1, 2]),
        (["Gender", "Married", "Income", "Loan_Status"], 3, [0, 1]),
    ],
)
def test_names_say_which_label_and_groups_are_likely(tmp_path, columns, label, groups):
    draw = np.random.default_rng(1)
    frame = pd.DataFrame({name: draw.integers(0, 2, 300) for name in columns})
    frame.to_csv(tmp_path / "t.csv", index=False)
    found = describe(AuditConfig(data=tmp_path / "t.csv"))
    assert found.likely_labels[0] == columns[label]
    assert [found.likely_groups[place] for place in range(len(groups))] == [
        columns[place] for place in groups
    ]


def test_nothing_is_proposed_where_nothing_is_likely(tmp_path):
    draw = np.random.default_rng(1)
    frame = pd.DataFrame({"a": draw.normal(size=300), "b": draw.normal(size=300)})
    frame.to_csv(tmp_path / "t.csv", index=False)
    found = describe(AuditConfig(data=tmp_path / "t.csv"))
    assert (found.likely_labels, found.likely_groups, found.command) == ((), (), ())
