"""What the size of a gap says: a difference is detected, it is small enough, or nobody can tell."""

from typing import Literal

from fairaudit.results.numbers import HighEnd, LowEnd

Reading = Literal["difference detected", "within tolerance", "at most", "cannot tell"]


def read_size(low: LowEnd | None, high: HighEnd | None, limit: float | None = None) -> Reading:
    """Read the 95 % interval of a size, which is nowhere below 0.

    Args:
        low, high: Its ends; None where there is no honest interval.
        limit: The largest size that was said to be tolerable, None where nobody said.

    Returns:
        ``difference detected`` where the interval excludes 0, also where it lies inside the limit;
        ``within tolerance`` where it includes 0 and lies inside the limit; ``at most`` its upper end where
        no limit was given; else ``cannot tell``.
    """
    if low is None or high is None:
        return "cannot tell"
    if low > 0:
        return "difference detected"
    if limit is None:
        return "at most"
    return "within tolerance" if high <= limit else "cannot tell"
