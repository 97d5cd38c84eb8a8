import pytest
import torch
from plans import plan

from fairaudit.models.convex import LogisticProblems, minimise, scores


def students(**numbers):
    settings = {"pate-hard": {"queries": 6.0, "teachers": 5.0, **numbers}}
    found = plan(method=("pate-hard",), settings=settings)
    return [found.arm(key).settings for key in ("pate-hard", "pate-hard-clean")]


def test_a_penalty_of_a_sum_becomes_that_of_a_mean_for_student_and_teachers():
    for arm in students(student_penalty_of_sum=100.0, teacher_penalty_of_sum=0.3):
        assert arm["student_penalty"] == pytest.approx(2 * 100 / 6)
        assert arm["teacher_penalty"] == pytest.approx(2 * 0.3 * 5 / 300)  # 300 records, 5 teachers
        assert "student_penalty_of_sum" not in arm


def test_both_conventions_have_one_minimiser():
    """The minimiser of mean + (lambda'/2) |theta|^2 is stationary for sum + lambda |theta|^2."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(6, 3, generator=generator, dtype=torch.float64)
    labels = torch.tensor([0, 1, 0, 0, 1, 1])
    targets = torch.nn.functional.one_hot(labels, 2).double().unsqueeze(0)
    arm, _ = students(student_penalty_of_sum=0.7)

    def slope(penalty):
        theta = minimise(LogisticProblems(x, targets, penalty)).requires_grad_()
        total = torch.nn.functional.cross_entropy(scores(x, theta)[0], labels, reduction="sum")
        (gradient,) = torch.autograd.grad(total + 0.7 * theta.square().sum(), theta)
        return float(gradient.norm())

    assert slope(arm["student_penalty"]) < 1e-8
    assert slope(0.7) > 1e-3
    assert slope(0.7 / 6) > 1e-3
