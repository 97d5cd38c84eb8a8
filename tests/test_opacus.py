"""Our rules in a loop that uses Opacus.

The same steps as the engine's, and the same epsilon as a plan's.
"""

import math
import re
import sys
from contextlib import suppress

import numpy as np
import opacus
import pandas as pd
import pytest
import torch
from forms import FORM, make_task
from opacus.accountants import RDPAccountant
from opacus.utils.batch_memory_manager import BatchMemoryManager
from opacus_loops import (
    BATCH,
    CLASSES,
    EPOCHS,
    GROUPS,
    METHODS,
    MODES,
    RECORDS,
    WIDTH,
    model_of,
    parameters,
    private,
    records,
    take,
    train,
)
from places import ROOT
from refusals import refused_in_one_line
from torch import nn
from torch.utils.data import Dataset, IterableDataset, TensorDataset

import fairaudit
from fairaudit.engine.pool import TrainingPool
from fairaudit.errors import ConfigError, FairauditError, PrivacyError, TrainingError
from fairaudit.methods.catalog import catalog, find
from fairaudit.opacus.optimizer import PoissonBatches
from fairaudit.opacus.private import _trainer
from fairaudit.privacy.streams import numpy_stream

pytestmark = pytest.mark.filterwarnings("ignore:Full backward hook is firing")


@pytest.fixture(autouse=True)
def told_epsilon(request, monkeypatch):
    """What a plan says of its epsilon takes seconds, and only tests of epsilon ask."""
    if "epsilon" not in request.node.name and "target" not in request.node.name:
        monkeypatch.setattr("fairaudit.planning.guarantees.epsilon", lambda *_: 1.0)


def apart(one, other):
    """The largest difference of two models' parameters."""
    return float((parameters(one) - parameters(other)).abs().max())


def by_engine(method, settings, name, lr):
    """The logits' probabilities and thresholds of the engine's own training, with equal numbers."""
    model, shape = model_of(name)
    x, y, g = records(shape)
    groups = METHODS[method].get("groups", 1)
    task = make_task(
        FORM[method],
        TrainingPool(x, y, g % groups, n_classes=CLASSES, n_groups=groups),
        settings={**settings, "learning_rate": lr},
        model=model,
        steps_per_epoch=RECORDS // BATCH,
        epochs=EPOCHS,
    )
    trained = _trainer(method, GROUPS).fit(task, [])
    return trained, trained.probabilities(x, g)[0]


@pytest.mark.parametrize("noise", [0.0, 0.8])
@pytest.mark.parametrize("name", ["logistic", "mlp", "cnn"])
@pytest.mark.parametrize("method", METHODS)
def test_steps_are_those_of_the_engine(method, name, noise):
    """Same start, samples and noise.

    Gradients of records by Opacus on one side, the engine on the other.
    """
    model, shape = model_of(name)
    x, y, g = records(shape)
    start = parameters(model)
    loop = private(method, model, data=TensorDataset(x, y, g), noise_multiplier=noise)
    optimizer = train(loop)
    trained, probabilities = by_engine(method, optimizer.arm.settings, name, 0.1)
    assert float((parameters(model) - start).norm()) > 1e-2
    difference = (parameters(model) - trained.parameters[0]).abs().max()
    assert float(difference) <= 1e-6
    with torch.no_grad():
        assert float((model(x).softmax(1) - probabilities).abs().max()) <= 1e-5
    assert optimizer.accountant.event() == trained.event


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("method", METHODS)
def test_every_way_to_per_sample_gradients_takes_the_same_steps(method, mode):
    one, other = model_of("mlp")[0], model_of("mlp")[0]
    train(private(method, one, noise_multiplier=0.5))
    train(private(method, other, noise_multiplier=0.5, mode=mode))
    assert apart(one, other) <= 1e-6


@pytest.mark.parametrize(
    ("method", "physical"), [*((name, 7) for name in METHODS), ("global-adapt", 1)]
)
def test_batches_in_parts_take_the_same_steps(method, physical):
    whole, parts = model_of("mlp")[0], model_of("mlp")[0]
    one = train(private(method, whole, noise_multiplier=0.5))
    other = train(private(method, parts, noise_multiplier=0.5), physical=physical)
    assert apart(whole, parts) <= 1e-6
    assert one.accountant == other.accountant


