"""Loops with ``make_private``, which tests of ``fairaudit.opacus`` share."""

import numpy as np
import torch
from opacus.utils.batch_memory_manager import BatchMemoryManager
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from fairaudit.engine.small_layers import ChannelsFirst
from fairaudit.models.zoo import make_model
from fairaudit.opacus import make_private

RECORDS, WIDTH, GROUPS, CLASSES = 120, 5, 3, 3
BATCH, EPOCHS, DELTA = 24, 2, 1e-4
# method -> what its loop gives beside the bound
METHODS = {
    "dpsgd": {},
    "global": {"threshold": 3.0},
    "global-adapt": {"threshold": 2.0, "count_noise_multiplier": 5.0},
    "dpsgd-f": {"groups": GROUPS, "count_noise_multiplier": 5.0},
    "reweight": {"groups": GROUPS, "count_noise_multiplier": 5.0},
}
MODES = ("hooks", "functorch", "ghost")


def records(shape=(WIDTH,)):
    draw = np.random.default_rng(3)
    x = draw.normal(size=(RECORDS, *shape)) * np.geomspace(0.05, 20.0, RECORDS).reshape(
        -1, *[1] * len(shape)
    )
    y, g = draw.integers(0, CLASSES, RECORDS), draw.integers(0, GROUPS, RECORDS)
    return torch.from_numpy(x).float(), torch.from_numpy(y), torch.from_numpy(g)


def model_of(name):
    """A model and the shape of its records, as the engine has it: [d] or [H, W, C]."""
    shape = (6, 6, 1) if name == "cnn" else (WIDTH,)
    inputs = shape if name == "cnn" else WIDTH
    model = make_model(name, inputs, CLASSES, hidden=(7,), activation="tanh", seed=1)
    return (nn.Sequential(ChannelsFirst(shape), *model) if name == "cnn" else model), shape


def private(
    method="dpsgd",
    model=None,
    *,
    data=None,
    mode="hooks",
    lr=0.1,
    batch=BATCH,
    workers=0,
    inner=None,
    **given,
):
    """A loop of the method: model, optimizer, loss, loader."""
    if data is None:
        data = TensorDataset(*records())
    model = model or nn.Linear(WIDTH, CLASSES)
    asked = {
        "target_delta": DELTA,
        "epochs": EPOCHS,
        "max_grad_norm": 1.0,
        "seed": 0,
        "classes": CLASSES,
        "criterion": nn.CrossEntropyLoss(),
        **({} if "target_epsilon" in given else {"noise_multiplier": 1.0}),
        **METHODS.get(method, {}),
        **given,
    }
    return make_private(
        model,
        inner or torch.optim.SGD(model.parameters(), lr=lr),
        DataLoader(data, batch_size=batch, num_workers=workers),
        method=method,
        grad_sample_mode=mode,
        **{name: value for name, value in asked.items() if value is not None},
    )


def take(loop, x, y, g, *, dealt=None):
    """One step on these records, as if the loader had dealt them, or a batch of ``dealt``."""
    model, optimizer, loss, _ = loop
    if dealt is None:
        optimizer._batches.dealt.append(len(x))
    optimizer.zero_grad()
    optimizer.set_groups(g)
    loss(model(x), y).backward()
    return optimizer.step()


def train(loop, epochs=EPOCHS, physical=None):
    _, optimizer, _, loader = loop
    for _ in range(epochs):
        if physical is None:
            for batch in loader:
                take(loop, *batch, dealt=True)
        else:
            with BatchMemoryManager(
                data_loader=loader, max_physical_batch_size=physical, optimizer=optimizer
            ) as parts:
                for batch in parts:
                    take(loop, *batch, dealt=True)
    return optimizer


def parameters(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])
