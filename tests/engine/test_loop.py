import math

import pytest
import torch
from forms import FORM, PRIVATE, each, make_pool, make_task
from oracles import gradients, model
from stand_ins import ToldNoise, take_steps

from fairaudit.diagnostics.observers import EpochCurves
from fairaudit.engine.loop import Asking
from fairaudit.engine.observe import Observer
from fairaudit.engine.release import GaussianRelease
from fairaudit.engine.rules import FlatClip, PublicFacts
from fairaudit.errors import PrivacyError
from fairaudit.methods.dpsgd import DpSgd

DPSGD = FORM["dpsgd"]
SGD = FORM["sgd"]


@pytest.mark.parametrize("name", ["logistic", "mlp-tanh", "mlp-relu"])
def test_a_noiseless_step_is_the_textbooks_clipped_sum_over_the_expected_batch(name):
    pool = make_pool(40)
    task = make_task(DPSGD, pool, model=model(name), max_grad_norm=0.7, noise_multiplier=0.0)
    batch = [3, 9, 11, 30, 39]
    seen = take_steps(DpSgd(), task, [batch])
    rows = gradients(
        task.model, pool.gather(torch.tensor(batch), None).inputs, pool.labels[batch]
    ).double()
    clipped = rows * (0.7 / rows.norm(dim=1, keepdim=True)).clamp(max=1.0)
    assert 0 < (rows.norm(dim=1) > 0.7).sum() <= len(batch)
    expected = clipped.sum(0) / (task.n_public / task.steps_per_epoch)
    torch.testing.assert_close(seen.gradients[0][0].double(), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("replicates", [1, 3])
def test_empty_poisson_batch_adds_only_noise(replicates):
    pool = make_pool(40)
    task = make_task(DPSGD, pool, repeats=replicates, max_grad_norm=2.0, noise_multiplier=1.5)
    # Of several replicates at least one holds a record; its neighbours' batches are empty.
    batch = [] if replicates == 1 else [[], [4], []]
    seen = take_steps(DpSgd(), task, [batch], noise=(1.0,))
    expected = torch.full_like(seen.gradients[0][0], 1.5 * 2.0 / (40 / 6))
    torch.testing.assert_close(seen.gradients[0][0], expected)
    assert seen.noise.draws == 1


class Counting:
    """A part that asks how many records there are, and remembers the answer."""

    query_name = "count"
    query_noise_multiplier = 0.0

    def __init__(self, rows_each):
        self.rows_each = rows_each

    def init(self, replicates, facts):
        return torch.zeros(replicates, 1)

    def query(self, state, batch, group):
        return torch.ones(len(group), self.rows_each * group.shape[1], 1)

    def update(self, state, answer):
        return answer


GROUP = torch.zeros(2, 3, dtype=torch.int64)


def counted(rows_each=1):
    return Asking(Counting(rows_each), 2, None, ToldNoise(0.0), is_limited=True)


def test_a_place_that_pads_a_batch_answers_no_query():
    asking = counted()
    asking.ask(GROUP, GROUP, torch.tensor([[True, True, False], [True, False, False]]))
    assert asking.released.tolist() == [[2.0], [1.0]]
    asking.ask(GROUP, GROUP, None)
    assert asking.released.tolist() == [[3.0], [3.0]]


def test_a_query_of_two_rows_for_each_record_is_refused():
    with pytest.raises(PrivacyError):
        counted(rows_each=2).ask(GROUP, GROUP, None)


class Overwriting(DpSgd):
    """Clips nothing, and writes over the norms and the state that it is handed."""

    def rule(self, task):
        class Shortens(FlatClip):
            def scale(self, released, norms, group):
                norms.mul_(1e-6)
                released.mul_(1e-3)
                return torch.ones_like(norms)

        return Shortens(task.settings["max_grad_norm"])


@pytest.mark.parametrize("record", [3, 9, 30])
def test_a_rule_that_writes_over_what_it_is_handed_is_held_to_its_claim(record):
    pool = make_pool(40)
    task = make_task(DPSGD, pool, model=model("logistic"), max_grad_norm=0.1)
    seen = take_steps(Overwriting(), task, [[record]])
    assert seen.sensitivity[0].item() == pytest.approx(0.1)
    assert 0.0 < float(seen.sums[0].norm()) <= 0.1


@each(PRIVATE)
def test_noise_is_drawn_once_a_step_for_all_parameters_together(form):
    task = make_task(form, make_pool(40), repeats=2)
    seen = take_steps(form.make(), task, [[0, 1], [2], [3, 4, 5]], answers=[0.0] * 3)
    assert seen.noise.shapes == [(2, seen.network.n_parameters)] * 3
    assert seen.query_noise.draws == 3 * len(form.spec.side_queries)


class Spoiler(Observer):
    """Overwrites what it is handed of each record."""

    def observe(self, view):
        for values in (view.scale, view.norms, view.unclipped):
            values.fill_(math.nan)
        return {}


WATCHING = {
    "curves": lambda: [EpochCurves()],
    "one that writes into what it is shown": lambda: [Spoiler()],
}


@pytest.mark.parametrize("watching", WATCHING)
@pytest.mark.parametrize("replicates", [1, 3])
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@each([SGD, DPSGD])
def test_observers_change_no_bit_of_the_parameters(form, optimizer, replicates, watching):
    # Odd sizes: a strided view of the buffer ends its vector loops elsewhere than a whole one.
    pool = make_pool(61, classes=3, groups=3)
    task = {"repeats": replicates, "optimizer": optimizer, "learning_rate": 0.05}
    task["model"] = model("mlp-relu-multiclass", 1)
    plain = form.make().fit(make_task(form, pool, **task), [])
    watched = form.make().fit(make_task(form, pool, **task), WATCHING[watching]())
    assert torch.equal(plain.parameters, watched.parameters)


class Charged:
    """Asks how many records there are, and keeps what it is told."""

    query_name, query_noise_multiplier = "count", 2.5

    def init(self, replicates, facts):
        return None

    def query(self, state, norms, group):
        return torch.ones_like(norms).unsqueeze(-1)

    def update(self, state, answer):
        return answer


def test_noise_on_a_query_has_the_multiplier_that_is_charged_for_it():
    asking = Asking(Charged(), 2, None, ToldNoise(1.0), is_limited=False)
    asking.ask(torch.ones(2, 7), torch.zeros(2, 7), None)
    assert asking.released.tolist() == [[9.5], [9.5]]  # seven records and the noise


def test_noise_on_a_sum_is_its_multiplier_times_the_claimed_sensitivity():
    facts = PublicFacts(100, torch.tensor([4.0, 8.0]), 1, 2)
    release = GaussianRelease(3.0, ToldNoise(1.0))
    gradient = release([torch.zeros(2, 5)], torch.tensor([0.5, 2.0]), facts)
    assert gradient[:, 0].tolist() == [3.0 * 0.5 / 4.0, 3.0 * 2.0 / 8.0]
