from dataclasses import replace

import numpy as np
import pytest
import torch
from forms import FORM, make_pool, make_public, make_task
from oracles import model

from fairaudit.diagnostics import votes
from fairaudit.diagnostics.votes import flipping_probability


# docs/methods.md 5.3: unanimous votes of 150 teachers at sigma 50.
@pytest.mark.parametrize(("classes", "printed"), [(2, 0.0170), (3, 0.0312), (10, 0.0975)])
def test_unanimous_votes_flip_as_often_as_was_checked(classes, printed):
    unanimous = torch.tensor([[150.0] + [0.0] * (classes - 1)], dtype=torch.float64)
    assert float(flipping_probability(unanimous, 50)) == pytest.approx(printed, abs=6e-5)


@pytest.mark.parametrize(
    "rows",
    [[(76, 74)], [(60, 50, 40), (0, 0, 0), (60, 50, 40)], [(5, 40, 3, 40)], [(0, 0, 150, 0, 0)]],
)
def test_flips_equal_those_of_drawn_noise(rows):
    rng = np.random.default_rng(0)
    noise = 20 * rng.standard_normal((200_000, len(rows[0])))
    found = flipping_probability(torch.tensor(rows, dtype=torch.float64), 20)
    for row, flips in zip(rows, found, strict=True):
        frequency = (np.argmax(np.array(row) + noise, axis=1) != np.argmax(row)).mean()
        assert float(flips) == pytest.approx(frequency, abs=5.5 * 0.5 / 200_000**0.5)


def study(key="pate-hard", classes=2, **given):
    form, pool = FORM[key], make_pool(400, classes=classes, groups=3)
    names = {
        "teachers": 15,
        "queries": 60,
        "noise_draws": 200,
        "noise_multiplier": 4.0,
        "student_penalty": 0.3,
    }
    name = "logistic" if classes == 2 else "logistic-multiclass"
    task = make_task(
        form, pool, **{"public": make_public(60, groups=3), "model": model(name), **names, **given}
    )
    return votes.read(form.make(), task, form.make().fit(task, []))


CASES = [("pate-hard", 2), ("pate-soft", 2), ("pate-hard", 4), ("pate-soft", 4)]


@pytest.mark.parametrize(("key", "classes"), CASES)
def test_readings_in_pieces_are_those_at_once(key, classes, monkeypatch):
    at_once = study(key, classes, noise_draws=30)
    monkeypatch.setattr(votes, "_DRAWN_BYTES", 8 * 60 * classes * 7)  # seven draws
    in_pieces = study(key, classes, noise_draws=30)
    torch.testing.assert_close(in_pieces, at_once, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(("key", "classes"), CASES)
def test_theorem_2_as_corrected_holds(key, classes):
    found = study(key, classes)
    mean, error = found["deviation"]
    assert 0 < mean <= found["deviation_bound"] + 4 * error
    for name in ("flip_probability", "closeness", "excess_risk"):
        assert found[name].shape == (3,)  # of three groups
    risk = found["excess_risk"].numpy()
    assert found["xi"].item() == pytest.approx(np.ptp(risk))
    assert ((found["closeness"] >= 0) & (found["closeness"] <= 1 - 1 / classes)).all()


@pytest.mark.parametrize(("key", "classes"), CASES)
def test_theorem_1_and_corollary_2_as_corrected_hold(key, classes):
    found = study(key, classes)
    square, error = found["deviation_square"]
    assert 0 < square <= found["deviation_square_bound"] + 4 * error
    assert 0 < found["xi"].item() <= found["xi_bound"].item()
    assert found["xi_of_bound"].item() == pytest.approx(
        found["xi"].item() / found["xi_bound"].item()
    )
    greatest, beta = found["gradient_norm"].max(), found["smoothness"].max()
    by_hand = 2 * greatest * found["deviation"][0] + 0.5 * beta * square
    assert found["xi_bound"].item() == pytest.approx(float(by_hand))


@pytest.mark.parametrize(("key", "classes"), CASES)
def test_gradients_and_smoothness_are_those_of_each_group_s_loss_on_the_votes(key, classes):
    """By autograd, at the clean student; the Hessian's largest eigenvalue lies below beta."""
    form, pool, public = (
        FORM[key],
        make_pool(400, classes=classes, groups=3),
        make_public(60, groups=3),
    )
    settings = {"teachers": 15, "queries": 60, "noise_draws": 5, "noise_multiplier": 4.0}
    name = "logistic" if classes == 2 else "logistic-multiclass"
    task = make_task(form, pool, public=public, model=model(name), student_penalty=0.3, **settings)
    method = form.make()
    trained = method.fit(task, [])
    found = votes.read(method, task, trained)
    queried = trained.kept["x"].double()
    x = torch.cat([queried, torch.ones(len(queried), 1)], 1)
    clean = method.labels(task, trained.kept["votes"], torch.zeros(1, 60, classes).double())[0]
    student = votes.train_students(task, trained.kept["x"], clean.unsqueeze(0))
    p = student.probabilities(trained.kept["x"], torch.zeros(60, dtype=torch.int64))[0].double()
    groups = public.groups[votes.query_rows(task)]
    for k in range(3):
        mine = groups == k
        z = torch.log(p[mine]).requires_grad_()
        loss = -(clean[mine] * torch.log_softmax(z, -1)).sum(-1).mean()
        (of_outputs,) = torch.autograd.grad(loss, z)
        gradient = of_outputs.T @ x[mine]
        scale = 2**-0.5 if classes == 2 else 1.0  # two classes have one margin
        expected = float(gradient.norm()) * scale
        assert found["gradient_norm"][k].item() == pytest.approx(expected, rel=1e-4)
        weights = p[mine][:, :1] * (1 - p[mine][:, :1])
        hessian = (weights * x[mine]).T @ x[mine] / mine.sum()
        assert torch.linalg.eigvalsh(hessian)[-1] <= found["smoothness"][k]
        factor = 0.25 if classes == 2 else 0.5
        longest = float(x[mine].square().sum(1).max())
        assert found["smoothness"][k].item() == pytest.approx(factor * longest, rel=1e-5)


def test_bounds_are_not_claimed_where_no_theorem_covers_the_student():
    for found in (
        study("pate-soft:no-project", noise_multiplier=0.5, noise_draws=20),
        study(model=model("mlp-relu"), noise_draws=3, epochs=1),
    ):
        assert found["xi"].isfinite().all()
        assert found["deviation"].isfinite().all()
        for name in ("deviation_bound", "deviation_square_bound", "xi_bound", "gradient_norm"):
            assert found[name].isnan().all()


def test_a_pool_of_unknown_groups_is_read_as_one():
    found = study(public=replace(make_public(60), groups=None), noise_draws=30)
    assert found["flip_probability"].shape == (1,)
    assert found["xi"].item() == 0
