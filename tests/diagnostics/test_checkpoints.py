import pytest
import torch
from forms import DEFAULTS, FORM, each, forms, make_pool, make_task
from steps import a_step, small_pool
from torch.testing import assert_close

from fairaudit.diagnostics.checkpoints import StepReader, refuse_too_many
from fairaudit.engine.observe import Observer
from fairaudit.errors import TrainingError

DPSGD, GLOBAL_ADAPT, FAIRLENS = (FORM[key] for key in ("dpsgd", "global-adapt", "fairlens"))


class Watch(Observer):
    """Keeps what every step did."""

    def __init__(self):
        self.views = []

    def observe(self, view):
        self.views.append(view)
        return {}


@each(DEFAULTS)
def test_a_checkpoint_scales_its_records_as_the_step_did(form):
    """Bounds, thresholds and weights are read from what was released, noise included.

    Nothing is redrawn.
    """
    watch, method = Watch(), form.make()
    task = make_task(form, make_pool(), checkpoints=(0, 4, 9))
    trained = method.fit(task, [watch])
    assert [kept.step for kept in trained.checkpoints] == [0, 4, 9]
    for kept in trained.checkpoints:
        view = watch.views[kept.step]
        index = view.index[0]
        found = StepReader(method, task, kept).sums(index, [torch.ones(len(index))])
        assert torch.equal(found.scale, view.scale)


@each(forms())
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_keeping_steps_changes_no_bit(form, optimizer):
    task = {"repeats": 2, "optimizer": optimizer}
    plain = form.make().fit(make_task(form, make_pool(61), **task), [])
    kept = form.make().fit(make_task(form, make_pool(61), **task, checkpoints=range(12)), [])
    assert torch.equal(plain.parameters, kept.parameters)
    assert plain.event == kept.event
    assert len(kept.checkpoints) == 12
    assert plain.checkpoints == ()


def test_a_method_with_an_objective_of_its_own_is_read_against_the_plain_loss():
    pool = make_pool()
    task = make_task(FAIRLENS, pool, checkpoints=(8,), max_grad_norm=1e9, noise_multiplier=0.0)
    method = FAIRLENS.make()
    (kept,) = method.fit(task, []).checkpoints
    found = StepReader(method, task, kept).sums(
        torch.arange(pool.n_records), [torch.ones(pool.n_records)]
    )
    as_dpsgd = type(kept)(
        kept.step, kept.parameters, None, torch.tensor([1e9]), kept.sensitivity, 0.1
    )
    plain = StepReader(DPSGD.make(), make_task(DPSGD, pool, max_grad_norm=1e9), as_dpsgd)
    expected = plain.sums(torch.arange(pool.n_records), [torch.ones(pool.n_records)])
    assert_close(found.plain, expected.plain)
    assert not torch.allclose(found.plain, found.processed, rtol=1e-3)


def test_moments_are_means_of_all_records_and_of_each_group():
    step = a_step(DPSGD, max_grad_norm=1.5, pool=small_pool(50, groups=3))
    found = step.reader.moments()
    assert_close(found.group[0], (step.members @ step.g)[:-1])
    assert_close(found.whole[0], step.g.mean(0))
    assert_close(found.total[0], step.g.sum(0))
    assert_close(found.processed[0], step.clipped.sum(0), rtol=2e-5, atol=2e-4)
    norms = step.g.norm(dim=1)
    members = step.members[:-1]
    assert_close(found.clipped[0], members @ (norms > 1.5).double())
    assert found.clipped[0].min() < found.clipped[0].max() < 1


def test_more_steps_than_memory_holds_are_refused_before_training():
    refuse_too_many(8, 90_000)
    with pytest.raises(TrainingError, match="larger --diagnostics-every"):
        refuse_too_many(10_000, 90_000)
