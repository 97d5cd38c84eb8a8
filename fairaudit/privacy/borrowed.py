"""The global generators, lent to code that knows no other: at a named state, and put back."""

import hashlib
import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


@contextmanager
def global_stream(*labels: int) -> Iterator[None]:
    """Inside the block, foreign code's draws follow from ``labels`` alone, on every device.

    Those of PyTorch, NumPy and Python. For starts and dropout masks of models that this program did
    not write; no noise of a release is drawn from it.
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
