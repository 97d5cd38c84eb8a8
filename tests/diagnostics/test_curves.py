import pytest
import torch
from forms import FORM, make_pool, make_task
from oracles import classes_of, gradients, model
from stand_ins import take_steps

from fairaudit.diagnostics import observers as curves_module
from fairaudit.diagnostics.observers import EpochCurves
from fairaudit.engine.contributions import NORM_GUARD
from fairaudit.methods.dpsgd import DpSgd

DPSGD = FORM["dpsgd"]
K, BOUND = 3, 0.8


def brute_force(module, pool, batches):
    """Means over the records of all batches, at fixed parameters, per group."""
    rows = [i for batch in batches for i in batch]
    x, labels = pool.gather(torch.tensor(rows, dtype=torch.int64), None).inputs, pool.labels[rows]
    norms = gradients(module, x, labels).norm(dim=1)
    loss = torch.nn.functional.cross_entropy(module(x).detach(), labels, reduction="none")
    scale = (BOUND / (norms * NORM_GUARD)).clamp(max=1.0)
    values = {"loss": loss, "gradient_norm": norms, "clipped": (scale < 1).float(), "scale": scale}
    own = [pool.groups[rows] == k for k in range(K)]
    return {
        name: torch.stack([value[mask].mean() for mask in own]) for name, value in values.items()
    }


def curves(pool, batches, name):
    """Readings of one epoch at fixed parameters."""
    module = model(name)
    task = make_task(DPSGD, pool, model=module, max_grad_norm=BOUND)
    seen = take_steps(DpSgd(), task, batches, observers=[EpochCurves()])
    return module, {
        name: (steps, values) for name, (steps, values) in seen.outcome.trace.stacked().items()
    }


@pytest.mark.parametrize("stash", [1, 7, 65_536])
@pytest.mark.parametrize("name", ["mlp-tanh", "logistic-multiclass", "mlp-relu"])
def test_curves_are_the_means_over_an_epochs_records(name, stash, monkeypatch):
    monkeypatch.setattr(curves_module, "STASH_ROWS", stash)
    pool = make_pool(40, classes=classes_of(name), groups=K)
    others = [i for i in range(40) if pool.groups[i] != 1]  # one group is in no batch
    for batches in ([[0, 3, 9, 11, 20], [], [5], [3, 9, 14, 30, 39]], [others[:3], others[3:6]]):
        module, readings = curves(pool, batches, name)
        for key, expected in brute_force(module, pool, batches).items():
            steps, values = readings[key]
            assert steps == [len(batches) - 1]
            torch.testing.assert_close(values[0, 0], expected, rtol=1e-4, atol=1e-5, equal_nan=True)
