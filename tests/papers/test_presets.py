"""The presets' numbers against those that the papers print."""

import math

import pytest

from fairaudit.config.options import AuditConfig
from fairaudit.data.tabular import load_dataset
from fairaudit.methods.catalog import find
from fairaudit.papers.presets import PRESETS

ESIPOVA = {"batch_size": 256, "optimizer": "sgd", "delta": 1e-6}
TABLES = {**ESIPOVA, "noise_multiplier": 1.0, "epochs": 20, "test_size": 0.2}
IMAGES = {
    **ESIPOVA,
    **{"noise_multiplier": 0.8, "max_grad_norm": 1.0, "model": "cnn", "activation": "tanh"},
    **{"split_column": "split", "diagnostics_every": 200, "pixel_range": "unit"},
}
# preset -> options, then settings of methods, as printed
PRINTED = {
    "esipova-adult": (
        {**TABLES, "max_grad_norm": 0.5, "balance": True, "hidden": (256, 256)},
        {"dpsgd.learning_rate": 0.01, "global.learning_rate": 1.0, "global.threshold": 50.0},
    ),
    "esipova-dutch": (
        {**TABLES, "max_grad_norm": 0.1, "balance": False},
        {"dpsgd.learning_rate": 0.8, "global.learning_rate": 2.0, "global.threshold": 1.0},
    ),
    "esipova-mnist": (
        {**IMAGES, "epochs": 60, "keep": {"8": 0.09}, "compare": ("2,8",), "group_by_label": True},
        {"global.learning_rate": 0.2, "global.threshold": 100.0, "global-adapt.threshold": 50.0},
    ),
    "esipova-celeba": (
        {**IMAGES, "epochs": 30, "label": "Male", "group": ("Eyeglasses",)},
        {"global.learning_rate": 0.1, "global.threshold": 100.0, "global-adapt.threshold": 100.0},
    ),
    "xu-adult": ({**TABLES, "label": "income", "model": "logistic", "max_grad_norm": 0.5}, {}),
    "xu-dutch": ({**TABLES, "label": "occupation", "model": "logistic", "max_grad_norm": 0.1}, {}),
    "tran-dpsgd": (
        {
            **{"hidden": (20,), "activation": "tanh", "batch_size": 32, "noise_multiplier": 5.0},
            **{"max_grad_norm": 0.1, "learning_rate": 1e-4},
        },
        {"fairlens.gamma1": 1.0, "fairlens.gamma2": 1.0},
    ),
    "tran-output-perturbation": (
        {"epsilon": (0.005, 0.05, 0.1, 0.5), "model": "logistic"},
        # Not as printed: with norm 1 all inputs lie on one sphere.
        {"output-perturbation.penalty": 0.01, "output-perturbation.feature_norm": 10.0},
    ),
    "tran-pate": (
        {"method": ("pate-hard", "pate-soft")},
        {"pate-hard.teachers": 150.0, "pate-soft.noise_multiplier": 50.0 / 2**0.5},
    ),
}
# epsilon-relevant counts and thresholds of the presets of Esipova et al.
ADAPT = {
    "esipova-adult": {"tolerance": 1.0, "threshold_learning_rate": 0.1, "learning_rate": 0.2},
    "esipova-dutch": {"tolerance": 1.0, "threshold_learning_rate": 0.1, "learning_rate": 1.0},
    "esipova-mnist": {"tolerance": 0.7, "threshold_learning_rate": 0.1, "learning_rate": 0.1},
    "esipova-celeba": {"tolerance": 0.7, "threshold_learning_rate": 0.1, "learning_rate": 0.1},
}


@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.name)
def test_a_preset_is_a_valid_config_with_the_papers_numbers(preset):
    config = AuditConfig.model_validate({"data": "x", **preset.fields})
    options, settings = PRINTED[preset.name]
    assert {name: getattr(config, name) for name in options} == options
    for place, number in settings.items():
        method, _, name = place.rpartition(".")
        assert config.settings[method][name] == number
    for method, numbers in config.settings.items():
        assert set(numbers) <= set(find(method).known_settings)
    if preset.name in ADAPT:
        adapt = config.settings["global-adapt"]
        expected = {**ADAPT[preset.name], "count_noise_multiplier": 10.0}
        assert {name: adapt[name] for name in expected} == expected
        images = config.model == "cnn"
        assert config.settings["dpsgd-f"]["count_noise_multiplier"] == (8.0 if images else 10.0)


@pytest.mark.parametrize(("name", "rows"), [("xu-adult", 36_178), ("xu-dutch", 48_336)])
def test_the_presets_of_xu_step_by_one_over_the_root_of_the_steps(name, rows):
    (preset,) = (preset for preset in PRESETS if preset.name == name)
    step = (20 * math.ceil(rows / 256)) ** -0.5
    assert preset.fields["learning_rate"] == pytest.approx(step, rel=5e-3)


UCI = (
    "39, State-gov, 77516, Bachelors, 13, Never-married, {}, Not-in-family, White, {}, 2174, 0, "
    "40, Cuba, {}"
)


@pytest.mark.parametrize("header", ["", "names", "other spelling"])
@pytest.mark.parametrize("name", ["esipova-adult", "xu-adult"])
def test_the_adult_presets_name_the_columns_of_the_file_as_it_is_published(name, header, tmp_path):
    preset = next(one for one in PRESETS if one.name == name)
    jobs, sexes, incomes = ("Sales", "Tech"), ("Male", "Female"), (">50K", "<=50K")
    lines = [UCI.format(jobs[k % 2], sexes[k // 2 % 2], incomes[k // 4 % 2]) for k in range(80)]
    lines = [line.replace("39", str(20 + k), 1) for k, line in enumerate(lines)]
    lines[0] = lines[0].replace("Sales", "?")  # missing, so that the row is left out
    names = list(preset.fields["names"])
    if header:
        shown = names if header == "names" else [one.replace("_", "-").title() for one in names]
        lines = [",".join(shown), *(line.replace(", ", ",") for line in lines)]
    path = tmp_path / "adult.data"
    path.write_text("\n".join(lines) + "\n\n")
    fields = {**preset.fields, "drop": (), "contrast": {}, "zero": {}}
    fields |= {"label": "Income"} if header == "other spelling" else {}
    group = "Sex" if header == "other spelling" else "sex"
    found = load_dataset(AuditConfig.model_validate({"data": path, **fields, "group": (group,)}))
    assert len(found.labels) == 79
    assert found.classes == ("<=50K", ">50K")
    assert found.groupings[0].names == ("Female", "Male")
