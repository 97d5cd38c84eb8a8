"""What a plan holds: arms, settings, refusals, jobs. Its figures are in test_plan_epsilon.py."""

from dataclasses import replace

import pytest
from plans import config, empty_dataset, keys, plan
from refusals import refused_in_one_line

from fairaudit.errors import EXIT_INPUT, EXIT_PRIVACY, ConfigError, PrivacyError
from fairaudit.methods.catalog import Guarantee, find
from fairaudit.methods.defaults import default_delta
from fairaudit.planning.plan import make_plan

pytestmark = pytest.mark.usefixtures("quick_accountant")


# --- arms
# --------------------------------------------------------------------------------------------


def test_a_sweep_has_an_arm_per_epsilon_and_its_controls_read_their_own():
    found = plan(
        noise_multiplier=None, epsilon=(1.0, 4.5), method=("global-adapt", "dpsgd-matched")
    )
    assert keys(found) == [
        "sgd",
        "global-adapt@1",
        "dpsgd-matched@1",
        "global-adapt@4.5",
        "dpsgd-matched@4.5",
    ]
    assert found.arm("dpsgd-matched@4.5").source == "global-adapt@4.5"
    sigma = [found.arm(f"global-adapt@{e}").settings["noise_multiplier"] for e in ("1", "4.5")]
    assert sigma[0] > sigma[1]


def test_an_epsilon_that_is_given_twice_has_one_arm():
    found = plan(noise_multiplier=None, epsilon=(1.0, 4.5, 1.0), method=("dpsgd",))
    assert keys(found) == ["sgd", "dpsgd@1", "dpsgd@4.5"]
    assert len({job.id for job in found.jobs}) == len(found.jobs)


def test_a_variant_is_an_arm_beside_the_default_without_an_epsilon():
    found = plan(method=("dpsgd", "global-adapt"), variant=("as-published",))
    assert keys(found) == [
        "sgd",
        "dpsgd",
        "dpsgd:as-published",
        "global-adapt",
        "global-adapt:as-published",
    ]
    privacy = found.arm("dpsgd:as-published").privacy
    assert privacy.guarantee is Guarantee.NOT_ESTABLISHED
    assert privacy.event is privacy.epsilon is None
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


def test_every_reference_and_source_of_an_arm_is_an_arm():
    found = plan(
        noise_multiplier=None,
        epsilon=(1.0, 3.0),
        method=("all",),
        variant=("as-published",),
        self_check=True,
    )
    assert len(set(keys(found))) == len(keys(found))
    for arm in found.arms:
        assert arm.reference is None or arm.reference in keys(found)
        assert arm.source is None or keys(found).index(arm.source) < keys(found).index(arm.key)


# --- settings
# ----------------------------------------------------------------------------------------


def settings_of(key="global-adapt", **given):
    return plan(method=(key,), **given).arm(key).settings


def test_a_methods_own_setting_beats_the_option_and_the_option_beats_the_rule():
    own = {"global-adapt": {"max_grad_norm": 3.0}}
    given = ({}, {"max_grad_norm": 7.0}, {"max_grad_norm": 7.0, "settings": own})
    bounds = [settings_of(**options)["max_grad_norm"] for options in given]
    assert bounds[0] not in (7.0, 3.0)
    assert bounds[1:] == [7.0, 3.0]


def test_every_setting_of_a_method_is_resolved_and_no_other():
    for arm in plan(method=("all",)).arms:
        spec = find(arm.method)
        assert set(arm.settings) == set(spec.settings)
        expected = {"noise_multiplier"} if spec.is_private else set()
        expected |= {"learning_rate"} if spec.trains_by_steps else set()
        expected |= {"max_grad_norm"} if spec.trains_by_steps and spec.is_private else set()
        assert expected <= set(arm.settings)
        assert ("threshold" in arm.settings) == (arm.method in ("global", "global-adapt"))


def test_a_shared_step_is_the_effective_one_of_methods_that_scale_by_the_threshold():
    found = plan(
        method=("dpsgd", "global", "global-adapt"),
        learning_rate=0.2,
        max_grad_norm=0.5,
        threshold=10.0,
    )
    assert found.arm("sgd").settings["learning_rate"] == 0.2
    assert found.arm("dpsgd").settings["learning_rate"] == 0.2
    assert found.arm("global").settings["learning_rate"] == pytest.approx(0.2 * 20)
    own = plan(method=("global",), learning_rate=0.2, settings={"global": {"learning_rate": 0.9}})
    assert own.arm("global").settings["learning_rate"] == 0.9


