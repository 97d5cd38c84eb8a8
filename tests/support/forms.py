"""Every method that trains by gradient steps.

In every form of the catalog, ready for a few records.
"""

import importlib
from dataclasses import dataclass, fields
from functools import cache

import numpy as np
import pytest
import torch
from oracles import model

from fairaudit.engine.pool import TrainingPool
from fairaudit.engine.stacked import DEFAULT_BUDGET
from fairaudit.methods.base import PublicPool, Task
from fairaudit.methods.catalog import Guarantee, MethodSpec, catalog
from fairaudit.methods.defaults import SCHEDULE_RULES, PublicSizes

SETTINGS = {}
for spec in catalog().values():
    SETTINGS |= spec.known_settings
RULES = {
    **SCHEDULE_RULES,
    **{name: each.default for name, each in SETTINGS.items() if each.default},
}
SIZES = PublicSizes(n_public=200, columns=6, model="logistic", pool=30)


@dataclass(frozen=True)
class Form:
    """A method's default form, or one of its published variants."""

    spec: MethodSpec
    variant: str | None
    trainer: str

    @property
    def key(self):
        return f"{self.spec.name}:{self.variant}" if self.variant else self.spec.name

    @property
    def is_private(self):
        established = {v.name for v in self.spec.variants if v.guarantee is Guarantee.ESTABLISHED}
        return self.spec.is_private and (self.variant is None or self.variant in established)

    def make(self):
        module, _, name = self.trainer.partition(":")
        return getattr(importlib.import_module(module), name)()

    def settings(self, **given):
        """The documented defaults, and what is given where the method reads it."""
        beside = next((v.settings for v in self.spec.variants if v.name == self.variant), {})
        read = {**self.spec.settings, **beside}
        defaults = {name: s.default.value(SIZES) if s.default else 1.0 for name, s in read.items()}
        return {name: float({**defaults, **given}[name]) for name in read}


@cache
def forms():
    """All that train by gradient steps, the default forms first."""
    return _forms(tuple(spec for spec in catalog().values() if spec.trains_by_steps))


@cache
def whole_forms():
    """The others: they release something about all records at once, or are a reference of such."""
    return _forms(tuple(spec for spec in catalog().values() if not spec.trains_by_steps))


def _forms(specs):
    published = [Form(spec, v.name, v.trainer) for spec in specs for v in spec.variants]
    return (*(Form(spec, None, spec.trainer) for spec in specs), *published)


FORM = {form.key: form for form in (*forms(), *whole_forms())}
DEFAULTS = tuple(form for form in forms() if form.variant is None)
PRIVATE = tuple(form for form in forms() if form.is_private)
PUBLISHED = tuple(form for form in forms() if form.variant)


# What is wrong with each published form, as clauses of the neighbour law
# (tests/laws/test_neighbours.py).
FLAWS = {
    "dpsgd:as-published": {"divisor", "noise"},
    "global:as-published": {"divisor", "noise"},
    "global-adapt:as-published": {"divisor", "noise", "count"},
    "dpsgd-f:as-published-x21": {"sum", "negative"},
    "dpsgd-f:as-published-e23": {"divisor", "noise", "noise too small", "count"},
    "dpsgd-f:author-code": {"noise"},
    "reweight:as-published": {"sum", "negative"},
    "fairlens:as-published": {"divisor", "noise", "sum", "company"},
    "fairlens:t21-eq6": {"divisor", "noise", "sum", "company"},
}


def flawed(clause):
    """The published forms that break this clause."""
    return [form for form in PUBLISHED if clause in FLAWS[form.key]]


def key_of(form):
    return form.key


def each(some):
    """A test of each of these forms."""
    return pytest.mark.parametrize("form", some, ids=key_of)


def make_pool(count=60, *, classes=2, groups=2, seed=0, width=7, spoilt=None):
    """Random records of unequal length, so that some are clipped and some are not."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count, width)) * rng.lognormal(0, 1, size=(count, 1))
    if spoilt is not None:
        x[3, 0] = spoilt
    return TrainingPool(
        torch.from_numpy(x.astype(np.float32)),
        torch.from_numpy(rng.integers(classes, size=count)),
        torch.from_numpy(rng.integers(groups, size=count)),
        n_classes=classes,
        n_groups=groups,
    )


class MadeRows:
    """Inputs that are looked up when they are asked for."""

    def __init__(self, features):
        self.features, self.shape = features, features.shape

    def fill(self, index, out):
        out[:] = self.features[index]


def streamed(pool):
    """The same records, whose inputs are made when they are asked for."""
    made = MadeRows(pool.everything().inputs.numpy())
    labels, groups = pool.labels[: pool.n_records], pool.groups[: pool.n_records]
    sizes = {"n_classes": pool.n_classes, "n_groups": pool.n_groups}
    return TrainingPool(made, labels, groups, **sizes)


def make_public(count, *, groups=2, seed=7, width=7):
    """A student pool of random records."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count, width)).astype(np.float32)
    return PublicPool(x, torch.from_numpy(rng.integers(groups, size=count)))


def make_task(form, pool, *, repeats=1, seed=0, **given):
    """A task on ``pool``; ``given`` overrides fields of the task or settings of the method."""
    named = {field.name for field in fields(Task)} & set(given)
    beside = {name: given.pop(name) for name in named}
    threshold = np.geomspace(4.0, 2.0, 10, dtype=np.float32)[:, None]
    task = {
        "arm": form.key,
        "seed": seed,
        "repeats": repeats,
        "settings": form.settings(**given),
        "optimizer": "sgd",
        "model": model("mlp-tanh" if form.spec.trains_by_steps else "logistic", seed, pool.width),
        "pool": pool,
        "steps_per_epoch": 6,
        "epochs": 2,
        "n_public": pool.n_records,
        "sampling": ["shared", *(f"{form.key}/{r}" for r in range(1, repeats))],
        "source": {form.spec.source_series: threshold} if form.spec.control_of else {},
        "budget": DEFAULT_BUDGET,
        "public": make_public(SIZES.pool, groups=pool.n_groups, width=pool.width),
        "records": np.arange(pool.n_records),
    }
    return Task(**{**task, **beside})
