"""FairLens with both halves: one row of norm 1, and the step of a plain PyTorch implementation."""

import math

import dp_accounting
import pytest
import torch
from dp_accounting import pld
from plans import plan
from torch import nn
from torch.func import grad, jacrev
from torch.nn.functional import one_hot
from torch.testing import assert_close

from fairaudit.analysis.limitations import _privacy_limits
from fairaudit.engine.loop import Loop
from fairaudit.engine.pool import TrainingPool
from fairaudit.engine.rules import PublicFacts, StepRecords
from fairaudit.errors import TrainingError
from fairaudit.methods.base import Task
from fairaudit.methods.catalog import find
from fairaudit.methods.defaults import PublicSizes
from fairaudit.methods.fairlens import LARGEST_MODEL, FairLens, FairLensDecoupled, FairLensHalves
from fairaudit.privacy.accounting import epsilon

RECORDS, WIDTH = 24, 3
EXTREMES = (0.0, 1e-38, 1e-20, 1e-6, 1.0, 1e3, 1e15, 1e25, 3e38)


def halves(classes, width=WIDTH, **given):
    numbers = {
        "gamma1": 1.0,
        "gamma2": 1.0,
        "noise_multiplier": 0.0,
        "decay": 0.0,
        "smallest_count": 1e-9,
        "smallest_share": 1e-9,
        "max_grad_norm": 0.7,
        "statistic_grad_norm": 1.9,
        "has_constant": 1,
        "width": width + 1,
    }
    return FairLensHalves(**{**numbers, **given}, n_classes=classes)


def facts(groups, classes, replicates=1):
    return PublicFacts(10, torch.full((replicates,), 5.0), groups, classes)


def drawn(groups, classes, replicates, seed):
    """StepRecords whose inputs and logits are of any size, in every group but the last."""
    draw = torch.Generator().manual_seed(seed)
    shape = (replicates, 400)
    sizes = torch.tensor(EXTREMES)[torch.randint(len(EXTREMES), (*shape, WIDTH), generator=draw)]
    inputs = sizes * torch.randn(*shape, WIDTH, generator=draw).clamp(-1.0, 1.0)
    spread = torch.tensor([0.0, 1.0, 30.0, 1e4])[torch.randint(4, (*shape, 1), generator=draw)]
    logits = spread * torch.randn(*shape, classes, generator=draw)
    labels = torch.randint(classes, shape, generator=draw)
    group = torch.randint(max(1, groups - 1), shape, generator=draw)
    return StepRecords(inputs, logits, one_hot(labels, classes).float(), group)


@pytest.mark.parametrize(  # the third and fourth lie apart by less than float32 can say
    "bounds", [(0.7, 1.9), (1e-6, 1e6), (1.0, 1.0 + 1e-6), (1.0, 1.0 + 9e-7), (1e5, 1e6)]
)
@pytest.mark.parametrize(("groups", "classes", "replicates"), [(2, 2, 1), (3, 4, 2), (1, 2, 3)])
def test_no_record_adds_a_row_longer_than_one_whatever_its_gradient(
    groups, classes, replicates, bounds
):
    objective = halves(classes, max_grad_norm=bounds[0], statistic_grad_norm=bounds[1])
    state = objective.init(replicates, facts(groups, classes, replicates))
    longest = 0.0
    for seed in range(20):
        rows = objective.rows(state, drawn(groups, classes, replicates, seed))
        assert rows.isfinite().all()
        assert rows.shape[-1] == 2 * groups + (groups + 1) * classes * (WIDTH + 1)
        longest = max(longest, float(rows.double().norm(dim=-1).max()))
    assert 0.97 < longest <= 1 + 1e-6  # the bound is used, and kept


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_record_that_is_not_finite_adds_no_gradient(value):
    objective = halves(2)
    state = objective.init(1, facts(2, 2))
    inputs = torch.tensor([[[value, 1.0, 0.0], [0.5, 1.0, 0.0]]])
    targets = torch.tensor([[[1.0, 0.0], [1.0, 0.0]]])
    records = StepRecords(
        inputs, torch.zeros(1, 2, 2), targets, torch.zeros(1, 2, dtype=torch.int64)
    )
    rows = objective.rows(state, records)
    assert (rows[0, 0, 4:] == 0).all()
    assert (rows[0, 1, 4:] != 0).any()


class Long(FairLensHalves):
    """Rows of three times the length that is allowed."""

    def rows(self, state, records):
        return 3.0 * FairLensHalves.rows(self, state, records)


