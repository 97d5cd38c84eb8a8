"""Per-sample gradients the slow way: torch.func over the untouched module."""

import torch
from torch import nn
from torch.func import functional_call, grad, vmap

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


def records(count, classes, *, seed=0, width=WIDTH, replicates=None):
    """Random inputs and labels, [(R,) B, d] and [(R,) B]."""
    generator = torch.Generator().manual_seed(seed)
    lead = () if replicates is None else (replicates,)
    x = torch.randn(*lead, count, width, generator=generator)
    return x, torch.randint(classes, (*lead, count), generator=generator)


def output_gradient(logits, labels):
    """Gradient of the cross-entropy at the logits."""
    one_hot = nn.functional.one_hot(labels, logits.shape[-1]).to(logits.dtype)
    return torch.softmax(logits, -1) - one_hot


def sum_weights(replicates, batch, rows=2):
    """Weights [W, R, B] of sums."""
    return torch.rand(rows, replicates, batch, generator=torch.Generator().manual_seed(5))


def taped(network, x, labels, weights, budget=DEFAULT_BUDGET):
    """Logits [R, B, Y], norms [R, B] and sums [W, R, P] of one batch [R, B, ...], by the engine."""
    single = network.replicates == 1
    tape = tape_of(network, len(weights), budget)
    with torch.inference_mode():  # as in training
        x, labels = (x[0], labels[0]) if single else (x, labels)
        logits = tape.forward(x.clone()).clone()
        norms = tape.backward(output_gradient(logits, labels))
        sums = torch.stack([row.clone() for row in tape.sums(list(weights))])
    return (logits[None], norms[None], sums) if single else (logits, norms, sums)