def test_ghost_clipping_takes_batches_in_parts_where_the_rule_asks_nothing():
    whole, parts = model_of("mlp")[0], model_of("mlp")[0]
    train(private("global", whole, mode="ghost"))
    train(private("global", parts, mode="ghost"), physical=7)
    assert apart(whole, parts) <= 1e-6
    with pytest.raises(ConfigError, match="asks about a whole batch"):
        train(private("global-adapt", mode="ghost"), physical=7)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("method", ["dpsgd", "dpsgd-f"])
def test_an_empty_batch_takes_a_step_of_noise(method, mode):
    model = nn.Linear(WIDTH, CLASSES)
    loop = private(method, model, mode=mode)
    x, y, g = records()
    for drawn in (slice(0, 0), slice(0, 3), slice(0, 0)):
        before = parameters(model)
        take(loop, x[drawn], y[drawn], g[drawn])
        assert float((parameters(model) - before).abs().min()) > 0
    assert loop[1].accountant.steps == 3


def test_the_loader_deals_poisson_samples_with_empty_ones_among_them():
    loader = private(data=TensorDataset(*(each[:4] for each in records())), batch=1)[3]
    sizes = [len(batch) for _ in range(200) for batch in loader.batch_sampler]
    assert len(loader) == 4
    assert set(sizes) >= {0, 1, 2}
    # 800 sums of four coins of 1/4: mean 1, variance 3/4
    assert abs(np.mean(sizes) - 1) < 5 * math.sqrt(0.75 / 800)
    assert 0 in {len(batch[0]) for _ in range(10) for batch in loader}


class Named(Dataset):
    """Records as dicts, with labels that are plain numbers."""

    def __len__(self):
        return 4

    def __getitem__(self, number):
        return {"x": records()[0][number], "y": number % 2}


@pytest.mark.skipif(opacus.__version__.startswith("1.5."), reason="Opacus 1.5 makes no empty dicts")
@pytest.mark.parametrize("workers", [0, 1])
def test_records_of_any_make_and_a_first_batch_without_any(workers):
    seed = next(seed for seed in range(99) if not first_batch(seed))
    given = {"data": Named(), "batch": 1, "workers": workers, "seed": seed}
    wrapped, optimizer, criterion, dealt = private(**given)
    sizes = []
    for batch in dealt:
        optimizer.zero_grad()
        criterion(wrapped(batch["x"]), batch["y"]).backward()
        optimizer.step()
        sizes.append(len(batch["x"]))
    assert (sizes[0], len(sizes), optimizer.accountant.steps) == (0, 4, 4)


def first_batch(seed):
    return next(iter(PoissonBatches(numpy_stream(seed, "sampling", "shared"), 4, 4, ahead=False)))


def test_a_batch_that_broke_off_reaches_no_other():
    """Else a record could be in one step twice."""
    model = nn.Linear(WIDTH, CLASSES)
    loop = private("global-adapt", model, noise_multiplier=0.0)
    _, optimizer, _, loader = loop
    with BatchMemoryManager(
        data_loader=loader, max_physical_batch_size=2, optimizer=optimizer
    ) as parts:
        take(loop, *next(iter(parts)), dealt=True)
        assert len(optimizer._waiting) == 1
    x, y, g = next(iter(loader))
    fresh = nn.Linear(WIDTH, CLASSES)
    fresh.load_state_dict(model.state_dict())
    take(loop, x, y, g, dealt=True)
    take(private("global-adapt", fresh, noise_multiplier=0.0), x, y, g)
    assert torch.equal(parameters(model), parameters(fresh))


@pytest.mark.parametrize("method", ["dpsgd", "global-adapt"])
@pytest.mark.parametrize("value", [math.nan, math.inf, 3e38])
def test_a_record_that_is_not_finite_counts_as_zero(method, value):
    x, y, g = (each[:6] for each in records())
    one, other = (nn.Linear(WIDTH, CLASSES) for _ in range(2))
    other.load_state_dict(one.state_dict())
    take(private(method, one), x.index_fill(0, torch.tensor([2]), value), y, g)
    rest = [0, 1, 3, 4, 5]
    take(private(method, other), x[rest], y[rest], g[rest])
    assert bool(parameters(one).isfinite().all())
    assert apart(one, other) <= 1e-6


def test_ghost_clipping_refuses_a_record_that_is_not_finite():
    x, y, g = records()
    x[2] = math.nan
    with pytest.raises(TrainingError, match="not finite"):
        take(private(mode="ghost"), x, y, g)


