"""The figures of a plan, by the accountants that ship."""

import pytest
from dp_accounting import GaussianDpEvent
from dp_accounting.pld import PLDAccountant
from plans import empty_dataset, plan

from fairaudit.config.options import AuditConfig
from fairaudit.config.presets import presets
from fairaudit.errors import EXIT_PRIVACY, PrivacyError
from fairaudit.methods.catalog import Guarantee
from fairaudit.methods.spec import GaussianMechanism
from fairaudit.planning.plan import make_plan

# Epsilon at delta 1e-6, docs/methods.md 2.8: name -> (N, epochs, sigma, RDP, PLD), then the joint
# ones.
PUBLISHED = {
    "Adult": (23_512, 20, 1.0, (3.4078, 3.1037), (3.4436, 3.1349)),
    "Dutch": (48_336, 20, 1.0, (2.2686, 2.0380), (2.2928, 2.0580)),
}
RDP_TOLERANCE, PLD_TOLERANCE = 2e-3, 5e-3


@pytest.fixture
def each_arm_alone(monkeypatch):
    """Without the figure for everything together, which takes as long as all others."""
    monkeypatch.setattr("fairaudit.planning.plan.composed_epsilon", lambda runs, delta: 0.0)


@pytest.mark.usefixtures("each_arm_alone")
@pytest.mark.parametrize("name", ["Adult", pytest.param("Dutch", marks=pytest.mark.slow)])
def test_a_published_schedule_has_the_published_epsilon(name):
    n, epochs, sigma, alone, together = PUBLISHED[name]
    found = plan(
        n_public=n,
        batch_size=256,
        epochs=epochs,
        noise_multiplier=sigma,
        delta=1e-6,
        method=("dpsgd", "global", "global-adapt"),
        settings={"global-adapt": {"count_noise_multiplier": 10.0}},
    )
    assert found.training.steps_per_epoch == -(-n // 256)
    assert found.training.steps == epochs * found.training.steps_per_epoch
    for key, (rdp, pld) in {"dpsgd": alone, "global": alone, "global-adapt": together}.items():
        privacy = found.arm(key).privacy
        assert privacy.epsilon.rdp == pytest.approx(rdp, abs=RDP_TOLERANCE)
        assert privacy.epsilon.pld == pytest.approx(pld, abs=PLD_TOLERANCE)


@pytest.mark.usefixtures("each_arm_alone")
@pytest.mark.parametrize("name", PUBLISHED)
def test_the_presets_give_the_epsilons_they_promise(name):
    n, _, _, alone, together = PUBLISHED[name]
    preset = f"esipova-{name.lower()}"
    # Epsilon knows neither images nor a model, so a table stands in.
    fields = {"group": ("sex",), **presets()[preset].fields, "preset": preset, "n_public": n}
    config = AuditConfig(data="t.csv", seeds=5, method=("dpsgd", "global-adapt"), **fields)
    found = make_plan(config, empty_dataset())
    assert found.training.delta == 1e-6
    for key, figures in (("dpsgd", alone), ("global-adapt", together)):
        epsilon = found.arm(key).privacy.epsilon.rdp
        assert epsilon == pytest.approx(figures[0], abs=RDP_TOLERANCE)
    assert "unequal_epsilon" in [notice.code for notice in found.notices]


@pytest.mark.usefixtures("each_arm_alone")
def test_a_target_epsilon_is_met_by_every_arm_and_never_exceeded():
    methods = ("dpsgd", "global", "global-adapt", "dpsgd-matched")
    found = plan(noise_multiplier=None, epsilon=(2.0,), epochs=3, method=methods)
    for key in methods:
        privacy = found.arm(key).privacy
        assert privacy.target_epsilon == 2.0
        assert 2.0 - 0.02 < privacy.epsilon.pld <= 2.0
    assert [notice.code for notice in found.notices] == ["few_seeds"]
    plain, asks = (found.arm(k).settings["noise_multiplier"] for k in ("dpsgd", "global-adapt"))
    count = found.arm("global-adapt").settings["count_noise_multiplier"]
    assert asks == pytest.approx((plain**-2 - count**-2) ** -0.5, rel=1e-3)


def test_without_noise_an_arm_is_not_private_and_says_so():
    privacy = plan(noise_multiplier=0.0, method=("dpsgd",)).arm("dpsgd").privacy
    assert privacy.guarantee is Guarantee.NONE
    assert privacy.event is privacy.epsilon is None
    assert "noise multiplier 0" in privacy.reason


def test_releasing_everything_costs_at_least_each_and_more_with_more():
    figures = {
        name: plan(**given).training.epsilon_if_all_released
        for name, given in {
            "one": {"method": ("dpsgd",)},
            "two seeds": {"method": ("dpsgd",), "seeds": 2},
            "two arms": {"method": ("dpsgd", "global")},
            "repeats": {"method": ("dpsgd",), "repeats": 2},
            "self-check": {"method": ("dpsgd",), "self_check": True},
        }.items()
    }
    alone = plan(method=("dpsgd",)).arm("dpsgd").privacy.epsilon.pld
    assert figures["one"] == pytest.approx(alone, rel=1e-3)
    assert figures["one"] < figures["two seeds"]
    assert figures["one"] < figures["two arms"]
    # Runs with samples of their own compose; arms on one sample are one joint release, which costs
    # more.
    assert figures["two seeds"] == pytest.approx(figures["repeats"], rel=1e-3)
    assert figures["self-check"] == pytest.approx(figures["repeats"], rel=1e-3)
    assert figures["two arms"] > figures["repeats"]


def test_releasing_everything_without_a_private_arm_has_no_epsilon():
    assert plan(noise_multiplier=0.0, method=("dpsgd",)).training.epsilon_if_all_released is None


def test_a_target_that_the_side_query_alone_exceeds_is_refused_with_what_it_costs():
    with pytest.raises(PrivacyError) as caught:
        plan(
            method=("global-adapt",),
            noise_multiplier=None,
            epsilon=(0.2,),
            epochs=20,
            settings={"global-adapt": {"count_noise_multiplier": 1.0}},
        )
    assert caught.value.exit_code == EXIT_PRIVACY


@pytest.mark.parametrize("votes", [1, 40])
def test_noise_that_meets_a_target_meets_it_for_all_votes_together(votes):
    mechanism = GaussianMechanism("votes", "queries")
    sigma = mechanism.calibrated({"queries": float(votes)}, 1, 1, delta=1e-5, target=2.0)
    accountant = PLDAccountant().compose(GaussianDpEvent(sigma), votes)
    assert 1.99 < accountant.get_epsilon(1e-5) <= 2.0 + 1e-3
