"""The laws of a private step, asked of the optimizer that users of Opacus get.

And broken twins of it.

Source: docs/methods.md 9.
"""

import math

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from fairaudit.engine.rules import leaves
from fairaudit.opacus import make_private

pytestmark = pytest.mark.filterwarnings("ignore:Full backward hook is firing")
RECORDS, WIDTH, STEPS, GROUPS, SIGMA, COUNT_SIGMA = 8, 5, 4, 3, 1.3, 4.0
METHODS = {
    "dpsgd": {},
    "global": {"threshold": 3.0},
    "global-adapt": {"threshold": 2.0, "count_noise_multiplier": COUNT_SIGMA},
    "dpsgd-f": {"groups": GROUPS, "count_noise_multiplier": COUNT_SIGMA},
    "reweight": {"groups": GROUPS, "count_noise_multiplier": COUNT_SIGMA},
}


@pytest.fixture(autouse=True)
def told_epsilon(monkeypatch):
    monkeypatch.setattr("fairaudit.planning.guarantees.epsilon", lambda *_: 1.0)
    monkeypatch.setattr("fairaudit.planning.arms.LARGEST_COUNT_NOISE", 1e9)


def people():
    """Records of lengths from a hundredth to a hundred, one of them zero."""
    draw = torch.Generator().manual_seed(0)
    x = torch.rand(RECORDS, WIDTH, generator=draw) * 4 - 2
    x *= torch.logspace(-2, 2, RECORDS).unsqueeze(1)
    x[2] = 0.0
    return x, torch.arange(RECORDS) % 2, torch.arange(RECORDS) % GROUPS


def loop(method, mode="hooks", width=WIDTH):
    model = nn.Linear(width, 2)
    nn.init.constant_(model.weight, 0.1)
    nn.init.constant_(model.bias, 0.0)
    data = TensorDataset(torch.zeros(RECORDS, width), torch.zeros(RECORDS, dtype=torch.int64))
    found = make_private(
        model,
        torch.optim.SGD(model.parameters(), lr=0.1),
        DataLoader(data, batch_size=2),
        method=method,
        noise_multiplier=SIGMA,
        target_delta=1e-3,
        epochs=1,
        max_grad_norm=1.0,
        seed=1,
        grad_sample_mode=mode,
        criterion=nn.CrossEntropyLoss(),
        **METHODS[method],
    )
    return found[:3]


def step(training, x, y, g):
    model, optimizer, loss = training
    optimizer._batches.dealt.append(len(x))
    optimizer.zero_grad()
    optimizer.set_groups(g)
    loss(model(x), y).backward()
    optimizer.step()


def watched(method, mode, batch, monkeypatch):
    """Some steps on these records: sums before noise, claims, exact answers.

    What is answered is told.
    """
    training = loop(method, mode)
    optimizer = training[1]
    sums, claims, answers, states = [], [], [], []
    release, part = optimizer._release, optimizer._rule.part

    def closed(rows, sensitivity, facts):
        sums.append(rows[0].clone())
        claims.append(sensitivity.clone())
        return torch.full_like(rows[0], 0.01 * len(sums))  # the same for both neighbours

    def told(norms, group, present):
        if part.query_noise_multiplier is None:
            return
        query = part.query(optimizer._rule.state, norms, group)
        answers.append(query.sum(1))
        cells = torch.linspace(-2.0, 6.0, query.shape[2]) + len(answers)
        optimizer._rule.released = part.update(optimizer._rule.state, cells.unsqueeze(0))

    monkeypatch.setattr(optimizer, "_release", closed)
    monkeypatch.setattr(optimizer._rule, "ask", told)
    for _ in range(STEPS):
        step(training, *batch)
        states.append(leaves(optimizer._rule.state))
    assert release.noise.draws == 0
    return sums, claims, answers, states


def broken(method, mode, monkeypatch):
    """The laws of neighbours that are broken: each record in turn is left out."""
    x, y, g = people()
    whole = watched(method, mode, (x, y, g), monkeypatch)
    found = set()
    for left_out in range(RECORDS):
        rest = [number for number in range(RECORDS) if number != left_out]
        sums, claims, answers, states = watched(
            method, mode, (x[rest], y[rest], g[rest]), monkeypatch
        )
        for before, after, claim, twin in zip(sums, whole[0], claims, whole[1], strict=True):
            if float((after - before).double().norm() / claim) > 1 + 1e-4:
                found.add("contribution")
            if not torch.equal(claim, twin):
                found.add("sensitivity")
        if any(float((a - b).norm()) > 1 + 1e-4 for a, b in zip(answers, whole[2], strict=True)):
            found.add("query")
        for one, other in zip(states, whole[3], strict=True):
            if not all(torch.equal(a, b) for a, b in zip(one, other, strict=True)):
                found.add("state")
    return found


@pytest.mark.parametrize("mode", ["hooks", "functorch", "ghost"])
@pytest.mark.parametrize("method", METHODS)
def test_one_record_more_moves_a_step_by_no_more_than_is_claimed(method, mode, monkeypatch):
    assert broken(method, mode, monkeypatch) == set()


def noise_of(method, steps=40, width=400):
    """What steps without records release: gradients and answers over the noise claimed."""
    training = loop(method, width=width)
    optimizer = training[1]
    answers, gradients = [], []
    real = optimizer._rule.part

    class Told:
        def __getattr__(self, name):
            return getattr(real, name)

        def update(self, state, answer):
            answers.append(answer.clone())
            return real.update(state, answer)

        def sensitivity(self, released):
            self.claim = real.sensitivity(released)
            return self.claim

    optimizer._rule.part = told = Told()
    nobody = (
        torch.zeros(0, width),
        torch.zeros(0, dtype=torch.int64),
        torch.zeros(0, dtype=torch.int64),
    )
    for _ in range(steps):
        step(training, *nobody)
        drawn = torch.cat([p.grad.flatten() for p in optimizer.params])
        gradients.append(drawn * (RECORDS / STEPS) / (SIGMA * told.claim))
    assert optimizer.accountant.steps == steps
    asked = torch.stack(answers) / real.query_noise_multiplier if answers else None
    return torch.stack(gradients), asked


def is_noise(values):
    """Variance 1 and nothing repeated, each wrong with probability 1e-6 at most."""
    values, count = values.double(), values.numel()
    return abs(float(values.square().mean()) - 1) < 4.9 * math.sqrt(2 / count) and abs(
        float((values[1:] * values[:-1]).mean())
    ) < 4.9 / math.sqrt(count)


@pytest.mark.parametrize("method", METHODS)
def test_noise_is_as_large_as_claimed_and_new_at_every_step(method):
    gradients, answers = noise_of(method)
    assert is_noise(gradients)
    assert answers is None or is_noise(answers)