@pytest.mark.parametrize("x", [records((2, WIDTH))[0], records()[0].bfloat16()])
def test_ghost_clipping_refuses_what_it_would_take_wrong_norms_of(x):
    model = nn.Sequential(nn.Linear(WIDTH, CLASSES), nn.Flatten()).to(x.dtype)
    with pytest.raises(ConfigError, match="ghost clipping"):
        take(private(model=model, mode="ghost"), x, *records()[1:])


@pytest.mark.parametrize(
    ("method", "target", "given"),
    [
        ("dpsgd", 3.0, {}),
        ("global-adapt", 3.0, {}),
        *(
            pytest.param(name, 8.0, {"count_noise_multiplier": 15.0}, marks=pytest.mark.slow)
            for name in METHODS
        ),
    ],
)
def test_epsilon_is_that_of_the_plan(method, target, given):
    """Noise and epsilon of `fairaudit plan` at equal numbers.

    Counts are charged with the gradient.
    """
    rows = 1000
    draw = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "a": draw.normal(size=rows),
            "sex": draw.choice(["F", "M", "X"], rows),
            "y": draw.integers(0, 2, rows),
            "part": ["train"] * 800 + ["test"] * 200,
        }
    )
    own = {name: value for name, value in given.items() if name in find(method).settings}
    threshold = {"threshold": 2.0} if "threshold" in find(method).settings else {}
    planned = fairaudit.plan_audit(
        frame,
        group="sex",
        label="y",
        method=method,
        split_column="part",
        batch_size=80,
        epochs=5,
        delta=1e-5,
        epsilon=(target,),
        max_grad_norm=1.0,
        settings={method: {**own, **threshold}} if own or threshold else {},
    )
    (arm,) = (arm for arm in planned.arms if arm.method == method)
    _, optimizer, _, loader = private(
        method,
        nn.Linear(2, 2),
        data=TensorDataset(torch.zeros(800, 2)),
        batch=80,
        target_epsilon=target,
        target_delta=1e-5,
        epochs=5,
        **{"groups": 3, "count_noise_multiplier": None, **own, **threshold},
    )
    accountant = optimizer.accountant
    assert (len(loader), accountant.epsilon()) == (10, 0.0)
    assert optimizer.noise_multiplier == arm.settings["noise_multiplier"]
    assert accountant.planned == arm.privacy.event
    accountant.steps = 50
    assert accountant.epsilon() == arm.privacy.epsilon.pld <= target
    # another accountant, on the one Gaussian of a step: gradient and count together
    side = [optimizer.arm.settings[name] for name in find(method).side_queries.values()]
    together = sum(sigma**-2 for sigma in [optimizer.noise_multiplier, *side]) ** -0.5
    opacus_accountant = RDPAccountant()
    opacus_accountant.history = [(together, 1 / 10, 50)]
    assert accountant.epsilon() <= opacus_accountant.get_epsilon(1e-5) <= 1.6 * accountant.epsilon()


def test_steps_beyond_the_plan_are_refused():
    loop = private("global-adapt")
    loop[1].accountant.target_epsilon = 5.0  # as if its noise had been calibrated
    train(loop)
    before = parameters(loop[0])
    with pytest.raises(PrivacyError, match=r"10 steps that epsilon 5\.00 was planned for"):
        train(loop, 1)
    assert torch.equal(parameters(loop[0]), before)
    assert loop[1].accountant.steps == 10


def test_without_noise_epsilon_is_infinite():
    loop = private("global-adapt", noise_multiplier=0.0)
    assert loop[1].accountant.epsilon() == 0.0
    assert train(loop, 1).accountant.epsilon() == math.inf


def test_what_can_be_a_loops_method_follows_from_what_it_is():
    usable = set()
    for name in catalog():
        with suppress(ConfigError):
            _trainer(name, 3)
            usable.add(name)
    assert usable >= set(METHODS)
    assert usable.isdisjoint({"sgd", "fairlens", "dpsgd-matched", "output-perturbation"})
    for name in usable:
        assert find(name).is_private
        assert not find(name).relative_queries


