import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracles import MODELS, classes_of, gradients, model, output_gradient, records

from fairaudit.engine import network as tape_module
from fairaudit.engine.loop import NORM_GUARD
from fairaudit.engine.network import Network, Tape
from fairaudit.engine.stacked import DEFAULT_BUDGET

SMALLEST_CHUNK = 32


def sums_of(tape, weights):
    """Weighted sums [R, W, P] of weights [R, W, B]."""
    return torch.stack([row.clone() for row in tape.sums([*weights.unbind(1)])], 1)


def run(network, x, labels, weights, budget=DEFAULT_BUDGET):
    """Logits, norms and sums of one batch, by the engine, which is told the norms of the inputs."""
    tape = Tape(network, weights.shape[1], budget)
    logits = tape.forward(x, torch.hypot(x.norm(dim=-1), torch.tensor(1.0)))
    norms = tape.backward(output_gradient(logits, labels))
    return logits, norms, sums_of(tape, weights)


def wanted(modules, x, labels, weights):
    """Norms and sums of the same batch, by vmap(grad), one replicate at a time."""
    single = len(modules) == 1
    xs, ys = (x[None], labels[None]) if single else (x, labels)
    rows = [gradients(m, a, b) for m, a, b in zip(modules, xs, ys, strict=True)]
    norms = torch.stack([r.double().norm(dim=1).float() for r in rows])
    return norms[0] if single else norms, torch.stack(
        [w @ r for w, r in zip(weights, rows, strict=True)]
    )


def weights_for(replicates, rows, batch, seed=1):
    return torch.rand(replicates, rows, batch, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("replicates", [1, 3])
@pytest.mark.parametrize("batch", [0, 1, 20])
def test_norms_and_weighted_sums_are_those_of_per_sample_gradients(name, replicates, batch):
    modules = [model(name, seed) for seed in range(replicates)]
    x, labels = records(batch, classes_of(name), replicates=None if replicates == 1 else replicates)
    weights = weights_for(replicates, 2, batch)
    logits, norms, sums = run(Network(modules), x, labels, weights)
    expected_norms, expected_sums = wanted(modules, x, labels, weights)
    assert logits.shape == (*x.shape[:-1], classes_of(name))
    torch.testing.assert_close(norms, expected_norms, rtol=2e-5, atol=1e-7)
    torch.testing.assert_close(sums, expected_sums, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "name", ["logistic-multiclass", "mlp-tanh", "mlp-relu", "logistic-squashed"]
)
@pytest.mark.parametrize("replicates", [1, 3])
@pytest.mark.parametrize("batch", [0, 32, 33, 97])
def test_chunks_change_results_by_rounding_alone_and_the_budget_by_nothing(
    name, replicates, batch, monkeypatch
):
    network = Network([model(name, seed) for seed in range(replicates)])
    x, labels = records(batch, classes_of(name), replicates=None if replicates == 1 else replicates)
    weights = weights_for(replicates, 3, batch)
    whole = run(network, x, labels, weights)
    monkeypatch.setattr(tape_module, "CHUNK_BYTES", 1)
    assert Tape(network).rows_per_chunk == SMALLEST_CHUNK
    ample = run(network, x, labels, weights)
    for budget in (
        0,
        40 * Tape(network).bytes_per_record,
    ):  # no books kept; those of one chunk kept
        tight = run(network, x, labels, weights, budget)
        assert all(torch.equal(a, b) for a, b in zip(ample, tight, strict=True))
    for a, b in zip(ample, whole, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


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
    x, labels = records(6, 2, seed=seed, width=width)
    tape = Tape(network, 6)
    norms = tape.backward(output_gradient(tape.forward(x * 10.0**magnitude), labels))
    scale = (clip / (norms * NORM_GUARD)).clamp(max=1.0)
    sums = sums_of(tape, torch.diag(scale)[None])
    assert (sums[0].double().norm(dim=1) <= clip * (1.0 + 1e-6)).all()


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
    network = Network([model(name, seed) for seed in range(replicates)])
    x, labels = records(40, 2, replicates=None if replicates == 1 else replicates)
    weights = weights_for(replicates, 2, 40)
    broken = x.clone()
    broken[..., 13, :] = value
    absent = weights.clone()
    absent[..., 13] = 0.0
    _, norms, sums = run(network, broken, labels, weights, budget)
    _, good_norms, good_sums = run(network, x, labels, absent, budget)
    others = torch.arange(40) != 13
    assert (norms[..., 13] == 0).all()
    assert torch.equal(norms[..., others], good_norms[..., others])
    assert torch.isfinite(sums).all()
    assert torch.equal(sums, good_sums)


@pytest.mark.parametrize("replicates", [1, 2])
@pytest.mark.parametrize("budget", [0, DEFAULT_BUDGET], ids=["recomputed", "kept"])
def test_bad_records_in_several_chunks_are_all_zeroed(replicates, budget, monkeypatch):
    monkeypatch.setattr(tape_module, "CHUNK_BYTES", 1)
    network = Network([model("mlp-relu", seed) for seed in range(replicates)])
    x, labels = records(97, 2, replicates=None if replicates == 1 else replicates)
    weights = weights_for(replicates, 1, 97)
    bad = torch.tensor([0, 31, 32, 64, 96])
    broken, absent = x.clone(), weights.clone()
    for row, value in zip(bad, [math.nan, math.inf, 1e30, -math.inf, math.nan], strict=True):
        broken[..., row, :] = value
    absent[..., bad] = 0.0
    _, norms, sums = run(network, broken, labels, weights, budget)
    *_, good = run(network, x, labels, absent, budget)
    assert (norms[..., bad] == 0).all()
    assert torch.equal(sums, good)


def test_an_output_gradient_that_is_not_finite_counts_as_zero():
    network = Network([model("mlp-tanh")])
    x, labels = records(9, 2)
    tape = Tape(network)
    delta = output_gradient(tape.forward(x), labels)
    delta[3, 1] = math.nan
    norms = tape.backward(delta)
    assert norms[3] == 0
    assert torch.isfinite(sums_of(tape, torch.ones(1, 1, 9))).all()
