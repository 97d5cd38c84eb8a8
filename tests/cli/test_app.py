import json
import re
import signal
import stat
from dataclasses import replace
from pathlib import Path

import pytest
from handmade import built, dataset, findings, plan

from fairaudit import errors
from fairaudit.cli import app
from fairaudit.data.inputs.spool import Shared
from fairaudit.gate.grammar import parse_rule
from fairaudit.gate.vocabulary import metric_names
from fairaudit.methods.catalog import catalog
from fairaudit.metrics.registry import METRICS, costs
from fairaudit.planning.flow import Audit

COMMANDS = (
    *("run", "choose", "gate", "plan", "inspect", "score", "compare", "report", "init"),
    *("methods", "explain", "schema", "doctor", "clean", "train", "predict"),
)


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("fairaudit.audit.warm_up", lambda: None)
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.fixture
def finished(monkeypatch):
    """An audit that is prepared and carried out at once; returns its report."""

    def stand_in(**changes):
        found = findings()
        report = built(found).model_copy(update=changes)
        prepared = Audit(
            found.resolved, plan(found.resolved.config), dataset(), inputs=Shared(lambda: None)
        )
        monkeypatch.setattr("fairaudit.audit.prepare", lambda resolved, listener: prepared)
        monkeypatch.setattr("fairaudit.audit.carry_out", lambda *_, command: report)
        return report

    return stand_in


def raising(monkeypatch, error):
    def prepare(resolved, listener):
        raise error

    monkeypatch.setattr("fairaudit.audit.prepare", prepare)


RUN = ["run", "--data", "loans.parquet", "--group", "sex"]


def test_the_programs_help_lists_every_command_and_each_has_its_own(capsys):
    assert app.main(["--help"]) == 0
    listed = capsys.readouterr().out
    for command in COMMANDS:
        assert f"\n  {command} " in listed
        assert app.main([command, "--help"]) == 0
        assert capsys.readouterr().out.startswith(f"Usage: fairaudit {command} ")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.ConfigError("bad option", hint="use another"), 2),
        (errors.TrainingError("diverged"), 4),
        (errors.PrivacyError("out of reach"), 5),
        (MemoryError(), 4),
        (KeyboardInterrupt(), 130),
        (app.Terminated(), 143),
    ],
)
def test_each_failure_is_one_line_and_its_exit_code(monkeypatch, capsys, error, code):
    raising(monkeypatch, error)
    assert app.main(RUN) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.strip().splitlines()) == 1
    assert "Traceback" not in err


def test_a_bug_is_one_line_and_a_log_that_only_its_owner_reads(monkeypatch, capsys):
    raising(monkeypatch, ZeroDivisionError("a row's value 4711"))
    assert app.main(RUN) == 70
    err = capsys.readouterr().err
    assert len(err.strip().splitlines()) == 1
    assert "4711" not in err
    log = Path(err.split()[-1])
    assert "ZeroDivisionError: a row's value 4711" in log.read_text()
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    log.unlink()


@pytest.mark.parametrize("error", [EOFError(), SystemExit(0)])
def test_an_error_that_typer_would_take_for_something_else_is_a_bug(monkeypatch, capsys, error):
    raising(monkeypatch, error)
    assert app.main(RUN) == 70
    said = capsys.readouterr().err
    assert said.startswith(f"Bug: {type(error).__name__}; ")
    Path(said.split()[-1]).unlink()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["runn"], "runn"),
        (["run", "--data", "x", "--epochs", "ten"], "--epochs"),
        (["run", "--data", "x", "--bin", "age"], "--bin needs NAME=VALUE"),
        (["run", "--data", "x", "--settings", "threshold=3"], "METHOD.SETTING=VALUE"),
        (["run"], "--data"),
        (["run", "--data", "x", "--config", "gone.toml"], "gone.toml cannot be read"),
    ],
)
def test_a_wrong_command_line_is_one_line_and_code_2(capsys, arguments, said):
    assert app.main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert len(err.strip().splitlines()) == 1
    assert "pydantic" not in err


