"""Coverage of the one interval procedure on a population with a known gap."""

import numpy as np
import pytest
from places import program


@pytest.fixture(scope="module")
def study():
    """Whose audits are drawn without training."""
    return program("benchmarks/coverage.py")


@pytest.mark.slow
def test_intervals_of_real_trainings_hold_what_is_true_of_models_of_the_file():
    trainings = program("benchmarks/trainings.py")
    held = {}
    for found in trainings.audits(trainings.worlds(0), files=40, more=40, seed=0):
        for (_, metric, kind), one in found.items():
            if kind != "group":
                held.setdefault(metric, []).append(abs(one.value - one.truth) <= one.half)
    assert all(np.mean(each) >= 0.88 for each in held.values())
    assert 0.93 <= np.mean([np.mean(each) for each in held.values()]) <= 0.98


# Reported, not required to hold .94: gates do not read the first, and where the seeds of what is
# measured are skewed and their effects far larger than those of records, no form that learns from
# few seeds does.
LESS_IS_KNOWN = {
    "loss of small groups, not gated": 0.92,
    "exponential seeds, one group alone": 0.92,
    "rarely bad seeds in one group": 0.85,
}
FAMILIES = (
    "accuracy",
    "loss",
    "small groups",
    "one group alone",
    "rarely a difference",
    "five groups, all pairs at once",
    "exponential seeds in both groups",
    "exponential seeds in one group",
    "far larger exponential seeds in one group",
    *LESS_IS_KNOWN,
)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_intervals_of_simulated_audits_hold_the_gap_and_are_not_too_wide(study, family):
    audits, cells = 800, study.cells()
    assert tuple(sorted(cells)) == tuple(sorted(FAMILIES))
    required = LESS_IS_KNOWN.get(family, 0.94)
    found = []
    for number, cell in enumerate(cells[family]):
        spreads = study.simulate(cell, audits, np.random.default_rng([11, number]))
        found.append(study.covered(cell, spreads))
        assert found[-1]["report"][0] >= required - 3 * (0.06 * 0.94 / audits) ** 0.5, cell
    held = {name: np.array([each[name][0] for each in found]) for name in study.FORMS}
    width = np.mean([each["report"][1] / each["twice"][1] for each in found])
    if "alone" not in family:  # a group alone has the conservative form
        assert width < 0.995  # the broken twin counts twice what records put into V_seed
    assert held["seeds only"].min() < 0.935  # the other one forgets what seeds share
    if family not in LESS_IS_KNOWN:
        assert held["report"].mean() >= 0.945
    if family == "accuracy":
        assert held["less V_rec"].min() < 0.935  # V_rec taken off V_seed, which holds less of it
