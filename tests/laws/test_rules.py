"""What every clipping rule promises, over every form in the catalog."""

import math
from dataclasses import dataclass

import pytest
import torch
from forms import DEFAULTS, flawed, forms, key_of, make_pool, make_task, sound
from hypothesis import given
from hypothesis import strategies as st
from stand_ins import told, values_of

from fairaudit.engine.loop import NORM_GUARD
from fairaudit.engine.rules import FlatClip, NoClip

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
            rows = rule.query(released, torch.ones(task.repeats, 1), torch.zeros(task.repeats, 1).long())
            released = rule.update(released, told(answer, rows[:, 0]))
        released = rule.step(released)
    return released


POOL = make_pool(groups=K)


def rule_of(form, choice):
    bound = choice["max_grad_norm"]
    task = make_task(
        form, POOL, repeats=choice["replicates"], max_grad_norm=bound,
        threshold=bound * choice["threshold_over_bound"], tolerance=choice["tolerance"],
    )  # fmt: skip
    rule = form.make().rule(task)
    return rule, released_after(rule, task, choice["answers"])


def as_tensors(batch, replicates):
    norms = torch.tensor([norm for norm, _ in batch], dtype=torch.float32)
    group = torch.tensor([k for _, k in batch], dtype=torch.int64)
    return norms.expand(replicates, -1) * NORM_GUARD, group.expand(replicates, -1)


def keeps_the_bound(rule, released, norms, group):
    scale, sensitivity = rule.scale(released, norms, group), rule.sensitivity(released)
    assert scale.shape == norms.shape
    assert sensitivity.shape == (len(norms),)
    finite = bool(torch.isfinite(scale).all() and (scale >= 0).all())
    bounded = scale.double() * (norms / NORM_GUARD).double() <= sensitivity.double()[:, None] * (1 + 1e-6)
    return finite and bool(bounded.all())


@pytest.mark.parametrize("form", sound("negative"), ids=key_of)
@given(choice=choices, batch=batches)
def test_scales_are_finite_and_no_scaled_gradient_exceeds_the_sensitivity(form, choice, batch):
    rule, released = rule_of(form, choice)
    assert keeps_the_bound(rule, released, *as_tensors(batch, choice["replicates"]))


@dataclass(frozen=True, slots=True)
class SlackClip(FlatClip):
    """Clips to a bound that is a little longer than the one it claims: the broken variant."""

    def scale(self, released, norms, group):
        return FlatClip.scale(self, released * 1.001, norms, group)


class UnguardedDivision(FlatClip):
    """C / norm without the cap at 1: not finite at a zero norm."""

    def scale(self, released, norms, group):
        return released.unsqueeze(-1) / norms


@pytest.mark.parametrize("broken", [SlackClip, UnguardedDivision])
def test_the_bound_check_catches_a_rule_that_breaks_it(broken):
    rule = broken(1.0)
    released = rule.init(1, make_task(DEFAULTS[1], make_pool()).facts())
    norms, group = as_tensors([(0.0, 0), (0.5, 0), (7.0, 1)], 1)
    assert not keeps_the_bound(rule, released, norms, group)


@pytest.mark.parametrize("form", DEFAULTS, ids=key_of)
@given(choice=choices, batch=batches)
def test_a_query_row_of_a_default_form_is_at_most_one_long(form, choice, batch):
    rule, released = rule_of(form, choice)
    if rule.query_noise_multiplier is None:
        return
    norms, group = as_tensors(batch, choice["replicates"])
    rows = rule.query(released, norms, group)
    assert rows.shape[:2] == norms.shape
    assert (rows.double().norm(dim=-1) <= 1 + 1e-9).all()


@pytest.mark.parametrize("form", flawed("count"), ids=key_of)
def test_a_published_form_that_reads_the_realised_batch_breaks_the_query_bound(form):
    task = make_task(form, make_pool())
    rule = form.make().rule(task)
    rows = rule.query(rule.init(1, task.facts()), torch.ones(1, 2), torch.zeros(1, 2).long())
    assert (rows.norm(dim=-1) > 2).all()


@pytest.mark.parametrize("form", forms(), ids=key_of)
@given(
    choice=choices,
    batch=st.lists(st.tuples(magnitudes, st.integers(0, K - 1)), min_size=1, max_size=8),
    data=st.data(),
)
def test_permuting_the_samples_permutes_scales_and_queries(form, choice, batch, data):
    rule, released = rule_of(form, choice)
    norms, group = as_tensors(batch, choice["replicates"])
    order = torch.tensor(data.draw(st.permutations(range(len(batch)))))
    scale = rule.scale(released, norms, group)
    assert torch.equal(rule.scale(released, norms[:, order], group[:, order]), scale[:, order])
    if rule.query_noise_multiplier is not None:
        rows = rule.query(released, norms, group)
        assert torch.equal(rule.query(released, norms[:, order], group[:, order]), rows[:, order])


