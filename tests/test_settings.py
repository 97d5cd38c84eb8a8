"""Every setting of every method: its range holds, and what is not read is not given in silence."""

import itertools
import math
import re

import numpy as np
import pytest
from forms import RULES, SETTINGS
from people import people
from plans import config, empty_dataset

from fairaudit.audit import prepare
from fairaudit.config.value_sources import resolve_config
from fairaudit.errors import EXIT_INPUT, ConfigError
from fairaudit.methods.catalog import catalog
from fairaudit.methods.defaults import PublicSizes, Rule
from fairaudit.planning.plan import make_plan

KNOWN = [(spec, name) for spec in catalog().values() for name in spec.known_settings]
EACH = pytest.mark.parametrize(
    ("spec", "name"), KNOWN, ids=lambda part: getattr(part, "name", part)
)


@pytest.fixture(autouse=True)
def quick_accountant(monkeypatch):
    monkeypatch.setattr("fairaudit.planning.guarantees.epsilon", lambda *event: 1.0)
    monkeypatch.setattr("fairaudit.planning.plan.composed_epsilon", lambda *runs: 1.0)


def planned(spec, values, **given):
    """A plan that trains the method in all its forms, with these numbers."""
    named = {"all": (), "dpsgd-matched": ("dpsgd-matched",)}.get(
        spec.name, (spec.reference_of or spec.name,)
    )
    fields = {
        "method": named,
        "variant": tuple(v.name for v in spec.variants),
        "settings": {spec.name: values},
        "n_public": 100_000_000,  # so that the largest count noise is small beside the batch
        "batch_size": 50_000_000,
        "delta": 1e-10,
        "public_data": None,
    }
    return make_plan(config(**{**fields, **given}), empty_dataset(rows=300))


def ends(spec, name):
    setting = spec.known_settings[name]
    sizes = PublicSizes(100_000_000, 6, "logistic", pool=30)  # half of the 60 test rows
    high = setting.high.value(sizes) if isinstance(setting.high, Rule) else setting.high
    return setting.low, high


@EACH
def test_a_value_outside_its_range_is_refused_with_the_range(spec, name):
    low, high = ends(spec, name)
    below = [np.nextafter(low, -math.inf), -math.inf]
    above = [np.nextafter(high, math.inf), math.inf, math.nan]
    fractions = [low + 0.5] if spec.known_settings[name].whole else []
    for value in (*below, *above, *fractions):
        with pytest.raises(ConfigError) as caught:
            planned(spec, {name: float(value)})
        said = caught.value.message.replace(",", "")
        assert f"{name} is" in said
        numbers = re.findall(r"(?<![\w.])\d[\d.]*(?:e[+-]?\d+)?", said.split("which is not")[1])
        assert {low, high} <= set(map(float, numbers)), said


@EACH
def test_the_ends_of_a_range_are_in_it(spec, name):
    if name in spec.conversions:  # what it is turned into has a range of its own
        planned(spec, {name: 1.0, "queries": 30.0} if "student" in name else {name: 1.0})
        return
    for value in ends(spec, name):
        found = planned(spec, {name: float(value)})
        assert value in [arm.settings.get(name) for arm in found.arms]


