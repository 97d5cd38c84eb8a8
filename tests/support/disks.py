"""A disk that is full, without filling one."""

import resource
import signal
from contextlib import contextmanager


@contextmanager
def files_of_at_most(size):
    """What a full disk looks like from inside: EFBIG takes the way of ENOSPC."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
