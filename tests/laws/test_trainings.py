"""What every method promises of a whole training, over every form in the catalog."""

import math

import numpy as np
import pytest
import torch
from forms import DEFAULTS, FORM, PRIVATE, each, forms, make_pool, make_task, whole_forms
from oracles import model

from fairaudit.engine import network as tape_module
from fairaudit.privacy.noise import GaussianNoise

SGD = FORM["sgd"]
DPSGD = FORM["dpsgd"]


EVERY = (*forms(), *whole_forms())


def trained(form, pool=None, **task):
    task = {"teachers": 5, "queries": 20, **task}  # of those that have teachers
    return form.make().fit(make_task(form, pool or make_pool(), **task), [])


def same_trace(one, other):
    a, b = one.trace.stacked(), other.trace.stacked()
    return a.keys() == b.keys() and all(torch.equal(a[name][1], b[name][1]) for name in a)


@each(EVERY)
@pytest.mark.parametrize("repeats", [1, 3])
def test_the_same_seed_gives_the_same_bits(form, repeats):
    one, other = (trained(form, repeats=repeats, seed=4) for _ in range(2))
    assert torch.equal(one.parameters, other.parameters)
    assert same_trace(one, other)
    if form.spec.trains_by_steps or form.is_private:
        assert not torch.equal(one.parameters, trained(form, repeats=repeats, seed=5).parameters)


@each(EVERY)
def test_training_neither_reads_nor_moves_the_global_generators(form):
    torch.manual_seed(1)
    np.random.seed(1)
    before, numpy_before = torch.get_rng_state(), np.random.get_state()[1].copy()
    one = trained(form)
    assert torch.equal(before, torch.get_rng_state())
    assert (numpy_before == np.random.get_state()[1]).all()
    torch.manual_seed(2)
    assert torch.equal(one.parameters, trained(form).parameters)


@each(EVERY)
def test_more_repeats_leave_the_first_as_it_was(form):
    alone, together = trained(form, repeats=1), trained(form, repeats=4)
    torch.testing.assert_close(together.parameters[:1], alone.parameters, rtol=1e-4, atol=1e-5)


@each([form for form in (*DEFAULTS, *whole_forms()) if form.is_private])
def test_no_two_seeds_arms_or_repeats_share_a_stream_of_noise(form, monkeypatch):
    begin, streams = GaussianNoise.__init__, []

    def noted(self, seeds, *others, **options):
        streams.extend(seeds)
        begin(self, seeds, *others, **options)

    monkeypatch.setattr(GaussianNoise, "__init__", noted)
    whole = trained(form, repeats=2, epochs=1)
    one = len(streams)
    for other in ({"seed": 1}, {"arm": f"{form.key}#check"}, {"arm": "another"}):
        trained(form, repeats=2, epochs=1, **other)
    assert whole.event is not None
    assert one >= 2
    assert len(set(streams)) == len(streams) == 4 * one


@each(forms())
@pytest.mark.parametrize("repeats", [1, 2])
def test_the_memory_budget_changes_no_bit(form, repeats, monkeypatch):
    monkeypatch.setattr(tape_module, "CHUNK_BYTES", 1)
    pool = make_pool(200)
    task = {"repeats": repeats, "steps_per_epoch": 3}
    ample = trained(form, pool, **task)
    for budget in (0, 5_000, 20_000):
        assert torch.equal(ample.parameters, trained(form, pool, **task, budget=budget).parameters)


@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adam"])
@pytest.mark.parametrize("name", ["logistic", "mlp-tanh", "mlp-relu", "logistic-squashed"])
def test_dpsgd_without_noise_and_bound_is_sgd_to_the_bit(name, optimizer):
    task = {"optimizer": optimizer, "learning_rate": 0.1, "model": model(name), "epochs": 5}
    private = trained(DPSGD, **task, noise_multiplier=0.0, max_grad_norm=math.inf)
    assert torch.equal(private.parameters, trained(SGD, **task).parameters)
    assert private.event is None


@pytest.mark.usefixtures("any_source")
@each(DEFAULTS)
@pytest.mark.parametrize(("steps_per_epoch", "epochs"), [(1, 3), (6, 2), (98, 1)])
def test_the_events_known_before_training_are_those_that_training_counted(
    form, steps_per_epoch, epochs
):
    settings = form.settings(noise_multiplier=1.3)
    planned = form.spec.events({"noise_multiplier": 0.0, **settings}, steps_per_epoch, epochs)
    done = trained(form, steps_per_epoch=steps_per_epoch, epochs=epochs, noise_multiplier=1.3)
    assert done.event == planned
    assert (planned is not None) == form.is_private
    if planned:
        assert planned.steps == steps_per_epoch * epochs
        assert {r.name for r in planned.releases} == {
            "gradient",
            *form.spec.side_queries,
            *form.spec.relative_queries,
        }


@pytest.mark.parametrize("repeats", [1, 2])
@each(PRIVATE)
def test_every_step_counts_though_most_batches_are_empty(form, repeats):
    length = {"steps_per_epoch": 40, "epochs": 2, "n_public": 2}
    done = trained(form, make_pool(2), **length, count_noise_multiplier=0.5, repeats=repeats)
    assert done.event.steps == 80
    assert torch.isfinite(done.parameters).all()


@each(EVERY)
def test_more_than_two_classes_and_groups_are_trained(form):
    pool = make_pool(80, classes=4, groups=5)
    kind = "mlp-tanh-multiclass" if form.spec.trains_by_steps else "logistic-multiclass"
    done = trained(form, pool, model=model(kind), learning_rate=0.01)
    p = done.probabilities(torch.randn(9, 7), torch.zeros(9, dtype=torch.int64))
    torch.testing.assert_close(p.sum(-1), torch.ones(1, 9))


READS_NO_GROUPS = (
    *(f for f in DEFAULTS if not f.spec.reads_groups),
    *(f for f in whole_forms() if f.variant != "group-normalise"),
)


@each(READS_NO_GROUPS)
def test_a_method_that_says_it_reads_no_groups_reads_none(form):
    pool, other = make_pool(), make_pool()
    other.groups[:] = 1 - other.groups
    assert torch.equal(trained(form, pool).parameters, trained(form, other).parameters)
