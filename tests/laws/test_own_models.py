"""The laws of one step for models of users' own: each is isolated, or refused, whatever it does."""

import copy

import own_models
import own_zoo
import pytest
import torch
from forms import FORM, make_task
from own_models import seeded_module
from own_zoo import BEYOND_VMAP, CLASSES, HONEST, MIXING, SEEN, STATEFUL, WIDTH
from refusals import refused_in_one_line
from stand_ins import take_steps
from torch.testing import assert_close

from fairaudit.engine.isolation import Isolated, PerRecord
from fairaudit.engine.pool import TrainingPool
from fairaudit.engine.replicates import IsolatedNetwork, check_model, gradients_of, stack, tape_of
from fairaudit.errors import TrainingError

DPSGD = FORM["dpsgd"]
BOUND = 0.5
ROUNDING = 1e-5
BATCH = list(range(14))
ADDED = 14  # the record that one batch has and the other has not


def name_of(make):
    return make.__name__


def features():
    """Small records, and one that is a hundred times as long."""
    x = torch.randn(30, WIDTH, generator=torch.Generator().manual_seed(3))
    x[ADDED] *= 100.0
    return x


def pool(label=0):
    """``label``: of the added record."""
    labels = torch.arange(30) % CLASSES
    labels[ADDED] = label
    return TrainingPool(features(), labels, torch.arange(30) % 2, n_classes=CLASSES, n_groups=2)


def steps(model, batches, label=0, **parts):
    """Steps by the code that trains; parameters stay where they are, noise is none."""
    task = make_task(DPSGD, pool(label), model=model, max_grad_norm=BOUND)
    return take_steps(DPSGD.make(), task, batches, noise=(0.0,), **parts)


def verdict(make):
    """ "refused" and why, or by how many bounds a record moves this sum and the next."""
    moved = []
    for label in range(CLASSES):
        try:
            pairs = [
                steps(seeded_module(make), [first, BATCH], label)
                for first in (BATCH, [*BATCH, ADDED])
            ]
        except TrainingError as error:
            return "refused", str(error)
        without, with_x = (seen.sums for seen in pairs)
        moved.append([float((b - a).norm()) / BOUND for a, b in zip(without, with_x, strict=True)])
    return tuple(max(step) for step in zip(*moved, strict=True))


@pytest.mark.parametrize("make", MIXING, ids=name_of)
def test_records_that_would_meet_in_a_batch_do_not(make):
    now, later = verdict(make)
    if make in (own_zoo.SeedsTheGenerator, *SEEN):
        assert now == "refused"
    else:
        assert now <= 1 + ROUNDING
        assert later == 0.0


@pytest.mark.parametrize("make", [*BEYOND_VMAP, *SEEN], ids=name_of)
def test_what_vmap_cannot_run_is_refused_with_the_way_out(make):
    with pytest.raises(TrainingError) as caught:
        check_model(seeded_module(make), features()[10:18], CLASSES)
    assert caught.value.exit_code == 4


@pytest.mark.parametrize("make", STATEFUL, ids=name_of)
def test_a_model_that_keeps_what_it_reads_in_itself_is_refused(make):
    kind, message = verdict(make)
    assert kind == "refused"
    assert "\n" not in message


def test_what_a_model_hides_moves_a_later_step_which_is_why_its_guarantee_is_conditional():
    now, later = verdict(lambda: own_models.Hiding((WIDTH,), CLASSES, patience=0))
    assert now <= 1 + ROUNDING
    assert later > 1.5


@pytest.mark.parametrize("make", HONEST, ids=name_of)
def test_an_honest_model_keeps_the_laws(make):
    now, later = verdict(make)
    assert 0.01 < now <= 1 + ROUNDING
    assert later == 0.0


def alone_by_autograd(model, x, delta):
    """[n, P] by PyTorch on the module itself, one record at a time."""
    rows = []
    for record, direction in zip(x, delta, strict=True):
        own = [parameter for parameter in model.parameters() if parameter.requires_grad]
        value = (model(record.unsqueeze(0).clone())[0] * direction).sum()
        found = torch.autograd.grad(value, own, allow_unused=True, materialize_grads=True)
        rows.append(torch.cat([gradient.to_dense().flatten() for gradient in found]))
    return torch.stack(rows)


def by_engine(isolated, x, delta, draw=0):
    """Per-sample gradients [n, P] and outputs [n, Y] of a module that is run record by record."""
    outputs, leaves = isolated.graph(isolated.start, x, (draw,))
    gradients = gradients_of(outputs, leaves, delta)
    return torch.cat([rows.flatten(1) for rows in gradients], 1), outputs.detach()


