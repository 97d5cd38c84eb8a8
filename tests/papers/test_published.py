import pytest
import torch
from forms import PUBLISHED, each, flawed, make_pool, make_task
from stand_ins import take_steps

from fairaudit.engine.release import Release, UnprovenRelease


@each(PUBLISHED)
def test_a_published_form_closes_with_a_release_that_can_have_no_event(form):
    release = form.make().release(make_task(form, make_pool()))
    assert isinstance(release, UnprovenRelease)
    assert not isinstance(release, Release)
    assert not hasattr(release, "event")


@each(flawed("divisor"))
@pytest.mark.parametrize("size", [0, 1, 5])
def test_a_published_form_divides_by_the_realised_batch(form, size):
    """An empty batch, for which the printed form is undefined, counts as one record."""
    task = make_task(form, make_pool())
    seen = take_steps(form.make(), task, [list(range(size))])
    torch.testing.assert_close(seen.gradients[0], seen.sums[0] / max(size, 1))


@each(flawed("divisor"))
def test_each_replicate_is_divided_by_its_own_batch(form):
    task = make_task(form, make_pool(), repeats=3)
    seen = take_steps(form.make(), task, [[[0, 1, 2], [3], []]])
    torch.testing.assert_close(
        seen.gradients[0], seen.sums[0] / torch.tensor([[3.0], [1.0], [1.0]])
    )


@each([f for f in PUBLISHED if f.spec.name == "global-adapt"])
def test_the_published_threshold_moves_by_the_share_of_the_realised_batch(form):
    """All of the batch exceeds 0, so the share is 1, whatever the batch's size is."""
    task = make_task(
        form,
        make_pool(),
        threshold=4.0,
        tolerance=0.0,
        threshold_learning_rate=0.1,
        max_grad_norm=0.5,
    )
    for size in (2, 7):
        seen = take_steps(form.make(), task, [list(range(size))])
        assert seen.states[1]["threshold"].item() == pytest.approx(4.0 * 2.718281828**0.9, rel=1e-5)