def test_every_default_lies_in_its_range_whatever_the_sizes():
    sizes = itertools.product((1, 30, 10_000, 10**9), (1, 100, 10_000), ("logistic", "mlp"))
    for n, columns, name in sizes:
        size = PublicSizes(n, columns, name, groups=200, pool=max(1, n // 10))
        for key, rule in RULES.items():
            value = rule.value(size)
            if key not in SETTINGS:  # batch size and epochs
                assert value == int(value) > 0, (key, size)
            elif not (key == "teachers" and n == 1):
                assert SETTINGS[key].admits(value, size), (key, size)


# --- what is no number
# ------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [True, "0.5", None])
def test_what_is_no_number_is_refused(value):
    with pytest.raises(ConfigError):
        resolve_config({"data": "x.csv", "settings": {"fairlens": {"statistic_decay": value}}})


# --- settings that nothing reads
# --------------------------------------------------------------------


@pytest.fixture
def home(tmp_path):
    """A folder with a table."""
    people(2000, label="approved").to_parquet(tmp_path / "people.parquet", index=False)
    return tmp_path


def prepared(folder, **options):
    given = {"data": folder / "people.parquet", "group": "sex", "label": "approved", **options}
    if not {"epsilon", "preset"} & given.keys():
        given["noise_multiplier"] = 1.0
    return prepare(resolve_config(given, folder=folder, environment={}))


def messages(found):
    return [notice.text for notice in found.plan.notices if notice.code == "setting_not_used"]


@pytest.mark.parametrize(
    ("options", "setting"),
    [
        ({"method": "dpsgd"}, "fairlens.gamma2"),
        ({"method": ["all"], "model": "mlp", "epsilon": 3}, "output-perturbation.penalty"),
    ],
)
def test_a_setting_that_nothing_reads_is_refused_on_the_command_line_and_noted_from_a_file(
    home, options, setting
):
    method, _, name = setting.partition(".")
    with pytest.raises(ConfigError, match=re.escape(setting)) as caught:
        prepared(home, **options, settings={method: {name: 1.0}})
    assert caught.value.exit_code == EXIT_INPUT
    (home / "fairaudit.toml").write_text(f'[settings]\n"{method}" = {{ {name} = 1.0 }}\n')
    (said,) = messages(prepared(home, **options))
    assert setting in said
    assert "fairaudit.toml" in said


@pytest.mark.parametrize(
    ("options", "setting"),
    [
        ({"method": "dpsgd"}, "sgd.learning_rate"),
        ({"method": "ablation"}, "dpsgd.max_grad_norm"),
        ({"method": "dpsgd-matched"}, "global-adapt.tolerance"),
        ({"method": "output-perturbation", "epsilon": 3}, "exact-minimiser.penalty"),
        ({"method": "fairlens", "variant": "t21-eq6"}, "fairlens.gamma1"),
        ({"method": "global-adapt"}, "dpsgd-global-adapt.tolerance"),
        ({"method": "pate-hard", "epsilon": 3}, "pate-hard.teacher_penalty_of_sum"),
    ],
)
def test_a_setting_that_something_reads_is_taken_and_changes_an_arm(home, options, setting):
    method, _, name = setting.partition(".")
    before = prepared(home, **options).plan.arms
    after = prepared(home, **options, settings={method: {name: 0.7}}).plan
    assert [dict(arm.settings) for arm in after.arms] != [dict(arm.settings) for arm in before]
    assert not after.unread


def test_an_unknown_or_senseless_setting_of_a_method_that_is_not_run_is_refused_from_a_file_too(
    home,
):
    for line in ("statistic_decay = 3.0", "statistic_deacy = 0.5", "statistic_decay = nan"):
        (home / "fairaudit.toml").write_text(f"[settings.fairlens]\n{line}\n")
        with pytest.raises(ConfigError, match="fairlens"):
            prepared(home, method="dpsgd")


def test_the_settings_of_a_preset_serve_the_methods_that_are_run_and_the_others_in_silence(home):
    found = prepared(
        home, preset="xu-adult", method="dpsgd", contrast={}, drop=[], label="approved"
    )
    assert found.plan.unread
    assert messages(found) == []


# --- a plugin's own
# ---------------------------------------------------------------------------------


def test_a_gradients_noise_is_not_the_noise_of_a_method_without_gradients(home):
    with pytest.raises(ConfigError, match="does not set its noise"):
        prepared(home, method="output-perturbation")
    own = {"output-perturbation": {"noise_multiplier": 2.0}}
    arm = prepared(home, method="output-perturbation", settings=own).plan.arm("output-perturbation")
    assert arm.settings["noise_multiplier"] == 2.0
    every = prepared(home, method="all").plan
    assert "pate-hard" not in [arm.key for arm in every.arms]
    assert any("pate-hard is left out" in notice.text for notice in every.notices)
