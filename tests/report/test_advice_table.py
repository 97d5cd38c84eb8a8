"""Situations, the advice that each gets, and what happens to somebody who follows it to the letter.

Tables, images, networks, code of one's own and synthetic tables; methods of clipped steps, output
perturbation and PATE.
"""

import re
import textwrap

import numpy as np
import pytest
from audits import audited
from people import teams

import fairaudit

ROWS = 1500
CODE = """
import numpy as np

class Shares:
    claimed = None
    def __init__(self, weights): self.weights = weights
    def predict_proba(self, features):
        upper = 1 / (1 + np.exp(-(np.asarray(features) @ self.weights[:-1] + self.weights[-1])))
        return np.stack([1 - upper, upper], 1)

def noisy(data, privacy, seed):
    draw = np.random.default_rng(seed)
    x = np.hstack([data.features, np.ones((len(data.labels), 1))])
    w = np.zeros(x.shape[1])
    for _ in range(60):
        w -= x.T @ (1 / (1 + np.exp(-x @ w)) - data.labels) / len(x)
    spread = 0 if privacy is None else 1 / privacy.epsilon
    return Shares(w + spread * draw.normal(size=len(w)))

def split(data, privacy, seed):
    without = privacy is not None and not np.isfinite(privacy.epsilon)
    return noisy(data, None if without else privacy, seed)

split.supports_no_noise = True

def blurred(table, privacy, seed):
    if privacy is not None:
        draw = np.random.default_rng(seed)
        turned = draw.random(len(table)) < 0.5 / (1 + privacy.epsilon)
        paid = np.where(turned, np.where(table["paid"] == "yes", "no", "yes"), table["paid"])
        table = table.assign(paid=paid)
    return table
"""
SHORT = {"epochs": 10, "batch_size": 100}
# What is audited, its options -> the option that an advice names; None: no advice, as where costs
# are too small to matter, or are not split, so that nobody knows whether noise is the cause.
SITUATIONS = {
    "bound too small": ("table", {"max_grad_norm": 0.01}, "max-grad-norm"),
    "bound too large": ("table", {"max_grad_norm": 200.0}, "max-grad-norm"),
    "step too short": ("table", {"settings": {"dpsgd": {"learning_rate": 0.001}}}, "learning-rate"),
    "step too long": ("table", {"settings": {"dpsgd": {"learning_rate": 60.0}}}, "learning-rate"),
    "all by rule, small epsilon": ("table", {"epsilon": [0.2]}, "epsilon"),
    "few of one class, small bound": ("law", {"max_grad_norm": 0.05}, "max-grad-norm"),
    "threshold, small epsilon": (
        "table",
        {"method": ["global-adapt"], "epsilon": [0.2]},
        "epsilon",
    ),
    "bounds by group": ("table", {"method": ["dpsgd-f"], "epsilon": [0.2]}, "epsilon"),
    "output perturbation, .5": (
        "law",
        {"method": ["output-perturbation"], "epsilon": [0.5]},
        "epsilon",
    ),
    "output perturbation, 16": (
        "law",
        {"method": ["output-perturbation"], "epsilon": [16.0]},
        None,
    ),
    "PATE": ("table", {"method": ["pate-soft"], "epsilon": [1.0]}, "epsilon"),
    "network": ("table", {"model": "mlp", "max_grad_norm": 0.01}, "max-grad-norm"),
    "images": ("images", {"max_grad_norm": 0.01}, "max-grad-norm"),
    "own code, noise apart": ("table", {"trainer": ["coder:split"], "epsilon": [0.5]}, "epsilon"),
    "own code": ("table", {"trainer": ["coder:noisy"], "epsilon": [0.5]}, None),
    "synthetic table": ("table", {"synthesizer": ["coder:blurred"], "epsilon": [0.5]}, None),
}


