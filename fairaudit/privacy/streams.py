"""Named random streams: one seed, one purpose, one generator; no stream can shift another.

A stream is a generator of random numbers. An audit names it by its seed, its purpose and labels, so
that equal calls draw equal numbers. Inside :func:`from_operating_system` the same calls give
streams that no seed repeats: a key from the operating system, and AES-256 in counter mode under it
(a key stream). Keys are in the memory of this process alone and go with it.
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
_SECURE = ContextVar("secure", default=False)  # True inside from_operating_system
# What a stream is drawn for.
Purpose = Literal[
    "init",  # starting parameters, dropout masks
    "split",  # which rows train, and who gets which of them
    "sampling",  # Poisson batches
    "noise",  # on gradients, parameters or votes
    "query",  # noise on side queries and on scores
    "tail",  # the noise redrawn beyond TAIL (noise.py)
    "probe",  # readings of diagnostics
    "candidates",  # settings that a search tries
    "validation",  # rows that a search keeps for scores
    "membership",  # who is a member in a membership audit
]


class KeyStream:
    """Bytes that only the holder of its key can tell from random ones."""

    def __init__(self) -> None:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

        cipher = Cipher(algorithms.AES(os.urandom(_KEY)), modes.CTR(os.urandom(_COUNTER)))
        self._encryptor = cipher.encryptor()

    def words(self, size: int) -> UInt64:
        """Fresh 64-bit words, ``[size]``, in an array that the caller may write over."""
        return np.frombuffer(bytearray(self._encryptor.update(bytes(8 * size))), np.uint64)


class SecureStream:
    """Stands in for a numpy Generator: the draws that this program needs, from a key stream."""

    def __init__(self) -> None:
        self._words = KeyStream().words

    @overload
    def random(self) -> float: ...

    @overload
    def random(self, size: int) -> Float64: ...

    def random(self, size: int | None = None) -> Float64 | float:
        """Uniform multiples of 2**-53 in [0, 1): ``[size]`` of them, or one float without size."""
        # The upper 53 of a word's 64 bits: a float64 holds so many exactly.
        uniforms: Float64 = (self._words(1 if size is None else size) >> np.uint64(11)).astype(
            np.float64
        )
        uniforms *= 2.0**-53
        if size is None:
            return float(uniforms[0])
        return uniforms

    def standard_exponential(self, size: int) -> Float64:
        """Draws of the exponential distribution with mean 1, ``[size]``."""
        return -np.log1p(-self.random(size))  # never infinite: a uniform is below 1

    def integers(self, high: int, size: int) -> NDArray[np.int64]:
        """Uniform whole numbers in 0..high-1, ``[size]``: remainders of random words.

        Words at or beyond the last multiple of ``high`` below 2**64 are drawn anew: they would make
        small remainders more likely than large ones.
        """
        largest = 2**64 - 2**64 % high - 1  # the largest word that is kept
        words = self._words(size)
        while (beyond := words > np.uint64(largest)).any():
            words[beyond] = self._words(int(beyond.sum()))
        return (words % np.uint64(high)).astype(np.int64)

    def permutation(self, values: int | NDArray[Values]) -> NDArray[np.int64] | NDArray[Values]:
        """The values ``[n]`` in a random order; for an int, the numbers 0..values-1.

        The order is that of one random word for each. It is uniform unless two of the n words are
        equal, which has a probability below n^2 / 2^65.
        """
        rows = np.arange(values) if isinstance(values, int) else values
        order: NDArray[np.int64] | NDArray[Values] = rows[np.argsort(self._words(len(rows)))]
        return order


@contextmanager
def from_operating_system() -> Iterator[None]:
    """Inside the block every stream draws from the operating system: for a model that is released.

    Nobody can draw the same numbers again: no seed names them, and no key outlives the process.
    """
    token = _SECURE.set(True)
    try:
        yield
    finally:
        _SECURE.reset(token)


def is_secure() -> bool:
    """Whether streams draw from the operating system, inside :func:`from_operating_system`."""
    return _SECURE.get()


def seed_of(seed: int, purpose: Purpose, *labels: str | int) -> int:
    """The 63-bit seed of one stream, a hash of the audit seed, the purpose and the labels.

    So adding an arm, a repeat or a purpose leaves every other stream as it was. The labels of noise
    hold the arm's name: two arms that shared their noise would reveal the difference of their
    gradients. Inside :func:`from_operating_system` every call draws a new random seed.

    Args:
        seed: The audit seed of this run.
        purpose: What the stream is drawn for.
        labels: What tells streams of one purpose apart (arm, repeat); order matters.
    """
    if is_secure():
        return secrets.randbits(63)
    # Joined by a control character that no label has, so that ("a", "bc") and ("ab", "c") differ.
    text = "\x1f".join(["fairaudit", str(seed), purpose, *map(str, labels)])
    digest = hashlib.sha256(text.encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1  # 63 bits fit a signed 64-bit integer


def numpy_stream(seed: int, purpose: Purpose, *labels: str | int) -> np.random.Generator:
    """A numpy generator seeded by :func:`seed_of` (its arguments), or a :class:`SecureStream`.

    The latter inside :func:`from_operating_system`, where the arguments decide nothing.
    """
    if is_secure():
        # It has the draws that this program asks for; any other is an AttributeError.
        return cast(np.random.Generator, SecureStream())
    return np.random.Generator(np.random.PCG64(seed_of(seed, purpose, *labels)))
