"""A report of an earlier run is never taken for that of a run that wrote none."""

import numpy as np
import pytest
from handmade import built
from people import people

from fairaudit.audit import audit, prepare
from fairaudit.cli import app
from fairaudit.config.value_sources import resolve_config
from fairaudit.errors import FairauditError, TrainingError
from fairaudit.report.load import load_report
from fairaudit.report.write import RENDERINGS, write_report

PASS = "privacy_cost_gap > 0.9"
NAMES = sorted(["report.json", *(rendering.file for rendering in RENDERINGS.values())])


@pytest.fixture
def out(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame = people(200)
    frame.to_csv("people.csv", index=False)
    frame.assign(p=np.linspace(0, 1, 200)).to_csv("scores.csv", index=False)
    write_earlier(tmp_path / "out", "people.csv")
    return tmp_path / "out"


def write_earlier(out, name, formats=("json", "md")):
    """A report on the data file of that name."""
    report = built()
    report = report.model_copy(update={"data": report.data.model_copy(update={"name": name})})
    write_report(report, out, formats)


def options(**changed):
    given = {
        "data": "people.csv",
        "group": ["sex"],
        "label": "y",
        "out": "out",
        "method": ["dpsgd"],
    }
    quick = {"epochs": 1, "noise_multiplier": 5.0, "diagnostics": "off", "twins": "off"}
    return resolve_config({**given, **quick, **changed})


def gate(path="out/report.json"):
    return app.main(["gate", path, "--fail-on", PASS, "--quiet"])


REFUSED = {
    "label": {"label": "gone"},
    "rule": {"fail_on": ["accuracy[Z] < 0.5"]},
    "baseline": {"baseline": "gone.json"},
    "trainer": {"trainer": "nowhere:fit"},
}


@pytest.mark.parametrize("name", ["people.csv", "flats.csv"])
@pytest.mark.parametrize("slip", REFUSED)
def test_a_slip_of_the_hand_takes_no_report_away(out, slip, name):
    write_earlier(out, name)
    before = files(out)
    with pytest.raises(FairauditError):
        audit(options(**REFUSED[slip]))
    after = {path: content for path, content in files(out).items() if path.parts[0] != "jobs"}
    assert after == before


def test_a_run_whose_trainings_fail_leaves_nothing_to_judge(out, monkeypatch):
    write_earlier(out, "people.csv", ("json", *RENDERINGS))

    def fail(*_):
        raise TrainingError("diverged")

    monkeypatch.setattr("fairaudit.audit.trained", fail)
    with pytest.raises(TrainingError):
        audit(options())
    assert gate() == 2
    assert gate("out/report.previous.json") == 0  # moved, not lost
    assert sorted(p.name for p in out.iterdir() if p.is_file()) == [
        name.replace(".", ".previous.", 1) for name in NAMES
    ]


def test_looking_and_planning_leave_it_where_it_is(out):
    prepare(options())
    assert gate() == 0


def test_the_earlier_report_may_be_the_baseline_of_the_next(out):
    audit(options(seeds=1))
    found = audit(options(seeds=1, baseline="out/report.json", fail_on=["epsilon.delta > 0"]))
    assert found.verdict == "pass"
    assert load_report(out / "report.json").verdict == "pass"
    assert load_report(out / "report.previous.json").verdict is None
    with pytest.raises(FairauditError):
        audit(options(seeds=1, baseline="out/report.json", label="gone"))
    found = audit(options(seeds=1, baseline="out", fail_on=["epsilon.delta > 0"]))
    assert found.verdict == "pass"  # after a run that failed, it is the last one that did not


@pytest.mark.parametrize("change", [("--y-pred", "gone"), ("--y-pred", "p", "--format", "md")])
def test_scoring_puts_the_earlier_report_aside_unless_it_is_refused(out, change):
    write_earlier(out, "scores.csv")
    command = "score scores.csv --y-true y --group sex --out out --quiet"
    is_refused = "gone" in change
    assert app.main([*command.split(), *change]) == (2 if is_refused else 0)
    assert gate() == (0 if is_refused else 2)  # it wrote Markdown alone


def files(folder):
    return {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
