import pytest
import torch
from forms import make_pool, streamed

from fairaudit.engine import pool


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


@pytest.mark.parametrize(
    ("index", "padded"),
    [([4, 9, 0], False), ([], False), ([[4, 9, 60], [2, 60, 60]], True), ([[60], [60]], True)],
)
def test_rows_made_for_a_batch_are_the_rows_that_would_have_been_kept(index, padded, monkeypatch):
    monkeypatch.setattr(pool, "ROWS_AT_ONCE", 7)
    kept = make_pool(60, classes=3, groups=4)
    made = streamed(kept)
    assert (made.n_records, made.width) == (kept.n_records, kept.width)
    index = torch.tensor(index, dtype=torch.int64)
    present = index < 60 if padded else None
    for ours, theirs in zip(made.gather(index, present), kept.gather(index, present), strict=True):
        assert (ours is None and theirs is None) or torch.equal(ours, theirs)


def test_everything_is_all_records_once_and_in_order():
    kept = make_pool(60, classes=3, groups=4)
    whole, made = kept.everything(), streamed(kept).everything()
    assert whole.records.tolist() == list(range(60))
    for ours, theirs in zip(made[:-1], whole[:-1], strict=True):
        assert torch.equal(ours, theirs)