class Pieces(FairLensHalves):
    """Rows of few records at a time."""

    def records_at_once(self, state):
        return 5


class Method(FairLensDecoupled):
    """Trains with a subclass of the objective."""

    kind = Long

    def objective(self, task):
        made = super().objective(task)
        return self.kind(**{name: getattr(made, name) for name in NUMBERS})


NUMBERS = (*FairLens.__slots__, *FairLensHalves.__slots__)


def make_pool(groups, classes, empty=None, count=RECORDS, seed=0):
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(count, WIDTH, generator=draw)
    x *= torch.linspace(0.1, 3.0, count).unsqueeze(1)
    labels = torch.randint(classes, (count,), generator=draw)
    group = torch.arange(count) % groups
    if empty is not None:
        group[group == empty] = 0
    return TrainingPool(x, labels, group, n_classes=classes, n_groups=groups)


def make_task(pool, model=None, **given):
    settings = {
        "learning_rate": 0.4,
        "max_grad_norm": 0.7,
        "noise_multiplier": 0.0,
        "gamma1": 1.5,
        "gamma2": 0.8,
        "statistic_noise_ratio": 1.5,
        "statistic_decay": 0.6,
        "statistic_grad_norm": 1.9,
        "smallest_count": 1.0,
        "smallest_share": 0.01,
    }
    if model is None:
        model = nn.Sequential(nn.Linear(WIDTH, pool.n_classes))
        draw = torch.Generator().manual_seed(1)
        for parameter in model.parameters():
            nn.init.uniform_(parameter, -0.5, 0.5, generator=draw)
    return Task(
        arm="fairlens",
        seed=0,
        repeats=1,
        settings={**settings, **given},
        optimizer="sgd",
        model=model,
        pool=pool,
        steps_per_epoch=1,  # so that every record is drawn
        epochs=4,
        n_public=pool.n_records,
        sampling=["shared"],
        source={},
        budget=2**20,
    )


def loop_of(method, task):
    network, training = method._set_up(task, [])
    return Loop(network, task.pool, training)


# --- an implementation of its own: float64, one record after the other, autograd


def plain(task):
    """Parameters after every step, [T, P], by autograd of each record's own penalised loss."""
    pool, s = task.pool, task.settings
    batch = pool.everything()
    x, y, group = batch.inputs.double(), batch.targets.double(), pool.groups[:-1]
    count, groups = pool.n_records, pool.n_groups
    weights = [p.detach().double() for p in task.model.parameters()]
    theta = torch.cat([w.flatten() for w in weights])
    size = pool.n_classes * WIDTH
    bound, largest, decay = s["max_grad_norm"], s["statistic_grad_norm"], s["statistic_decay"]

    def logits(theta, i):
        return theta[:size].view(-1, WIDTH) @ x[i] + theta[size:]

    def loss(theta, i):
        return -(y[i] * logits(theta, i).log_softmax(0)).sum()

    def closeness(theta, i):
        return 1 - logits(theta, i).softmax(0).square().sum()

    def clipped(g, c):
        return g * min(1.0, c / float(g.norm()))

    def lost(theta, i):
        g = grad(loss)(theta, i)
        norm = g.norm()
        return g - g * (bound / norm) if norm > bound else g * 0.0

    n, total_s = torch.zeros(2, groups).double()
    total_g, total_lost = torch.zeros(groups, len(theta)).double(), torch.zeros(len(theta)).double()
    after = []
    for _ in range(task.epochs):
        n, total_s, total_g, total_lost = (decay * v for v in (n, total_s, total_g, total_lost))
        for i in range(count):
            g = grad(loss)(theta, i)
            n[group[i]] += 1
            total_s[group[i]] += closeness(theta, i)
            total_g[group[i]] += clipped(g, largest)
            total_lost += clipped(g, largest) - clipped(g, bound)
        every = n.clamp(min=s["smallest_count"])
        share = (n / n.sum()).clamp(min=s["smallest_share"])
        share = share / share.sum()
        heard = n > 0
        u = total_g / every.unsqueeze(1) - total_g.sum(0) / n.sum()
        v = total_lost / n.sum()
        xi = torch.where(heard, (total_s / every - total_s.sum() / n.sum()).sign(), 0.0)
        sign = torch.where(heard, (u @ v).sign(), 0.0)

        step = torch.zeros_like(theta)
        for i in range(count):
            k = int(group[i])
            own = grad(loss)(theta, i)
            own = own + s["gamma2"] * (xi[k] / share[k] - xi.sum()) * grad(closeness)(theta, i)
            hessian, of_lost = jacrev(grad(loss))(theta, i), jacrev(lost)(theta, i)
            for a in range(groups):
                away = (1.0 if k == a else 0.0) / share[a] - 1.0
                own = own + s["gamma1"] * sign[a] * (away * hessian.T @ v + of_lost.T @ u[a])
            step += clipped(own, bound)
        theta = theta - s["learning_rate"] * step / count
        after.append(theta)
    return torch.stack(after)


