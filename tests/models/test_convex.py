import pytest
import torch
from torch.testing import assert_close

from fairaudit.errors import TrainingError
from fairaudit.models import convex
from fairaudit.models.convex import (
    TOLERANCE,
    LogisticProblems,
    hessian_traces,
    losses,
    minimise,
    scores,
)


def records(n=80, d=4, classes=2, seed=0, replicates=None):
    generator = torch.Generator().manual_seed(seed)
    lead = () if replicates is None else (replicates,)
    x = torch.randn(*lead, n, d, generator=generator, dtype=torch.float64)
    labels = torch.randint(classes, (replicates or 1, n), generator=generator)
    return x, torch.nn.functional.one_hot(labels, classes).double()


def objective(problems, theta, r=0):
    x = problems.features if problems.features.dim() == 2 else problems.features[r]
    divisor = len(x) if problems.divisor is None else problems.divisor
    each = losses(scores(x, theta[None])[0], problems.targets[r])
    return each.sum() / divisor + problems.penalty / 2 * theta.square().sum()


@pytest.mark.parametrize("classes", [2, 3, 5])
@pytest.mark.parametrize("penalty", [1.0, 1e-2, 1e-5])
def test_the_gradient_of_the_objective_vanishes_at_the_minimiser(classes, penalty):
    x, targets = records(classes=classes)
    problems = LogisticProblems(x, targets, penalty)
    theta = minimise(problems)[0].requires_grad_()
    (gradient,) = torch.autograd.grad(objective(problems, theta), theta)
    assert gradient.norm() <= 2 * TOLERANCE


def test_an_unreached_minimiser_is_an_error_and_not_a_result(monkeypatch):
    x, targets = records()
    monkeypatch.setattr(convex, "_ROUNDS", 1)
    with pytest.raises(TrainingError, match="not reached"):
        minimise(LogisticProblems(x, targets, 1e-3))


def test_a_minimiser_that_the_last_round_reaches_is_a_result(monkeypatch):
    x, targets = records()
    problems, rounds = LogisticProblems(x, targets, 1e-3), []
    original = LogisticProblems.newton_step
    monkeypatch.setattr(
        LogisticProblems, "newton_step", lambda *args: rounds.append(args) or original(*args)
    )
    theta = minimise(problems)
    needed = len(rounds)
    assert needed > 1
    monkeypatch.setattr(convex, "_ROUNDS", needed)
    assert torch.equal(minimise(problems), theta)
    monkeypatch.setattr(convex, "_ROUNDS", needed - 1)
    with pytest.raises(TrainingError, match=f"not reached.* after {needed - 1} rounds"):
        minimise(problems)


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_a_gradient_that_is_not_finite_is_an_error_and_not_a_minimum(value):
    x, targets = records()
    x[3, 1] = value
    with pytest.raises(TrainingError):
        minimise(LogisticProblems(x, targets, 1e-3))


@pytest.mark.parametrize("classes", [2, 3])
def test_problems_together_equal_each_alone(classes):
    x, targets = records(classes=classes, replicates=5)
    together = minimise(LogisticProblems(x, targets, 0.01))
    for r in range(5):
        alone = minimise(LogisticProblems(x[r], targets[r : r + 1], 0.01))
        assert_close(together[r], alone[0], rtol=0, atol=2 * TOLERANCE / 0.01)


def test_a_public_divisor_stays_when_a_record_goes():
    x, targets = records(60)
    divisor = 60.0
    whole = minimise(LogisticProblems(x, targets, 0.1, divisor))
    assert_close(whole, minimise(LogisticProblems(x, targets, 0.1)))
    without = minimise(LogisticProblems(x[1:], targets[:, 1:], 0.1, divisor))
    own_number = minimise(LogisticProblems(x[1:], targets[:, 1:], 0.1))
    # A weight of 0 in place of the record that is gone.
    targets = targets.clone()
    targets[:, 0] = 0.0
    zeroed = minimise(LogisticProblems(x, targets, 0.1, divisor))
    assert_close(without, zeroed, rtol=0, atol=1e-8)
    assert (without - own_number).norm() > 1e-4


def test_separable_records_far_from_the_origin_are_solved_by_damping():
    x = torch.tensor([[-300.0, 1.0], [400.0, 1.0], [1000.0, 1.0]], dtype=torch.float64)
    targets = torch.tensor([[[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]], dtype=torch.float64)
    problems = LogisticProblems(x, targets, 1e-4)
    start = torch.full((1, 1, 2), -20.0, dtype=torch.float64)
    for theta in (minimise(problems), minimise(problems, start)):
        assert problems.gradient(theta).norm() <= TOLERANCE


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("replicates", [None, 3])
def test_records_in_pieces_have_the_same_minimiser(classes, replicates, monkeypatch):
    x, targets = records(classes=classes, replicates=replicates)
    whole = minimise(LogisticProblems(x, targets, 0.01))
    monkeypatch.setattr(convex, "_PIECE_BYTES", 3000)
    pieces = [part[1].shape[1] for part in LogisticProblems(x, targets, 0.01).pieces()]
    assert max(pieces) < 40
    assert sum(pieces) == 80
    assert_close(minimise(LogisticProblems(x, targets, 0.01)), whole, rtol=0, atol=1e-7)


def test_a_loss_without_a_minimum_is_refused():
    x, targets = records()
    with pytest.raises(TrainingError, match="not convex"):
        minimise(LogisticProblems(x, -targets, 1e-3))


def test_a_hessian_too_large_to_form_is_refused():
    x, targets = torch.zeros(3, 5000, dtype=torch.float64), torch.ones(1, 3, 2, dtype=torch.float64)
    with pytest.raises(TrainingError, match="above the 4,096"):
        minimise(LogisticProblems(x, targets, 1.0))


@pytest.mark.parametrize("classes", [2, 4])
def test_traces_equal_those_of_autograds_hessian(classes):
    x, targets = records(5, 3, classes)
    height = 1 if classes == 2 else classes
    theta = torch.randn(height, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    for i in range(5):
        hessian = torch.autograd.functional.hessian(
            lambda t, i=i: losses(scores(x[i : i + 1], t[None])[0], targets[0, i : i + 1]).sum(),
            theta,
        )
        trace = hessian.reshape(height * 3, height * 3).diagonal().sum()
        assert_close(hessian_traces(x, theta[None])[0, i], trace)
