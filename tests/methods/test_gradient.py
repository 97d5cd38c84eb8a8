import numpy as np
import pytest
import torch
from forms import DEFAULTS, make_pool, make_task
from oracles import model

from fairaudit.errors import TrainingError
from fairaudit.methods.base import Task
from fairaudit.methods.dpsgd import DpSgd
from fairaudit.methods.dpsgd_matched import DpSgdMatched
from fairaudit.methods.global_adapt import GlobalAdapt
from fairaudit.methods.global_clip import Global


def form(name):
    return next(f for f in DEFAULTS if f.spec.name == name)


def task(name, **given) -> Task:
    return make_task(form(name), make_pool(), **given)


def test_the_control_clips_at_the_geometric_mean_of_the_last_four_fifths():
    thresholds = np.array([1e6, 1e6, 8, 2, 8, 2, 8, 2, 8, 2], dtype=np.float32)[:, None]
    matched = task(
        "dpsgd-matched", source={"threshold": thresholds}, learning_rate=3.0, max_grad_norm=0.5
    )
    assert DpSgdMatched().rule(matched).max_grad_norm == pytest.approx(4.0)
    assert DpSgdMatched().learning_rate(matched) == pytest.approx(3.0 * 0.5 / 4.0)


def test_global_adapt_with_a_fixed_threshold_is_its_control():
    """docs/methods.md 3.4.

    C / max(Z, norm) = (C / Z) min(1, Z / norm), so the two trainings are one.
    """
    fixed = {
        "threshold": 2.0,
        "max_grad_norm": 0.5,
        "noise_multiplier": 0.0,
        "learning_rate": 0.3,
        "threshold_learning_rate": 0.0,
        "count_noise_multiplier": 0.0,
        "tolerance": 1e9,
    }
    adapt = GlobalAdapt().fit(task("global-adapt", **fixed), [])
    series = adapt.trace.stacked()["threshold"][1].numpy()
    assert (series == 2.0).all()
    control = DpSgdMatched().fit(task("dpsgd-matched", source={"threshold": series}, **fixed), [])
    torch.testing.assert_close(control.parameters, adapt.parameters, rtol=1e-4, atol=1e-6)


def test_global_with_a_threshold_that_nothing_exceeds_is_dpsgd_at_that_bound():
    """docs/methods.md 3.4: clipping at Z with the step times C / Z."""
    quiet = {"noise_multiplier": 0.0}
    globally = Global().fit(
        task("global", threshold=1e4, max_grad_norm=0.5, learning_rate=100.0, **quiet), []
    )
    flat = DpSgd().fit(
        task("dpsgd", max_grad_norm=1e4, learning_rate=100.0 * 0.5 / 1e4, **quiet), []
    )
    torch.testing.assert_close(globally.parameters, flat.parameters, rtol=1e-4, atol=1e-6)


def test_the_threshold_follows_the_noised_share_of_exceeding_records():
    given = {
        "threshold": 4.0,
        "threshold_learning_rate": 0.1,
        "tolerance": 0.0,
        "count_noise_multiplier": 1e-6,
    }
    adapt = GlobalAdapt().fit(
        task("global-adapt", steps_per_epoch=1, epochs=3, max_grad_norm=0.5, **given), []
    )
    steps, series = adapt.trace.stacked()["threshold"]
    assert steps == [0, 1, 2]
    # At q = 1 every record exceeds 0, so the share is 1 and log Z moves by 1 - eta_Z.
    assert series[:, 0].tolist() == pytest.approx([4.0, 4 * np.exp(0.9), 4 * np.exp(1.8)], rel=1e-3)


@pytest.mark.parametrize("threshold", [0.01, 1e9])
def test_a_threshold_stays_between_the_bound_and_ten_thousand_of_it(threshold):
    adapt = GlobalAdapt().fit(task("global-adapt", threshold=threshold, max_grad_norm=0.5), [])
    series = adapt.trace.stacked()["threshold"][1][1:]
    assert 0.5 <= series.min() <= series.max() <= 5e3


def test_a_training_that_diverges_says_so_and_names_a_smaller_step():
    with pytest.raises(TrainingError, match="diverged") as caught:
        form("dpsgd").make().fit(task("dpsgd", learning_rate=3e38, noise_multiplier=50.0), [])
    assert caught.value.exit_code == 4
    assert "--learning-rate" in caught.value.hint


@pytest.mark.parametrize("rate", [1e15, 1e30])
def test_a_reference_that_explodes_and_stays_finite_has_diverged(rate):
    with pytest.raises(TrainingError, match="diverged"):
        form("sgd").make().fit(task("sgd", learning_rate=rate, model=model("mlp-relu")), [])


def test_all_repeats_start_at_the_models_parameters():
    given = task("dpsgd", repeats=3, learning_rate=1e-30)
    start = torch.cat([p.detach().flatten() for p in given.model.parameters()])
    trained = DpSgd().fit(given, [])
    assert all(torch.equal(row, start) for row in trained.parameters)
