import math

import pytest
import torch
from image_models import IMAGE_MODELS, image_model, images
from oracles import gradients, output_gradient
from torch import nn

from fairaudit.engine import conv as conv_module
from fairaudit.engine import conv as patches_module
from fairaudit.engine import network as tape_module
from fairaudit.engine.conv import GhostConv, PatchLayout, WrittenConv
from fairaudit.engine.layers import bind
from fairaudit.engine.linear import ImageLinear
from fairaudit.engine.loop import NORM_GUARD
from fairaudit.engine.network import Network, Tape
from fairaudit.engine.small_layers import ChannelsFirst
from fairaudit.engine.stacked import DEFAULT_BUDGET
from fairaudit.errors import TrainingError

ROWS = 2


def weights_for(replicates, batch, rows=ROWS):
    return torch.rand(rows, replicates, batch, generator=torch.Generator().manual_seed(7))


def run(network, x, labels, weights, budget=DEFAULT_BUDGET):
    """Logits [R, B, Y], norms [R, B] and sums [W, R, P] of one batch, by the engine."""
    single = network.replicates == 1
    tape = Tape(network, len(weights), budget)
    x, labels = (x[0], labels[0]) if single else (x, labels)
    logits = tape.forward(x).clone()
    norms = tape.backward(output_gradient(logits, labels))
    sums = torch.stack([row.clone() for row in tape.sums(list(weights))])
    return (logits[None], norms[None], sums) if single else (logits, norms, sums)


def layers_of(name, kind):
    return [layer for layer in Network([image_model(name)]).layers if isinstance(layer, kind)]


