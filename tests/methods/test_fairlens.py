"""FairLens: decoupled gradients against autograd of the coupled penalty.

And the published forms.
"""

import math

import pytest
import torch
from forms import FORM, make_pool, make_task
from oracles import MODELS, classes_of, model
from stand_ins import take_steps
from torch.func import functional_call, grad
from torch.testing import assert_close

from fairaudit.engine.network import Network, Tape
from fairaudit.engine.rules import PublicFacts
from fairaudit.errors import TrainingError
from fairaudit.methods.fairlens import FairLens
from fairaudit.papers.fairlens import FairLensEsipova


def fairlens(classes, **given):
    numbers = {
        "gamma2": 1.0,
        "noise_multiplier": 0.0,
        "decay": 0.0,
        "smallest_count": 1e-9,
        "smallest_share": 1e-9,
    }
    return FairLens(**{**numbers, **given}, n_classes=classes)


def scores(logits):
    return 1 - torch.softmax(logits, -1).square().sum(-1)


def coupled(module, x, group):
    """sum_a |E_a s - E s| as a function of the parameters, differentiated by autograd."""
    parameters = {name: p.detach().double() for name, p in module.named_parameters()}

    def penalty(values):
        s = scores(functional_call(module, values, (x.double(),)))
        return torch.stack([(s[group == k].mean() - s.mean()).abs() for k in group.unique()]).sum()

    return torch.cat([g.flatten() for g in grad(penalty)(parameters).values()])


def decoupled(kind, classes, pool, group, n_groups):
    """Mean over records of gamma2 w_a grad s_i.

    The engine's own step less that of the plain loss.
    """
    network = Network([kind])
    objective = fairlens(classes)
    facts = PublicFacts(pool.n_records, torch.tensor([float(pool.n_records)]), n_groups, classes)
    batch = pool.gather(torch.arange(pool.n_records), None)
    tape = Tape(network)
    logits = tape.forward(batch.inputs)
    state = objective.init(1, facts)
    answer = objective.query(state, logits.unsqueeze(0), group.unsqueeze(0)).sum(1)
    released = objective.update(state, answer)  # exact statistics: no noise
    delta = objective.output_gradient(released, logits, batch.targets, group)
    tape.backward(delta - (torch.softmax(logits, -1) - batch.targets))
    return tape.sums([torch.ones(1, pool.n_records)])[0][0] / pool.n_records


@pytest.mark.parametrize("name", [n for n in MODELS if n != "logistic-squashed-multiclass"])
@pytest.mark.parametrize("groups", [2, 3, 5])
def test_with_exact_statistics_the_decoupled_gradient_is_autograds_of_the_coupled_penalty(
    name, groups
):
    classes = classes_of(name)
    pool = make_pool(80, classes=classes, groups=groups)
    group = pool.groups[:-1]
    kind = model(name, 2)
    own = decoupled(kind, classes, pool, group, groups)
    x = pool.gather(torch.arange(80), None).inputs
    expected = coupled(model(name, 2).double(), x, group)
    assert expected.norm() > 1e-3
    assert_close(own.double(), expected, rtol=2e-4, atol=2e-6)


def test_a_running_count_that_the_noise_drowns_gives_no_weight():
    objective = fairlens(2, noise_multiplier=5.0, decay=0.9)
    settled = 2.0 * objective.running_noise
    sums = torch.tensor([[0.4, 0.1, 0.3]]) * settled
    heard = objective.weights(torch.tensor([[1.1, 1.2, 1.3]]) * settled, sums)
    assert (heard != 0).all()
    one_drowned = objective.weights(torch.tensor([[1.1, 1.2, 0.9]]) * settled, sums)
    free = objective.weights(torch.tensor([[1.1, 1.2, -9.0]]) * settled, sums)
    assert torch.isfinite(free).all()
    # Of three signs two are left: the drowned group's weight is minus their sum.
    assert one_drowned[0, 2].abs() in (0.0, 2.0)
    assert (objective.weights(torch.tensor([[0.5, 0.5, 0.5]]) * settled, sums) == 0).all()


def test_the_running_noise_is_that_of_many_noised_counts():
    objective = fairlens(2, noise_multiplier=3.0, decay=0.8, gamma2=1.0)
    state = objective.init(4000, PublicFacts(10, torch.full((4000,), 5.0), 1, 2))
    generator = torch.Generator().manual_seed(0)
    for _ in range(40):
        state = objective.update(state, 3.0 * torch.randn(4000, 2, generator=generator))
    assert float(state.counts.std()) == pytest.approx(objective.running_noise, rel=0.06)


@pytest.mark.parametrize("classes", [2, 4])
def test_the_query_holds_counts_and_scores_within_a_norm_of_one(classes):
    objective = fairlens(classes)
    facts = PublicFacts(10, torch.tensor([5.0]), 3, classes)
    logits = torch.randn(1, 6, classes, generator=torch.Generator().manual_seed(0)) * 3
    logits[0, 4] = 0.0  # equal probabilities: s is at its largest
    logits[0, 5, 0] = math.nan
    group = torch.tensor([[0, 1, 2, 0, 1, 2]])
    rows = objective.query(objective.init(1, facts), logits, group)
    assert (rows.norm(dim=-1) <= 1 + 1e-6).all()
    assert float(rows[0, 4].norm()) == pytest.approx(1.0)
    state = objective.update(objective.init(1, facts), rows.sum(1))
    assert_close(state.counts, torch.full((1, 3), 2.0))
    s = scores(logits[0])
    expected = torch.stack([s[0] + s[3], s[1] + s[4], s[2]])  # what is not finite counts as 0
    assert_close(state.sums[0], expected)


# --- published forms
# ---------------------------------------------------------------------------------


def test_a_model_too_large_for_second_derivatives_of_every_record_is_refused():
    pool = make_pool(20, width=400)
    form, wide = FORM["fairlens:as-published"], model("mlp-tanh", 0, 400)
    with pytest.raises(TrainingError, match="limited to 2000 parameters"):
        take_steps(FairLensEsipova(), make_task(form, pool, model=wide), [[0, 1]])
    quiet = make_task(form, pool, model=wide, gamma1=0.0)
    assert torch.isfinite(take_steps(FairLensEsipova(), quiet, [[0, 1]]).sums[0]).all()
