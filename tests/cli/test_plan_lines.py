"""What is said of a plan before anything is trained."""

import pytest
from handmade import arm, plan, privacy, resolved

from fairaudit.cli.lines import arm_lines, plan_lines

# Just above two decimals: rounded to the nearest they would be understated.
CLAIMED = {"dpsgd": 0.9811, "global-adapt": 3.1348}


@pytest.fixture
def made():
    claims = {key: privacy(pld=e, rdp=e + 1, target_epsilon=None) for key, e in CLAIMED.items()}
    arms = (arm("sgd", reference=None), *(arm(key, privacy=claim) for key, claim in claims.items()))
    return plan(resolved(noise_multiplier=1.0).config, arms)


def test_a_planned_epsilon_is_rounded_up_in_the_table_of_arms(made):
    rows = {line.split()[0]: line.split() for line in arm_lines(made)}
    for key, epsilon in CLAIMED.items():
        pld, rdp = (float(cell) for cell in rows[key][2:4])
        assert epsilon < pld < epsilon + 0.01
        assert epsilon + 1 < rdp < epsilon + 1.01
    assert rows["sgd"].count("–") == 2


def test_and_in_the_line_that_says_what_is_guaranteed(made):
    line = next(iter(plan_lines(made, seconds=1.0, cores=2)))
    assert "dpsgd ε ≤ 0.99, global-adapt ε ≤ 3.14" in line
    assert "δ = 1e-06" in line
