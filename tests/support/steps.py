"""One checkpoint of a small model in float64, and everything about it the slow way."""

import itertools
from dataclasses import dataclass

import torch
from forms import make_task
from hessians import group_hessians
from oracles import gradients, laid_out, model
from torch import Tensor, nn
from torch.func import functional_call

from fairaudit.diagnostics.checkpoints import StepReader
from fairaudit.diagnostics.landscape import GroupedRecords, Landscape
from fairaudit.diagnostics.risk_terms import Batches, Forms, Means, Sampling
from fairaudit.engine.observe import Checkpoint
from fairaudit.engine.pool import TrainingPool

RECORDS = 7  # 128 batches at q = 1/2, all equally likely, so that every expectation is a plain mean


def small_pool(count=RECORDS, *, groups=2, seed=0, width=7, classes=2):
    """Records of unequal length in float64; group 0 is the shorter one."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(count, width, generator=generator, dtype=torch.float64)
    group = torch.arange(count) % groups
    x = x * (0.3 + group).unsqueeze(1)
    labels = torch.randint(classes, (count,), generator=generator)
    return TrainingPool(x, labels, group, n_classes=classes, n_groups=groups)


@dataclass
class Step:
    """A step, its reader, and brute force: per-record gradients and whole Hessians.

    g, clipped: [N, P] of every record. hessians: [K + 1, P, P]. eta: Learning rate.
    """

    reader: StepReader
    pool: TrainingPool
    g: Tensor
    clipped: Tensor
    hessians: Tensor
    eta: float

    @property
    def members(self):
        """0/1 of each record in each group and in everybody, as weights of a mean, [K + 1, N]."""
        groups = self.pool.groups[: self.pool.n_records]
        own = torch.nn.functional.one_hot(groups, self.pool.n_groups).double().T
        member = torch.cat([own, torch.ones(1, len(groups), dtype=torch.float64)])
        return member / member.sum(1, keepdim=True)

    def sampling(self, *, sample_rate=0.5, noise_std=0.0, n_public=None):
        n = self.pool.n_records
        return Sampling(self.eta, sample_rate, n_public or n, n, noise_std)

    def means(self, n_public=None):
        n = n_public or self.pool.n_records
        return Means(self.members @ self.g, self.g.sum(0) / n, self.clipped.sum(0) / n)

    def batches(self, chosen, signs, *, expected):
        """Batches of 0/1 rows [M, N] and probes of rows of signs [S, N] on them.

        M = S, or S any.
        """
        d, d_clipped = self.g - self.g.mean(0), self.clipped - self.clipped.mean(0)
        return Batches(
            chosen @ self.g / expected,
            chosen @ self.clipped / expected,
            signs @ d,
            signs @ d_clipped,
        )

    def forms(self, batches, means):
        return Forms(
            *(
                torch.einsum("vp,kpq,vq->vk", v, self.hessians, v)
                for v in (batches.plain, batches.clipped, batches.probes, batches.clipped_probes)
            ),
            *torch.einsum(
                "vp,kpq,vq->vk",
                both := torch.stack([means.plain, means.clipped]),
                self.hessians,
                both,
            ),
        )


def all_batches(count=RECORDS):
    """Every subset as a 0/1 row, [2^N, N]."""
    return torch.tensor(list(itertools.product([0.0, 1.0], repeat=count)), dtype=torch.float64)


def a_step(form, *, name="mlp-tanh", released=None, eta=0.1, pool=None, **settings):
    """A step of that form at a fresh start.

    ``released``: what its rule had released, else its start.
    """
    pool = pool or small_pool()
    module = model(name).double()
    task = make_task(form, pool, model=module, learning_rate=eta, **settings)
    method = form.make()
    rule, objective = method.rule(task), method.objective(task)
    facts = task.facts()
    state = rule.init(1, facts) if released is None else released
    theta = torch.cat([p.detach().reshape(-1) for p in module.parameters()]).unsqueeze(0)
    checkpoint = Checkpoint(
        0,
        theta,
        objective.init(1, facts),
        state,
        rule.sensitivity(state),
        method.learning_rate(task),
    )
    index = torch.arange(pool.n_records)
    x, labels = pool.gather(index, None).inputs, pool.labels[index]
    g = gradients(module, x, labels)
    scale = rule.scale(state, g.norm(dim=1).unsqueeze(0), pool.groups[index].unsqueeze(0))[0]
    records = GroupedRecords.of(x, labels, pool.groups[index], n_groups=pool.n_groups)
    hessians = group_hessians(Landscape(module, theta[0], records))
    reader = StepReader(method, task, checkpoint)
    reader.method = method
    return Step(reader, pool, g, scale.unsqueeze(1) * g, hessians, checkpoint.learning_rate)


def loss_of(step, theta):
    """Mean loss of each group and of everybody at theta [P], [K + 1]."""
    pool, module = step.pool, step.reader.task.model
    index = torch.arange(pool.n_records)
    inputs = pool.gather(index, None).inputs
    logits = functional_call(module, laid_out(module, theta), (inputs,))
    return step.members @ nn.functional.cross_entropy(logits, pool.labels[index], reduction="none")
