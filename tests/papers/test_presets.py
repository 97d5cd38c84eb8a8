"""The presets' numbers against those that the papers print."""

import math

import pytest

from fairaudit.config.options import AuditConfig
from fairaudit.methods.catalog import find
from fairaudit.papers.presets import PRESETS as ALL

PRESETS = {preset.name: preset for preset in ALL}
ESIPOVA = ["esipova-adult", "esipova-dutch"]


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_is_a_valid_config_whose_settings_its_methods_have(name: str) -> None:
    config = AuditConfig.model_validate({"data": "x", **PRESETS[name].fields})
    assert PRESETS[name].notes
    for method, numbers in config.settings.items():
        assert set(numbers) <= set(find(method).known_settings)


@pytest.mark.parametrize("name", ["xu-adult", "xu-dutch"])
def test_the_presets_of_xu_step_by_one_over_the_root_of_the_steps(name: str) -> None:
    config = AuditConfig.model_validate({"data": "x", **PRESETS[name].fields})
    rows = {"xu-adult": 36_178, "xu-dutch": 48_336}[name]
    assert (config.epochs, config.batch_size, config.model) == (20, 256, "logistic")
    assert config.learning_rate == pytest.approx((20 * math.ceil(rows / 256)) ** -0.5, rel=5e-3)


def test_the_preset_of_tran_is_the_papers_network_and_noise() -> None:
    config = AuditConfig.model_validate({"data": "x", **PRESETS["tran-dpsgd"].fields})
    assert (config.hidden, config.activation, config.batch_size) == ((20,), "tanh", 32)
    assert (config.noise_multiplier, config.max_grad_norm, config.learning_rate) == (5.0, 0.1, 1e-4)


@pytest.mark.parametrize("name", ESIPOVA)
def test_every_esipova_preset_has_the_papers_schedule_and_its_discrepancies(name: str) -> None:
    preset = PRESETS[name]
    config = AuditConfig.model_validate({"data": "x", **preset.fields})
    assert config.settings["dpsgd-f"]["count_noise_multiplier"] == 10.0
    assert config.delta == 1e-6
    assert config.noise_multiplier == 1.0
    assert (config.epochs, config.batch_size, config.test_size) == (20, 256, 0.2)
    assert config.settings["global-adapt"]["count_noise_multiplier"] == 10.0


def test_presets_are_the_papers_numbers() -> None:
    adult, dutch = (AuditConfig.model_validate({"data": "x", **PRESETS[n].fields}) for n in ESIPOVA)
    assert (adult.max_grad_norm, dutch.max_grad_norm) == (0.5, 0.1)
    assert adult.settings["global"] == {"learning_rate": 1.0, "threshold": 50.0}
    assert dutch.settings["global"] == {"learning_rate": 2.0, "threshold": 1.0}
    assert [preset.settings["dpsgd"]["learning_rate"] for preset in (adult, dutch)] == [0.01, 0.8]
    assert adult.balance
    assert not dutch.balance


def test_the_presets_on_images_are_the_papers_numbers() -> None:
    mnist, celeba = (
        AuditConfig.model_validate({"data": "x", **PRESETS[n].fields})
        for n in ("esipova-mnist", "esipova-celeba")
    )
    for config in (mnist, celeba):
        assert (config.model, config.activation, config.batch_size, config.optimizer) == (
            "cnn",
            "tanh",
            256,
            "sgd",
        )
        assert (config.noise_multiplier, config.max_grad_norm, config.delta) == (0.8, 1.0, 1e-6)
        assert (config.split_column, config.diagnostics_every, config.pixel_range) == (
            "split",
            200,
            "unit",
        )
        steps = {
            name: config.settings[name]["learning_rate"] for name in ("sgd", "dpsgd", "dpsgd-f")
        }
        assert set(steps.values()) == {0.01}
        assert config.settings["dpsgd-f"]["count_noise_multiplier"] == 8.0
        adapt = config.settings["global-adapt"]
        assert (adapt["tolerance"], adapt["threshold_learning_rate"]) == (0.7, 0.1)
        assert (adapt["count_noise_multiplier"], adapt["learning_rate"]) == (10.0, 0.1)
    assert (mnist.epochs, mnist.keep, mnist.compare) == (60, {"8": 0.09}, ("2,8",))
    assert (mnist.group_by_label, mnist.group) == (True, ())
    assert mnist.settings["global"] == {"learning_rate": 0.2, "threshold": 100.0}
    assert mnist.settings["global-adapt"]["threshold"] == 50.0
    assert (celeba.epochs, celeba.label, celeba.group) == (30, "Male", ("Eyeglasses",))
    assert celeba.settings["global"] == {"learning_rate": 0.1, "threshold": 100.0}
    assert celeba.settings["global-adapt"]["threshold"] == 100.0