@pytest.mark.parametrize("model", ["logistic", "mlp"])
def test_at_the_defaults_all_methods_of_noised_steps_go_equally_far_and_clip_at_one_bound(model):
    methods = ("dpsgd-matched", "global", "global-adapt", "dpsgd-f", "reweight", "fairlens")
    found = plan(method=("dpsgd", *methods), model=model, noise_multiplier=40.0)
    steps, bounds = set(), set()
    for arm in found.arms[1:]:
        bound = arm.settings["max_grad_norm"]
        threshold = arm.settings.get("threshold", bound)
        steps.add(arm.settings["learning_rate"] * bound / threshold)
        bounds.add(threshold)
    (step,) = steps
    assert step < found.arm("sgd").settings["learning_rate"]  # noise shortens it
    assert bounds == {found.arm("dpsgd").settings["max_grad_norm"]}


@pytest.mark.parametrize(
    ("given", "weight", "ratio", "decay"),
    [
        ({"max_grad_norm": 1.0}, 1.0, 1.5, 0.995),
        ({}, 0.0, 10 / 2**0.5, 0.95),  # clipping takes next to nothing
        ({"max_grad_norm": 1.0, "model": "mlp"}, 0.0, 10 / 2**0.5, 0.95),
        ({"max_grad_norm": 1.0, "model": "logistic-squashed"}, 0.0, 10 / 2**0.5, 0.95),
        ({"max_grad_norm": 1.0, "settings": {"fairlens": {"gamma1": 0.0}}}, 0.0, 1.5, 0.995),
        ({"max_grad_norm": 1.0, "settings": {"fairlens": {"gamma1": 3.0}}}, 3.0, 1.5, 0.995),
    ],
)
def test_fairlens_has_its_half_about_clipping_where_a_linear_model_is_clipped(
    given, weight, ratio, decay
):
    settings = plan(method=("fairlens",), noise_multiplier=2.0, **given).arm("fairlens").settings
    found = [settings[name] for name in ("gamma1", "statistic_noise_ratio", "statistic_decay")]
    assert found == pytest.approx([weight, ratio, decay])


def test_of_many_classes_fairlens_has_the_half_about_noise_alone():
    given = config(method=("fairlens",), noise_multiplier=2.0, max_grad_norm=1.0)
    for classes, kept in ((20, 1.0), (400, 0.0)):  # times 7: six columns and the bias
        names = tuple(map(str, range(classes)))
        made = make_plan(given, replace(empty_dataset(), classes=names))
        assert made.arm("fairlens").settings["gamma1"] == kept


def test_a_gamma1_that_the_model_cannot_have_is_not_given_in_silence():
    given = {"settings": {"fairlens": {"gamma1": 2.0}}, "noise_multiplier": 2.0, "model": "mlp"}
    found = plan(method=("fairlens",), **given)
    assert found.arm("fairlens").settings["gamma1"] == 0.0
    assert ("fairlens", "gamma1") in found.unread
    both = plan(method=("fairlens",), variant=("t21-eq6",), **given)  # the published form reads it
    assert both.arm("fairlens:t21-eq6").settings["gamma1"] == 2.0
    assert not both.unread


def test_a_smaller_epsilon_shortens_the_default_step_and_no_given_one():
    def steps(**given):
        found = plan(method=("dpsgd",), epsilon=(8.0, 0.1), noise_multiplier=None, **given)
        return [arm.settings["learning_rate"] for arm in found.arms[1:]]

    large, small = steps()
    assert small < large
    assert steps(learning_rate=0.3) == [0.3, 0.3]


def test_without_noise_the_default_step_is_the_references():
    reference, arm = plan(method=("dpsgd",), epsilon=(), noise_multiplier=0.0).arms
    assert arm.settings["learning_rate"] == reference.settings["learning_rate"]


def test_a_given_bound_above_the_rule_moves_the_threshold_along_and_leaves_the_step():
    rule, given = (settings_of("global", **more) for more in ({}, {"max_grad_norm": 99.0}))
    assert given["threshold"] == 99.0
    assert given["learning_rate"] == rule["learning_rate"]


