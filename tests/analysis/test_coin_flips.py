"""Groups drawn by coin flips: hardly a report asserts a difference between them."""

import numpy as np
import pandas as pd
import pytest
from neutral import assertions, sentences, shape

from fairaudit.api import run_audit

TEAMS = ("Quill", "Ember", "Thorn")  # words that nothing else in a report has
ARMS = ("sgd", "dpsgd", "global-adapt")
AUDITS = 40
MOST = 5  # of forty audits that each err in 5 %, more than five do so in 1.4 % of tests
ROWS = 1000


def by_coin_flips(seed):
    """Rows whose outcome has nothing to do with their team; every fourth table has three teams."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(ROWS, 4))
    chance = 1 / (1 + np.exp(-(1.5 * x[:, 0] + x[:, 1] - 0.5 * x[:, 0] * x[:, 2])))
    frame = pd.DataFrame(x, columns=["age", "hours", "debt", "tenure"])
    frame["paid"] = np.where(rng.random(ROWS) < chance, "yes", "no")
    teams = TEAMS[: 3 if seed % 4 == 3 else 2]
    frame["team"] = np.array(teams)[rng.integers(0, len(teams), ROWS)]
    return frame


@pytest.mark.slow
def test_of_groups_by_coin_flips_hardly_a_report_says_that_they_differ(tmp_path):
    found = {}
    for seed in range(AUDITS):
        report = run_audit(
            by_coin_flips(seed), group="team", label="paid", method=ARMS[1:], epsilon=3.0,
            seeds=5, epochs=5, diagnostics="full", workers=2, out=tmp_path / str(seed),
        )  # fmt: skip
        if said := assertions(sentences(report), TEAMS, ARMS):
            found[seed] = list(said.values())
    told = "\n".join(f"{seed}: {sentence}" for seed, each in found.items() for sentence in each)
    assert len(found) <= MOST, f"{len(found)} of {AUDITS} audits say that groups differ:\n{told}"


@pytest.mark.parametrize(
    "sentence",
    [
        "dpsgd: Quill pays more than Ember.",
        "What Quill pays per step beyond Ember under dpsgd is mostly noise: 0.05 thousandths of a nat.",
        "dpsgd: the bound of Thm 3, corrected, for Quill against Ember is negative: held",
        "Quill is set apart from Ember at every seed by share of clipped records (1.28 times).",
        "dpsgd: of what a step costs Ember, direction error 3 % [0, 7], noise 72 % [55, 90].",
        "Gaps within the model that privacy is shown to change (first group minus second):",
        "worse for Quill",
        "dpsgd is worse on Ember than predicting the training rows' shares",
        "Two groups fare worse than the others.",
        "No difference in added loss between groups is detected (at most, in nats: dpsgd 0.1), but one.",
    ],
)
def test_what_asserts_a_difference_is_recognised(sentence):
    assert list(assertions([sentence], TEAMS, ARMS).values()) == [sentence]


@pytest.mark.parametrize(
    "sentence",
    [
        "Cannot tell whether groups differ in added loss (dpsgd), so no difference is explained.",
        "cannot tell; a gap of this size needs 1,351 test rows per group",
        "Control not run for global-adapt.",
        "Epsilon is for one model of one run.",
    ],
)
def test_what_asserts_none_is_let_through(sentence):
    assert not assertions([sentence], TEAMS, ARMS)


def test_names_and_figures_are_masked_as_whole_words():
    found = shape(
        "**dpsgd@3**: Quill 4.0 [2.2, 5.8], Ember -1e-3; Quillon 1,234 %", TEAMS, ["dpsgd", "dpsgd@3"]
    )
    assert found == "ARM: G N, G N; Quillon N"
