"""No epsilon that a person reads is smaller than the exact one, wherever it is printed."""

import re

import pytest
from changed import replace
from handmade import arm, built, comparison, findings, privacy
from reports import stored

from fairaudit.cli.lines import arm_lines, plan_lines, warning_lines
from fairaudit.cli.lines_compare import change_lines
from fairaudit.errors import PrivacyError
from fairaudit.gate.check import judged
from fairaudit.gate.comparison import compare_reports
from fairaudit.gate.grammar import parse_rules
from fairaudit.privacy.accounting import calibrate, epsilon
from fairaudit.privacy.events import NoisyRelease, SampledGaussian
from fairaudit.report.render.junit import to_junit
from fairaudit.report.write import rendered

# Two decimals, and four digits, of each to the nearest would be less than it is.
PLD, RDP, OTHER_PLD, OTHER_RDP, ALL = 7.13421, 8.44321, 5.66721, 6.77731, 29.87642
EXACT = (PLD, RDP, OTHER_PLD, OTHER_RDP, ALL)


def shown(text, exact):
    """Every number in a text that can only stand for this epsilon."""
    numbers = [float(found) for found in re.findall(r"(?<![\w.])\d+\.\d+(?![\w.])", text)]
    return [number for number in numbers if abs(number - exact) < 0.012]


def private(key, pld, rdp):
    return arm(key, privacy=privacy(pld=pld, rdp=rdp, target_epsilon=None))


@pytest.fixture(scope="module")
def plan():
    made = findings(noise_multiplier=1.0).plan
    arms = (
        arm("sgd", reference=None),
        private("dpsgd", PLD, RDP),
        private("reweight", OTHER_PLD, OTHER_RDP),
    )
    training = replace(made.training, epsilon_if_all_released=ALL)
    return replace(made, arms=arms, training=training)


@pytest.fixture(scope="module")
def report(plan):
    made = findings(noise_multiplier=1.0)
    jobs = tuple(
        replace(job, arm="reweight") if job.arm != "sgd" else job for job in made.plan.jobs
    )
    found = replace(
        made,
        plan=replace(plan, jobs=jobs),
        results={job.id: made.results[job.id] for job in jobs},
        comparisons=(comparison("dpsgd"), comparison("reweight")),
    )
    rules = parse_rules(["epsilon > 3", "epsilon_rdp > 3", "epsilon_if_all_released > 3"])
    return judged(stored(built(found)), rules)


def assert_never_less(text, *wanted):
    for exact in wanted:
        assert shown(text, exact), f"{exact} is not printed"
    for exact in EXACT:
        low = [number for number in shown(text, exact) if number < exact]
        assert low == []


@pytest.mark.parametrize("lines", [arm_lines, lambda plan: plan_lines(plan, seconds=1.0, cores=1)])
def test_the_plan_in_the_terminal(plan, lines):
    assert_never_less("\n".join(lines(plan)), PLD, OTHER_PLD)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("md", (PLD, RDP, OTHER_PLD, OTHER_RDP, ALL)),
        ("html", (PLD, RDP, OTHER_PLD, OTHER_RDP, ALL)),
        ("json", (PLD, RDP, OTHER_PLD, OTHER_RDP, ALL)),
    ],
)
def test_every_format_of_the_report(report, name, wanted):
    assert_never_less(rendered(report, name), *wanted)


def test_the_warnings_of_a_report(report):
    assert_never_less("\n".join(warning_lines(report, verbose=True)))


def test_the_gates_in_junit(report):
    assert_never_less(to_junit(report), PLD, RDP, ALL)


def test_a_comparison_of_two_reports(report):
    of = report.privacy
    other = {"dpsgd": of["reweight"], "reweight": of["dpsgd"]}
    arms = tuple(replace(arm, privacy=other.get(arm.key, arm.privacy)) for arm in report.arms)
    swapped = replace(report, arms=arms)
    assert_never_less(
        "\n".join(change_lines(compare_reports(report, swapped), every=True)), PLD, OTHER_PLD
    )


def test_a_target_that_cannot_be_met_says_at_least_what_it_costs():
    side = SampledGaussian(10, 30, (NoisyRelease("side", 1.7),))
    with pytest.raises(PrivacyError) as caught:
        calibrate(10, 30, 1e-6, 1.0, (1.7,))
    exact = epsilon(side, 1e-6)
    told = shown(str(caught.value), exact)
    assert told
    assert min(told) >= exact
