"""What every clipping rule promises, over every form in the catalog."""

import math

import pytest
import torch
from forms import PRIVATE, each, make_pool, make_task
from hypothesis import given
from hypothesis import strategies as st
from stand_ins import spread_answer

from fairaudit.engine.contributions import LARGEST_SHARE, NORM_GUARD, limited_rows, limited_scale

K = 3

magnitudes = st.one_of(st.just(0.0), st.floats(-5.0, 5.0).map(lambda e: 10.0**e))
batches = st.lists(st.tuples(magnitudes, st.integers(0, K - 1)), max_size=8)
choices = st.fixed_dictionaries(
    {
        "max_grad_norm": st.floats(-2, 2).map(lambda e: 10.0**e),
        "threshold_over_bound": st.floats(0, 3).map(lambda e: 10.0**e),
        "tolerance": st.floats(0.0, 2.0),
        "answers": st.lists(st.lists(st.floats(-40, 40), min_size=1, max_size=6), max_size=3),
        "replicates": st.sampled_from([1, 3]),
    }
)


def released_after(rule, task, answers):
    """A rule's released state after some noised answers, every one of which is possible."""
    released = rule.init(task.repeats, task.facts())
    for answer in answers:
        if rule.query_noise_multiplier is not None:
            rows = rule.query(
                released, torch.ones(task.repeats, 1), torch.zeros(task.repeats, 1).long()
            )
            released = rule.update(released, spread_answer(answer, rows[:, 0]))
        released = rule.step(released)
    return released


POOL = make_pool(groups=K)


def rule_of(form, choice):
    bound = choice["max_grad_norm"]
    task = make_task(
        form,
        POOL,
        repeats=choice["replicates"],
        max_grad_norm=bound,
        threshold=bound * choice["threshold_over_bound"],
        tolerance=choice["tolerance"],
    )
    rule = form.make().rule(task)
    return rule, released_after(rule, task, choice["answers"])


def as_tensors(batch, replicates):
    norms = torch.tensor([norm for norm, _ in batch], dtype=torch.float32)
    group = torch.tensor([k for _, k in batch], dtype=torch.int64)
    return norms.expand(replicates, -1) * NORM_GUARD, group.expand(replicates, -1)


@pytest.mark.parametrize("bound", [0.1, 0.37, 1.0, 3.3])
@each(PRIVATE)
@given(choice=choices, batch=batches, weight=st.floats(-100, 100))
def test_no_bit_of_a_built_in_rule_is_limited_and_what_stands_beside_a_lie_is_not(
    form, bound, choice, batch, weight
):
    rule, released = rule_of(form, {**choice, "max_grad_norm": bound})
    norms, group = as_tensors([*batch, (7.0, 1)], choice["replicates"])
    scale, sensitivity = rule.scale(released, norms, group), rule.sensitivity(released)
    assert torch.equal(limited_scale(scale, norms, sensitivity), scale)
    lying = scale.clone()
    lying[:, -1] = weight * sensitivity
    held = limited_scale(lying, norms, sensitivity)
    assert torch.equal(held[:, :-1], scale[:, :-1])
    largest = sensitivity.double() * LARGEST_SHARE * (1 + 1e-6)
    assert (held[:, -1].double().abs() * norms[:, -1].double() <= largest).all()
    assert (held[:, -1].sign() * weight >= 0).all()
    if rule.query_noise_multiplier is not None:
        rows = rule.query(released, norms, group)
        assert torch.equal(limited_rows(rows), rows)
        rows[:, -1] *= weight
        held = limited_rows(rows)
        assert torch.equal(held[:, :-1], rows[:, :-1])
        assert (held[:, -1].double().norm(dim=-1) <= LARGEST_SHARE + 1e-6).all()


def test_limits_of_single_factors_and_rows():
    upper, claim = torch.tensor([[0.0, 0.0, 2.0, 2.0, 2.0]]), torch.tensor([1.0])
    scale = torch.tensor([[1e30, math.inf, math.nan, math.inf, 0.25]])
    # At norm 0 a gradient of up to 1e-15 may be hidden, of squares that read as 0.
    assert limited_scale(scale, upper, claim).tolist() == [[pytest.approx(1e15), 0, 0, 0, 0.25]]
    nothing = torch.zeros(1)
    assert limited_scale(scale, upper, nothing).tolist() == [[0, 0, 0, 0, 0]]
    claims = torch.tensor([1.0, 100.0])  # of two replicates, each held to its own
    held = limited_scale(torch.full((2, 1), 50.0), torch.ones(2, 1), claims)
    assert held.flatten().tolist() == pytest.approx([1.0, 50.0], rel=2e-6)
    rows = torch.tensor([[[0.0, 0.0], [math.inf, 0.0], [math.nan, 1.0], [-30.0, 40.0]]])
    held = limited_rows(rows)[0]
    assert held[:3].tolist() == [[0, 0]] * 3
    assert held[3].tolist() == pytest.approx([-0.6, 0.8], rel=2e-6)
