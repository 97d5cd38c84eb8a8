"""What a plan holds: arms, settings, refusals, jobs. Its figures are in test_plan_epsilon.py."""

import math
import subprocess
import sys
from dataclasses import replace

import pytest
from plans import config, keys, plan, table

from fairaudit.errors import EXIT_INPUT, EXIT_PRIVACY, ConfigError, PrivacyError
from fairaudit.methods.catalog import Guarantee, find
from fairaudit.methods.defaults import default_delta
from fairaudit.planning.plan import make_plan

pytestmark = pytest.mark.usefixtures("quick_accountant")


# --- arms --------------------------------------------------------------------------------------------


def test_the_reference_comes_first_and_is_always_trained():
    found = plan(method=("dpsgd",), repeats=3)
    assert keys(found) == ["sgd", "dpsgd"]
    reference, arm = found.arms
    assert reference.reference is None
    assert reference.privacy.guarantee is Guarantee.NONE
    assert (reference.repeats, arm.repeats) == (1, 3)
    assert arm.reference == "sgd"


def test_asking_for_the_reference_or_for_a_method_twice_adds_no_arm():
    assert keys(plan(method=("sgd", "dpsgd", "dp-sgd", "DPSGD"))) == ["sgd", "dpsgd"]


def test_a_control_brings_its_source_and_comes_after_it():
    found = plan(method=("dpsgd-matched",))
    assert keys(found) == ["sgd", "global-adapt", "dpsgd-matched"]
    assert found.arm("dpsgd-matched").source == "global-adapt"
    ids = {(job.arm, job.seed): job.id for job in found.jobs}
    job = next(j for j in found.jobs if j.arm == "dpsgd-matched")
    assert job.source_id == ids["global-adapt", job.seed]


def test_a_sweep_has_an_arm_per_epsilon_and_its_controls_read_their_own():
    found = plan(noise_multiplier=None, epsilon=(1.0, 4.5), method=("global-adapt", "dpsgd-matched"))
    assert keys(found) == [
        "sgd", "global-adapt@1", "dpsgd-matched@1", "global-adapt@4.5", "dpsgd-matched@4.5",
    ]  # fmt: skip
    assert found.arm("dpsgd-matched@4.5").source == "global-adapt@4.5"
    sigma = [found.arm(f"global-adapt@{e}").settings["noise_multiplier"] for e in ("1", "4.5")]
    assert sigma[0] > sigma[1]


def test_a_variant_is_an_arm_beside_the_default_without_an_epsilon():
    found = plan(method=("dpsgd", "global-adapt"), variant=("as-published",))
    assert keys(found) == ["sgd", "dpsgd", "dpsgd:as-published", "global-adapt", "global-adapt:as-published"]
    privacy = found.arm("dpsgd:as-published").privacy
    assert privacy.guarantee is Guarantee.NOT_ESTABLISHED
    assert privacy.event is privacy.epsilon_pld is privacy.epsilon_rdp is None
    assert "realised batch" in privacy.reason
    assert found.arm("dpsgd:as-published").trainer != found.arm("dpsgd").trainer


def test_a_self_check_arm_is_measured_against_its_twin_on_samples_of_its_own():
    found = plan(method=("dpsgd", "dpsgd-matched"), variant=("as-published",), self_check=True)
    twin = found.arm("dpsgd#self-check")
    assert twin.reference == "dpsgd"
    assert not twin.shares_samples
    assert found.arm("dpsgd").shares_samples
    assert twin.settings == found.arm("dpsgd").settings
    assert twin.privacy == found.arm("dpsgd").privacy
    assert "dpsgd-matched#self-check" not in keys(found)
    assert len(set(keys(found))) == len(keys(found))


def test_all_means_every_method_of_the_catalog():
    assert {"sgd", "dpsgd", "dpsgd-matched", "global", "global-adapt"} <= set(keys(plan(method=("all",))))


def test_every_reference_and_source_of_an_arm_is_an_arm():
    found = plan(
        noise_multiplier=None, epsilon=(1.0, 3.0), method=("all",), variant=("as-published",), self_check=True
    )
    assert len(set(keys(found))) == len(keys(found))
    for arm in found.arms:
        assert arm.reference is None or arm.reference in keys(found)
        assert arm.source is None or keys(found).index(arm.source) < keys(found).index(arm.key)


# --- settings ----------------------------------------------------------------------------------------


def settings_of(key="global-adapt", **given):
    return plan(method=(key,), **given).arm(key).settings


