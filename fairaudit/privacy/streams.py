"""Named random streams: one seed, one purpose, one generator; no stream can shift another.

Inside :func:`from_operating_system` the same calls give streams that no seed repeats.
"""

import hashlib
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal, cast

import numpy as np

from fairaudit.privacy.secure import SecureStream

_SECURE = ContextVar("secure", default=False)

Purpose = Literal[
    "init",
    "split",
    "sampling",
    "noise",
    "query",
    "tail",
    "probe",
    "candidates",
    "validation",
    "membership",
]


@contextmanager
def from_operating_system() -> Iterator[None]:
    """Inside the block every stream draws from the operating system: for a model that is released.

    Nothing that is drawn can be drawn again, by anybody: no seed names it, and no key outlives the process.
    """
    token = _SECURE.set(True)
    try:
        yield
    finally:
        _SECURE.reset(token)


def is_secure() -> bool:
    """Whether streams draw from the operating system."""
    return _SECURE.get()


def seed_of(seed: int, purpose: Purpose, *labels: str | int) -> int:
    """The 63-bit seed of one stream.

    Streams are told apart by hashing, so adding an arm, a repeat or a purpose leaves every other
    stream as it was. Noise carries the arm's name: two arms that shared their noise would reveal
    the difference of their gradients. Inside :func:`from_operating_system` every call draws a new one.

    Args:
        seed: The audit seed of this run.
        purpose: What the stream is drawn for.
        labels: What tells streams of one purpose apart (arm, repeat); order matters.
    """
    if is_secure():
        return secrets.randbits(63)
    text = "\x1f".join(["fairaudit", str(seed), purpose, *map(str, labels)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little") >> 1


def numpy_stream(seed: int, purpose: Purpose, *labels: str | int) -> np.random.Generator:
    """A numpy generator for the stream of :func:`seed_of`, or one that reads the operating system's."""
    if is_secure():
        return cast(np.random.Generator, SecureStream())  # another draw than its own is an AttributeError
    return np.random.Generator(np.random.PCG64(seed_of(seed, purpose, *labels)))
