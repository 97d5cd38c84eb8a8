import math

import pytest
import torch
from forms import DEFAULTS, make_pool, make_task
from oracles import classes_of, gradients, model
from stand_ins import take_steps

from fairaudit.diagnostics.observers import Misalignment
from fairaudit.methods.dpsgd import DpSgd

DPSGD = next(form for form in DEFAULTS if form.spec.name == "dpsgd")
K, BOUND = 3, 0.4


def brute_force(module, pool, batch, expected_batch):
    x, labels = pool.gather(torch.tensor(batch, dtype=torch.int64), None).inputs, pool.labels[batch]
    rows = gradients(module.double(), x.double(), labels)
    module.float()
    clipped = rows * (BOUND / rows.norm(dim=1, keepdim=True)).clamp(max=1.0)
    whole, cut = rows.sum(0) / expected_batch, clipped.sum(0) / expected_batch
    groups = torch.stack([rows[pool.groups[batch] == k].sum(0) for k in range(K)]) / expected_batch

    def cos(a, b):
        value = (a @ b / (a.norm() * b.norm())).item()
        return value if math.isfinite(value) else math.nan

    return {
        "cos_batch_clipped": torch.tensor(cos(whole, cut)),
        "cos_group_batch": torch.tensor([cos(g, whole) for g in groups]),
        "cos_group_clipped": torch.tensor([cos(g, cut) for g in groups]),
        "norm_batch": whole.norm().float(),
        "norm_clipped": cut.norm().float(),
        "norm_group": groups.norm(dim=1).float(),
    }


def observed(pool, batches, name="mlp-tanh", repeats=1, every=1):
    task = make_task(DPSGD, pool, repeats=repeats, model=model(name), max_grad_norm=BOUND)
    seen = take_steps(DpSgd(), task, batches, observers=[Misalignment(every)])
    return task, seen.outcome.trace.stacked()


@pytest.mark.parametrize("name", ["logistic", "mlp-tanh", "mlp-relu", "mlp-tanh-multiclass"])
def test_cosines_and_norms_are_those_of_per_sample_gradients(name):
    pool = make_pool(40, classes=classes_of(name), groups=K)
    batches = [[0, 2, 5, 9, 14, 21, 33], [7, 8]]
    task, readings = observed(pool, [batches], name, repeats=2)
    for r, batch in enumerate(batches):
        for key, expected in brute_force(task.model, pool, batch, 40 / 6).items():
            torch.testing.assert_close(
                readings[key][1][0, r], expected, rtol=1e-4, atol=1e-5, equal_nan=True
            )


def test_absent_groups_and_empty_batches_have_no_angle():
    pool = make_pool(40, groups=K)
    only = [i for i in range(40) if pool.groups[i] == 2][:3]
    _, readings = observed(pool, [only, []])
    cosines = readings["cos_group_batch"][1]
    assert torch.isnan(cosines[0, 0, :2]).all()
    assert cosines[0, 0, 2] == pytest.approx(1.0, abs=1e-5)
    assert torch.isnan(cosines[1]).all()
    assert torch.isnan(readings["cos_batch_clipped"][1][1]).all()
    assert (readings["norm_batch"][1][1] == 0).all()