def test_a_methods_own_setting_beats_the_option_and_the_option_beats_the_rule():
    by_rule = settings_of()["max_grad_norm"]
    by_option = settings_of(max_grad_norm=7.0)["max_grad_norm"]
    own = settings_of(max_grad_norm=7.0, settings={"global-adapt": {"max_grad_norm": 3.0}})["max_grad_norm"]
    assert by_rule not in (7.0, 3.0)
    assert (by_option, own) == (7.0, 3.0)


def test_every_setting_of_a_method_is_resolved_and_no_other():
    for arm in plan(method=("all",)).arms:
        spec = find(arm.method)
        assert set(arm.settings) == set(spec.settings)
        expected = {"noise_multiplier"} if spec.is_private else set()
        expected |= {"learning_rate"} if spec.trains_by_steps else set()
        expected |= {"max_grad_norm"} if spec.trains_by_steps and spec.is_private else set()
        assert expected <= set(arm.settings)
        assert ("threshold" in arm.settings) == (arm.method in ("global", "global-adapt"))


def test_a_rule_that_spoke_is_told_and_one_that_did_not_is_not():
    assert "learning_rate" in plan(method=("dpsgd",)).origins
    assert "learning_rate" not in plan(method=("dpsgd",), learning_rate=0.3).origins
    assert {"batch_size", "epochs"} <= set(plan(batch_size=None, epochs=None, n_public=2000).origins)


def test_a_shared_step_is_the_effective_one_of_methods_that_scale_by_the_threshold():
    found = plan(
        method=("dpsgd", "global", "global-adapt"), learning_rate=0.2, max_grad_norm=0.5, threshold=10.0
    )
    assert found.arm("sgd").settings["learning_rate"] == 0.2
    assert found.arm("dpsgd").settings["learning_rate"] == 0.2
    assert found.arm("global").settings["learning_rate"] == pytest.approx(0.2 * 20)
    own = plan(method=("global",), learning_rate=0.2, settings={"global": {"learning_rate": 0.9}})
    assert own.arm("global").settings["learning_rate"] == 0.9


@pytest.mark.parametrize("model", ["logistic", "mlp"])
def test_at_the_defaults_all_methods_of_noised_steps_go_equally_far_and_clip_at_one_bound(model):
    methods = ("dpsgd", "dpsgd-matched", "global", "global-adapt", "dpsgd-f", "reweight", "fairlens")
    found = plan(method=methods, model=model, noise_multiplier=40.0)
    reach = {
        arm.settings["learning_rate"] * arm.settings["max_grad_norm"] / arm.settings.get("threshold", bound)
        for arm in found.arms[1:]
        for bound in (arm.settings["max_grad_norm"],)
    }
    assert len(reach) == 1
    assert reach.pop() < found.arm("sgd").settings["learning_rate"]  # noise shortens it
    bounds = {arm.settings.get("threshold", arm.settings["max_grad_norm"]) for arm in found.arms[1:]}
    assert bounds == {found.arm("dpsgd").settings["max_grad_norm"]}


def test_a_smaller_epsilon_shortens_the_default_step_and_no_given_one():
    def steps(**given):
        found = plan(method=("dpsgd",), epsilon=(8.0, 0.1), noise_multiplier=None, **given)
        return [arm.settings["learning_rate"] for arm in found.arms[1:]]

    large, small = steps()
    assert small < large
    assert steps(learning_rate=0.3) == [0.3, 0.3]


def test_without_noise_the_default_step_is_the_references():
    found = plan(method=("dpsgd",), epsilon=(), noise_multiplier=0.0)
    assert found.arm("dpsgd").settings["learning_rate"] == found.arm("sgd").settings["learning_rate"]


def test_a_given_bound_above_the_rule_moves_the_threshold_along_and_leaves_the_step():
    rule, given = (
        plan(method=("global",)).arm("global"),
        plan(method=("global",), max_grad_norm=99.0).arm("global"),
    )
    assert given.settings["threshold"] == 99.0
    assert given.settings["learning_rate"] == rule.settings["learning_rate"]


def test_a_control_takes_the_settings_of_what_it_controls():
    theirs = {"global-adapt": {"learning_rate": 0.7, "max_grad_norm": 0.4}}
    found = plan(method=("dpsgd-matched",), settings=theirs)
    for name in ("learning_rate", "max_grad_norm"):
        assert found.arm("dpsgd-matched").settings[name] == found.arm("global-adapt").settings[name]
    shared = plan(method=("dpsgd-matched",), learning_rate=0.2)
    assert (
        shared.arm("dpsgd-matched").settings["learning_rate"]
        == shared.arm("global-adapt").settings["learning_rate"]
    )


