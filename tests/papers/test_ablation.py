import pytest
import torch
from forms import FORM, make_pool, make_task
from plans import keys, plan
from torch.testing import assert_close

from fairaudit.engine.release import Realised
from fairaudit.errors import ConfigError
from fairaudit.methods.catalog import catalog
from fairaudit.papers.ablation import Recombined

NAMES = ("clipped", "magnitude-only", "direction-only", "sgd-slowed")


def recombine(clipped, plain, *, keeps_direction):
    task = make_task(FORM["clipped"], make_pool())
    release = Recombined(keeps_direction=keeps_direction)
    realised = Realised(torch.ones(1), torch.ones(1, 2), {})
    sums = [torch.tensor([clipped]), torch.tensor([plain])]
    return release(sums, torch.ones(1), task.facts(), realised) * task.facts().divisor, release


def test_each_arm_keeps_one_half_of_what_clipping_does():
    clipped, plain = [0.0, 3.0], [4.0, 3.0]
    shorter, release = recombine(clipped, plain, keeps_direction=True)
    assert_close(shorter, torch.tensor([plain]) * 3 / 5)
    assert_close(release.describe()["shrinkage"], torch.tensor([0.6]))
    turned, _ = recombine(clipped, plain, keeps_direction=False)
    assert_close(turned, torch.tensor([[0.0, 5.0]]))


@pytest.mark.parametrize("keeps_direction", [True, False])
@pytest.mark.parametrize(("clipped", "plain"), [([0.0, 0.0], [1.0, 2.0]), ([0.0, 0.0], [0.0, 0.0])])
def test_where_nothing_is_left_the_step_is_not_taken(clipped, plain, keeps_direction):
    step, release = recombine(clipped, plain, keeps_direction=keeps_direction)
    assert torch.equal(step, torch.zeros(1, 2))
    assert release.describe()["shrinkage"] == 0


@pytest.mark.parametrize("name", NAMES)
def test_without_a_bound_every_arm_is_plain_descent(name):
    task = {"max_grad_norm": 1e9, "learning_rate": 0.1, "epochs": 3}
    if name == "sgd-slowed":
        task["source"] = {"shrinkage": torch.ones(10, 1).numpy()}
    form, plain = FORM[name], FORM["sgd"]
    mine = form.make().fit(make_task(form, make_pool(), **task), [])
    task.pop("source", None)
    theirs = plain.make().fit(make_task(plain, make_pool(), **task), [])
    assert_close(mine.parameters, theirs.parameters, rtol=1e-5, atol=1e-6)


def test_with_a_bound_all_arms_differ_and_the_clipped_one_is_dpsgd_without_noise():
    task = {"max_grad_norm": 0.3, "learning_rate": 0.1}
    found = {n: FORM[n].make().fit(make_task(FORM[n], make_pool(), **task), []) for n in NAMES[:3]}
    rows = [trained.parameters for trained in found.values()]
    assert not any(torch.allclose(a, b) for i, a in enumerate(rows) for b in rows[:i])
    quiet = (
        FORM["dpsgd"]
        .make()
        .fit(make_task(FORM["dpsgd"], make_pool(), **task, noise_multiplier=0.0), [])
    )
    assert torch.equal(found["clipped"].parameters, quiet.parameters)


def test_the_control_takes_the_mean_step_of_the_arm_that_it_reads():
    source = FORM["magnitude-only"]
    task = {"max_grad_norm": 0.3, "learning_rate": 0.1}
    shrinkage = (
        source.make()
        .fit(make_task(source, make_pool(), **task), [])
        .trace.stacked()["shrinkage"][1]
    )
    assert 0 < shrinkage.mean() < 1
    control = FORM["sgd-slowed"]
    given = make_task(control, make_pool(), **task, source={"shrinkage": shrinkage.numpy()})
    expected = 0.1 * float(shrinkage.double().mean())
    assert control.make().learning_rate(given) == pytest.approx(expected)


@pytest.mark.usefixtures("quick_accountant")
def test_the_set_is_trained_once_whatever_the_sweep_and_claims_nothing():
    settings = {"dpsgd": {"learning_rate": 0.03, "max_grad_norm": 0.7}}
    found = plan(
        method=("ablation", "dpsgd"), epsilon=(1.0, 3.0), noise_multiplier=None, settings=settings
    )
    assert sorted(keys(found)) == sorted(["sgd", "dpsgd@1", "dpsgd@3", *NAMES])
    assert all(found.arm(name).privacy.epsilon is None for name in NAMES)
    assert all(found.arm(name).settings == settings["dpsgd"] for name in NAMES)
    assert found.arm("sgd-slowed").source == "magnitude-only"


@pytest.mark.usefixtures("quick_accountant")
def test_all_leaves_them_out_and_a_near_miss_is_told():
    assert not set(NAMES) & set(keys(plan(method=("all",))))
    assert {name for name, spec in catalog().items() if spec.method_set} == set(NAMES)
    with pytest.raises(ConfigError, match="unknown method"):
        plan(method=("ablatio",))
