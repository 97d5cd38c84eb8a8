"""A part of a cost that was made large is the one that is named: ``benchmarks/parts.py``, small."""

import pytest
from places import ROOT


@pytest.mark.slow
def test_the_part_that_was_made_large_is_named_and_no_other(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import parts

    assert set(parts.WORLDS) == {"step", "clipping", "noise"}
    for world in parts.WORLDS:
        for seed in range(2):
            assert parts.named(world, seed) == {world}
