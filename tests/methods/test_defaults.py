import math

import pytest
import torch
from forms import RULES, SETTINGS
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional

from fairaudit.errors import ConfigError
from fairaudit.methods.defaults import PublicSizes, default_delta, refuse_large_delta
from fairaudit.models.zoo import make_model


@given(st.integers(1, 10**9))
def test_delta_is_the_largest_power_of_ten_within_a_tenth_of_one_over_n(n):
    delta = default_delta(n)
    exponent = round(math.log10(delta))
    assert delta == float(f"1e{exponent}")
    assert delta * 10 * n <= 1 + 1e-9
    assert delta * 100 * n > 1 - 1e-9


BY_HAND = {  # from each rule's words: 9,050 rows, 20 columns, linear; 40,000 rows, a network
    "batch_size": (256, 512),  # 2 sqrt(N) is 190 and 400
    "epochs": (29, 20),  # 36 steps an epoch
    "learning_rate": (2 / 21, 0.04),
    "max_grad_norm": (math.sqrt(42), 10),
    "threshold": (math.sqrt(42), 10),
    "tolerance": (1, 1),
    "threshold_learning_rate": (0.1, 0.1),
    "count_noise_multiplier": (10, 10),
    "largest_bound_ratio": (4, 3),
    "against_batch": (1, 1),
    "smallest_count": (1, 1),
    "largest_weight": (6, 4),
    "gamma1": (1, 1),
    "gamma2": (1, 1),
    "statistic_noise_ratio": (1.5, 10 / math.sqrt(2)),
    "statistic_decay": (0.995, 0.95),
    "statistic_grad_norm": (math.sqrt(42), 10),
    "smallest_share": (0.01, 0.01),
    "penalty": (0.0011, 0.00025),  # to two digits
    "feature_norm": (1, 1),
    "intercept": (1, 1),
    "noise_draws": (100, 5),
    "teachers": (90, 150),
    "queries": (700, 20_000),
    "teacher_penalty": (0.01, 0.01),
    "student_penalty": (0.01, 0.01),
}


def test_every_rule_gives_what_its_words_say():
    small = PublicSizes(9_050, 20, "logistic", groups=3, pool=700)
    large = PublicSizes(40_000, 20, "mlp", groups=2, pool=30_000)
    values = {name: (rule.value(small), rule.value(large)) for name, rule in RULES.items()}
    assert values == {name: pytest.approx(expected) for name, expected in BY_HAND.items()}


RANGES = {
    (1e-9, 1e6): "learning_rate penalty student_penalty teacher_penalty",
    (1e-6, 1e6): "feature_norm max_grad_norm statistic_grad_norm threshold",
    (0, 1e6): "gamma1 gamma2 intercept tolerance",
    (0.001, 1e6): "largest_weight noise_multiplier",
    (0.1, 1e6): "count_noise_multiplier statistic_noise_ratio",
    (1, 1e6): "largest_bound_ratio",
    (0.001, 1e9): "smallest_count",
    (1e-9, 1e9): "student_penalty_of_sum teacher_penalty_of_sum",
    (0, 10): "threshold_learning_rate",
    (0, 1): "against_batch statistic_decay",
    (1e-6, 1): "smallest_share",
    (1, 10_000): "noise_draws",
    (1, 9_050): "teachers",
    (1, 700): "queries",
}


def test_every_setting_has_its_range_and_its_place_in_a_search():
    sizes, ranges, searched = PublicSizes(9_050, 20, "logistic", pool=700), {}, {}
    for name, setting in sorted(SETTINGS.items()):
        ranges.setdefault((setting.low, setting.highest(sizes)), []).append(name)
        if setting.search:
            place = setting.search.low_factor, setting.search.high_factor
            searched.setdefault(place, []).append(name)
    assert {ends: " ".join(names) for ends, names in ranges.items()} == RANGES
    wide = ["learning_rate", "max_grad_norm", "penalty", "threshold"]
    assert searched == {(1 / 16, 16): wide, (1 / 4, 4): ["teachers"]}
    whole = [name for name, setting in SETTINGS.items() if setting.whole]
    assert sorted(whole) == ["against_batch", "noise_draws", "queries", "teachers"]


@pytest.mark.parametrize(("model", "steps"), [("logistic", 1000), ("mlp", 500), ("cnn", 500)])
def test_small_data_train_for_a_least_number_of_steps(model, steps):
    sizes = PublicSizes(1600, 256, model)
    batch, epochs = (RULES[name].value(sizes) for name in ("batch_size", "epochs"))
    assert steps <= epochs * math.ceil(1600 / batch) < steps + math.ceil(1600 / batch)


@pytest.mark.parametrize(
    ("columns", "model"), [(5, "logistic"), (60, "logistic"), (14, "mlp"), (100, "mlp")]
)
def test_the_bound_is_that_of_standardised_records(columns, model):
    start = make_model(model, columns, 2, hidden=(256, 256), activation="tanh", seed=0)
    records = torch.randn(200, columns, generator=torch.Generator().manual_seed(0))
    found = norms(start, records, 2)
    bound = RULES["max_grad_norm"].value(PublicSizes(10_000, columns, model))
    assert bound == RULES["threshold"].value(PublicSizes(10_000, columns, model))
    clipped = sum(norm > bound for norm in found) / len(found)
    assert clipped < 0.1
    assert max(found) > bound / 4  # nor is noise added to room that nothing fills


def norms(model, records, classes):
    """Of each record's gradient, by autograd."""
    found = []
    for number, record in enumerate(records):
        loss = functional.cross_entropy(
            model(record.unsqueeze(0)), torch.tensor([number % classes])
        )
        gradient = torch.autograd.grad(loss, list(model.parameters()))
        found.append(float(sum(part.square().sum() for part in gradient).sqrt()))
    return found


def noisy(model="logistic", columns=9, sigma=1.0, steps=1000, batch=128.0):
    return PublicSizes(
        5000, columns, model, noise_multiplier=sigma, steps=steps, expected_batch_size=batch
    )


@pytest.mark.parametrize(("model", "plain"), [("logistic", 2 / 10), ("mlp", 0.04), ("cnn", 0.04)])
def test_little_noise_leaves_the_reference_its_step_and_more_shortens_it(model, plain):
    step = RULES["learning_rate"].value
    assert (
        step(noisy(model, sigma=0.0)) == step(PublicSizes(5000, 9, model)) == pytest.approx(plain)
    )
    assert step(noisy(model, sigma=0.1)) == pytest.approx(plain)
    assert step(noisy(model, sigma=20.0)) == pytest.approx(step(noisy(model, sigma=10.0)) / 2)
    assert step(noisy(model, sigma=10.0)) < plain / 5


@pytest.mark.parametrize(
    ("sigma", "batch", "noise"), [(1.0, 128, 10), (6.0, 128, 15), (1e6, 128, 64), (9, 8, 10)]
)
def test_counts_get_more_noise_where_gradients_have_much(sigma, batch, noise):
    assert RULES["count_noise_multiplier"].value(noisy(sigma=sigma, batch=batch)) == noise


def test_a_delta_of_one_in_n_is_refused():
    refuse_large_delta(0.0099, 100)
    with pytest.raises(ConfigError, match="not below 1/N"):
        refuse_large_delta(0.01, 100)