def test_a_plugin_is_taken_for_what_it_is(tmp_path, monkeypatch):
    page = (ROOT / "docs" / "extending.md").read_text("utf-8")
    (tmp_path / "weighted_loop.py").write_text(
        re.search(r"```python\n(.*?)```", page, re.S)[1].replace(
            "weighted-groups", "weighted-loop"
        ),
        encoding="utf-8",
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    model = nn.Linear(WIDTH, CLASSES)
    loop = private("weighted_loop:SPEC", model, groups=3, weight=0.25, noise_multiplier=0.0, lr=1.0)
    assert loop[1].arm.settings["weight"] == 0.25
    assert loop[1].accountant.guarantee == "none"
    assert "not checked" in private("weighted_loop:SPEC", groups=3)[1].accountant.guarantee
    x, y = torch.ones(1, WIDTH), torch.tensor([0])
    moved = []
    for group in (0, 1):
        before = parameters(model)
        take(loop, x, y, torch.tensor([group]))
        moved.append(float((parameters(model) - before).norm()) * BATCH)
    assert moved == pytest.approx([1.0, 0.25], rel=1e-4)
    catalog().pop("weighted-loop")


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("mode", MODES)
def test_a_step_is_of_the_loaders_next_batch_and_of_each_once(mode, workers):
    model = nn.Linear(WIDTH, CLASSES)
    loop = private(model=model, mode=mode, workers=workers)
    with pytest.raises(ConfigError, match="not of the loader's next batch"):
        take(loop, *records(), dealt=False)
    sizes = []
    for batch in loop[3]:
        sizes.append(len(batch[0]))
        take(loop, *batch, dealt=True)
        if len(sizes) < 2 or sizes[-1] == sizes[-2]:
            continue
        before = parameters(model)
        with pytest.raises(ConfigError, match="not of the loader's next batch"):
            take(loop, *batch, dealt=True)  # twice from one draw
        assert torch.equal(parameters(model), before)
        break
    assert loop[1].accountant.steps == len(sizes) >= 2
    batches = iter(loop[3])
    skipped = next(batches)
    following = next(batch for batch in batches if len(batch[0]) != len(skipped[0]))
    with pytest.raises(ConfigError, match="not of the loader's next batch"):
        take(loop, *following, dealt=True)


def test_schedulers_groups_of_parameters_and_frozen_ones():
    model = nn.Sequential(
        nn.Linear(WIDTH, 4), nn.Tanh(), nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, CLASSES)
    )
    for p in model[2].parameters():
        p.requires_grad_(False)
    frozen = parameters(model[2])
    inner = torch.optim.SGD(
        [
            {"params": model[0].parameters(), "lr": 0.5},
            {"params": [*model[2].parameters(), *model[4].parameters()], "lr": 0.0},
        ]
    )
    wrapped, optimizer, criterion, loader = private("global-adapt", model, inner=inner)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    last, first = parameters(model[4]), parameters(model[0])
    for x, y, _ in loader:
        optimizer.zero_grad()
        criterion(wrapped(x), y).backward()
        optimizer.step()
        scheduler.step()
    assert torch.equal(parameters(model[4]), last)
    assert torch.equal(parameters(model[2]), frozen)
    assert not torch.equal(parameters(model[0]), first)
    assert optimizer.param_groups[0]["lr"] == 0.5 * 0.5**5
    model[2].weight.requires_grad_(True)
    with pytest.raises(ConfigError, match="unfrozen"):
        optimizer.step()


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_precisions(dtype):
    model = model_of("mlp")[0].to(dtype)
    x, y, g = records()
    loop = private("global-adapt", model, data=TensorDataset(x.to(dtype), y, g))
    train(loop)
    assert all(p.dtype == p.grad.dtype == dtype for p in model.parameters())
    assert bool(parameters(model).isfinite().all())
    plain = model_of("mlp")[0]
    train(private("global-adapt", plain))
    assert apart(model, plain) < (1e-6 if dtype == torch.float64 else 0.1)


def test_without_a_seed_nothing_is_repeated():
    drawn = []
    for _ in range(2):
        model = model_of("mlp")[0]
        loop = private("dpsgd", model, seed=None)
        before = parameters(model)
        take(loop, *(each[:0] for each in records()))
        drawn.append(parameters(model) - before)
    assert not torch.allclose(*drawn)


def test_the_sum_of_losses_gives_the_sum_of_gradients():
    one, other = model_of("mlp")[0], model_of("mlp")[0]
    train(private("global-adapt", one, lr=0.24))
    summed = {"loss_reduction": "sum", "criterion": nn.CrossEntropyLoss(reduction="sum")}
    train(private("global-adapt", other, lr=0.01, **summed))
    assert apart(one, other) <= 1e-5


class Endless(IterableDataset):
    def __iter__(self):
        yield torch.zeros(WIDTH)