# What is said of these: the part that the cost is in, or that a constant would do better.
CODES = {
    "bound too small": "from_clipping",
    "bound too large": "from_noise",
    "step too short": "from_step",
    "step too long": "worse_than_constant",
    "all by rule, small epsilon": "from_step_and_noise",
}


def pictures(folder):
    """Bright upper or lower halves, in npz."""
    rng = np.random.default_rng(0)
    n = 900
    labels = rng.integers(0, 2, n)
    images = rng.integers(0, 150, (n, 8, 8, 1))
    images[labels == 0, :4] += 60
    images[labels == 1, 4:] += 60
    np.savez(
        folder / "images.npz",
        images=images.astype(np.uint8),
        labels=labels,
        team=np.array(["Quill", "Ember"])[rng.integers(0, 2, n)],
    )
    return folder / "images.npz"


@pytest.fixture(scope="module")
def kept():
    """Trainings by job id: those of a reference serve every situation that has the same."""
    return {}


def report_in(home, place, kind, options, kept):
    """The report of a situation, with all costs in parts."""
    if kind == "images":
        data = {"data": pictures(home), "group": ["team"]}
    else:
        shift = 5.5 if kind == "law" else 0.0  # one in ten is of the other outcome
        teams(ROWS, shift=shift).to_parquet(home / "people.parquet")
        data = {"data": home / "people.parquet", "group": ["team"], "label": "paid"}
    given = {"method": ["dpsgd"], "epsilon": [3.0], "seeds": 5, **SHORT, **data, **options}
    if "trainer" in options or "synthesizer" in options:
        given.pop("method")
        return fairaudit.run_audit(
            workers=1, format=["json"], twins="always", out=home / place, **given
        )
    return audited(home / place, kept=kept, twins="always", **given).report


def private(report):
    (arm,) = (arm for arm in report.arms if arm.reference is not None)
    return arm


def advice_of(report):
    """What is advised for the private method, in words; "" for nothing."""
    key = private(report).key
    texts = {f.advice.text for f in report.findings if f.arm == key and f.advice}
    assert len(texts) <= 1, texts
    return next(iter(texts), "")


def followed(options, text):
    """The options after the advice was followed as it is written."""
    found = re.search(r"--([a-z-]+) (?:([a-z-]+)\.([a-z]+)=)?([\d.e-]+)", text)
    option, method, setting, value = found.groups()
    if method:
        return {**options, "settings": {method: {setting: float(value)}}}
    name = option.replace("-", "_")
    # What was set for the method alone gives way.
    options = {key: given for key, given in options.items() if key != "settings"}
    return {**options, name: [float(value)] if name == "epsilon" else float(value)}


def cost(report):
    """The loss that privacy adds over all rows."""
    key = private(report).key
    compared = next(c for c in report.costs if c.arm == key)
    return compared.overall.estimates["excess_risk"]


def one_answers(report):
    """The groups that the private method gives one answer."""
    key = private(report).key
    codes = ("constant", "nearly_constant", "one_answer")
    return {
        group for f in report.findings if f.arm == key and f.code in codes for group in f.groups
    }


@pytest.mark.slow
@pytest.mark.parametrize("situation", SITUATIONS)
def test_advice_names_the_value_and_followed_to_the_letter_it_helps(
    situation, kept, tmp_path, monkeypatch
):
    kind, options, expected = SITUATIONS[situation]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "coder.py").write_text(textwrap.dedent(CODE), "utf-8")
    before = report_in(tmp_path, "before", kind, options, kept)
    text = advice_of(before)
    if expected is None:
        assert text == ""
        return
    assert expected in text
    after = report_in(tmp_path, "after", kind, followed(options, text), kept)
    assert cost(after).value < cost(before).value
    if situation in CODES:
        assert CODES[situation] in {f.code for f in before.findings if f.arm == private(before).key}
        # Beyond chance, but for epsilon, of which advice asks no more than twice as much.
        assert cost(after).high < cost(before).low or expected == "epsilon"
    assert not one_answers(after), "advice never ends in one answer for everybody"
