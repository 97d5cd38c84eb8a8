import math
from contextlib import nullcontext

import own_models
import pytest
import torch
from oracles import assert_of_single_records, output_gradient, sum_weights, taped, taped_within
from torch import nn

from fairaudit.engine import replicates as isolated_module
from fairaudit.engine.isolation import BLOCK
from fairaudit.engine.network import Network, Tape
from fairaudit.engine.refusals import refuse_unprivate
from fairaudit.engine.replicates import (
    IsolatedNetwork,
    IsolatedTape,
    check_model,
    stack,
    tape_of,
    why_not_in_table,
)
from fairaudit.engine.small_layers import ChannelsFirst
from fairaudit.errors import TrainingError

WIDTH, CLASSES = 6, 3
IMAGE = (7, 6, 2)
GREY = (7, 6, 1)
NAMES = ("residual", "attention", "own_parameter", "partly_frozen", "convolution", "grey")
SHAPES = {"convolution": IMAGE, "grey": GREY}


def own_model(name, seed=0):
    def make():
        if name in SHAPES:
            shape = SHAPES[name]
            return nn.Sequential(ChannelsFirst(shape), own_models.convolution(shape, CLASSES))
        if name == "attention":
            return own_models.Attention(WIDTH, CLASSES, dropout=0.0)
        return getattr(own_models, name)((WIDTH,), CLASSES)

    return own_models.seeded_module(make, seed)


def records(name, replicates, count, seed=1):
    generator = torch.Generator().manual_seed(seed)
    shape = SHAPES.get(name, (WIDTH,))
    x = torch.randn(replicates, count, *shape, generator=generator)
    return x, torch.randint(CLASSES, (replicates, count), generator=generator)


def trained_columns(module):
    """Which of ``gradients``' columns belong to parameters that train."""
    return torch.cat([torch.full((p.numel(),), p.requires_grad) for p in module.parameters()])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("replicates", [1, 3])
@pytest.mark.parametrize("batch", [0, 1, 9])
def test_norms_and_sums_of_a_isolated_module_are_those_of_per_sample_gradients(
    name, replicates, batch
):
    modules = [own_model(name, seed) for seed in range(replicates)]
    x, labels = records(name, replicates, batch)
    weights = sum_weights(replicates, batch)
    found = taped(IsolatedNetwork(modules), x, labels, weights)
    columns = trained_columns(modules[0])
    assert_of_single_records(modules, x, labels, weights, found, columns)


@pytest.mark.parametrize("replicates", [1, 2])
def test_chunks_and_budget_change_nothing_but_rounding_and_dropout_is_the_same_when_recomputed(
    replicates, monkeypatch
):
    modules = [own_models.Attention(WIDTH, CLASSES, dropout=0.5) for _ in range(replicates)]
    x, labels = records("attention", replicates, 23)
    weights = sum_weights(replicates, 23)
    monkeypatch.setattr(
        isolated_module, "CHUNK_BYTES", 4 * IsolatedNetwork(modules).bytes_per_record
    )
    network = IsolatedNetwork(modules)
    assert network.rows_per_chunk(x.view(-1, WIDTH)) == BLOCK
    taped_within(network, (x, labels, weights), (0, 10 * network.bytes_per_record))


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("name", ["residual", "own_parameter", "convolution"])
@pytest.mark.parametrize("clean", [False, True])
def test_a_record_that_is_not_finite_counts_as_nothing_in_a_isolated_module(name, value, clean):
    network = IsolatedNetwork([own_model(name)])
    x, labels = records(name, 1, 6)
    x[0, 2] = value
    others = torch.tensor([0, 1, 3, 4, 5])
    weights = sum_weights(1, 6)
    tape = IsolatedTape(network, 2)
    logits = tape.forward(x[0], clean=clean)
    if clean:
        assert torch.isfinite(logits).all()
    norms = tape.backward(output_gradient(logits, labels[0]))
    sums = torch.stack([row.clone() for row in tape.sums(list(weights))])
    assert norms[2] == 0
    _, _, clean_sums = taped(network, x[:, others], labels[:, others], weights[..., others])
    torch.testing.assert_close(sums, clean_sums, rtol=1e-4, atol=1e-6)


def test_each_model_gets_the_engine_that_fits_it():
    chain = own_models.chain((WIDTH,), CLASSES)
    assert why_not_in_table(chain) == ""
    assert isinstance(stack([chain]), Network)
    assert isinstance(tape_of(stack([chain])), Tape)
    for name in NAMES:
        module = own_model(name)
        assert why_not_in_table(module)
        assert isinstance(tape_of(stack([module])), IsolatedTape)


class Doubled(nn.Sequential):
    """A chain by its type, and something else by what it computes."""

    def forward(self, x):
        return super().forward(x) * 2


def test_a_subclass_of_a_chain_is_no_chain():
    assert why_not_in_table(Doubled(nn.Linear(WIDTH, CLASSES)))


def test_a_layer_that_cannot_be_private_is_named_with_its_replacement():
    module = own_models.normalised((WIDTH,), CLASSES)
    for refuse in (refuse_unprivate, lambda module: stack([module])):
        with pytest.raises(TrainingError, match="BatchNorm1d at '1'") as caught:
            refuse(module)
        assert "nn.GroupNorm" in caught.value.hint
        assert caught.value.exit_code == 4


@pytest.mark.parametrize(
    ("layer", "is_refused"),
    [
        (nn.BatchNorm1d(5, affine=False), True),
        (nn.BatchNorm1d(5).eval(), False),
        (nn.BatchNorm1d(5, track_running_stats=False).eval(), True),  # reads the batch all the same
        (nn.SyncBatchNorm(5).eval(), False),
        (nn.InstanceNorm1d(5, track_running_stats=True), True),
        (nn.InstanceNorm1d(5, track_running_stats=True).eval(), False),
        (nn.InstanceNorm1d(5), False),
    ],
)
def test_a_normalisation_may_have_fixed_statistics(layer, is_refused):
    for parameter in layer.parameters():
        parameter.requires_grad_(False)
    with pytest.raises(TrainingError) if is_refused else nullcontext():
        refuse_unprivate(nn.Sequential(nn.Linear(WIDTH, 5), layer))


def test_a_layer_that_does_more_than_its_type_says_is_isolated_with_what_it_does():
    chain = own_models.chain((WIDTH,), CLASSES)
    bare = stack([chain])
    chain[0].register_forward_hook(lambda module, given, out: out * 3)
    hooked, x = stack([chain]), records("chain", 1, 5)[0][0]
    assert isinstance(hooked, IsolatedNetwork)
    torch.testing.assert_close(hooked.logits(x), chain(x).detach())
    assert not torch.allclose(hooked.logits(x), bare.logits(x))
    check_model(chain, x, CLASSES)
    inner = nn.Sequential(chain)
    inner[0].forward = lambda x: x[:, :CLASSES]
    assert why_not_in_table(inner)
