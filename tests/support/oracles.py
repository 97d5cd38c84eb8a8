"""Per-sample gradients the slow way: torch.func over the untouched module."""

import torch
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.testing import assert_close

from fairaudit.engine.replicates import tape_of
from fairaudit.engine.stacked import DEFAULT_BUDGET
from fairaudit.models.zoo import make_model

WIDTH = 7

# name, classes -> a model whose every layer type is in the engine's table
MODELS = {
    "logistic": ("logistic", "tanh", 2),
    "logistic-multiclass": ("logistic", "tanh", 5),
    "mlp-tanh": ("mlp", "tanh", 2),
    "mlp-tanh-multiclass": ("mlp", "tanh", 4),
    "mlp-relu": ("mlp", "relu", 2),
    "mlp-relu-multiclass": ("mlp", "relu", 3),
    "activation-first": ("activation-first", "tanh", 3),
    "logistic-squashed": ("logistic-squashed", "tanh", 2),
    "logistic-squashed-multiclass": ("logistic-squashed", "tanh", 3),
}


def model(name, seed=0, width=WIDTH):
    """A small model of that name, its start drawn from ``seed``."""
    kind, activation, classes = MODELS[name]
    if kind == "activation-first":
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return nn.Sequential(nn.Tanh(), nn.Linear(width, 5), nn.ReLU(), nn.Linear(5, classes))
    return make_model(kind, width, classes, hidden=(9, 6), activation=activation, seed=seed)


def classes_of(name):
    return MODELS[name][2]


def laid_out(module, flat):
    """Parameters [P] by name, as ``functional_call`` takes them."""
    parts = flat.split([p.numel() for p in module.parameters()])
    named = zip(module.named_parameters(), parts, strict=True)
    return {name: part.view(p.shape) for (name, p), part in named}


def gradients(module, x, labels):
    """Gradient of each record's cross-entropy, in the order of ``parameters()``, [B, P]."""
    parameters = {name: p.detach() for name, p in module.named_parameters()}
    if not len(x):
        return x.new_zeros(0, sum(p.numel() for p in parameters.values()))

    def loss(values, record, label):
        logits = functional_call(module, values, (record[None],))
        return nn.functional.cross_entropy(logits, label[None])

    rows = vmap(grad(loss), (None, 0, 0))(parameters, x, labels)
    return torch.cat([row.flatten(1) for row in rows.values()], 1)


def records(count, classes, *, seed=0, width=WIDTH, replicates=1):
    """Random inputs [R, B, d] and labels [R, B]."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(replicates, count, width, generator=generator)
    return x, torch.randint(classes, (replicates, count), generator=generator)


def output_gradient(logits, labels):
    """Gradient of the cross-entropy at the logits."""
    one_hot = nn.functional.one_hot(labels, logits.shape[-1]).to(logits.dtype)
    return torch.softmax(logits, -1) - one_hot


def sum_weights(replicates, batch, rows=2):
    """Weights [W, R, B] of sums."""
    return torch.rand(rows, replicates, batch, generator=torch.Generator().manual_seed(5))


def taped(network, x, labels, weights, budget=DEFAULT_BUDGET):
    """Logits [R, B, Y], norms [R, B] and sums [W, R, P] of one batch [R, B, ...], by the engine.

    As in training, it is told the norms of inputs that are rows.
    """
    single = network.replicates == 1
    tape = tape_of(network, len(weights), budget)
    with torch.inference_mode():  # as in training
        x, labels = (x[0], labels[0]) if single else (x, labels)
        is_row = x.dim() == labels.dim() + 1
        lengths = torch.hypot(x.norm(dim=-1), torch.tensor(1.0)) if is_row else None
        logits = tape.forward(x.clone(), lengths).clone()
        norms = tape.backward(output_gradient(logits, labels))
        sums = torch.stack([row.clone() for row in tape.sums(list(weights))])
    return (logits[None], norms[None], sums) if single else (logits, norms, sums)


def assert_of_single_records(modules, x, labels, weights, found, columns=slice(None)):
    """What ``taped`` found is made of ``gradients``; ``columns``: those that train."""
    logits, norms, sums = found
    rows = [gradients(m, a, b) for m, a, b in zip(modules, x, labels, strict=True)]
    rows = torch.stack(rows)[..., columns]
    expected = torch.stack([m(a).detach() for m, a in zip(modules, x, strict=True)])
    assert_close(logits, expected, rtol=1e-4, atol=1e-5)
    assert_close(norms, rows.norm(dim=-1), rtol=2e-5, atol=1e-7)
    expected = torch.einsum("wrb,rbp->wrp", weights, rows)
    assert_close(sums, expected, rtol=1e-4, atol=1e-5)


def taped_within(network, batch, budgets):
    """``taped`` with ample memory, to the bit that of every budget."""
    ample = taped(network, *batch)
    for budget in budgets:
        tight = taped(network, *batch, budget)
        assert all(torch.equal(a, b) for a, b in zip(ample, tight, strict=True))
    return ample


def assert_alike(one, other):
    """Two answers of ``taped`` differ by rounding alone."""
    for a, b in zip(one, other, strict=True):
        assert_close(a, b, rtol=1e-4, atol=1e-5)