def directions(n):
    return torch.randn(n, CLASSES, generator=torch.Generator().manual_seed(8))


@pytest.mark.parametrize("make", HONEST, ids=name_of)
def test_gradients_and_outputs_are_those_of_one_record_alone(make):
    model, x, delta = seeded_module(make), features()[:9], directions(9)
    found, outputs = by_engine(Isolated(model), x, delta)
    assert_close(found, alone_by_autograd(model, x, delta), rtol=1e-4, atol=1e-5)
    alone = [copy.deepcopy(model)(one.unsqueeze(0).clone()) for one in x]
    assert_close(outputs, torch.cat(alone).detach(), rtol=1e-4, atol=1e-5)
    predicting = Isolated(model, training=False)
    predictions = predicting.outputs(predicting.start, x, (0,))
    alone = [copy.deepcopy(model).eval()(one.unsqueeze(0).clone()) for one in x]
    assert_close(predictions, torch.cat(alone), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("make", [own_zoo.Dropped, own_zoo.Noisy], ids=name_of)
def test_draws_of_one_record_do_not_move_with_another(make):
    """Draws in a forward: equal ones for equal places, whoever is in the company."""
    isolated, x, delta = Isolated(seeded_module(make)), features()[:9], directions(9)
    base, _ = by_engine(isolated, x, delta, 1)
    other = x.clone()
    other[0] *= 50.0
    moved, _ = by_engine(isolated, other, delta, 1)
    assert torch.equal(base[1:], moved[1:])
    for count in (1, 7):
        fewer, _ = by_engine(isolated, x[:count], delta[:count], 1)
        assert torch.equal(base[:count], fewer)
    assert not torch.equal(base, by_engine(isolated, x, delta, 2)[0])
    if make is own_zoo.Dropped:  # masks differ by record
        assert len({tuple(row[:WIDTH].ne(0).tolist()) for row in base}) > 4


class Fails(own_zoo.Linear):
    """Fails when it is asked to: nothing that vmap runs can do so by a record's numbers."""

    def __init__(self, failure):
        super().__init__()
        self.failure = failure

    def forward(self, x):
        return self.failure(self, x) if FAILING else super().forward(x)


FAILING = []


def raises(error):
    def fail(model, x):
        raise error

    return fail


FAULTS = {
    "exception": (raises(ValueError("no\nsuch width")), "raised ValueError: no"),
    "memory": (raises(MemoryError()), "out of memory"),
    "no tensor": (lambda model, x: "logits", "puts out str"),
}


@pytest.mark.parametrize(("failure", "message"), FAULTS.values(), ids=FAULTS)
def test_a_fault_at_any_call_is_one_line_that_a_user_can_act_on(failure, message, monkeypatch):
    model, few = Fails(failure), features()[:5]
    tape = tape_of(stack([model]))
    tape.forward(few)  # not yet
    monkeypatch.setattr(f"{__name__}.FAILING", [True])
    for call in (lambda: tape.forward(few), lambda: check_model(model, few, CLASSES)):
        with refused_in_one_line(TrainingError, message) as caught:
            call()
        assert caught.value.exit_code == 4


def test_an_interrupt_is_no_fault_of_the_model(monkeypatch):
    monkeypatch.setattr(f"{__name__}.FAILING", [True])
    with pytest.raises(KeyboardInterrupt):
        steps(Fails(raises(KeyboardInterrupt())), [[ADDED]])


@pytest.mark.parametrize("make", HONEST, ids=name_of)
def test_the_check_before_training_passes_what_is_honest(make):
    check_model(seeded_module(make), features()[:8], CLASSES)
    check_model(PerRecord(seeded_module(make)), features()[:8], CLASSES)


@pytest.mark.parametrize("make", [own_zoo.TopRouting, own_zoo.ParameterAlias])
def test_the_check_refuses_what_would_be_trained_as_another_model(make):
    with pytest.raises(TrainingError):
        check_model(seeded_module(make), features()[:8], CLASSES)


class Centred(own_zoo.Linear):
    def __init__(self):
        super().__init__()
        self.register_buffer("centre", torch.full((WIDTH,), 0.1))

    def changed(self, x):
        return x - self.centre


def test_replicates_have_constants_and_frozen_parameters_of_their_own():
    models = [seeded_module(Centred, seed) for seed in (0, 1)]
    models[1].centre.fill_(3.0)
    network = stack(models)
    assert isinstance(network, IsolatedNetwork)
    x = features()[:5]
    found = network.logits(torch.stack([x, x]))
    for model, out in zip(models, found, strict=True):
        assert_close(out, model(x).detach(), rtol=1e-5, atol=1e-6)
