import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairaudit.methods.defaults import RULES, Sizes, default_delta, power_of_two


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
