import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional

from fairaudit.methods.defaults import RULES, Sizes, default_delta, power_of_two
from fairaudit.models.zoo import make_model


@given(st.integers(1, 10**9))
def test_delta_is_the_largest_power_of_ten_within_a_tenth_of_one_over_n(n):
    delta = default_delta(n)
    exponent = round(math.log10(delta))
    assert delta == float(f"1e{exponent}")
    assert delta * 10 * n <= 1 + 1e-9
    assert delta * 100 * n > 1 - 1e-9


@given(st.integers(1, 10**8), st.integers(1, 5000), st.sampled_from(["logistic", "logistic-squashed", "mlp"]))
def test_every_rule_gives_a_usable_number_for_every_size(n, columns, model):
    for name, rule in RULES.items():
        value = rule.value(Sizes(n, columns, model))
        assert math.isfinite(value)
        assert value > 0
        assert rule.text
        if name in ("batch_size", "epochs"):
            assert value == int(value)


@given(st.floats(0, 1e12))
def test_a_power_of_two_is_one_and_within_its_bounds(value):
    got = power_of_two(value, 32, 4096)
    assert 32 <= got <= 4096
    assert got & (got - 1) == 0


@pytest.mark.parametrize(("n", "batch"), [(100, 32), (23_512, 256), (10**8, 4096)])
def test_batches_grow_with_the_root_of_n(n, batch):
    assert RULES["batch_size"].value(Sizes(n, 10, "logistic")) == batch


@pytest.mark.parametrize(("model", "steps"), [("logistic", 1000), ("mlp", 500), ("cnn", 500)])
def test_small_data_train_for_a_least_number_of_steps(model, steps):
    sizes = Sizes(1600, 256, model)
    batch, epochs = (RULES[name].value(sizes) for name in ("batch_size", "epochs"))
    assert steps <= epochs * math.ceil(1600 / batch) < steps + math.ceil(1600 / batch)


def test_a_networks_first_threshold_is_above_its_first_gradients():
    # Below them `global` drops nearly every gradient and learns nothing but noise.
    sizes = Sizes(1600, 256, "cnn")
    model = make_model("cnn", (16, 16, 1), 4, hidden=(), activation="tanh", seed=0)
    images = torch.randn(64, 1, 16, 16, generator=torch.Generator().manual_seed(0)).sign()
    for image, label in zip(images, range(64), strict=True):
        loss = functional.cross_entropy(model(image.unsqueeze(0)), torch.tensor([label % 4]))
        gradient = torch.autograd.grad(loss, list(model.parameters()))
        norm = sum(part.square().sum() for part in gradient).sqrt()
        assert RULES["max_grad_norm"].value(sizes) < norm < RULES["threshold"].value(sizes)


@pytest.mark.parametrize(
    ("pool", "queries"), [(0, 1), (1, 1), (7_000, 7_000), (20_000, 20_000), (10**6, 20_000)]
)
def test_a_large_student_pool_is_not_labelled_as_a_whole(pool, queries):
    assert RULES["queries"].value(Sizes(10**7, 10, "logistic", pool=pool)) == queries
