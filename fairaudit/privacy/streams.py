"""Named random streams: one seed, one purpose, one generator; no stream can shift another."""

import hashlib
from typing import Literal

import numpy as np

Purpose = Literal["init", "split", "sampling", "noise", "query", "tail", "probe", "candidates", "validation"]


def seed_of(seed: int, purpose: Purpose, *labels: str | int) -> int:
    """The 63-bit seed of one stream.

    Streams are told apart by hashing, so adding an arm, a repeat or a purpose leaves every other
    stream as it was. Noise carries the arm's name: two arms that shared their noise would reveal
    the difference of their gradients.

    Args:
        seed: The audit seed of this run.
        purpose: What the stream is drawn for.
        labels: What tells streams of one purpose apart (arm, repeat); order matters.
    """
    text = "\x1f".join(["fairaudit", str(seed), purpose, *map(str, labels)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little") >> 1


def numpy_stream(seed: int, purpose: Purpose, *labels: str | int) -> np.random.Generator:
    """A numpy generator for the stream of :func:`seed_of`."""
    return np.random.Generator(np.random.PCG64(seed_of(seed, purpose, *labels)))