@pytest.mark.parametrize("form", forms(), ids=key_of)
@given(choice=choices, batch=st.lists(st.tuples(magnitudes, st.integers(0, K - 1)), min_size=1, max_size=8))
def test_a_records_scale_and_query_do_not_see_the_other_records(form, choice, batch):
    """Rule R1, to the bit: alone or in company, a record is treated alike."""
    rule, released = rule_of(form, choice)
    norms, group = as_tensors(batch, choice["replicates"])
    scale = rule.scale(released, norms, group)
    for i in range(len(batch)):
        alone = norms[:, i : i + 1], group[:, i : i + 1]
        assert torch.equal(rule.scale(released, *alone), scale[:, i : i + 1])
        if rule.query_noise_multiplier is not None:
            together = rule.query(released, norms, group)[:, i : i + 1]
            assert torch.equal(rule.query(released, *alone), together)


@pytest.mark.parametrize("form", forms(), ids=key_of)
@given(choice=choices, batch=batches, answer=st.floats(-30, 30))
def test_replicates_together_equal_each_alone(form, choice, batch, answer):
    rule, three = rule_of(form, {**choice, "replicates": 3})
    _, one = rule_of(form, {**choice, "replicates": 1})
    norms, group = as_tensors(batch, 3)
    torch.testing.assert_close(
        rule.scale(three, norms, group)[2:], rule.scale(one, norms[:1], group[:1]), rtol=1e-6, atol=0
    )
    for name, value in values_of(three).items():
        torch.testing.assert_close(value[2:], values_of(one)[name], rtol=1e-6, atol=0)
    if rule.query_noise_multiplier is not None:
        rows = rule.query(three, norms, group)
        assert torch.equal(rows[2:], rule.query(one, norms[:1], group[:1]))


@pytest.mark.parametrize("form", forms(), ids=key_of)
@pytest.mark.parametrize("replicates", [1, 3])
def test_an_empty_batch_has_empty_scales_and_a_query_that_sums_to_zero(form, replicates):
    task = make_task(form, make_pool(), repeats=replicates)
    rule = form.make().rule(task)
    state = rule.init(replicates, task.facts())
    norms, group = torch.zeros(replicates, 0), torch.zeros(replicates, 0, dtype=torch.int64)
    assert rule.scale(state, norms, group).shape == (replicates, 0)
    if rule.query_noise_multiplier is not None:
        total = rule.query(state, norms, group).sum(1)
        assert (total == 0).all()
        assert total.shape[0] == replicates


@pytest.mark.parametrize("form", flawed("negative"), ids=key_of)
def test_a_published_form_that_takes_noised_counts_as_they_come_breaks_the_bound_check(form):
    choice = {"max_grad_norm": 1.0, "threshold_over_bound": 1.0, "tolerance": 1.0, "replicates": 1}
    answers = ([4.0, -0.5, 5.0], [4.0, 6.0, 5.0, 5.0, -7.0, 5.0])
    tried = [rule_of(form, {**choice, "answers": [answer]}) for answer in answers]
    batch = as_tensors([(50.0, k) for k in range(K)], 1)
    assert not all(keeps_the_bound(rule, released, *batch) for rule, released in tried)


@pytest.mark.parametrize("form", sound("negative"), ids=key_of)
@given(choice=choices, group=st.integers(0, K - 1))
def test_a_batch_that_lacks_groups_is_bounded_like_any_other(form, choice, group):
    rule, released = rule_of(form, choice)
    norms, groups = as_tensors([(0.3, group), (50.0, group)], choice["replicates"])
    assert keeps_the_bound(rule, released, norms, groups)


@pytest.mark.parametrize("form", DEFAULTS, ids=key_of)
@given(choice=choices, answers=st.lists(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=6), max_size=30))
def test_no_sequence_of_answers_leads_a_rule_out_of_its_range(form, choice, answers):
    """Side queries are Gaussian, so every answer is possible."""
    rule, released = rule_of(form, {**choice, "answers": answers})
    norms, group = as_tensors([(0.0, 0), (1e-3, 1), (1.0, 2), (1e4, 0)], choice["replicates"])
    assert all(torch.isfinite(v).all() for v in values_of(released).values()) or type(rule) is NoClip
    assert keeps_the_bound(rule, released, norms, group)


@pytest.mark.parametrize("form", forms(), ids=key_of)
@given(choice=choices, batch=batches)
def test_looking_at_a_batch_changes_no_state(form, choice, batch):
    rule, released = rule_of(form, choice)
    before = values_of(released)
    norms, group = as_tensors(batch, choice["replicates"])
    if rule.query_noise_multiplier is not None:
        rule.query(released, norms, group)
    rule.scale(released, norms, group)
    rule.sensitivity(released)
    assert all(torch.equal(value, values_of(released)[name]) for name, value in before.items())
    # Nor is what a rule returns a window on its state: the loop may write into scales.
    rule.scale(released, norms, group).mul_(math.nan)
    assert all(torch.equal(value, values_of(released)[name]) for name, value in before.items())
