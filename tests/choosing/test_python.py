"""A choice from Python, with a search, in a job of GitHub, and the command that trains it."""

import json

import pytest
from people import earners
from places import trainings

import fairaudit
from fairaudit.choosing.choose import candidates, choose
from fairaudit.cli import app
from fairaudit.config.value_sources import resolve_config
from fairaudit.privacy.tradeoff import attack_rates
from fairaudit.report.load import load_report
from fairaudit.report.to_json import to_json

RULES = ("privacy_cost_gap > 60pt", "privacy_cost > 50pt")
SMALL = {
    "group": "sex",
    "label": "approved",
    "method": "dpsgd",
    "epochs": 1,
    "batch_size": 64,
    "seeds": 5,
    "seeds_max": 5,
    "workers": 1,
    "twins": "off",
    "diagnostics": "off",
}


@pytest.fixture(scope="module")
def people_folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("python")
    earners(classes=("no", "yes")).to_csv(path / "people.csv", index=False)
    return path


@pytest.fixture(scope="module")
def chosen(people_folder):
    heard, looked = [], []
    report = fairaudit.choose_epsilon(
        people_folder / "people.csv",
        fail_on=RULES,
        epsilon=[2, 8],
        out=people_folder / "out",
        format=["json", "md", "svg"],
        listener=heard.append,
        on_look=looked.append,
        **SMALL,
    )
    return report, heard, looked


WORDS = """
choose --data people.csv --group sex --label approved --method dpsgd --epsilon 2 --epsilon 8
--epochs 1 --batch-size 64 --seeds 5 --seeds-max 5 --workers 1 --twins off --diagnostics off
--out out --format json
"""
COMMAND = [*WORDS.split(), "--fail-on", RULES[0], "--fail-on", RULES[1]]


def test_it_is_the_choice_of_the_command_and_reuses_its_trainings(
    chosen, people_folder, monkeypatch, capsys
):
    report, heard, looked = chosen
    choice = fairaudit.Choice.of(report)
    assert choice.arm == "dpsgd@2"
    assert [test.arm for test in choice.tests] == ["dpsgd@8", "dpsgd@2"]
    assert tuple(looked) == choice.tests
    assert heard
    monkeypatch.chdir(people_folder)
    before = trainings(people_folder / "out")
    assert app.main([*COMMAND, "--json"]) == 0
    printed = capsys.readouterr()
    assert "Look 1  dpsgd@8, 5 seeds: passes" in printed.err
    assert "Recommended: dpsgd at epsilon 2" in printed.err
    told = json.loads(printed.out)["studies"]["choosing"]
    ours = json.loads(to_json(report))["studies"]["choosing"]
    assert told == ours
    assert trainings(people_folder / "out") == before


def test_what_is_recommended_is_trained(chosen, people_folder, tmp_path, monkeypatch):
    monkeypatch.chdir(people_folder)
    words = ["train", "--from", "out/report.json", "--method", "dpsgd", "--epsilon", "2", "--out"]
    words += [str(tmp_path / "model"), "--accept-fitted-preprocessing"]
    assert app.main(words) == 0
    privacy = json.loads((tmp_path / "model" / "privacy.json").read_text())
    assert (privacy["method"], privacy["epsilon"] <= 2.0) == (
        fairaudit.Choice.of(chosen[0]).arm,
        True,
    )


def test_a_frame_has_no_file_to_train_from_and_is_repeated_by_a_call(tmp_path):
    given = {**SMALL, "seeds_max": 6, "out": tmp_path / "out", "format": ["json"]}
    report = fairaudit.choose_epsilon(
        earners(300), fail_on="privacy_cost_gap > 90pt", epsilon=4, **given
    )
    assert fairaudit.Choice.of(report).arm == "dpsgd"
    assert report.reproduce.startswith("fairaudit.choose_epsilon(frame, ")
    assert report.reproduce.endswith("seeds_max=6)")
    assert "fail_on=['privacy_cost_gap > 90pt']" in report.reproduce


def test_a_job_of_github_is_told_the_answer_and_gets_the_choice_as_its_summary(
    chosen, people_folder, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(people_folder)
    summary = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    assert app.main([*COMMAND, "--quiet"]) == 0
    assert (
        "::notice title=fairaudit choose recommended::dpsgd at epsilon 2 keeps"
        in capsys.readouterr().err
    )
    assert "## Recommended: dpsgd at epsilon 2\n" in summary.read_text()
    undecided = [*COMMAND[:-4], "--fail-on", "privacy_cost_gap > 0.1pt"]
    assert app.main([*undecided, "--quiet"]) == 3
    assert "::error title=fairaudit choose undecided::Undecided" in capsys.readouterr().err
    assert "## Undecided: no method is shown to pass" in summary.read_text()
    assert app.main([*COMMAND, "--quiet"]) == 0  # as it was


@pytest.fixture(scope="module")
def tuned(people_folder):
    seen = []

    def look(test):
        seen.append((test, trainings(people_folder / "tuned")))

    given = {
        **SMALL,
        "data": str(people_folder / "people.csv"),
        "tune": 2,
        "epsilon": 4,
        "batch_size": 384,  # all rows of a fit, whose accounting takes no time
        "format": ["json"],
    }
    given |= {
        "fail_on": ["privacy_cost_gap > 1pt", "epsilon > 4"],
        "out": str(people_folder / "tuned"),
    }
    given.pop("seeds_max")
    found = candidates(resolve_config(given), seeds_max=6)
    report = choose(found, on_look=look)
    return report, seen, found


def test_a_searched_arm_is_tested_at_the_epsilon_of_its_search(tuned):
    report, _, found = tuned
    choice, attack = fairaudit.Choice.of(report), report.privacy["dpsgd"].attack
    (arm,) = found.families["dpsgd"]
    search = arm.charge
    assert [number.outcome for number in choice.tests[0].numbers if number.metric == "epsilon"] == [
        "passes"
    ]
    assert choice.tests[0].epsilon == pytest.approx(
        search.epsilon(found.prepared.plan.training.delta), rel=1e-6
    )
    assert tuple(rate.true_positive_rate for rate in attack) == attack_rates(search)
    assert attack[0].true_positive_rate > attack_rates(arm.privacy.event)[0]


def test_more_seeds_of_a_search_are_appended_and_the_rule_is_held_against_it(tuned, people_folder):
    report, seen, _ = tuned
    choice = fairaudit.Choice.of(report)
    assert [(test.arm, test.seeds, test.outcome) for test in choice.tests] == [
        ("dpsgd", 5, "undecided"),
        ("dpsgd", 6, "undecided"),
    ]
    (_, first), (_, second) = seen
    assert (len(first), len(second)) == (10, 12)
    assert all(second[path] == stamp for path, stamp in first.items())
    report = load_report(people_folder / "tuned" / "report.json")
    assert report.privacy["dpsgd"].epsilon.pld is None  # of a search there is none
    (comparison,) = (c for c in report.comparisons if c.arm == "dpsgd")
    (gap,) = (gap for gap in comparison.gaps if (gap.metric, gap.kind) == ("privacy_cost", "pair"))
    assert choice.tests[1].numbers[0].value == pytest.approx(abs(gap.signed.value), rel=1e-5)
    plain = load_report(people_folder / "out" / "report.json").costs[0]
    assert (
        comparison.overall.estimates["accuracy"].value != plain.overall.estimates["accuracy"].value
    )
