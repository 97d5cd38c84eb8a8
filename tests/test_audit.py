import json

import pytest
from people import earners
from places import trainings

import fairaudit
from fairaudit.errors import ConfigError
from fairaudit.report.model import VOLATILE

QUICK = {
    "seeds": 2,
    "epochs": 1,
    "batch_size": 64,
    "noise_multiplier": 1.0,
    "method": ["dpsgd"],
    "workers": 2,
}


PEOPLE = earners(label="label")


@pytest.fixture(scope="module")
def first_run(tmp_path_factory):
    out = tmp_path_factory.mktemp("audit") / "report"
    return fairaudit.run_audit(PEOPLE, group="sex", out=out, **QUICK), out


def stable(path):
    content = json.loads(path.read_text())
    return {key: value for key, value in content.items() if key not in VOLATILE}


def test_a_second_call_goes_on_from_what_is_finished_and_writes_the_same(first_run):
    _, out = first_run
    before, jobs = stable(out / "report.json"), trainings(out)
    assert len(jobs) == 4
    fairaudit.run_audit(PEOPLE, group="sex", out=out, **QUICK)
    assert stable(out / "report.json") == before
    assert trainings(out) == jobs
    fairaudit.run_audit(PEOPLE, group="sex", out=out, **{**QUICK, "seeds": 3})
    more = trainings(out)
    assert len(more) == 6
    assert jobs.items() <= more.items()


# dpsgd loses by a step that is far too short; the other method is the reference with other noise.
SPLIT = {
    **QUICK,
    "epochs": 4,
    "seeds": 3,
    "noise_multiplier": 0.01,
    "method": ["dpsgd", "global-adapt"],
    "settings": {"dpsgd": {"learning_rate": 1e-3}, "global-adapt": {"max_grad_norm": 50.0}},
    "diagnostics": "off",
    "format": "json",
}


def parts(report):
    """Arm -> parts that its cost is in."""
    found = {}
    for comparison in report.costs:
        names = comparison.overall.estimates
        found[comparison.arm] = {n.partition(".")[2] for n in names if n.startswith("excess_risk.")}
    return found


ALL = {"step", "clipping", "noise", "step_and_noise", "constant"}


@pytest.fixture(scope="module")
def split(tmp_path_factory):
    """A folder of one run after another, so that trainings are shared."""
    return tmp_path_factory.mktemp("split")


def split_run(out, **given):
    return fairaudit.run_audit(PEOPLE, group="sex", out=out, **{**SPLIT, **given})


def test_costs_are_split_where_one_is_detected_and_a_killed_run_comes_to_the_same(split):
    report = split_run(split)
    assert parts(report) == {"dpsgd": ALL, "global-adapt": {"constant"}}
    advice = {f.advice.knob for f in report.findings if f.advice and f.arm == "dpsgd"}
    assert advice == {"step by rule"}  # by its largest part
    jobs = trainings(split)
    assert len(jobs) == 4 * 3  # three arms and one pair of twins
    whole = stable(split / "report.json")
    # Killed while twins were trained: of three of their jobs two are there.
    newest = max(jobs, key=jobs.get)
    newest.unlink()
    (split / "report.json").unlink()
    split_run(split)
    again = trainings(split)
    assert stable(split / "report.json") == whole
    assert {name for name in jobs if again[name] != jobs[name]} == {newest}


def test_a_rule_about_a_part_has_it_split_and_a_report_without_parts_names_the_option(split):
    rule = "privacy_cost.noise@overall:global-adapt > 50 points"
    none = split_run(split, fail_on=[rule], twins="off", seeds=5)  # fewer are not judged
    before = trainings(split)
    asked = split_run(split, fail_on=[rule])
    assert parts(asked)["global-adapt"] == ALL
    after = trainings(split)
    assert all(after[name] == before[name] for name in before)  # the arms' trainings stay
    assert len(after) == 5 * 3 + 3 * 2
    every = split_run(split, twins="always")
    assert parts(every) == {"dpsgd": ALL, "global-adapt": ALL}
    assert parts(none) == {"dpsgd": {"constant"}, "global-adapt": {"constant"}}
    (gate,) = none.gates
    assert gate.outcome == "inconclusive"
    assert "--twins always" in gate.targets[0].reason


def test_an_option_of_another_executor_is_refused():
    with pytest.raises(ConfigError, match="is about --executor"):
        fairaudit.run_audit("absent.parquet", group="sex", cpus_per_job=2.0)