def test_a_control_takes_the_settings_and_the_noise_of_what_it_controls():
    theirs = {"learning_rate": 0.7, "max_grad_norm": 0.4, "noise_multiplier": 2.0}
    control = plan(method=("dpsgd-matched",), settings={"global-adapt": theirs}).arm(
        "dpsgd-matched"
    )
    assert theirs.items() <= control.settings.items()
    shared = plan(method=("dpsgd-matched",), learning_rate=0.2)
    steps = [shared.arm(key).settings["learning_rate"] for key in ("dpsgd-matched", "global-adapt")]
    assert steps[0] == steps[1]


# --- refusals
# ----------------------------------------------------------------------------------------


def refused(kind, code, **given):
    with refused_in_one_line(kind) as caught:
        plan(**given)
    assert caught.value.exit_code == code
    assert caught.value.hint
    return caught.value


@pytest.mark.parametrize("delta", [1 / 300, 0.5])
def test_a_delta_that_is_not_below_one_over_n_is_refused_with_one_that_is(delta):
    error = refused(ConfigError, EXIT_INPUT, delta=delta)
    offered = float(error.hint.split()[-1])
    assert offered == default_delta(300)
    plan(delta=offered)


@pytest.mark.parametrize("n", [300, 301])
def test_a_count_noise_that_drowns_the_batch_is_refused_with_a_batch_that_would_work(n):
    """The schedule rounds the batch down to N / ceil(N / batch): the hint must survive that."""
    given = {"method": ("global-adapt",), "n_public": n, "delta": 1e-4}
    error = refused(PrivacyError, EXIT_PRIVACY, **given, batch_size=10)
    assert "count_noise_multiplier" in error.message
    plan(**given, batch_size=int(error.hint.split("batch size of ")[1].split()[0]))
    noise = float(error.hint.split("count_noise_multiplier of ")[1].split()[0])
    less = {"global-adapt": {"count_noise_multiplier": noise}}
    plan(**given, batch_size=10, settings=less)


def test_a_batch_larger_than_the_training_records_is_refused():
    assert "300" in refused(ConfigError, EXIT_INPUT, batch_size=301).hint
    plan(batch_size=300)


# --- jobs
# --------------------------------------------------------------------------------------------


def ids(**given):
    return [job.id for job in plan(**given).jobs]


def test_a_control_depends_on_the_job_it_reads():
    one = ids(method=("dpsgd-matched",))[2]
    other = ids(method=("dpsgd-matched",), settings={"global-adapt": {"tolerance": 0.7}})[2]
    assert one != other


# --- the plan and the data
# -----------------------------------------------------------------------------


def test_with_a_public_n_the_plan_of_neighbouring_tables_is_one():
    """docs/methods.md 9, plan: nothing of the privacy argument follows the rows."""
    small, large = (make_plan(config(method=("all",)), empty_dataset(rows)) for rows in (60, 61))
    assert small.training == large.training
    assert small.arms == large.arms
    assert small.training.epsilon_if_all_released == large.training.epsilon_if_all_released


@pytest.mark.parametrize(
    ("options", "item", "expected"),
    [
        ({"balance": True}, "undersampling of groups", True),
        ({"split_column": "part"}, "stratified random split", False),
    ],
)
def test_what_epsilon_does_not_cover_stands_beside_it(options, item, expected):
    privacy = plan(method=("dpsgd",), **options).arm("dpsgd").privacy
    assert (item in privacy.not_covered) is expected


@pytest.mark.parametrize(
    ("options", "by_rule"),
    [
        ({"noise_multiplier": 20.0}, True),
        ({"noise_multiplier": 0.0}, False),
        ({"noise_multiplier": 20.0, "learning_rate": 0.01}, False),  # given: no epsilon moves it
        ({"noise_multiplier": 20.0, "settings": {"dpsgd": {"learning_rate": 0.01}}}, False),
    ],
)
def test_a_noisy_step_that_is_set_by_rule_is_marked(options, by_rule):
    found = plan(method=("dpsgd",), **options)
    assert not found.arm("sgd").step_by_rule
    assert found.arm("dpsgd").step_by_rule is by_rule
