"""Streams are told apart by everything that names them."""

from fairaudit.privacy.streams import seed_of


def test_a_stream_is_named_by_seed_purpose_and_every_label_in_order():
    seeds = [
        seed_of(0, "noise"),
        seed_of(1, "noise"),
        seed_of(0, "query"),
        seed_of(0, "noise", "a"),
        seed_of(0, "noise", "a", 0),
        seed_of(0, "noise", "a", 1),
        seed_of(0, "noise", 1, "a"),
        seed_of(0, "noise", "a1"),
        seed_of(0, "noise", "a", 10),
        seed_of(0, "noise", "a", 1, 0),
        seed_of(10, "noise"),
    ]
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= s < 2**63 for s in seeds)


def test_seeds_do_not_move_between_versions():
    # A stored result is only as reproducible as its streams: a change here bumps numerics_version.
    assert seed_of(0, "noise", "dpsgd", 0) == 6667413350717889131
