"""The global random generators, seeded for code that knows no other, and put back afterwards."""

import hashlib
import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


def global_state() -> list[bytes]:
    """:func:`torch_states` as bytes, for comparing with ``==``: every draw changes them."""
    return [state.numpy().tobytes() for state in torch_states()]


@contextmanager
def global_stream(*labels: int) -> Iterator[None]:
    """Inside the block, draws from global generators follow from ``labels`` alone.

    These are the generators of PyTorch on the CPU and on every CUDA device, of NumPy and of Python;
    after the block they are in the state that they had before. For starting parameters and dropout
    masks of models that this program did not write; no noise of a release is drawn from them.
    """
    python_state, numpy_state = random.getstate(), np.random.get_state()
    digest = _digest(labels)
    random.seed(digest)
    # NumPy takes a seed of 32 bits: four bytes behind the eight that ``torch_stream`` uses.
    np.random.seed(int.from_bytes(digest[8:12], "little"))
    try:
        with torch_stream(*labels):
            yield
    finally:
        random.setstate(python_state)
        np.random.set_state(numpy_state)


@contextmanager
def torch_stream(*labels: int) -> Iterator[None]:
    """As :func:`global_stream`, but for PyTorch's generators alone, which takes less time.

    Inside the block these draw the same numbers as inside :func:`global_stream` with these labels.
    """
    # Shifted to 63 bits, as the seeds of named streams: it fits a signed 64-bit integer.
    seed = int.from_bytes(_digest(labels)[:8], "little") >> 1
    has_cuda = torch.cuda.is_available()
    state, *cuda_states = torch_states()
    torch.default_generator.manual_seed(seed)
    # Left out without CUDA: PyTorch would queue each such call until CUDA is first used.
    if has_cuda:
        torch.cuda.manual_seed_all(seed)
    try:
        yield
    finally:
        torch.set_rng_state(state)
        if has_cuda:
            torch.cuda.set_rng_state_all(cuda_states)


@contextmanager
def cpu_state_kept() -> Iterator[None]:
    """After the block PyTorch's generator of the CPU has the state that it had before.

    For code that draws numbers which nobody uses.
    """
    with torch.random.fork_rng(devices=[]):
        yield


def torch_states() -> list[torch.Tensor]:
    """The states of PyTorch's global generators: of the CPU, then of every CUDA device."""
    states = [torch.get_rng_state()]
    if torch.cuda.is_available():
        states += torch.cuda.get_rng_state_all()
    return states


def other_generator_states() -> tuple[object, ...]:
    """The states of Python's and NumPy's global generators, for comparing with ``==``.

    NumPy's key is turned into bytes, for ``==`` of two arrays gives an array.
    """
    name, key, *rest = np.random.get_state()
    return random.getstate(), name, np.asarray(key).tobytes(), *rest


def _digest(labels: tuple[int, ...]) -> bytes:
    """A hash of the labels, 32 bytes: what generators are seeded by."""
    return hashlib.sha256(repr(labels).encode()).digest()
