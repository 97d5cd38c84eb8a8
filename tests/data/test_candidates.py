"""What is suggested for tables like those that everybody knows, wherever the label stands in them."""

import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fairaudit.cli import app
from fairaudit.config.options import AuditConfig
from fairaudit.data.inspection import describe
from fairaudit.data.naming import like_group
from fairaudit.data.tabular import load_dataset
from fairaudit.errors import DataError, FairauditError

N = 900


def column(name, draw):
    """Something with as many values as the column of that name has in the known table."""
    measured = {
        *("age", "fnlwgt", "balance", "duration", "credit_amount", "duration_months", "limit_bal", "lsat"),
        *("ugpa", "zfygpa", "alcohol", "density", "length", "diameter", "whole_weight", "fare", "bmi"),
        *("capital_gain", "hours_per_week", "days_b_screening_arrest", "glucose", "bill_amt1", "pay_amt1"),
        *("MonthlyIncome", "tenure", "Glucose", "loan_amnt", "person_income"),
    }
    if name in measured:
        return draw.normal(50, 15, N).round(2)
    if name in ("sex", "Sex", "SEX", "gender", "male"):
        return draw.choice(["Female", "Male"], N)
    if name == "c_charge_degree":
        return draw.choice(["F", "M"], N)
    if name in ("race", "ethnicity"):
        return draw.choice(["A", "B", "C"], N)
    if name == "id":
        return np.arange(N)
    return draw.integers(0, 2 + len(name) % 4, N)


TABLES = {  # name -> (columns, label, whether a command may suggest it)
    "adult": (
        "age workclass fnlwgt education marital_status occupation relationship race sex capital_gain",
        "income",
        True,
    ),
    "adult, older": ("age workclass fnlwgt education occupation race sex hours_per_week", "class", True),
    "compas, fairness": (
        "sex age age_cat race juv_fel_count priors_count c_charge_degree decile_score score_text",
        "two_year_recid",
        True,
    ),
    "compas, raw": (
        "id sex age race c_charge_degree days_b_screening_arrest is_recid is_violent_recid",
        "two_year_recid",
        False,
    ),
    "german": (
        "checking_status duration_months credit_history purpose credit_amount savings installment_rate "
        "personal_status_sex other_debtors residence_since housing existing_credits job dependents telephone "
        "foreign_worker age",
        "credit_risk",
        True,
    ),
    "german, Kaggle": ("age sex job housing checking_account credit_amount duration purpose", "Risk", True),
    "german, no name": ("age sex job housing credit_amount duration dependents telephone", "kredit", False),
    "bank": ("age job marital education default balance housing loan contact month poutcome", "y", False),
    "bank, Kaggle": ("age job marital education default balance housing loan poutcome", "deposit", False),
    "law school": ("decile1b decile3 lsat ugpa zfygpa fulltime fam_inc male race tier", "pass_bar", True),
    "law school, no name": ("decile3 lsat ugpa fulltime fam_inc male race tier", "bar", False),
    "dutch": (
        "sex age household_position household_size citizenship country_birth edu_level economic_status",
        "occupation",
        False,
    ),
    "default credit": (
        "limit_bal SEX EDUCATION MARRIAGE age PAY_0 PAY_2 bill_amt1 pay_amt1",
        "default payment next month",
        True,
    ),
    "credit bureau": (
        "person_income person_home_ownership loan_intent loan_amnt cb_person_default_on_file sex",
        "loan_status",
        True,
    ),
    "wine": ("alcohol density color", "quality_good", True),
    "wine, both": ("alcohol density color quality", "quality_good", False),
    "abalone": ("sex length diameter whole_weight", "rings_above_median", True),
    "titanic": ("Pclass Sex fare embarked alone sibsp", "survived", True),
    "churn": ("gender SeniorCitizen Partner Dependents tenure Contract", "Churn", True),
    "attrition": ("age Department gender JobLevel OverTime MonthlyIncome", "Attrition", True),
    "diabetes": ("Glucose bmi age Pregnancies", "Outcome", True),
    "hospital": ("race gender age insulin change admission_type diabetesMed", "readmitted", True),
    "student": ("sex age schoolsup famsup paid activities nursery higher internet romantic", "G3", False),
    "home loans": ("race ethnicity sex loan_purpose occupancy preapproval lien", "action_taken", False),
    "two roles": ("sex age label", "target", False),
    "a role and decisions": ("sex age class hired", "y", False),
    "a weak word": ("sex age town", "risk_area", False),
    "two outcomes": ("sex age risk_area", "survived", False),
    "a target that is none": ("sex age town", "target_group", False),
    "a target of an outcome": ("sex age town", "target_default", True),
    "census": ("AGEP SEX RAC1P HISP SCHL", "income", True),
}


