import math

import pytest
import torch
from image_models import IMAGE_MODELS, image_model, images
from oracles import (
    assert_alike,
    assert_of_single_records,
    gradients,
    sum_weights,
    taped,
    taped_within,
)
from torch import nn

from fairaudit.engine import conv as conv_module
from fairaudit.engine import network as tape_module
from fairaudit.engine.contributions import NORM_GUARD
from fairaudit.engine.layers import bind
from fairaudit.engine.network import Network, Tape
from fairaudit.engine.small_layers import ChannelsFirst
from fairaudit.errors import TrainingError


@pytest.mark.parametrize("name", IMAGE_MODELS)
@pytest.mark.parametrize(("replicates", "batch"), [(1, 0), (1, 11), (3, 0), (3, 11)])
def test_logits_norms_and_sums_on_images_are_those_of_per_sample_gradients(name, replicates, batch):
    modules = [image_model(name, seed) for seed in range(replicates)]
    x, labels = images(name, replicates, batch)
    weights = sum_weights(replicates, batch)
    found = taped(Network(modules), x, labels, weights)
    assert_of_single_records(modules, x, labels, weights, found)
    exact = torch.stack(
        [gradients(m.double(), a.double(), b) for m, a, b in zip(modules, x, labels, strict=True)]
    )
    assert (found[1].double() * NORM_GUARD >= exact.norm(dim=-1)).all()


@pytest.mark.parametrize("name", ["tanh-grey", "many-channels", "normalised"])
@pytest.mark.parametrize("replicates", [1, 2])
def test_chunks_of_images_change_results_by_rounding_and_the_budget_by_nothing(
    name, replicates, monkeypatch
):
    network = Network([image_model(name, seed) for seed in range(replicates)])
    batch = (*images(name, replicates, 37), sum_weights(replicates, 37))
    whole = taped(network, *batch)
    monkeypatch.setattr(tape_module, "CHUNK_BYTES", 1)
    monkeypatch.setattr(tape_module, "LARGE_RECORD", 1)
    monkeypatch.setattr(conv_module, "PIECE_BYTES", 1)
    assert Tape(network).rows_per_chunk == 1
    assert_alike(taped_within(network, batch, (0, 20 * network.bytes_per_record)), whole)


@pytest.mark.parametrize("value", [math.nan, math.inf, 1e38])
@pytest.mark.parametrize("name", IMAGE_MODELS)
def test_an_image_that_is_not_finite_counts_as_nothing(name, value):
    """Its pixels reach other records through no layer, and the sums through no weight."""
    network = Network([image_model(name)])
    x, labels = images(name, 1, 6)
    x[0, 2] = value
    weights = sum_weights(1, 6)
    _, norms, sums = taped(network, x, labels, weights)
    others = torch.tensor([0, 1, 3, 4, 5])
    _, clean_norms, clean_sums = taped(
        network, x[:, others], labels[:, others], weights[..., others]
    )
    assert torch.isfinite(sums).all()
    assert torch.isfinite(norms).all()
    torch.testing.assert_close(norms[:, others], clean_norms, rtol=1e-5, atol=1e-7)
    if norms[0, 2] == 0:  # a saturated tanh may leave a finite gradient, which then counts
        torch.testing.assert_close(sums, clean_sums, rtol=1e-4, atol=1e-5)
    else:
        assert math.isfinite(value)


@pytest.mark.parametrize(
    ("module", "why"),
    [
        (nn.Conv2d(4, 4, 3, groups=2), "groups=2"),
        (nn.Conv2d(4, 4, 3, padding=1, padding_mode="circular"), "circular"),
        (nn.Conv2d(4, 4, 2, padding="same"), "even kernel"),
        (nn.GroupNorm(2, 4, affine=False), "without a weight and a bias"),
        (nn.LayerNorm(6), "a part"),
        (nn.MaxPool2d(2, return_indices=True), "return_indices"),
        (nn.Flatten(2), "axis 2"),
        (nn.Linear(6, 6), "one row"),
        (nn.BatchNorm2d(4), "BatchNorm2d"),
    ],
)
def test_an_option_that_the_table_lacks_is_refused(module, why):
    with pytest.raises(TrainingError, match=why):
        bind([ChannelsFirst((6, 6, 4)), module], torch.zeros(1, 1000))


def test_a_group_norm_without_a_bias_is_no_layer_of_the_table():
    module = nn.GroupNorm(2, 4)
    module.bias = None  # as GroupNorm(.., bias=False) of later versions of PyTorch
    with pytest.raises(TrainingError, match="without a weight and a bias"):
        bind([ChannelsFirst((6, 6, 4)), module], torch.zeros(1, 1000))


@pytest.mark.parametrize("module", [nn.Conv2d(4, 4, 3), nn.MaxPool2d(2), nn.GroupNorm(2, 4)])
def test_a_layer_for_images_is_refused_where_none_comes_in(module):
    with pytest.raises(TrainingError, match="without an image"):
        bind([nn.Linear(4, 4), module], torch.zeros(1, 1000))


def test_the_caller_keeps_its_output_gradient():
    """An activation behind the last parameters must not write over what was handed in."""
    torch.manual_seed(0)
    network = Network([nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Sigmoid())])
    tape = Tape(network)
    delta = torch.randn(5, 3)
    kept = delta.clone()
    tape.forward(torch.randn(5, 4))
    tape.backward(delta)
    assert torch.equal(delta, kept)
