import numpy as np
import pytest
import torch
from forms import make_pool

from fairaudit.engine import pool
from fairaudit.engine.pool import TrainingPool


@pytest.mark.parametrize("index", [[], [0], [59, 0, 7]])
def test_a_batch_holds_the_records_asked_for_in_their_order(index):
    pool, index = make_pool(60, classes=3, groups=4), torch.tensor(index, dtype=torch.int64)
    batch = pool.gather(index, None)
    assert batch.inputs.shape == (len(index), pool.width)
    assert torch.equal(batch.targets.argmax(1), pool.labels[index])
    assert (batch.targets.sum(1) == 1).all()
    assert torch.equal(batch.group, pool.groups[index])
    assert torch.equal(batch.records, index)
    assert batch.present is None


def test_replicates_get_their_own_records_and_padding_is_zero():
    pool = make_pool(60, classes=3)
    index = torch.tensor([[4, 9, 60], [2, 60, 60]])
    batch = pool.gather(index, index < 60)
    for r, i in ((0, 0), (0, 1), (1, 0)):
        alone = pool.gather(index[r, i : i + 1], None)
        assert torch.equal(batch.inputs[r, i], alone.inputs[0])
        assert torch.equal(batch.targets[r, i], alone.targets[0])
    padded = ~batch.present
    assert (batch.inputs[padded] == 0).all()
    assert (batch.targets[padded] == 0).all()


def test_a_batch_that_is_empty_in_every_replicate_is_a_batch():
    pool = make_pool(60)
    index = torch.zeros(2, 0, dtype=torch.int64)
    batch = pool.gather(index, index < 60)
    assert batch.inputs.shape == (2, 0, pool.width)
    assert batch.targets.shape == (2, 0, 2)
    assert batch.group.shape == (2, 0)


class FromArray:
    """Rows that are looked up when they are asked for."""

    def __init__(self, features):
        self.features = features
        self.shape = features.shape

    def fill(self, index, out):
        out[:] = self.features[index]


@pytest.mark.parametrize(
    ("index", "padded"),
    [([4, 9, 0], False), ([], False), ([[4, 9, 60], [2, 60, 60]], True), ([[60], [60]], True)],
)
def test_rows_made_for_a_batch_are_the_rows_that_would_have_been_kept(index, padded, monkeypatch):
    monkeypatch.setattr(pool, "ROWS_AT_ONCE", 7)
    rng = np.random.default_rng(0)
    features = rng.normal(size=(60, 5)).astype(np.float32)
    labels, groups = (torch.from_numpy(rng.integers(0, n, 60)) for n in (3, 4))
    sizes = {"n_classes": 3, "n_groups": 4}
    kept = TrainingPool(torch.from_numpy(features), labels, groups, **sizes)
    made = TrainingPool(FromArray(features), labels, groups, **sizes)
    assert (made.n_records, made.width) == (kept.n_records, kept.width)
    index = torch.tensor(index, dtype=torch.int64)
    present = index < 60 if padded else None
    for ours, theirs in zip(made.gather(index, present), kept.gather(index, present), strict=True):
        assert (ours is None and theirs is None) or torch.equal(ours, theirs)
