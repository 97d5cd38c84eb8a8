"""Groups drawn by coin flips: hardly a report asserts a difference between them."""

import numpy as np
import pandas as pd
import pytest
from audits import audited

TEAMS = ("Quill", "Ember", "Thorn")
AUDITS = 8
MOST = 2  # of eight audits that each err in 5 %, more than two do so in 0.6 % of tests
ROWS = 500
DIFFERENCES = (
    *(
        "gap",
        "gap_gained",
        "gap_opposed",
        "rate_gap",
        "rate_gap_risen",
        "rate_gap_opposed",
        "one_answer",
        "class_lost",
    ),
)


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


def asserted(report):
    """What a report says of a difference between groups."""
    for finding in report.findings:
        if finding.code in DIFFERENCES:
            yield f"{finding.arm}: {finding.text}"
    yield from (f"{gap.arm}: {gap.metric} changes" for gap in report.changed)


@pytest.mark.slow
@pytest.mark.usefixtures("quick_accountant")
def test_of_groups_by_coin_flips_hardly_a_report_says_that_they_differ(tmp_path):
    saying = {}
    for seed in range(AUDITS):
        by_coin_flips(seed).to_parquet(tmp_path / f"{seed}.parquet")
        report = audited(
            tmp_path / str(seed),
            data=tmp_path / f"{seed}.parquet",
            group=("team",),
            label="paid",
            method=("dpsgd", "global-adapt"),
            noise_multiplier=1.0,
            seeds=5,
            epochs=2,
            diagnostics="basic",
        ).report
        if sentences := list(asserted(report)):
            saying[seed] = sentences
    assert len(saying) <= MOST, saying
