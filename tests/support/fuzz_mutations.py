"""Ways to break bytes and text; every one a function of a seeded generator."""

import random
from collections.abc import Sequence

WORDS: Sequence[bytes] = (
    *(b"", b"\x00", b"\xff", b"\xef\xbb\xbf", b"\r\n", b"\n", b"\t"),
    *b"\" , ; ' \\ nan inf -inf 1e300 -0 NaN null <script> ../../x { } [ ] = : @ > %s true".split(),
    *(b"-1", b"18446744073709551616", b"9" * 400, b"a" * 5000, "\u202eabc".encode(), b"\x1b[31m"),
)


def mutated(rng: random.Random, data: bytes) -> bytes:
    """One to eight breaks of ``data``."""
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        data = _splice(rng, data) if rng.random() < 0.6 else _replace_token(rng, data)
    return data


def _place(rng: random.Random, data: bytes) -> int:
    """Heads and tails hold what formats declare, so they are hit more often."""
    where = rng.random()
    if where < 0.25:
        return min(len(data), rng.randrange(64))
    if where < 0.5:
        return max(0, len(data) - rng.randrange(1, 600))
    return rng.randrange(len(data) + 1)


def _splice(rng: random.Random, data: bytes) -> bytes:
    """Some bytes are lost, flipped, overwritten, repeated or pushed aside."""
    at, length = _place(rng, data), rng.choice((0, 1, 1, 4, 16, 64, len(data)))
    old = data[at : at + length]
    flipped = bytes(byte ^ 1 << rng.randrange(8) for byte in old)
    fills = b"", flipped, bytes([rng.randrange(256)]) * length, old[:200] * 50, rng.choice(WORDS)
    return data[:at] + rng.choice(fills) + data[at + length :]


def _replace_token(rng: random.Random, data: bytes) -> bytes:
    mark = rng.choice((b",", b"\n", b" ", b'"', b"="))
    parts = data.split(mark)
    parts[rng.randrange(len(parts))] = rng.choice(WORDS)
    return mark.join(parts)
