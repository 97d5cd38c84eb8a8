"""The laws of one step for models of users' own: each is isolated, or refused, whatever it does."""

import copy
import warnings

import own_zoo
import own_zoo_notes
import pytest
import torch
from forms import DEFAULTS, make_task
from opacus import GradSampleModule
from own_zoo import BY_HOOKS, CLASSES, HONEST, MIXING, STATEFUL, WIDTH
from stand_ins import take_steps
from torch import nn

from fairaudit.engine.isolation import Isolated, PerRecord
from fairaudit.engine.pool import TrainingPool
from fairaudit.engine.replicates import IsolatedNetwork, IsolatedTape, check_model, stack, tape_of
from fairaudit.errors import TrainingError

DPSGD = next(form for form in DEFAULTS if form.spec.name == "dpsgd")
BOUND = 0.5
ROUNDING = 1e-5
BATCH = list(range(14))
ADDED = 14  # the record that one batch has and the other has not


def name_of(make):
    return make.__name__


def made(make, seed=0):
    own_zoo.HISTORY.clear()
    own_zoo.first_seen.cache_clear()
    own_zoo.LOCAL.__dict__.clear()
    own_zoo_notes.SCALE, own_zoo_notes.METER[:], own_zoo_notes.UNSPOKEN = 20.0, [0.0, 0.0], 0.0
    own_zoo.BORNE["level"], own_zoo.NOTHING.level = 0.0, 0.0
    own_zoo.METHOD_LEVELS[:] = own_zoo.OwnLinear.levels[:] = [0.0]
    vars(torch).pop("_kept_by_a_test", None)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return make()


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
    """ "refused" and why, or by how many bounds one record moves the sum of its step and of the next one."""
    moved = []
    for label in range(CLASSES):
        try:
            pairs = [steps(made(make), [first, BATCH], label) for first in (BATCH, [*BATCH, ADDED])]
        except TrainingError as error:
            return "refused", str(error)
        without, with_x = (seen.sums for seen in pairs)
        moved.append([float((b - a).norm()) / BOUND for a, b in zip(without, with_x, strict=True)])
    return tuple(max(step) for step in zip(*moved, strict=True))


@pytest.mark.parametrize("make", MIXING, ids=name_of)
def test_records_that_would_meet_in_a_batch_do_not(make):
    now, later = verdict(make)
    assert now <= 1 + ROUNDING
    assert later == 0.0