def test_json_puts_the_report_alone_on_stdout(finished, capsys):
    finished()
    assert app.main([*RUN, "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["schema_version"] == 2
    assert "points of accuracy lost" in err


def test_plan_answers_on_stdout_and_trains_nothing(finished, capsys, monkeypatch):
    finished()
    monkeypatch.setattr("fairaudit.audit.carry_out", None)
    assert app.main(["plan", *RUN[1:]]) == 0
    assert "global-adapt" in capsys.readouterr().out
    assert app.main(["plan", *RUN[1:], "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["trainings"] == 10
    assert content["gates"] == []
    assert content["arms"][1]["privacy"]["epsilon"]["pld"] == 3.13488
    assert content["config"]["group"] == {"origin": "option", "value": ["sex"]}


def test_the_program_alone_prints_its_help_and_ends_well(capsys):
    assert app.main([]) == 0
    alone = capsys.readouterr().out
    assert app.main(["--help"]) == 0
    assert capsys.readouterr().out.strip() == alone.strip()


def test_every_help_shows_how_the_command_is_typed_with_options_that_it_has(capsys):
    for command in COMMANDS:
        app.main([command, "--help"])
        shown = capsys.readouterr().out
        examples = re.findall(r"^  (fairaudit .*)$", shown.partition("Examples:")[2], flags=re.M)
        assert len(examples) == (3 if command == "run" else 1)
        known = set(re.findall(r"--[a-z][a-z-]*", shown.partition("Options:")[2] or shown))
        for example in examples:
            assert example.startswith(f"fairaudit {command}")
            assert set(re.findall(r"--[a-z][a-z-]*", example)) <= known


def test_terms_and_codes_are_explained(capsys):
    assert app.main(["explain", "Excess Risk"]) == 0
    assert "mean loss" in capsys.readouterr().out
    assert app.main(["explain", "turned"]) == 0
    assert "clipping is shown to turn the steps away" in capsys.readouterr().out
    assert app.main(["explain"]) == 0
    listed = capsys.readouterr().out
    assert "misalignment" in listed
    assert "from_clipping" in listed
    assert app.main(["explain", "exces risk"]) == 2
    assert "did you mean 'excess risk'?" in capsys.readouterr().err
    assert app.main(["explain", "tpr_csot"]) == 2
    assert "did you mean 'tpr_cost'?" in capsys.readouterr().err
    assert app.main(["explain", "dpsdg"]) == 2
    assert "did you mean 'dpsgd'?" in capsys.readouterr().err
    assert app.main(["explain", "nonsense"]) == 2
    said = capsys.readouterr().err
    assert "did you mean" not in said
    assert "explain lists all terms, findings, warnings, notices, limitations, metrics" in said


def words_of(text):
    return set(re.findall(r"[a-z]+", text.lower()))


@pytest.mark.parametrize("name", METRICS)
def test_every_metric_is_explained_with_its_form_in_rules(capsys, name):
    assert app.main(["explain", name]) == 0
    said = capsys.readouterr().out.strip()
    meaning, _, forms = said.removeprefix(f"{name}: ").partition(" In rules: ")
    assert re.fullmatch(r"[A-Z0-9].+\.", meaning)
    spec = METRICS[name]
    known = f"the of a {name} {spec.words} {spec.title}".lower().replace("_", " ")
    assert len(words_of(meaning) - words_of(known)) >= 5, "it says its name again"
    names = forms.removesuffix(".").split(", ")
    assert names[0] == name
    assert len(set(names)) == len(names)
    assert all(parse_rule(f"{form} > 0.4").metric.base == name for form in names)
    assert (f"{name}_gap" in names) == spec.has_gap
    assert (f"{name}[2]" in names) == ("positive" in spec.needs)
    assert (f"{name}.noise" in names) == (f"{name}_gap.noise" in names) == (name in costs())
    assert (f"change.{name}_gap" in names) == (f"change.{name}_gap" in metric_names())


@pytest.mark.parametrize("name", catalog())
def test_every_method_is_explained_with_its_form_in_rules(capsys, name):
    assert app.main(["explain", name]) == 0
    said = capsys.readouterr().out.strip()
    assert said.startswith(f"{name}: ")
    assert catalog()[name].summary[1:] in said
    form = re.search(r"In rules behind a metric: (\S+)\. ", said)[1]
    assert parse_rule(f"{form} < 0.5").arm == name


def test_words_of_rules_are_explained_as_users_type_them(capsys, monkeypatch):
    """A metric that is added, a gap, a rate of one class, an alias, blanks for underscores."""
    words = "negative predictive value"
    npv = replace(METRICS["precision"], name="npv", words=words, meaning="")
    monkeypatch.setitem(METRICS, "npv", npv)
    for topic, words in (
        ("npv", "Negative predictive value. In rules: npv, npv_gap, npv[2], npv_gap[2], "),
        ("calibration_error", "predicted chances"),
        ("calibration error", "In rules: calibration_error, calibration_error_gap, "),
        ("Privacy Cost", "In rules: privacy_cost, privacy_cost_gap, privacy_cost.step, "),
        ("tpr_cost", "because training was private. Below zero the group gains. In rules: "),
        ("tpr_gap", "in true positive rate. See fairaudit explain tpr. In rules: tpr_gap."),
        ("tpr[2]", "True positive rate of class 2. See fairaudit explain tpr."),
        ("one_answer", "else 0. Found where"),  # a finding's code, too
        ("epsilon", "Smaller is more private. In rules: epsilon."),
        ("dp-sgd", "Clip each record's gradient"),
    ):
        assert app.main(["explain", topic]) == 0
        said = capsys.readouterr().out
        assert said.startswith(f"{topic}: ")
        assert words in said
    assert app.main(["explain"]) == 0
    lists = dict(line.split(": ", 1) for line in capsys.readouterr().out.strip().splitlines())
    assert lists["Metrics"].split(", ") == list(METRICS)
    assert lists["Methods"].split(", ") == list(catalog())
