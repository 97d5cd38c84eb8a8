"""What a report says its guarantees are about, where arms differ in it."""

from handmade import arm, built, comparison
from reports import report_of

from fairaudit.privacy.events import Gaussian
from fairaudit.report.sections.guarantee import section

WHOLE = Gaussian("votes", 2.0, 5)


def terms(report):
    return str(section(report).blocks[1])


def with_event(report, key, event):
    """The report with another event of one arm."""
    arms = []
    for facts in report.arms:
        privacy = facts.privacy
        if facts.key == key:
            privacy = privacy.model_copy(update={"event": event})
        arms.append(facts.model_copy(update={"privacy": privacy}))
    return report.model_copy(update={"arms": tuple(arms)})


def test_each_sampling_and_accountant_is_said_of_the_arms_that_have_it():
    keys = ("output-perturbation", "global-adapt", "dpsgd")
    arms = (arm("sgd", reference=None), *map(arm, keys))
    report = report_of(*map(comparison, keys), arms=arms)
    mixed = terms(with_event(report, "output-perturbation", WHOLE))
    others = "(global-adapt, dpsgd)"
    assert f"records at once (output-perturbation); Poisson with probability q {others}" in mixed
    exact = "the exact Gaussian curve (headline) and RDP (output-perturbation)"
    assert f"{exact}; PLD (headline) and RDP {others}" in mixed


def test_what_all_arms_share_is_said_once():
    assert "Sampling: Poisson with probability q. Accountants:" in terms(built())