@pytest.mark.parametrize("name", IMAGE_MODELS)
@pytest.mark.parametrize("replicates", [1, 3])
@pytest.mark.parametrize("batch", [0, 1, 11])
def test_logits_norms_and_sums_on_images_are_those_of_per_sample_gradients(name, replicates, batch):
    modules = [image_model(name, seed) for seed in range(replicates)]
    x, labels = images(name, replicates, batch)
    weights = weights_for(replicates, batch)
    logits, norms, sums = run(Network(modules), x, labels, weights)
    rows = torch.stack([gradients(m, a, b) for m, a, b in zip(modules, x, labels, strict=True)])
    expected = torch.stack([m(a).detach() for m, a in zip(modules, x, strict=True)])
    torch.testing.assert_close(logits, expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(norms, rows.norm(dim=-1), rtol=2e-5, atol=1e-7)
    torch.testing.assert_close(
        sums, torch.einsum("wrb,rbp->wrp", weights, rows), rtol=1e-4, atol=1e-5
    )


def test_the_models_take_every_path():
    """Were a path not taken, the test above would say nothing of it."""
    layouts = {
        layer.patches.layout for name in IMAGE_MODELS for layer in layers_of(name, WrittenConv)
    }
    assert layouts == set(PatchLayout)
    assert layers_of("many-channels", GhostConv)
    assert layers_of("tanh-grey", ImageLinear)


@pytest.mark.parametrize(
    "name", ["tanh-grey", "strided-relu", "dilated-same", "many-channels", "one-by-one"]
)
@pytest.mark.parametrize("ghost_is_cheap", [True, False])
def test_both_kinds_of_norm_agree_whichever_is_chosen(name, ghost_is_cheap, monkeypatch):
    x, labels = images(name, 1, 9)
    weights = weights_for(1, 9)
    chosen = run(Network([image_model(name)]), x, labels, weights)
    monkeypatch.setattr(conv_module, "_GHOST_PER_FLOAT", math.inf if ghost_is_cheap else 0)
    network = Network([image_model(name)])
    kind = GhostConv if ghost_is_cheap else WrittenConv
    assert {
        type(layer) for layer in network.layers if isinstance(layer, GhostConv | WrittenConv)
    } == {kind}
    for a, b in zip(chosen, run(network, x, labels, weights), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["tanh-grey", "many-channels", "normalised"])
@pytest.mark.parametrize("replicates", [1, 2])
def test_chunks_of_images_change_results_by_rounding_and_the_budget_by_nothing(
    name, replicates, monkeypatch
):
    network = Network([image_model(name, seed) for seed in range(replicates)])
    x, labels = images(name, replicates, 37)
    weights = weights_for(replicates, 37)
    whole = run(network, x, labels, weights)
    monkeypatch.setattr(tape_module, "CHUNK_BYTES", 1)
    monkeypatch.setattr(tape_module, "LARGE_RECORD", 1)
    monkeypatch.setattr(patches_module, "PIECE_BYTES", 1)
    assert Tape(network).rows_per_chunk == 1
    ample = run(network, x, labels, weights)
    for budget in (0, 20 * network.bytes_per_record):
        tight = run(network, x, labels, weights, budget)
        assert all(torch.equal(a, b) for a, b in zip(ample, tight, strict=True))
    for a, b in zip(ample, whole, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("value", [math.nan, math.inf, 1e38])
@pytest.mark.parametrize("name", IMAGE_MODELS)
def test_an_image_that_is_not_finite_counts_as_nothing(name, value):
    """Its pixels reach other records through no layer, and the sums through no weight."""
    network = Network([image_model(name)])
    x, labels = images(name, 1, 6)
    x[0, 2] = value
    weights = weights_for(1, 6)
    _, norms, sums = run(network, x, labels, weights)
    others = torch.tensor([0, 1, 3, 4, 5])
    _, clean_norms, clean_sums = run(network, x[:, others], labels[:, others], weights[..., others])
    assert torch.isfinite(sums).all()
    assert torch.isfinite(norms).all()
    torch.testing.assert_close(norms[:, others], clean_norms, rtol=1e-5, atol=1e-7)
    if norms[0, 2] == 0:  # a saturated tanh may leave a finite gradient, which then counts
        torch.testing.assert_close(sums, clean_sums, rtol=1e-4, atol=1e-5)
    else:
        assert math.isfinite(value)


@pytest.mark.parametrize("name", IMAGE_MODELS)
def test_the_norm_guard_covers_what_float32_loses_on_images(name):
    module = image_model(name, 3)
    x, labels = images(name, 1, 64)
    _, norms, _ = run(Network([module]), x, labels, weights_for(1, 64))
    exact = gradients(module.double(), x[0].double(), labels[0]).norm(dim=1)
    assert (norms[0].double() * NORM_GUARD >= exact).all()


def cancelling(dtype=torch.float32):
    """A convolution whose gradient is a small remainder of large parts.

    Each position undoes another.
    """
    torch.manual_seed(0)
    x = torch.randn(1, 2, 2, 16).repeat(20, 1, 1, 1)
    x[:, 1] = x[:, 0] * (1 + 1e-4)  # rounded to float32, as any input is
    delta = torch.randn(20, 1, 2, 1).expand(20, 2, 2, 60).clone()
    delta[:, 1] = -delta[:, 0]
    return x.to(dtype), delta.to(dtype)


def ghost():
    theta = torch.randn(1, 16 * 60, generator=torch.Generator().manual_seed(1))
    modules = [ChannelsFirst((2, 2, 16)), nn.Conv2d(16, 60, 1, bias=False)]
    return bind(modules, theta)[1]


def test_a_ghost_norm_does_not_lose_a_gradient_that_all_but_cancels():
    """In float32 the products of positions lose it: a norm too small is a gradient not clipped."""
    layer = ghost()
    assert isinstance(layer, GhostConv)
    x, delta = cancelling()
    exact = torch.einsum("bhwc,bhwo->boc", x.double(), delta.double()).flatten(1).norm(dim=1)
    norms = layer.book(x, delta)[0].double()
    torch.testing.assert_close(norms, exact, rtol=1e-6, atol=0.0)
    spots, rows = x.flatten(1, 2), delta.flatten(1, 2)
    single = (torch.bmm(spots, spots.mT) * torch.bmm(rows, rows.mT)).sum((1, 2)).clamp(min=0).sqrt()
    assert (single.double() * NORM_GUARD < exact).any()  # what the guard would not have covered


@pytest.mark.parametrize(
    ("module", "why"),
    [
        (nn.Conv2d(4, 4, 3, groups=2), "groups=2"),
        (nn.Conv2d(4, 4, 3, padding=1, padding_mode="circular"), "circular"),
        (nn.Conv2d(4, 4, 2, padding="same"), "even kernel"),
        (nn.GroupNorm(2, 4, affine=False), "affine"),
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
