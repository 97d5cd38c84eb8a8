"""Second derivatives the slow way: whole Hessians by torch.func over the untouched module."""

import torch
from oracles import MODELS, WIDTH, classes_of, laid_out, model
from torch import nn
from torch.func import functional_call, grad, jacrev, vmap

from fairaudit.diagnostics.landscape import GroupedRecords, Landscape
from fairaudit.models.zoo import make_model

K = 3


class Gelu(nn.Module):
    """A model that no table of layers knows: a function in between that is no module."""

    def __init__(self, classes):
        super().__init__()
        self.first, self.second = nn.Linear(WIDTH, 6), nn.Linear(6, classes)

    def forward(self, x):
        return self.second(nn.functional.gelu(self.first(x)))


CHAINS = {
    **dict.fromkeys(MODELS),
    "deep-tanh": (
        4,
        lambda: make_model("mlp", WIDTH, 4, hidden=(9, 6, 5, 4), activation="tanh", seed=1),
    ),
    "sigmoids": (
        3,
        lambda: nn.Sequential(nn.Linear(WIDTH, 6), nn.Sigmoid(), nn.Linear(6, 3), nn.Sigmoid()),
    ),
    "no-bias": (
        3,
        lambda: nn.Sequential(nn.Linear(WIDTH, 5, bias=False), nn.Tanh(), nn.Linear(5, 3)),
    ),
    "curved-input": (
        2,
        lambda: nn.Sequential(nn.Tanh(), nn.Linear(WIDTH, 4), nn.Tanh(), nn.Linear(4, 2)),
    ),
}
FOREIGN = {"gelu": (3, lambda: Gelu(3))}
BUILDERS = {**CHAINS, **FOREIGN}


def build(name):
    """A float64 module by name and its number of classes."""
    if BUILDERS[name] is None:
        return model(name).double(), classes_of(name)
    classes, make = BUILDERS[name]
    state = torch.random.get_rng_state()
    torch.manual_seed(3)
    module = make().double()
    torch.random.set_rng_state(state)
    return module, classes


def parameters_of(module):
    return torch.cat([p.detach().flatten() for p in module.parameters()])


def landscape_of(name, count=23, seed=0, absent=None, dtype=torch.float64, scale=1.0):
    """A landscape with K groups, in mixed order; group ``absent`` has no record."""
    module, classes = build(name)
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(count, WIDTH, generator=generator, dtype=torch.float64)
    y = torch.randint(classes, (count,), generator=generator)
    groups = torch.randint(K, (count,), generator=generator)
    if absent is not None:
        groups[groups == absent] = (absent + 1) % K
    records = GroupedRecords.of(x, y, groups, n_groups=K)
    return Landscape(module, scale * parameters_of(module).to(dtype), records)


def hessians_of_records(landscape):
    """H_i of every record, in group order, [n, P, P], float64."""
    module, theta = landscape.module.double(), landscape.theta.double()

    def loss(flat, record, target):
        logits = functional_call(module, laid_out(module, flat), (record[None],))
        return nn.functional.cross_entropy(logits, target[None])

    records = landscape.records
    return vmap(jacrev(grad(loss)), (None, 0, 0))(theta, records.features.double(), records.targets)


def group_hessians(landscape):
    """The mean Hessian of each group and of all records, [K + 1, P, P]; NaN for an absent group."""
    rows, groups = hessians_of_records(landscape), landscape.records.groups
    return torch.stack(
        [*(rows[groups == k].mean(0) for k in range(landscape.records.n_groups)), rows.mean(0)]
    )
