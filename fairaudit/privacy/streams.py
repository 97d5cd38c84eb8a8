"""Named random streams: one seed, one purpose, one generator; no stream can shift another.

Inside :func:`from_operating_system` the same calls give streams that no seed repeats: a key from
the operating system, and AES-256 in counter mode under it. Keys are in the memory of this process
alone and go with it.
"""

import hashlib
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal, TypeVar, cast, overload

import numpy as np
from numpy.typing import NDArray

UInt64 = NDArray[np.uint64]
Float64 = NDArray[np.float64]
Values = TypeVar("Values", bound=np.generic)

_KEY, _COUNTER = 32, 16  # bytes
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


class KeyStream:
    """Bytes that only the holder of its key can tell from random ones."""

    def __init__(self) -> None:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

        cipher = Cipher(algorithms.AES(os.urandom(_KEY)), modes.CTR(os.urandom(_COUNTER)))
        self._encryptor = cipher.encryptor()

    def words(self, size: int) -> UInt64:
        """Fresh 64-bit words, ``[size]``, writable."""
        return np.frombuffer(bytearray(self._encryptor.update(bytes(8 * size))), np.uint64)


class SecureStream:
    """The draws that this program asks numpy's generators for, of a key stream of its own."""

    def __init__(self) -> None:
        self._words = KeyStream().words

    @overload
    def random(self) -> float: ...

    @overload
    def random(self, size: int) -> Float64: ...

    def random(self, size: int | None = None) -> Float64 | float:
        """Uniforms in [0, 1), steps of 2**-53, ``[size]``; one of them without a size."""
        uniforms: Float64 = (self._words(1 if size is None else size) >> np.uint64(11)).astype(
            np.float64
        )
        uniforms *= 2.0**-53
        if size is None:
            return float(uniforms[0])
        return uniforms

    def standard_exponential(self, size: int) -> Float64:
        """Exponentials, ``[size]``."""
        return -np.log1p(-self.random(size))

    def integers(
        self,
        high: int,
        size: int,
    ) -> NDArray[np.int64]:
        """Whole numbers in 0..high-1, ``[size]``, each as likely.

        Words beyond the last multiple of ``high`` are drawn anew: their remainders would be more
        likely than others.
        """
        last = 2**64 - 2**64 % high - 1
        words = self._words(size)
        while (beyond := words > np.uint64(last)).any():
            words[beyond] = self._words(int(beyond.sum()))
        return (words % np.uint64(high)).astype(np.int64)

    def permutation(self, values: int | NDArray[Values]) -> NDArray[np.int64] | NDArray[Values]:
        """The values ``[n]``, or 0..values-1, in a random order: that of random words.

        Two of n words are equal with a probability below n^2 / 2^65.
        """
        rows = np.arange(values) if isinstance(values, int) else values
        order: NDArray[np.int64] | NDArray[Values] = rows[np.argsort(self._words(len(rows)))]
        return order


@contextmanager
def from_operating_system() -> Iterator[None]:
    """Inside the block every stream draws from the operating system: for a model that is released.

    Nothing that is drawn can be drawn again, by anybody: no seed names it, and no key outlives the
    process.
    """
    token = _SECURE.set(True)
    try:
        yield
    finally:
        _SECURE.reset(token)


def is_secure() -> bool:
    """Whether streams draw from the operating system."""
    return _SECURE.get()


def seed_of(
    seed: int,
    purpose: Purpose,
    *labels: str | int,
) -> int:
    """The 63-bit seed of one stream.

    Streams are told apart by hashing, so adding an arm, a repeat or a purpose leaves every other
    stream as it was. Noise carries the arm's name: two arms that shared their noise would reveal
    the difference of their gradients. Inside :func:`from_operating_system` every call draws a new
    one.

    Args:
        seed: The audit seed of this run.
        purpose: What the stream is drawn for.
        labels: What tells streams of one purpose apart (arm, repeat); order matters.
    """
    if is_secure():
        return secrets.randbits(63)
    text = "\x1f".join(
        [
            "fairaudit",
            str(seed),
            purpose,
            *map(str, labels),
        ]
    )
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little") >> 1


def numpy_stream(
    seed: int,
    purpose: Purpose,
    *labels: str | int,
) -> np.random.Generator:
    """A numpy generator for the stream of :func:`seed_of`, or of the operating system."""
    if is_secure():
        # It has the draws that this program asks for; any other is an AttributeError.
        return cast(np.random.Generator, SecureStream())
    return np.random.Generator(
        np.random.PCG64(
            seed_of(
                seed,
                purpose,
                *labels,
            )
        )
    )
