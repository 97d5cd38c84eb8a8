import torch
from torch.testing import assert_close

from fairaudit.diagnostics.landscape import GroupedRecords


def records(groups, n_groups=3, **given):
    count = len(groups)
    features = torch.arange(count, dtype=torch.float32)[:, None]
    return GroupedRecords.of(
        features, torch.zeros(count).long(), torch.tensor(groups), n_groups=n_groups, **given
    )


def test_every_group_is_one_slice_in_the_order_it_was_given_in():
    found = records([2, 0, 2, 0, 0])
    assert found.features.flatten().tolist() == [1, 3, 4, 0, 2]
    assert found.edges == (0, 3, 3, 5)
    assert found.counts.tolist() == [3, 0, 2]
    assert list(found.pieces(2)) == [(0, slice(0, 2)), (0, slice(2, 3)), (2, slice(3, 5))]


def test_sums_and_means_are_per_group_with_the_whole_in_the_last_place():
    found = records([2, 0, 2, 0, 0])
    sums = found.sums(found.features.flatten())
    assert sums.tolist() == [8, 0, 2]
    means = found.means(sums)
    assert_close(means, torch.tensor([8 / 3, torch.nan, 1, 2], dtype=torch.float64), equal_nan=True)
    both = torch.stack([sums, 2 * sums])
    assert_close(found.means(both)[1], 2 * means, equal_nan=True)


def test_an_absent_group_that_should_count_makes_the_whole_unknown():
    shares = torch.tensor([0.5, 0.25, 0.25])
    found = records([0, 0, 2], shares=shares)
    assert found.means(torch.tensor([2.0, 0.0, 1.0]).double())[3].isnan()
    gone = records([0, 0, 2], shares=torch.tensor([0.75, 0.0, 0.25]))
    assert float(gone.means(torch.tensor([2.0, 0.0, 1.0]).double())[3]) == 1.0
