import pytest
from plans import keys, plan

from fairaudit.errors import ConfigError
from fairaudit.methods.catalog import find
from fairaudit.methods.defaults import PublicSizes
from fairaudit.planning.chosen import unmet


def lacking(name, **sizes):
    return unmet(
        find(name),
        PublicSizes(**{"n_public": 1000, "columns": 5, "model": "logistic", "pool": 100, **sizes}),
    )


@pytest.mark.parametrize("model", ["mlp", "logistic-squashed"])
def test_output_perturbation_needs_a_convex_model(model):
    assert lacking("output-perturbation") is None
    assert model in lacking("output-perturbation", model=model).reason
    assert lacking("pate-hard", model=model) is None


def test_pate_needs_two_teachers_and_a_pool():
    assert "199" in lacking("pate-soft", n_public=199).reason
    assert "pool" in lacking("pate-soft", pool=0).reason
    assert lacking("output-perturbation", n_public=199, pool=0) is None


def test_a_method_asked_for_by_name_is_refused_where_its_need_is_not_met():
    with pytest.raises(ConfigError, match="needs a convex model") as caught:
        plan(method=("output-perturbation",), model="mlp")
    assert "--model logistic" in caught.value.hint


def test_a_reference_comes_with_its_method_and_takes_its_settings():
    found = plan(
        method=("output-perturbation",), settings={"output-perturbation": {"penalty": 1.0}}
    )
    assert keys(found)[:3] == ["sgd", "exact-minimiser", "output-perturbation"]
    assert found.arm("exact-minimiser").settings["penalty"] == 1.0
    assert found.arm("output-perturbation").reference == "exact-minimiser"
    assert found.arm("exact-minimiser").repeats == 1


def test_a_noise_multiplier_of_the_gradient_says_nothing_of_other_mechanisms():
    arm = plan(method=("output-perturbation",), noise_multiplier=1.0, epsilon=(0.5,)).arm(
        "output-perturbation"
    )
    assert arm.privacy.target_epsilon == 0.5
    assert arm.settings["noise_multiplier"] > 5
    own = plan(
        method=("output-perturbation",), settings={"output-perturbation": {"noise_multiplier": 9.0}}
    ).arm("output-perturbation")
    assert own.settings["noise_multiplier"] == 9.0
    assert own.privacy.target_epsilon is None


def test_an_unsampled_arm_composes_with_the_sampled_ones_by_itself():
    together = plan(method=("dpsgd", "output-perturbation"), epsilon=(1.0,), noise_multiplier=None)
    alone = plan(method=("dpsgd",), epsilon=(1.0,), noise_multiplier=None)
    assert together.training.epsilon_if_all_released > alone.training.epsilon_if_all_released
    assert not together.arm("output-perturbation").shares_samples


def test_a_variant_that_the_methods_proof_covers_keeps_its_epsilon():
    found = plan(method=("pate-soft",), variant=("no-project",), epsilon=(1.0,))
    default, printed = (found.arm(key).privacy for key in ("pate-soft", "pate-soft:no-project"))
    assert printed == default
    assert printed.epsilon.pld <= 1.0
    published = plan(method=("output-perturbation",), variant=("group-normalise",)).arms[-1]
    assert published.privacy.epsilon is None
    assert published.reads_groups