@pytest.mark.parametrize(
    ("groups", "classes", "empty"), [(2, 2, None), (3, 2, None), (3, 4, None), (3, 2, 2)]
)
def test_steps_are_those_of_a_plain_implementation_record_by_record(groups, classes, empty):
    task = make_task(make_pool(groups, classes, empty))
    loop = loop_of(FairLensDecoupled(), task)
    found = []
    for _ in range(task.epochs):
        loop.take(1)
        found.append(loop.network.theta[0].clone())
    expected = plain(task)
    assert_close(torch.stack(found).double(), expected, rtol=2e-5, atol=2e-6)
    without = plain(make_task(task.pool, gamma1=0.0))
    assert (without - expected).norm() > 0.05  # the half about clipping has a say


@pytest.mark.parametrize("groups", [2, 3])
def test_with_exact_statistics_the_part_is_autograds_of_the_coupled_penalty(groups):
    pool = make_pool(groups, 3, seed=2)
    batch = pool.everything()
    x, y = batch.inputs.double(), batch.targets.double()
    group = pool.groups[:-1]
    draw = torch.Generator().manual_seed(4)
    theta = torch.randn(3, WIDTH + 1, generator=draw).double()
    bound, count = 1.5, pool.n_records
    one = torch.cat([x, torch.ones(count, 1).double()], 1)

    def penalty(theta):
        """sum_a |<g_a - g_D, g_D - gbar_D>| of the whole batch."""
        delta = (one @ theta.T).softmax(1) - y
        g = (delta.unsqueeze(2) * one.unsqueeze(1)).flatten(1)
        norm = g.norm(dim=1, keepdim=True)
        v = (g - g * (bound / norm).clamp(max=1.0)).mean(0)
        return sum(((g[group == k].mean(0) - g.mean(0)) @ v).abs() for k in range(groups))

    expected = grad(penalty)(theta)
    objective = halves(3, gamma2=0.0, max_grad_norm=bound, statistic_grad_norm=50.0)
    state = objective.init(1, facts(groups, 3))
    logits = (one @ theta.T).float()
    records = StepRecords(batch.inputs, logits, batch.targets, group)
    rows = objective.rows(state, StepRecords(*(value.unsqueeze(0) for value in records)))
    released = objective.update(state, rows.sum(1))
    part = objective.gradient(released, records) - (logits.softmax(1) - batch.targets)
    own = part.double().T @ one / count
    assert expected.norm() > 0.1
    assert_close(own, expected, rtol=5e-4, atol=5e-5)


def test_a_group_without_records_has_no_say():
    objective = halves(2, noise_multiplier=0.5, decay=0.9)
    state = objective.init(1, facts(3, 2))
    answer = torch.zeros(1, 6 + 4 * 2 * (WIDTH + 1))
    answer[0, :3] = torch.tensor([30.0, 40.0, 0.3])
    answer[0, 6:] = torch.linspace(-3.0, 5.0, answer.shape[1] - 6)
    released = objective.update(state, answer)
    # Of |sgn / p - sum sgn| its own share is left out, though its sums are not 0.
    assert float(released.shift[0, 2].abs()) in (0.0, 2.0)
    assert released.shift[0].isfinite().all()
    assert released.pull.isfinite().all()


def test_a_training_with_a_group_without_records_and_noise_is_finite():
    task = make_task(make_pool(3, 2, empty=1), noise_multiplier=1.0)
    trained = FairLensDecoupled().fit(task, [])
    assert trained.parameters.isfinite().all()
    assert trained.event is not None


# --- the engine's hold


