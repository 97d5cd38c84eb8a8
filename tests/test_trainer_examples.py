"""The trainers of docs/examples.

They run as the page says, and their claims follow from what they do.
"""

import math
import shutil
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fairaudit

EXAMPLES = Path(__file__).parents[1] / "docs" / "examples"
NAMES = ("opacus_loop", "private_logistic", "embeddings")
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
    raw = name == "embeddings"
    assert ("--raw" in (home / f"{name}.py").read_text()) == raw
    report = fairaudit.run_audit(
        "people.csv",
        group="sex",
        label="approved",
        trainer=f"{name}:train",
        raw=raw,
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


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0, 8.0])
def test_the_claim_of_the_noisy_learner_holds_by_another_accountant(home, epsilon):
    """Its noise, composed exactly.

    The Gaussian curve of all steps together is below what zCDP gave.
    """
    import private_logistic

    delta, steps = 1e-5, private_logistic.STEPS
    sigma = private_logistic.noise_multiplier(epsilon, delta, steps)
    mu = math.sqrt(steps) / sigma

    def phi(x):
        return 0.5 * math.erfc(-x / math.sqrt(2))

    exact = phi(mu / 2 - epsilon / mu) - math.exp(epsilon) * phi(-mu / 2 - epsilon / mu)
    assert exact <= delta
    weaker = math.sqrt(steps) / (0.7 * sigma)  # and it is not met by much less noise
    assert (
        phi(weaker / 2 - epsilon / weaker) - math.exp(epsilon) * phi(-weaker / 2 - epsilon / weaker)
        > delta
    )


def test_a_record_moves_the_noisy_learners_sum_by_at_most_the_clipping_bound(home):
    """The sum of a step with a record and without it, at the noise that it adds to both."""
    import private_logistic

    draw = np.random.default_rng(0)
    features, labels = 50 * draw.normal(size=(30, 4)), draw.integers(0, 2, 30)

    def weights(rows):
        model = private_logistic.NoisyLogistic(2, 0.0, 0)
        steps, private_logistic.STEPS = private_logistic.STEPS, 1
        try:
            return model.fit(features[rows], labels[rows]).weights_ * len(rows) / -2.0
        finally:
            private_logistic.STEPS = steps

    whole = weights(np.arange(30))
    moved = [np.linalg.norm(whole - weights(np.delete(np.arange(30), k))) for k in range(30)]
    assert max(moved) <= private_logistic.CLIP + 1e-9
    assert max(moved) > 0.99 * private_logistic.CLIP