def frame_of(columns, label, place):
    draw = np.random.default_rng(5)
    names = columns.split()
    data = {name: column(name, draw) for name in names}
    data[label] = (draw.random(N) < 0.4).astype(int)
    names.insert({"first": 0, "middle": len(names) // 2, "last": len(names)}[place], label)
    return pd.DataFrame(data)[names]


def commands(text):
    """Every command of the program in a text, as far as its line or parenthesis goes."""
    found = []
    for line in text.splitlines():
        while "fairaudit run " in line or "fairaudit plan " in line:
            start = min(line.find(c) for c in ("fairaudit run ", "fairaudit plan ") if c in line)
            line = line[start:]
            found.append(shlex.split(line.split("`")[0].rstrip(")").split(" (")[0]))
            line = line[len("fairaudit") :]
    return found


@pytest.fixture(autouse=True)
def quick_accountant(monkeypatch):
    monkeypatch.setattr("fairaudit.planning.guarantees.epsilon", lambda event, delta, accountant: 1.0)
    monkeypatch.setattr("fairaudit.methods.spec.calibrate", lambda *_: 1.0)
    monkeypatch.setattr("fairaudit.planning.plan.composed_epsilon", lambda runs, delta: 1.0)


@pytest.mark.parametrize("place", ["middle", "last"])
@pytest.mark.parametrize("name", TABLES)
def test_a_command_names_the_label_of_a_known_table_or_none_and_runs(
    tmp_path, monkeypatch, capsys, name, place
):
    columns, label, is_sure = TABLES[name]
    monkeypatch.chdir(tmp_path)
    frame_of(columns, label, place).to_csv("people.csv", index=False)
    texts = []
    for words in (["inspect", "people.csv"], ["plan", "--data", "people.csv"]):
        app.main(words)
        texts.append("".join(capsys.readouterr()))
    found = [command for text in texts for command in commands(text)]
    for command in found:
        assert command[command.index("--label") + 1] == label
        assert app.main(["plan", *command[2:]]) == 0, command
    suggested = any(f"--label {shlex.quote(label)}" in text for text in texts)
    several = any(" or --label " in text for text in texts)  # listed side by side, none preferred
    assert suggested == (is_sure or several)
    if not is_sure:
        assert not found
    group = any(
        w in columns.split() for w in ("sex", "Sex", "SEX", "gender", "race", "age", "foreign_worker")
    )
    if is_sure and group:
        assert found


def test_the_options_that_were_given_stay_in_the_command(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    columns, label, _ = TABLES["german"]
    frame_of(columns, label, "middle").to_csv("it's people.csv", index=False)
    given = ["--group", "foreign_worker", "--drop", "telephone", "--epsilon", "2", "--seeds", "3"]
    words = [
        "plan",
        "--data",
        "it's people.csv",
        *given,
        "--settings",
        "dpsgd.max_grad_norm=2",
        "--method",
        "dpsgd",
    ]
    assert app.main(words) == 2
    (command,) = commands(capsys.readouterr().err)
    for option, value in zip(given[::2], given[1::2], strict=True):
        assert option in command
        assert command[command.index(option) + 1] in (value, f"{value}.0")
    assert "dpsgd.max_grad_norm=2.0" in command
    assert app.main(["plan", *command[2:]]) == 0


def test_a_table_too_small_to_train_on_gets_no_command(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    columns, label, _ = TABLES["german"]
    frame_of(columns, label, "last").head(12).to_csv("few.csv", index=False)
    assert app.main(["inspect", "few.csv"]) == 0
    for command in commands(capsys.readouterr().out):
        assert app.main(["plan", *command[2:]]) == 0


def test_what_others_predict_comes_before_what_nothing_predicts(save):
    draw = np.random.default_rng(0)
    signal = draw.normal(size=2000)
    frame = {
        "phone": draw.integers(0, 2, 2000),
        "first_thing": (signal + draw.normal(size=2000) > 0).astype(int),
        "a": signal,
        "sex": draw.choice(["F", "M"], 2000),
        "car": draw.integers(0, 2, 2000),
    }
    with pytest.raises(DataError) as caught:
        load_dataset(AuditConfig(data=save(frame)))
    listed = caught.value.message.partition("values: ")[2]
    assert [word.strip("' ") for word in listed.split(",")] == ["first_thing", "car", "phone", "sex"]


def test_a_decision_beside_an_outcome_word_is_not_taken_in_silence(save):
    columns, label, _ = TABLES["bank, Kaggle"]
    frame = frame_of(columns, label, "last").to_dict("list")
    found = describe(AuditConfig(data=save(frame), group=("job",)))
    assert found.label is None
    assert set(found.label_candidates) == {"default", "deposit"}
    assert found.command is None


@pytest.mark.parametrize(
    ("typed", "known", "meant"),
    [
        ("gendr", ["age", "sex", "income"], "sex"),
        ("gender", ["tenure", "sex"], "sex"),
        ("sexe", ["gear", "Gender"], "Gender"),
        ("ethnicity", ["age", "race"], "race"),
        ("Race", ["ethnic_group", "sex"], "ethnic_group"),
        ("age_grup", ["age", "age_group"], "age_group"),
        ("ages", ["page", "age"], "age"),
        ("citizenship", ["native_country", "x"], "native_country"),
        ("colour", ["sex", "race"], None),
        ("gendr", ["gear", "tenure"], None),
        ("", ["sex"], None),
    ],
)
def test_a_wrong_group_is_told_the_column_that_holds_the_attribute(typed, known, meant):
    assert like_group(typed, known) == meant


@pytest.mark.parametrize("command", ["inspect", "plan"])
def test_a_wrong_group_option_says_what_was_meant(tmp_path, monkeypatch, capsys, command):
    monkeypatch.chdir(tmp_path)
    frame_of("sex race age job", "income", "last").to_csv("people.csv", index=False)
    data = ["people.csv"] if command == "inspect" else ["--data", "people.csv"]
    for typed, said in (
        ("gendr", "did you mean 'sex'?"),
        ("sex,race", "repeat the option: --group sex --group race"),
        ("sex, race", "repeat the option: --group sex --group race"),
        ("colour", "columns named like groups: 'sex', 'race', 'age'"),
    ):
        assert app.main([command, *data, "--group", typed]) == 2
        assert said in capsys.readouterr().err


def test_rivals_are_listed_and_none_is_suggested(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    frame_of("sex age class hired", "y", "middle").to_csv("people.csv", index=False)
    assert app.main(["plan", "--data", "people.csv", "--group", "sex"]) == 2
    said = capsys.readouterr().err
    assert "several columns may be the label" in said
    assert all(f"--label {name}" in said for name in ("y", "class", "hired"))
    assert "fairaudit run" not in said


@pytest.mark.parametrize("name", ["risk_area", "target_group", "quality_control_site", "target_market"])
def test_a_word_of_an_outcome_in_another_name_suggests_nothing(tmp_path, monkeypatch, capsys, name):
    monkeypatch.chdir(tmp_path)
    frame_of("sex age town", name, "last").to_csv("people.csv", index=False)
    assert app.main(["plan", "--data", "people.csv", "--group", "sex"]) == 2
    said = capsys.readouterr().err
    assert f"--label {name}" not in said
    assert repr(name) in said.partition("values: ")[2]


def test_the_groups_of_a_census_are_found(save):
    draw = np.random.default_rng(0)
    frame = {
        "SCHL": draw.integers(1, 25, 900),
        "RAC1P": draw.integers(1, 10, 900),
        "SEX": draw.integers(1, 3, 900),
    }
    frame |= {
        "AGEP": draw.integers(17, 95, 900),
        "HISP": draw.integers(1, 25, 900),
        "PINCP": draw.integers(0, 2, 900),
    }
    found = describe(AuditConfig(data=save(frame), label="PINCP"))
    assert found.group_candidates[:4] == ("SEX", "RAC1P", "HISP", "AGEP")
    assert like_group("race", list(frame)) == "RAC1P"


def test_a_column_with_a_comma_in_its_name_is_that_column(save):
    frame = frame_of("sex age", "income", "last").to_dict("list")
    frame["a,b"] = frame["sex"]
    assert load_dataset(AuditConfig(data=save(frame), group=("a,b",))).groupings[0].name == "a,b"


def test_the_real_tables_get_their_label(real_data):
    # bank has "default" beside its label "y", and either could be meant.
    assert (
        describe(AuditConfig(data=real_data / "bank.parquet"), lambda config, dataset: None).command is None
    )
    told = {"german": "credit_risk", "adult": "income", "abalone": "rings_above_median"}
    for name, label in told.items():
        found = describe(AuditConfig(data=real_data / f"{name}.parquet"), lambda config, dataset: None)
        assert found.command is not None
        words = shlex.split(found.command)
        assert words[words.index("--label") + 1] == label
        assert Path(words[words.index("--data") + 1]).is_file()
    assert describe(AuditConfig(data=real_data / "dutch.parquet"), lambda c, d: None).command is None


def test_a_plan_that_would_stop_is_part_of_what_run_would_do(save, people):
    def refuse(config, dataset):
        raise FairauditError("too few records", "use a larger table")

    found = describe(AuditConfig(data=save(people), group=("sex",)), refuse)
    assert (found.problem, found.command, found.would_run) == ("too few records", None, None)
    assert describe(AuditConfig(data=save(people), group=("sex",))).would_run is not None
