import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracles import (
    MODELS,
    assert_alike,
    assert_of_single_records,
    classes_of,
    model,
    output_gradient,
    records,
    sum_weights,
    taped,
    taped_within,
)

from fairaudit.engine import network as tape_module
from fairaudit.engine.contributions import NORM_GUARD
from fairaudit.engine.network import Network, Tape
from fairaudit.engine.stacked import DEFAULT_BUDGET

SMALLEST_CHUNK = 32


def some(name, count, replicates):
    """Modules of that name, and a batch for them: inputs, labels, weights of two sums."""
    modules = [model(name, seed) for seed in range(replicates)]
    x, labels = records(count, classes_of(name), replicates=replicates)
    return modules, (x, labels, sum_weights(replicates, count))


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("replicates", [1, 3])
@pytest.mark.parametrize("batch", [0, 1, 20])
def test_norms_and_weighted_sums_are_those_of_per_sample_gradients(name, replicates, batch):
    modules, batch = some(name, batch, replicates)
    assert_of_single_records(modules, *batch, taped(Network(modules), *batch))


@pytest.mark.parametrize(
    "name", ["logistic-multiclass", "mlp-tanh", "mlp-relu", "logistic-squashed"]
)
@pytest.mark.parametrize("replicates", [1, 3])
@pytest.mark.parametrize("batch", [0, 32, 33, 97])
def test_chunks_change_results_by_rounding_alone_and_the_budget_by_nothing(
    name, replicates, batch, monkeypatch
):
    modules, batch = some(name, batch, replicates)
    network = Network(modules)
    whole = taped(network, *batch)
    monkeypatch.setattr(tape_module, "CHUNK_BYTES", 1)
    tape = Tape(network)
    assert tape.rows_per_chunk == SMALLEST_CHUNK
    # no books kept; those of one chunk kept
    assert_alike(taped_within(network, batch, (0, 40 * tape.bytes_per_record)), whole)


@given(
    magnitude=st.floats(-6.0, 6.0),
    bound=st.floats(-3.0, 3.0),
    seed=st.integers(0, 2**20),
    width=st.sampled_from([1, 9, 130, 1024]),
)
def test_a_record_clipped_by_its_guarded_norm_is_never_longer_than_the_bound(
    magnitude, bound, seed, width
):
    """The ghost norm against the norm of the very sum that the engine returns for that record."""
    network, clip = Network([model("logistic", seed, width)]), 10.0**bound
    (x,), (labels,) = records(6, 2, seed=seed, width=width)
    tape = Tape(network, 6)
    norms = tape.backward(output_gradient(tape.forward(x * 10.0**magnitude), labels))
    scale = (clip / (norms * NORM_GUARD)).clamp(max=1.0)
    sums = torch.stack([row.clone() for row in tape.sums([*torch.diag(scale)])])
    assert (sums.double().norm(dim=1) <= clip * (1.0 + 1e-6)).all()


BAD = {
    "nan": math.nan,
    "inf": math.inf,
    "minus-inf": -math.inf,
    "norm-overflows": 1e30,
    "logit-overflows": 3e38,
}


@pytest.mark.parametrize("value", BAD.values(), ids=BAD)
@pytest.mark.parametrize("name", ["logistic", "mlp-tanh", "mlp-relu", "logistic-squashed"])
@pytest.mark.parametrize("replicates", [1, 3])
@pytest.mark.parametrize("budget", [0, DEFAULT_BUDGET], ids=["recomputed", "kept"])
def test_a_record_that_is_not_finite_counts_as_zero_and_moves_no_other_bit(
    name, value, replicates, budget
):
    modules, (x, labels, weights) = some(name, 40, replicates)
    network, broken, absent = Network(modules), x.clone(), weights.clone()
    broken[..., 13, :] = value
    absent[..., 13] = 0.0
    _, norms, sums = taped(network, broken, labels, weights, budget)
    _, good_norms, good_sums = taped(network, x, labels, absent, budget)
    others = torch.arange(40) != 13
    assert (norms[..., 13] == 0).all()
    assert torch.equal(norms[..., others], good_norms[..., others])
    assert torch.isfinite(sums).all()
    assert torch.equal(sums, good_sums)


@pytest.mark.parametrize("replicates", [1, 2])
@pytest.mark.parametrize("budget", [0, DEFAULT_BUDGET], ids=["recomputed", "kept"])
def test_bad_records_in_several_chunks_are_all_zeroed(replicates, budget, monkeypatch):
    monkeypatch.setattr(tape_module, "CHUNK_BYTES", 1)
    modules, (x, labels, weights) = some("mlp-relu", 97, replicates)
    network, broken, absent = Network(modules), x.clone(), weights.clone()
    bad = torch.tensor([0, 31, 32, 64, 96])
    for row, value in zip(bad, [math.nan, math.inf, 1e30, -math.inf, math.nan], strict=True):
        broken[..., row, :] = value
    absent[..., bad] = 0.0
    _, norms, sums = taped(network, broken, labels, weights, budget)
    *_, good = taped(network, x, labels, absent, budget)
    assert (norms[..., bad] == 0).all()
    assert torch.equal(sums, good)


def test_an_output_gradient_that_is_not_finite_counts_as_zero():
    network = Network([model("mlp-tanh")])
    (x,), (labels,) = records(9, 2)
    tape = Tape(network)
    delta = output_gradient(tape.forward(x), labels)
    delta[3, 1] = math.nan
    norms = tape.backward(delta)
    assert norms[3] == 0
    (sums,) = tape.sums([torch.ones(9)])
    assert torch.isfinite(sums).all()
