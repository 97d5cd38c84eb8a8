import pytest
import torch
from scipy import stats
from torch import nn

from fairaudit.models.zoo import MODELS, make_model

FALSE_ALARM = 1e-6


IMAGE = (7, 8, 2)


def zoo(name="mlp", seed=0, inputs=40, classes=3):
    return make_model(
        name,
        IMAGE if name == "cnn" else inputs,
        classes,
        hidden=(64, 32),
        activation="tanh",
        seed=seed,
    )


def flat(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


@pytest.mark.parametrize("name", MODELS)
def test_a_start_is_pytorchs_own_distribution(name):
    """Uniform within 1/sqrt(fan_in), by bounds and by Kolmogorov-Smirnov, weight and bias alike."""
    for layer in zoo(name):
        if isinstance(layer, nn.Linear | nn.Conv2d):
            bound = layer.weight[0].numel() ** -0.5
            if isinstance(layer, nn.Linear):
                theirs = nn.Linear(layer.in_features, layer.out_features)
            else:
                theirs = nn.Conv2d(layer.in_channels, layer.out_channels, layer.kernel_size)
            for mine, other in zip(layer.parameters(), theirs.parameters(), strict=True):
                assert mine.shape == other.shape
                assert mine.abs().max() <= bound
                assert other.abs().max() <= bound
                values = (mine.detach().flatten().double() / bound).numpy()
                assert stats.kstest(values, stats.uniform(-1, 2).cdf).pvalue > FALSE_ALARM


@pytest.mark.parametrize("name", MODELS)
def test_the_same_seed_starts_at_the_same_bits_and_another_elsewhere(name):
    before = torch.get_rng_state()
    assert torch.equal(flat(zoo(name, 5)), flat(zoo(name, 5)))
    assert torch.equal(before, torch.get_rng_state())
    assert not torch.equal(flat(zoo(name, 5)), flat(zoo(name, 6)))


@pytest.mark.parametrize(
    ("name", "layers"),
    [
        ("logistic", "Linear"),
        ("logistic-squashed", "Linear Sigmoid"),
        ("mlp", "Linear Tanh Linear Tanh Linear"),
        ("cnn", "Conv2d Tanh Conv2d Tanh Flatten Linear"),
    ],
)
def test_the_models_are_what_their_names_say(name, layers):
    assert [type(layer).__name__ for layer in zoo(name)] == layers.split()


def test_hidden_layers_channels_and_activations_are_those_asked_for():
    assert [m.out_features for m in zoo("mlp") if isinstance(m, nn.Linear)] == [64, 32, 3]
    cnn = zoo("cnn")
    assert [m.out_channels for m in cnn if isinstance(m, nn.Conv2d)] == [32, 16]
    assert cnn(torch.zeros(5, 2, 7, 8)).shape == (5, 3)
    relu = make_model("mlp", 4, 2, hidden=(3,), activation="relu", seed=0)
    assert isinstance(relu[1], nn.ReLU)
