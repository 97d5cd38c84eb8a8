import pytest
import torch
from torch import nn

from fairaudit.engine.layers import ACTIVATIONS, bind
from fairaudit.engine.linear import Linear
from fairaudit.engine.network import Network
from fairaudit.errors import TrainingError

POINTS = torch.cat(
    [torch.linspace(-30, 30, 601), torch.tensor([0.0, -0.0, 1e-8, -1e-8, 90.0, -90.0])]
)


@pytest.mark.parametrize("module", ACTIVATIONS, ids=lambda m: m.__name__)
def test_an_activation_equals_pytorchs_and_its_derivative(module):
    layer = ACTIVATIONS[module]()
    x = POINTS.clone().requires_grad_()
    expected = module()(x)
    given = POINTS.clone()
    y = layer.forward(given)
    assert torch.equal(given, POINTS)
    torch.testing.assert_close(y, expected.detach(), rtol=0, atol=3e-7)
    upstream = torch.linspace(-2, 2, len(POINTS))
    (wanted,) = torch.autograd.grad(expected, x, upstream)
    torch.testing.assert_close(layer.backward(POINTS, y, upstream), wanted, rtol=1e-5, atol=2e-6)


class LookAlike(nn.Linear):
    """A Linear that computes something else."""

    def forward(self, x):
        return super().forward(x) * 2


@pytest.mark.parametrize("module", [nn.BatchNorm1d(3), nn.Dropout(), nn.GELU(), LookAlike(3, 3)])
def test_a_layer_outside_the_table_is_refused_by_name(module):
    """Batch normalisation among them: its output for one record depends on the others (rule R1)."""
    with pytest.raises(TrainingError, match=type(module).__name__):
        bind([nn.Linear(3, 3), module], torch.zeros(1, 100))


def tied():
    one = nn.Linear(3, 3)
    return nn.Sequential(one, nn.Tanh(), one)


def frozen():
    model = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 2))
    model[0].weight.requires_grad_(False)
    return model


def scaled():
    """A chain with a parameter that no layer of the table owns."""

    class Scaled(nn.Sequential):
        def __init__(self):
            super().__init__(nn.Linear(3, 2))
            self.scale = nn.Parameter(torch.ones(1))

    return Scaled()


@pytest.mark.parametrize("make", [tied, scaled, frozen], ids=["tied", "loose parameter", "frozen"])
def test_parameters_that_the_layers_cannot_train_one_to_one_are_refused(make):
    with pytest.raises(TrainingError):
        Network([make()])


def test_a_gradient_whose_squares_are_flushed_to_zero_still_has_its_norm():
    """Trainings take numbers below float32's normal range for zero.

    A norm lost to that is not clipped.
    """
    layer = Linear(torch.zeros(1, 400 * 2 + 400), 0, (400, 2), True)
    x, delta = torch.full((1, 2), 1e18), torch.full((1, 400), 9e-20)
    torch.set_flush_denormal(True)
    try:
        norm = layer.book(x, delta)[0].double()
    finally:
        torch.set_flush_denormal(False)
    assert norm.item() >= (delta.double().norm() * x.double().norm()).item()