def test_a_control_takes_the_noise_of_what_it_controls():
    found = plan(method=("dpsgd-matched",), settings={"global-adapt": {"noise_multiplier": 2.0}})
    assert found.arm("global-adapt").settings["noise_multiplier"] == 2.0
    assert found.arm("dpsgd-matched").settings["noise_multiplier"] == 2.0


# --- refusals ----------------------------------------------------------------------------------------


def refused(kind, code, **given):
    with pytest.raises(kind) as caught:
        plan(**given)
    assert caught.value.exit_code == code
    assert caught.value.hint
    assert "\n" not in str(caught.value)
    return caught.value


@pytest.mark.parametrize("delta", [1 / 300, 0.5])
def test_a_delta_that_is_not_below_one_over_n_is_refused_with_one_that_is(delta):
    error = refused(ConfigError, EXIT_INPUT, delta=delta)
    offered = float(error.hint.split()[-1])
    assert offered == default_delta(300)
    plan(delta=offered)


def test_a_delta_just_below_one_over_n_is_taken():
    plan(delta=0.999 / 300)


def test_a_count_noise_that_drowns_the_batch_is_refused_with_what_would_work():
    given = {"method": ("global-adapt",), "batch_size": 10}
    error = refused(PrivacyError, EXIT_PRIVACY, **given)
    assert "count_noise_multiplier" in error.message
    assert "20" in error.hint
    plan(**{**given, "batch_size": 20})
    plan(**given, settings={"global-adapt": {"count_noise_multiplier": 5.0}})


def test_a_batch_that_the_count_noise_hint_names_is_accepted_whatever_n_is():
    """The schedule rounds the batch down to N / ceil(N / batch): the hint must survive that."""
    given = {"method": ("global-adapt",), "n_public": 301, "delta": 1e-4}
    error = refused(PrivacyError, EXIT_PRIVACY, **given, batch_size=10)
    batch = int(error.hint.split("batch size of ")[1].split()[0])
    plan(**given, batch_size=batch)


def test_a_batch_larger_than_the_training_records_is_refused():
    error = refused(ConfigError, EXIT_INPUT, batch_size=301)
    assert "300" in error.hint
    plan(batch_size=300)
    assert (
        "batch size 12,345,678 is larger than the 300 "
        in refused(ConfigError, EXIT_INPUT, batch_size=12_345_678).message
    )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"method": ("dpsdg",)}, "dpsdg"),
        ({"variant": ("as-printed",)}, "as-printed"),
        ({"settings": {"dpsgd": {"max_grad_nrm": 1.0}}, "method": ("dpsgd",)}, "max_grad_nrm"),
        ({"settings": {"dpsdg": {"max_grad_norm": 1.0}}}, "dpsdg"),
        ({"settings": {"dpsgd": {"threshold": 1.0}}, "method": ("dpsgd",)}, "threshold"),
    ],
    ids=["method", "variant", "setting", "method of a setting", "setting of another method"],
)
def test_an_unknown_name_is_refused_with_the_known_ones(given, said):
    assert said in refused(ConfigError, EXIT_INPUT, **given).message


SENSELESS = [
    (name, value)
    for name in ("max_grad_norm", "learning_rate", "noise_multiplier", "count_noise_multiplier")
    for value in (-1.0, 0.0, math.nan, math.inf)
    if (name, value) != ("noise_multiplier", 0.0)  # not private, and said so
]


@pytest.mark.parametrize(("name", "value"), SENSELESS)
def test_a_setting_that_makes_no_sense_is_refused(name, value):
    refused(ConfigError, EXIT_INPUT, method=("global-adapt",), settings={"global-adapt": {name: value}})


# --- jobs --------------------------------------------------------------------------------------------


def ids(dataset=None, **given):
    return [job.id for job in make_plan(config(**given), dataset or table()).jobs]


BASE = {"method": ("dpsgd",)}

SAME = {
    "workers": {"workers": 2}, "out": {"out": "elsewhere"}, "device": {"device": "cpu"},
    "resume": {"resume": False}, "format": {"format": ("json",)}, "memory": {"memory": 64},
    "path": {"data": "moved.csv"}, "suppression": {"suppress_below": 10},
    "option that spells out its default": {"optimizer": "sgd"},
    "method's alias": {"method": ("dp-sgd",)},
    "favourable": {"favourable": "0"},
}  # fmt: skip

