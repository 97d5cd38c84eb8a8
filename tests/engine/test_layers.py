import pytest
import torch
from torch import nn

from fairaudit.engine.layers import ACTIVATIONS, bind
from fairaudit.engine.linear import Linear
from fairaudit.engine.network import Network
from fairaudit.errors import TrainingError

POINTS = torch.cat([torch.linspace(-30, 30, 601), torch.tensor([0.0, -0.0, 1e-8, -1e-8, 90.0, -90.0])])


@pytest.mark.parametrize("module", ACTIVATIONS, ids=lambda m: m.__name__)
def test_an_activation_equals_pytorchs_and_its_derivative(module):
    layer = ACTIVATIONS[module]()
    x = POINTS.clone().requires_grad_()
    expected = module()(x)
    y = layer.forward(POINTS)
    torch.testing.assert_close(y, expected.detach(), rtol=0, atol=3e-7)
    upstream = torch.linspace(-2, 2, len(POINTS))
    (wanted,) = torch.autograd.grad(expected, x, upstream)
    torch.testing.assert_close(layer.backward(POINTS, y, upstream), wanted, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("module", ACTIVATIONS, ids=lambda m: m.__name__)
def test_an_activation_leaves_its_input_as_it_was(module):
    x = POINTS.clone()
    ACTIVATIONS[module]().forward(x)
    assert torch.equal(x, POINTS)


@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize("replicates", [1, 3])
@pytest.mark.parametrize("batch", [0, 1, 8])
def test_a_linear_layer_equals_pytorchs_for_every_replicate(has_bias, replicates, batch):
    torch.manual_seed(1)
    modules = [nn.Linear(4, 3, bias=has_bias) for _ in range(replicates)]
    theta = torch.stack([torch.cat([p.detach().flatten() for p in m.parameters()]) for m in modules])
    layer = Linear(theta, 0, (3, 4), has_bias)
    x = torch.randn(replicates, batch, 4)
    delta = torch.randn(replicates, batch, 3)
    given_x, given_delta = (x[0], delta[0]) if replicates == 1 else (x, delta)
    y = layer.forward(given_x)
    back = layer.backward(given_x, y, given_delta)
    norms, book = layer.book(given_x, given_delta)
    out = torch.full_like(theta, torch.nan)
    layer.write(layer.parts(out), book, torch.ones(*given_delta.shape[:-1], 1), add=False)
    twice = out.clone()
    layer.write(layer.parts(twice), book, torch.ones(*given_delta.shape[:-1], 1), add=True)
    for r, module in enumerate(modules):
        pick = (lambda t: t) if replicates == 1 else (lambda t, r=r: t[r])
        outer = torch.einsum("bo,bi->boi", delta[r], x[r]).flatten(1)
        rows = torch.cat([outer, delta[r]], 1) if has_bias else outer
        torch.testing.assert_close(pick(y), module(x[r]).detach())
        torch.testing.assert_close(pick(back), delta[r] @ module.weight.detach())
        torch.testing.assert_close(pick(norms), rows.square().sum(1).sqrt())
        torch.testing.assert_close(out[r], rows.sum(0))
        torch.testing.assert_close(twice[r], 2 * rows.sum(0))


def test_a_layer_sees_its_parameters_change_in_place():
    theta = torch.zeros(1, 3)
    layer = Linear(theta, 0, (1, 2), True)
    theta.add_(1.0)
    assert layer.forward(torch.tensor([[2.0, 3.0]])).item() == 6.0


@pytest.mark.parametrize(
    "module",
    [nn.BatchNorm1d(3), nn.Dropout(), nn.GELU(), nn.Conv1d(1, 1, 1), nn.Conv2d(1, 1, 1)],
    ids=lambda m: type(m).__name__,
)
def test_a_layer_outside_the_table_is_refused_by_name(module):
    """Batch normalisation among them: its output for one record depends on the others (rule R1)."""
    with pytest.raises(TrainingError, match=type(module).__name__) as caught:
        bind([nn.Linear(3, 3), module], torch.zeros(1, 100))
    assert caught.value.exit_code == 4
    assert caught.value.hint


class LookAlike(nn.Linear):
    """A Linear that computes something else."""

    def forward(self, x):
        return super().forward(x) * 2


class DoubledTanh(nn.Tanh):
    """A Tanh that computes something else."""


def test_a_subclass_of_an_activation_is_refused():
    with pytest.raises(TrainingError, match="DoubledTanh"):
        bind([nn.Linear(3, 3), DoubledTanh()], torch.zeros(1, 12))


def test_a_subclass_of_linear_is_refused():
    with pytest.raises(TrainingError, match="LookAlike"):
        bind([LookAlike(3, 3)], torch.zeros(1, 12))


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
    """Trainings take numbers below float32's normal range for zero; a norm lost to that is not clipped."""
    layer = Linear(torch.zeros(1, 400 * 2 + 400), 0, (400, 2), True)
    x, delta = torch.full((1, 2), 1e18), torch.full((1, 400), 9e-20)
    torch.set_flush_denormal(True)
    try:
        norm = layer.book(x, delta)[0].double()
    finally:
        torch.set_flush_denormal(False)
    assert norm.item() >= (delta.double().norm() * x.double().norm()).item()
