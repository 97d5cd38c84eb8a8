"""The global random generators, seeded for code that knows no other, and put back afterwards."""

import hashlib
import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


@contextmanager
def global_stream(*labels: int) -> Iterator[None]:
    """Inside the block, draws from global generators follow from ``labels`` alone.

    These are the generators of PyTorch on every device, of NumPy and of Python; after the block
    they are in the state that they had before. For starting parameters and dropout masks of models
    that this program did not write; no noise of a release is drawn from them.
    """
    digest = hashlib.sha256(repr(labels).encode()).digest()
    python_state, numpy_state = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        seed = int.from_bytes(digest[:8], "little") >> 1
        torch.default_generator.manual_seed(seed)
        if torch.cuda.is_available():  # else each call would be kept for the day when it is
            torch.cuda.manual_seed_all(seed)
        random.seed(digest)
        np.random.seed(int.from_bytes(digest[8:12], "little"))
        try:
            yield
        finally:
            random.setstate(python_state)
            np.random.set_state(numpy_state)
