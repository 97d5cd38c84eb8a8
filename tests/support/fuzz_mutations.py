"""Ways to break bytes and text; every one a function of a seeded generator."""

import random
from collections.abc import Callable, Sequence

WORDS: Sequence[bytes] = (
    *(b"", b"\x00", b"\xff", b"\xef\xbb\xbf", b"\r\n", b"\n", b'"', b",", b";", b"\t", b"'", b"\\"),
    *(b"nan", b"inf", b"-inf", b"1e300", b"1e-320", b"-0", b"1e400", b"NaN", b"null", b"None", b"NA"),
    *(b"9" * 400, b"<script>", b"a" * 5000, "\u202eabc".encode(), "\U0001f600".encode(), b"../../x"),
    *(b"{", b"}", b"[", b"]", b"=", b":", b"@", b">", b"<", b"%s", b"true", b"-1", b"2147483648"),
    *(b"18446744073709551616", b"0x1", b"1_000", b"\xed\xa0\x80", b"\x1b[31m"),
)


def mutated(rng: random.Random, data: bytes) -> bytes:
    """One to eight breaks of ``data``."""
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        data = rng.choice(BREAKS)(rng, data)
    return data


def _place(rng: random.Random, data: bytes) -> int:
    """Heads and tails hold what formats declare, so they are hit more often."""
    where = rng.random()
    if where < 0.25:
        return min(len(data), rng.randrange(64))
    if where < 0.5:
        return max(0, len(data) - rng.randrange(1, 600))
    return rng.randrange(len(data) + 1)


def _flip(rng: random.Random, data: bytes) -> bytes:
    if not data:
        return data
    at = min(_place(rng, data), len(data) - 1)
    return data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]


def _overwrite(rng: random.Random, data: bytes) -> bytes:
    at, length = _place(rng, data), rng.choice((1, 2, 4, 8, 64))
    fill = rng.choice((b"\x00", b"\xff", b"\x7f", bytes([rng.randrange(256)])))
    return data[:at] + fill * length + data[at + length :]


def _cut(rng: random.Random, data: bytes) -> bytes:
    return data[: _place(rng, data)]


def _behead(rng: random.Random, data: bytes) -> bytes:
    return data[_place(rng, data) :]


def _drop(rng: random.Random, data: bytes) -> bytes:
    at = _place(rng, data)
    return data[:at] + data[at + rng.choice((1, 4, 100)) :]


def _repeat(rng: random.Random, data: bytes) -> bytes:
    at, length = _place(rng, data), rng.choice((1, 16, 200))
    return data[:at] + data[at : at + length] * rng.choice((2, 3, 50)) + data[at + length :]


def _insert(rng: random.Random, data: bytes) -> bytes:
    at = _place(rng, data)
    return data[:at] + rng.choice(WORDS) + data[at:]


def _swap_lines(rng: random.Random, data: bytes) -> bytes:
    lines = data.split(b"\n")
    a, b = rng.randrange(len(lines)), rng.randrange(len(lines))
    lines[a], lines[b] = lines[b], lines[a]
    return b"\n".join(lines)


def _replace_token(rng: random.Random, data: bytes) -> bytes:
    mark = rng.choice((b",", b"\n", b" ", b'"', b"="))
    parts = data.split(mark)
    parts[rng.randrange(len(parts))] = rng.choice(WORDS)
    return mark.join(parts)


BREAKS: Sequence[Callable[[random.Random, bytes], bytes]] = (
    *(_flip, _overwrite, _cut, _behead, _drop, _repeat, _insert, _swap_lines, _replace_token),
)
