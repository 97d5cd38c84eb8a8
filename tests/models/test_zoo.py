import pytest
import torch
from scipy import stats
from torch import nn

from fairaudit.errors import ConfigError
from fairaudit.models.zoo import MODELS, make_model

FALSE_ALARM = 1e-6


IMAGE = (7, 8, 2)


def zoo(name="mlp", seed=0, inputs=40, classes=3):
    return make_model(
        name, IMAGE if name == "cnn" else inputs, classes, hidden=(64, 32), activation="tanh", seed=seed
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


def test_the_check_of_the_start_catches_a_normal_one():
    values = torch.randn(2000, generator=torch.Generator().manual_seed(0)).clamp(-1, 1).numpy()
    assert stats.kstest(values, stats.uniform(-1, 2).cdf).pvalue < FALSE_ALARM


@pytest.mark.parametrize("name", MODELS)
def test_the_same_seed_starts_at_the_same_bits_and_another_elsewhere(name):
    assert torch.equal(flat(zoo(name, 5)), flat(zoo(name, 5)))
    assert not torch.equal(flat(zoo(name, 5)), flat(zoo(name, 6)))


@pytest.mark.parametrize("name", MODELS)
def test_making_a_model_leaves_the_global_generator_alone(name):
    torch.manual_seed(3)
    before = torch.get_rng_state()
    zoo(name)
    assert torch.equal(before, torch.get_rng_state())


def test_the_models_are_what_their_names_say():
    assert [type(m).__name__ for m in zoo("logistic")] == ["Linear"]
    assert [type(m).__name__ for m in zoo("logistic-squashed")] == ["Linear", "Sigmoid"]
    mlp = zoo("mlp")
    assert [type(m).__name__ for m in mlp] == ["Linear", "Tanh", "Linear", "Tanh", "Linear"]
    assert [m.out_features for m in mlp if isinstance(m, nn.Linear)] == [64, 32, 3]
    cnn = zoo("cnn")
    assert [type(m).__name__ for m in cnn] == ["Conv2d", "Tanh", "Conv2d", "Tanh", "Flatten", "Linear"]
    assert [m.out_channels for m in cnn if isinstance(m, nn.Conv2d)] == [32, 16]
    assert cnn(torch.zeros(5, 2, 7, 8)).shape == (5, 3)
    relu = make_model("mlp", 4, 2, hidden=(3,), activation="relu", seed=0)
    assert isinstance(relu[1], nn.ReLU)


def test_the_squashed_loss_cannot_fall_below_what_its_name_warns_of():
    """Logits within [0, 1]: the best two-class loss is log(1 + 1/e)."""
    logits = torch.tensor([[1.0, 0.0]])
    floor = nn.functional.cross_entropy(logits, torch.tensor([0])).item()
    assert floor == pytest.approx(0.3133, abs=1e-4)
    x = torch.randn(500, 40, generator=torch.Generator().manual_seed(0)) * 100
    outputs = zoo("logistic-squashed", classes=2)(x).detach()
    losses = nn.functional.cross_entropy(outputs, outputs.argmax(1), reduction="none")
    assert losses.min() >= floor - 1e-6


def test_an_unknown_model_is_refused_with_a_near_name():
    with pytest.raises(ConfigError, match="unknown model 'logistik'") as caught:
        zoo("logistik")
    assert "logistic" in caught.value.hint


def test_an_mlp_reads_images_as_rows():
    assert make_model("mlp", IMAGE, 3, hidden=(5,), activation="tanh", seed=0)[0].in_features == 112