@pytest.mark.parametrize("make", STATEFUL, ids=name_of)
def test_a_model_that_remembers_is_refused_by_name_with_what_to_do(make):
    kind, message = verdict(make)
    assert kind == "refused"
    assert "GroupNorm" in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (own_zoo.RunningMaximum, "largest"),
        (own_zoo.RunningMeanInPlace, "mean"),
        (own_zoo.RunningMeanAfterManyCalls, "calls"),
        (own_zoo.KeepsRawRecords, "kept"),
        (own_zoo.WritesToAParameter, "out.bias"),
        (own_zoo.ReplacesAParameter, "out.bias"),
        (own_zoo.KeepsAnAttribute, "attribute 'last' of KeepsAnAttribute"),
        (own_zoo.ObjectMemory, "notes"),
        (own_zoo.GlobalNumbers, "HISTORY"),
        (own_zoo.GlobalTensorsByAFunction, "HISTORY"),
        (own_zoo.ClassMemory, "shared"),
        (own_zoo.hooked, "kept"),
        (own_zoo.batch_norm, "BatchNorm1d at '1'"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_what_a_model_remembers_is_named(make, name):
    assert name in verdict(make)[1]


@pytest.mark.parametrize("make", HONEST, ids=name_of)
def test_an_honest_model_keeps_the_laws(make):
    now, later = verdict(make)
    assert 0.01 < now <= 1 + ROUNDING
    assert later == 0.0


@pytest.mark.parametrize("make", [*HONEST, *MIXING], ids=name_of)
def test_an_isolated_model_is_as_it_was_after_its_steps(make):
    model = made(make)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    steps(model, [BATCH, [], [ADDED]])
    after = model.state_dict()
    assert all(torch.equal(value, after[name]) for name, value in before.items())


@pytest.mark.parametrize("make", HONEST, ids=name_of)
@pytest.mark.parametrize("count", [0, 1, 9])
def test_the_size_of_a_batch_and_of_its_chunks_changes_nothing_but_rounding(make, count, monkeypatch):
    """One noise draw for each step, and a record's gradient the same in every company."""
    monkeypatch.setattr("fairaudit.engine.replicates.LARGEST_CHUNK", 4)
    seen = steps(made(make), [list(range(count))])
    assert seen.noise.draws == 1
    alone = [steps(made(make), [[record]]).sums[0] for record in range(count)]
    expected = torch.stack(alone).sum(0) if alone else torch.zeros_like(seen.sums[0])
    torch.testing.assert_close(seen.sums[0], expected, rtol=1e-3, atol=1e-5)


def alone_by_autograd(model, x, delta):
    """[n, P] by PyTorch on the module itself, one record at a time."""
    rows = []
    for record, direction in zip(x, delta, strict=True):
        own = list(model.parameters())
        value = (model(record.unsqueeze(0).clone())[0] * direction).sum()
        found = torch.autograd.grad(value, own, allow_unused=True)
        rows.append(
            torch.cat(
                [(torch.zeros_like(p) if g is None else g).flatten() for p, g in zip(own, found, strict=True)]
            )
        )
    return torch.stack(rows)


def by_hooks(model, x, loss):
    """Per-sample gradients [n, P] by Opacus' hooks on the whole batch."""
    hooked = GradSampleModule(copy.deepcopy(model), loss_reduction="sum")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Full backward hook is firing")
        loss(hooked(x)).backward()
    return torch.cat([p.grad_sample.flatten(1) for p in hooked.parameters()], 1)


def directions(n):
    return torch.randn(n, CLASSES, generator=torch.Generator().manual_seed(8))


@pytest.mark.parametrize("make", HONEST, ids=name_of)
def test_gradients_and_outputs_are_those_of_one_record_alone(make):
    model, x = made(make), features()[:9]
    isolated, delta = Isolated(model), directions(9)
    found = isolated.gradients(isolated.start, x, delta, (0,))
    torch.testing.assert_close(found, alone_by_autograd(model, x, delta), rtol=1e-4, atol=1e-5)
    expected = torch.cat([copy.deepcopy(model).eval()(one.unsqueeze(0).clone()) for one in x])
    torch.testing.assert_close(isolated.outputs(isolated.start, x, (0,)), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("make", BY_HOOKS, ids=name_of)
def test_gradients_are_those_of_opacus_hooks(make):
    model, x, delta = made(make), features()[:9], directions(9)
    isolated = Isolated(model)
    found = isolated.gradients(isolated.start, x, delta, (0,))
    expected = by_hooks(model, x, lambda out: (out * delta).sum())
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("make", [own_zoo.MeanOfLargeBatches, own_zoo.ScaledByTheBatch, own_zoo.Whitened])
def test_without_isolation_one_record_moves_the_sum_by_more_than_its_bound(make):
    """The law can fail: gradients by hooks on the whole batch, clipped as the engine does."""

    def clipped_sum(rows):
        labels = torch.tensor(rows) % CLASSES
        loss = lambda out: nn.functional.cross_entropy(out, labels, reduction="sum")  # noqa: E731
        g = by_hooks(made(make), features()[rows], loss)
        return (g * (BOUND / g.norm(dim=1, keepdim=True)).clamp_max(1.0)).sum(0)

    moved = (clipped_sum([*BATCH, ADDED]) - clipped_sum(BATCH)).norm() / BOUND
    assert moved > 1.2


def test_without_the_watch_a_model_that_remembers_moves_a_later_step(monkeypatch):
    monkeypatch.setattr("fairaudit.engine.isolation.changed", lambda before, after: "")
    monkeypatch.setattr("fairaudit.engine.isolation._refuse_survivors", lambda made: None)
    _, later = verdict(own_zoo.GlobalNumbers)
    assert later > 0.1


def test_tensors_of_records_that_outlive_a_pass_are_found_wherever_they_are(monkeypatch):
    """The reading alone cannot see into torch; the count of what survives does."""
    monkeypatch.setattr("fairaudit.engine.isolation._read", lambda module: {})
    for make in (own_zoo.InTorchItself, own_zoo.ThreadMemory, own_zoo.GlobalTensorsByAFunction):
        assert "keeps tensors of the records" in verdict(make)[1]


@pytest.mark.parametrize("make", [own_zoo.Dropped, own_zoo.Noisy], ids=name_of)
def test_draws_of_one_record_do_not_move_with_another(make):
    """Draws in a forward: equal ones for equal places, whoever is in the company."""
    model = made(make)
    for at_once in (True, False):
        isolated, x, delta = Isolated(model), features()[:9], directions(9)
        if not at_once:
            isolated.one_by_one()
        base = isolated.gradients(isolated.start, x, delta, (1,))
        other = x.clone()
        other[0] *= 50.0
        moved = isolated.gradients(isolated.start, other, delta, (1,))
        assert torch.equal(base[1:], moved[1:])
        assert torch.equal(base[:7], isolated.gradients(isolated.start, x[:7], delta[:7], (1,)))
        assert not torch.equal(base, isolated.gradients(isolated.start, x, delta, (2,)))
        if make is own_zoo.Dropped:
            assert len({tuple(row[:WIDTH].ne(0).tolist()) for row in base}) > 4  # masks differ by record


def test_a_record_that_seeds_the_generator_moves_no_other_draw():
    model = made(own_zoo.SeedsTheGenerator)
    isolated, x, delta = Isolated(model), features()[:9], directions(9)
    base = isolated.gradients(isolated.start, x, delta, (1,))
    x[0] *= 50.0
    assert torch.equal(base[1:], isolated.gradients(isolated.start, x, delta, (1,))[1:])


class Fails(own_zoo.Linear):
    """Fails when it meets the long record; before that it is honest."""

    def __init__(self, failure):
        super().__init__()
        self.failure = failure

    def forward(self, x):
        if float(x.abs().max()) > 50.0:
            return self.failure(self, x)
        return super().forward(x)


def raises(error):
    def fail(model, x):
        raise error

    return fail


FAULTS = {
    "exception": (raises(ValueError("no\nsuch width")), "raised ValueError: no"),
    "exit": (raises(SystemExit(0)), "raised SystemExit: 0"),
    "stop": (raises(StopIteration()), "raised StopIteration"),
    "memory": (raises(MemoryError()), "out of memory"),
    "torch's memory": (raises(RuntimeError("[enforce fail] not enough memory")), "out of memory"),
    "recursion": (lambda model, x: model.failure(model, x), "raised RecursionError"),
    "no tensor": (lambda model, x: "logits", "puts out str"),
    "one more class": (lambda model, x: torch.zeros(1, CLASSES + 1), "3 numbers for one record and 2"),
    "no batch": (lambda model, x: torch.zeros(CLASSES), "puts out"),
    "no record": (lambda model, x: torch.zeros(0, CLASSES), "puts out"),
    "integers": (lambda model, x: torch.zeros(1, CLASSES, dtype=torch.int64), "puts out"),
}


@pytest.mark.parametrize(("failure", "message"), FAULTS.values(), ids=FAULTS)
def test_a_fault_at_any_call_is_one_line_that_a_user_can_act_on(failure, message):
    model = Fails(failure)
    assert steps(model, [BATCH]).sums  # not yet
    with pytest.raises(TrainingError) as caught:
        steps(model, [BATCH, [ADDED]])
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 4


def test_an_interrupt_is_no_fault_of_the_model():
    with pytest.raises(KeyboardInterrupt):
        steps(Fails(raises(KeyboardInterrupt())), [[ADDED]])


BY_LOOP = [own_zoo.gru, own_zoo.OwnFunction, own_zoo.OwnWay, own_zoo.WritesToItsInput]  # vmap refuses them


@pytest.mark.parametrize("make", HONEST, ids=name_of)
def test_the_check_before_training_passes_what_is_honest(make):
    model, few = made(make), features()[:8]
    assert check_model(model, few, CLASSES) == check_model(PerRecord(model), few, CLASSES)
    assert check_model(model, few, CLASSES) == (make not in BY_LOOP)


def test_random_layers_pass_the_check():
    assert check_model(made(own_zoo.Dropped), features()[:8], CLASSES)
    with_dropout = own_zoo.transformer(0.3)
    assert check_model(with_dropout, features()[:8], CLASSES)


@pytest.mark.parametrize(
    "make", [own_zoo.ScaledByTheBatch, own_zoo.Whitened, own_zoo.RollsRecords, own_zoo.ParameterAlias]
)
def test_the_check_refuses_what_would_be_trained_as_another_model(make):
    with pytest.raises(TrainingError):
        check_model(made(make), features()[:8], CLASSES)


def test_a_lazy_layer_is_refused_with_what_to_do():
    with pytest.raises(TrainingError, match="lazy"):
        stack([nn.Sequential(nn.LazyLinear(3), nn.SiLU())])


def test_replicates_have_constants_and_frozen_parameters_of_their_own():
    models = [made(own_zoo.OwnWay, seed) for seed in (0, 1)]
    models[1].centre.fill_(3.0)
    network = stack(models)
    assert isinstance(network, IsolatedNetwork)
    x = features()[:5]
    found = network.logits(torch.stack([x, x]))
    for model, out in zip(models, found, strict=True):
        torch.testing.assert_close(out, model(x).detach(), rtol=1e-5, atol=1e-6)


def test_parameters_of_the_network_are_those_that_are_moved():
    network = stack([made(own_zoo.Tied)])
    x = features()[:5]
    tape = tape_of(network)
    assert isinstance(tape, IsolatedTape)
    before = tape.forward(x)
    network.theta.mul_(2.0)
    assert not torch.equal(before, tape.forward(x))
    network.theta.zero_()
    assert not tape.forward(x).any()