def refusals():
    stranger = torch.optim.SGD(nn.Linear(2, 2).parameters(), lr=0.1)
    return [
        ({"method": "dpsgd-x"}, "unknown method"),
        ({"method": "sgd"}, "no guarantee"),
        ({"method": "dpsgd-f", "groups": None}, "how many groups"),
        ({"noise_multiplier": 1.0, "target_epsilon": 1.0}, "either a target or its noise"),
        ({"threshold": 3.0}, "no setting 'threshold'"),
        ({"max_grad_norm": math.nan}, "max_grad_norm"),
        ({"epochs": 0}, "epochs"),
        ({"mode": "no_op"}, "not supported"),
        ({"target_delta": 1.01 / RECORDS}, "not below 1/N"),
        ({"method": "global-adapt", "count_noise_multiplier": 100.0}, "follow noise alone"),
        ({"method": "global-adapt", "target_epsilon": 0.001}, "alone cost"),
        ({"data": Endless()}, "Poisson"),
        ({"data": TensorDataset(torch.zeros(0, WIDTH))}, "no record"),
        (
            {"model": nn.Sequential(nn.Linear(WIDTH, 4), nn.BatchNorm1d(4))},
            "statistics of the batch",
        ),
        ({"inner": stranger}, "are not the model's"),
    ]


def test_what_does_not_fit_is_refused():
    for given, said in refusals():
        with pytest.raises(FairauditError, match=re.escape(said)):
            private(**given)


def test_what_is_private_already_is_not_made_so_again():
    model, optimizer, _, _ = private()
    with pytest.raises(ConfigError, match="Opacus' already"):
        private(model=model, inner=optimizer)
    for name in ("noise_multiplier", "max_grad_norm"):
        with pytest.raises(ConfigError, match="planned with it"):
            setattr(optimizer, name, 0.1)
    with pytest.raises(ConfigError, match="cannot be taken up again"):
        optimizer.load_state_dict(optimizer.state_dict())


@pytest.mark.parametrize(
    ("group", "said"),
    [
        (None, "reads the group"),
        (torch.zeros(3, dtype=torch.int64), "120 records, and 3 are given"),
        (torch.full((120,), 3), "outside 0 to 2"),
        (torch.full((120,), -1), "outside 0 to 2"),
        (torch.zeros(120), "whole number"),
        (torch.zeros(120, 1, dtype=torch.int64), "whole number"),
    ],
)
def test_groups_are_asked_for_and_checked(group, said):
    model, optimizer, loss, _ = private("dpsgd-f")
    x, y, _ = records()
    loss(model(x), y).backward()
    with pytest.raises(ConfigError, match=said):  # noqa: PT012
        if group is not None:
            optimizer.set_groups(group)
        optimizer.step()
    assert optimizer.accountant.steps == 0


def test_the_groups_of_one_batch_do_not_serve_another():
    loop = private("dpsgd-f")
    take(loop, *records())
    loop[2](loop[0](records()[0]), records()[1]).backward()
    with pytest.raises(ConfigError, match="reads the group"):
        loop[1].step()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"epochs": 2.5}, "whole numbers"),
        ({"epochs": 0}, "whole numbers"),
        ({"epochs": float("nan")}, "whole numbers"),
        ({"epochs": 10**30}, "epochs or fewer"),
        ({"n_public": 1e3}, "whole numbers"),
        ({"target_epsilon": 3e4}, "less than or equal to 10000"),
        ({"target_epsilon": float("inf")}, "finite number"),
        ({"max_grad_norm": 1e300}, "not a number from"),
        ({"max_grad_norm": 1e-300}, "not a number from"),
        ({"max_grad_norm": float("nan")}, "finite number"),
        ({"method": "dpsgd-f", "groups": 10**9}, "how many groups"),
        ({"method": "dpsgd-f", "groups": 2.5}, "how many groups"),
    ],
)
def test_numbers_that_no_training_has_are_refused_in_one_line(given, said):
    with refused_in_one_line(ConfigError, said):
        private(**given)


def test_a_public_number_of_records_sets_the_schedule():
    _, optimizer, _, loader = private(n_public=1000, batch=100)
    assert len(loader) == 10
    assert optimizer.expected_batch_size == 100
    sizes = [len(batch) for _ in range(100) for batch in loader.batch_sampler]
    assert abs(np.mean(sizes) - RECORDS / 10) < 5 * math.sqrt(RECORDS * 0.09 / 1000)
