"""Per-group bounds and weights: the formulas, and what each published form does in their place."""

import pytest
import torch
from forms import FORM, make_pool, make_task
from stand_ins import take_steps

from fairaudit.methods.dpsgd_f import DpSgdF
from fairaudit.methods.reweight import Reweight
from fairaudit.papers.clipping import DpSgdFEsipova, DpSgdFXu, ReweightXu

QN = 60 / 6  # of the pool and schedule of make_task


def answered(trainer, task, answer):
    """The rule of a form and its state after one noised answer."""
    rule = trainer.rule(task)
    return rule, rule.update(rule.init(1, task.facts()), torch.tensor([answer]))


def bounds(trainer, answer, **given):
    """Bounds C_k of a form after one noised answer, [K], in units of C0."""
    pool = make_pool(groups=len(answer) // 2)
    task = make_task(FORM["dpsgd-f"], pool, **{"max_grad_norm": 0.5, **given})
    rule, released = answered(trainer, task, answer)
    return (released.bound[0] / 0.5).tolist(), rule, released


def test_bounds_follow_the_share_of_clipped_records_over_the_batchs():
    found, rule, released = bounds(DpSgdF(), [4.9, 1.2, 6.0, 9.7])  # floored: 4 of 10, 1 of 10
    rho = 5 / QN
    assert found == pytest.approx([1 + 0.4 / rho, 1 + 0.1 / rho])
    assert rule.sensitivity(released).item() == pytest.approx(0.5 * (1 + 0.4 / rho))
    against_mean, *_ = bounds(DpSgdF(), [4.0, 1.0, 6.0, 9.0], against_batch=0.0)
    assert against_mean == pytest.approx([1 + 0.4 / 0.25, 1 + 0.1 / 0.25])


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ([-3.0, -0.2, 5.0, 7.0], [1.0, 1.0]),  # nothing clipped: C0
        (
            [3.0, -9.0, -4.0, -1.0],
            [1.0 + 1.0 / 0.3, 1.0],
        ),  # a group of which nothing was counted: C0
        ([1.0, 0.0, 0.0, 50.0], [5.0, 1.0]),  # 1 + 1 / 0.1, cut at kappa
    ],
)
def test_bounds_stay_within_c0_and_kappa_for_any_noised_counts(answer, expected):
    found, *_ = bounds(DpSgdF(), answer, largest_bound_ratio=5.0)
    assert found == pytest.approx(expected)


def test_records_are_counted_by_group_and_by_whether_they_exceed_the_base_bound():
    """C0, whatever the bound of their group has come to be."""
    moved, rule, released = bounds(DpSgdF(), [0.0, 8.0, 2.0, 9.0, 2.0, 8.0])
    assert moved[1] > 1.5
    norms, group = torch.tensor([[0.0, 0.5, 0.6, 9.0, 0.4]]), torch.tensor([[0, 1, 1, 2, 2]])
    counts = rule.query(released, norms, group).sum(1)
    assert counts.tolist() == [[0, 1, 1, 1, 1, 1]]


def test_the_trace_holds_bounds_and_effective_multipliers():
    done = DpSgdF().fit(
        make_task(FORM["dpsgd-f"], make_pool(), repeats=2, noise_multiplier=1.5), []
    )
    series = {name: values for name, (_, values) in done.trace.stacked().items()}
    bound, multiplier = series["group_bound"], series["group_noise_multiplier"]
    assert bound.shape == multiplier.shape == (12, 2, 2)
    torch.testing.assert_close(multiplier, 1.5 * bound.amax(2, keepdim=True) / bound)
    assert float(multiplier.min()) == pytest.approx(1.5)  # of the group with the largest bound
    assert len(bound.unique()) > 2


# --- weights
# -----------------------------------------------------------------------------------------


def weights(trainer, answer, **given):
    task = make_task(FORM["reweight"], make_pool(groups=len(answer)), **given)
    rule, released = answered(trainer, task, answer)
    return released.weight[0].tolist(), rule, released


def test_weights_are_the_inverse_of_noised_counts_within_floor_and_cap():
    found, rule, released = weights(
        Reweight(),
        [8.0, 0.1, -50.0, 2.0],
        smallest_count=0.5,
        largest_weight=4.0,
        max_grad_norm=0.5,
    )
    even = QN / 4
    assert found == pytest.approx([even / 8, 4.0, 4.0, even / 2])
    assert rule.sensitivity(released).item() == pytest.approx(2.0)
    norms, group = torch.tensor([[0.2, 5.0, 5.0]]), torch.tensor([[0, 0, 3]])
    expected = [even / 8, even / 8 * 0.1, even / 2 * 0.1]
    assert rule.scale(released, norms, group)[0].tolist() == pytest.approx(expected)


# --- as published
# ------------------------------------------------------------------------------------


def test_the_first_printed_form_takes_noised_counts_as_they_come():
    found, rule, released = bounds(DpSgdFXu(), [6.0, 9.5, -8.0, 0.5])
    rho = 15.5 / QN
    assert found == pytest.approx([1 - 3.0 / rho, 1 + 0.95 / rho])
    assert rule.scale(released, torch.tensor([[2.0]]), torch.tensor([[0]])).item() < 0
    assert weights(ReweightXu(), [4.0, -0.5])[0] == pytest.approx([5 / 4, -10.0])


@pytest.mark.parametrize("size", [8, 12])
def test_the_second_printed_form_takes_the_share_of_the_realised_batch(size):
    """All of the batch is clipped, so every share is 1 and so is the batch's, whatever its size."""
    task = make_task(FORM["dpsgd-f:as-published-e23"], make_pool(60), max_grad_norm=1e-9)
    seen = take_steps(DpSgdFEsipova(), task, [list(range(size))])
    assert (seen.states[1]["bound"][0] / 1e-9).tolist() == pytest.approx([2.0, 2.0])
