"""The trainers of docs/examples.

They run as the page says, and their claims follow from what they do.
"""

import shutil
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fairaudit

EXAMPLES = Path(__file__).parents[1] / "docs" / "examples"
NAMES = ("opacus_loop",)
OF_OTHERS = {"dp_ebm": "interpret", "mst": "mbi"}  # run where their package is installed


@pytest.fixture
def home(tmp_path, monkeypatch):
    for name in (*NAMES, *OF_OTHERS):
        shutil.copy(EXAMPLES / f"{name}.py", tmp_path)
    draw = np.random.default_rng(2)
    frame = pd.DataFrame(
        {"age": draw.normal(size=800).round(2), "sex": draw.choice(["F", "M"], 800)}
    )
    frame["job"] = np.where(frame["age"] > 0.3, "cook", "smith")
    frame["approved"] = np.where(frame["age"] + 0.4 * draw.normal(size=800) > 0, "yes", "no")
    frame.to_csv(tmp_path / "people.csv", index=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in NAMES:
        sys.modules.pop(name, None)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_an_example_is_audited_as_its_first_lines_say(home, name):
    report = fairaudit.run_audit(
        "people.csv",
        group="sex",
        label="approved",
        trainer=f"{name}:train",
        epsilon=8,
        seeds=1,
        out="out",
        format="json",
        workers=1,
    )
    assert report.status == "complete", report.warnings
    claim = report.privacy[f"{name}.train"].claim
    assert claim.epsilon <= 8.0
    assert claim.claiming == claim.trainings == 1
    (cost,) = [c for c in report.costs if c.arm == f"{name}.train"]
    assert cost.overall.estimates["reference.accuracy"].value > 0.75  # it learns: half is chance
    assert cost.overall.estimates["accuracy"].value > 0.7
    assert "trainer_deterministic" in {w.code for w in report.warnings if w.arm == f"{name}.train"}


@pytest.mark.slow
@pytest.mark.parametrize("name", OF_OTHERS)
def test_an_example_with_another_library_is_audited_with_its_twin(home, name):
    pytest.importorskip(OF_OTHERS[name], reason=f"pip install {OF_OTHERS[name]} runs {name}.py")
    option, function = "trainer", "train"
    if name == "mst":
        option, function = "synthesizer", "sampled"
    options = {"group": "sex", "label": "approved", "epsilon": 8, "seeds": 1, "out": "out"}
    options |= {"raw": name == "dp_ebm", "format": "json", "workers": 1, "twins": "always"}
    report = fairaudit.run_audit("people.csv", **{option: f"{name}:{function}"}, **options)
    assert report.status == "complete", report.warnings
    key = f"{name}.{function}"
    assert report.privacy[key].claim.epsilon == 8.0
    (cost,) = [c for c in report.costs if c.arm == key]
    assert "privacy_cost.without_noise" in cost.overall.estimates