DIFFERENT = {
    "seed": {"seed": 7}, "repeats": {"repeats": 2}, "noise": {"noise_multiplier": 2.0},
    "bound": {"max_grad_norm": 0.25}, "step": {"learning_rate": 0.01}, "epochs": {"epochs": 2},
    "batch": {"batch_size": 50}, "N": {"n_public": 301}, "model": {"model": "mlp"},
    "group": {"group": ()}, "split": {"test_size": 0.3}, "balance": {"balance": True},
    "keep": {"keep": {"F": 0.5}}, "missing": {"missing": "drop"}, "drop": {"drop": ("c0",)},
    "optimizer": {"optimizer": "adam"}, "diagnostics": {"diagnostics": "off"},
    "rare levels": {"merge_rare": 0.01}, "group as feature": {"group_as_feature": True},
    "bins": {"bin": {"c0": "q4"}}, "contrast": {"contrast": {"sex": "F"}}, "label": {"label": "y"},
}  # fmt: skip


@pytest.mark.parametrize("given", SAME.values(), ids=SAME)
def test_a_job_keeps_its_id_when_nothing_its_result_depends_on_changes(given):
    assert ids(**{**BASE, **given}) == ids(**BASE)


@pytest.mark.parametrize("given", DIFFERENT.values(), ids=DIFFERENT)
def test_a_job_gets_another_id_when_its_result_would_change(given):
    private = ids(**{**BASE, **given})[1]
    assert private != ids(**BASE)[1]


def test_other_data_make_other_jobs():
    assert set(ids(table(digest="e" * 64))).isdisjoint(ids())


def test_more_seeds_or_methods_leave_the_jobs_at_hand_as_they_were():
    few = set(ids(**BASE))
    assert few <= set(ids(**BASE, seeds=3))
    assert few <= set(
        ids(method=("dpsgd", "global", "global-adapt"), self_check=True, variant=("as-published",))
    )


def test_options_of_other_methods_do_not_void_a_job():
    assert ids(**BASE) == ids(**BASE, threshold=9.0, settings={"global": {"threshold": 3.0}})


def test_a_control_depends_on_the_job_it_reads():
    one = ids(method=("dpsgd-matched",))[2]
    other = ids(method=("dpsgd-matched",), settings={"global-adapt": {"tolerance": 0.7}})[2]
    assert one != other


def test_jobs_are_distinct_and_come_seed_by_seed_in_the_arms_order():
    found = plan(method=("global-adapt", "dpsgd-matched"), seeds=3, seed=5)
    assert [job.seed for job in found.jobs] == [5] * 3 + [6] * 3 + [7] * 3
    assert [job.arm for job in found.jobs] == keys(found) * 3
    assert len({job.id for job in found.jobs}) == 9


# --- the plan and the data -----------------------------------------------------------------------------


def test_with_a_public_n_the_plan_of_neighbouring_tables_is_one():
    """docs/methods.md 9, plan: nothing of the privacy argument follows the rows."""
    small, large = (make_plan(config(method=("all",)), table(rows)) for rows in (60, 61))
    assert small.schedule == large.schedule
    assert small.delta == large.delta
    assert small.arms == large.arms
    assert small.epsilon_if_all_released == large.epsilon_if_all_released


def test_without_one_n_is_the_number_of_training_rows():
    """So that the law above can fail."""
    small, large = (
        make_plan(config(n_public=None, batch_size=10, delta=None, method=("dpsgd",)), table(rows))
        for rows in (60, 80)
    )
    assert (small.schedule.n_public, large.schedule.n_public) == (48, 64)


def test_the_resolved_model_and_delta_are_told():
    found = plan(delta=None, model="auto")
    assert found.model == "logistic"
    assert found.delta == default_delta(300)


def test_few_seeds_and_unequal_epsilons_are_noticed():
    counts = {"global-adapt": {"count_noise_multiplier": 2.0}}
    found = plan(method=("dpsgd", "global-adapt"), settings=counts)
    assert {n.code for n in found.notices} == {"few_seeds", "unequal_epsilon"}
    assert plan(method=("dpsgd",), seeds=5).notices == ()


def test_one_seed_is_said_to_have_no_intervals_and_two_to_have_wide_ones():
    told = {seeds: plan(method=("dpsgd",), seeds=seeds).notices[0].message for seeds in (1, 2)}
    assert told[1] == "1 seed: a single one leaves no interval, and no measurement is gated"
    assert told[2] == "2 seeds: intervals are wide and not gated"


def test_a_plan_is_made_without_torch():
    code = "import sys, fairaudit.planning.plan, fairaudit.planning.arms; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_plan_cannot_be_changed():
    found = plan()
    with pytest.raises(AttributeError):
        found.delta = 0.5
    assert replace(found, delta=0.5).delta == 0.5