def answers(kind, noise_multiplier=1.0, without=None):
    """The summed query of the first step, before noise, with and without a record."""
    pool = make_pool(2, 2)
    if without is not None:
        pool = pool.restricted_to(torch.tensor([n for n in range(pool.n_records) if n != without]))
    task = make_task(pool, noise_multiplier=noise_multiplier)
    method = type("M", (Method,), {"kind": kind})()
    loop = loop_of(method, task)
    batch = task.pool.everything()
    logits = loop.tape.forward(batch.inputs, batch.norms)
    records = StepRecords(batch.inputs, logits, batch.targets, batch.group)
    return loop.objective._sum_of_records(StepRecords(*(v.unsqueeze(0) for v in records)), None)


def test_the_loop_cuts_rows_that_are_too_long():
    whole = answers(Long)
    moved = [float((whole - answers(Long, without=i)).norm()) for i in (0, 7, 23)]
    assert max(moved) <= 1 + 1e-4
    assert min(moved) > 0.5


def test_rows_of_few_records_at_a_time_have_the_same_sum():
    assert_close(answers(Pieces), answers(FairLensHalves), rtol=1e-5, atol=1e-6)


# --- accounting and the plan


def test_epsilon_is_the_accountants_for_one_joint_release():
    spec = find("fairlens")
    sizes = PublicSizes(4000, 8, "logistic")
    ratio = spec.settings["statistic_noise_ratio"].default.value(sizes)
    settings = {"noise_multiplier": 1.3, "statistic_noise_ratio": ratio}
    event = spec.events(settings, steps_per_epoch=30, epochs=10)
    together = (1.3**-2 + (ratio * 1.3) ** -2) ** -0.5
    step = dp_accounting.PoissonSampledDpEvent(1 / 30, dp_accounting.GaussianDpEvent(together))
    accountant = pld.PLDAccountant().compose(dp_accounting.SelfComposedDpEvent(step, 300))
    assert epsilon(event, 1e-5) == pytest.approx(accountant.get_epsilon(1e-5), abs=0.01)


@pytest.mark.parametrize(
    ("columns", "classes", "kept"),
    [(999, 2, 1), (1000, 2, 0), (399, 5, 1), (400, 5, 0), (20, 95, 1), (20, 100, 0)],
)
def test_the_half_about_clipping_is_planned_where_the_engine_can_train_it(columns, classes, kept):
    sizes = PublicSizes(4000, columns, "logistic", classes=classes, max_grad_norm=0.1)
    gamma1 = find("fairlens").settings["gamma1"]
    assert (gamma1.default.value(sizes), gamma1.applies(sizes)) == (kept, bool(kept))
    layer = nn.Linear(columns, classes)
    assert (sum(p.numel() for p in layer.parameters()) <= LARGEST_MODEL) == bool(kept)


def test_training_releases_what_the_plan_says_with_both_halves():
    task = make_task(make_pool(2, 2), noise_multiplier=1.3)
    trained = FairLensDecoupled().fit(task, [])
    assert trained.event == find("fairlens").events(task.settings, 1, task.epochs)
    assert isinstance(FairLensDecoupled().objective(task), FairLensHalves)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"max_grad_norm": 1.0}, False),
        ({}, True),
        ({"max_grad_norm": 1.0, "model": "mlp"}, True),
        ({"max_grad_norm": 1.0, "settings": {"fairlens": {"statistic_grad_norm": 0.5}}}, True),
    ],
)
def test_a_report_says_at_the_methods_name_where_the_half_about_noise_is_alone(given, says):
    found = plan(method=("fairlens",), noise_multiplier=2.0, **given)
    texts = [limit.text for limit in _privacy_limits(found)]
    alone = [text for text in texts if "the half about noise alone here" in text]
    assert len(alone) == says
    assert all(text.startswith("fairlens: ") for text in alone)


@pytest.mark.parametrize("off", [{"gamma1": 0.0}, {"statistic_grad_norm": 0.7}])
def test_without_gamma1_or_a_larger_bound_the_half_about_noise_is_left(off):
    made = FairLensDecoupled().objective(make_task(make_pool(2, 2), **off))
    assert type(made) is FairLens


@pytest.mark.parametrize(
    "model",
    [
        nn.Sequential(nn.Linear(WIDTH, 4), nn.Tanh(), nn.Linear(4, 2)),
        nn.Sequential(nn.Linear(WIDTH, 2), nn.Sigmoid()),
        nn.Sequential(nn.Linear(1000, 2)),
    ],
)
def test_another_model_or_a_large_one_is_refused_with_what_to_do(model):
    with pytest.raises(TrainingError, match="softmax regressions") as caught:
        FairLensDecoupled().objective(make_task(make_pool(2, 2), model))
    assert "gamma1=0" in caught.value.hint
